"""The command line: build, up, down, status, env, clean, demo."""

import argparse
import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from sandbox import build, demo, parts, toolchain
from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.instance import Instance
from sandbox.progress import Progress

CHECKOUT = Path(__file__).parent.parent
"""Root of the checkout."""
INSTANCES = CHECKOUT / ".sandbox"
"""Where instances without `--dir` live."""
CURRENT = INSTANCES / "current"
"""Tools and Pulumi state of a demo in the cluster of KUBECONFIG; no instance."""


def main(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit code: 0 done, 1 failed or not all running, 130 interrupted."""
    options = _parser().parse_args(arguments)
    progress = Progress()
    try:
        return _COMMANDS[options.command](options, progress)
    except SandboxError as error:
        progress.say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sandbox",
        description="A Kubernetes cluster with Kueue and a Pulumi engine on loopback, no root needed.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("build", help="build the parts of the toolchain that are missing")
    for name, purpose in (
        ("up", "start a sandbox, or say where it runs"),
        ("down", "stop a sandbox"),
        ("status", "say what runs"),
        ("env", 'print shell lines for using a sandbox: eval "$(python -m sandbox env)"'),
        ("demo", "start a sandbox and deploy the quickstart example into it"),
        ("clean", "stop and remove sandboxes; without --name or --dir, all of this checkout"),
    ):
        command = commands.add_parser(name, help=purpose, description=purpose)
        place = command.add_mutually_exclusive_group()
        place.add_argument("--name", help="a sandbox of this checkout, in .sandbox/NAME (default: default)")
        place.add_argument("--dir", type=Path, help="a sandbox in this folder")
        if name == "clean":
            command.add_argument("--cache", action="store_true", help="remove the built toolchain as well")
        if name == "demo":
            command.add_argument(
                "--cluster",
                choices=("sandbox", "current"),
                default="sandbox",
                help="where to deploy: a sandbox, or the cluster that KUBECONFIG points to (default: sandbox)",
            )
            command.add_argument("--destroy", action="store_true", help="remove what the demo deployed")
    return parser


def _directory(options: argparse.Namespace) -> Path:
    return options.dir.absolute() if options.dir else INSTANCES / (options.name or "default")


def _build(options: argparse.Namespace, progress: Progress) -> int:
    for name, place in build.build(progress=progress).items():
        print(f"{name:20} {place}")
    return 0


def _up(options: argparse.Namespace, progress: Progress) -> int:
    sandbox = Sandbox.start(_directory(options), progress=progress)
    progress.say(f"running in {sandbox.directory}")
    print(f"export KUBECONFIG={shlex.quote(str(sandbox.kubeconfig))}")
    return 0


def _down(options: argparse.Namespace, progress: Progress) -> int:
    directory = _directory(options)
    if not Sandbox.stop_in(directory):
        progress.say(f"no sandbox runs in {directory}")
        return 0
    progress.say(f"stopped {directory}")
    return 0


def _status(options: argparse.Namespace, progress: Progress) -> int:
    everything = options.dir or options.name
    directories = [_directory(options)] if everything else _instances()
    well = bool(directories)
    for directory in directories:
        record = Instance(directory).read() if directory.is_dir() else None
        if not record or not record.complete:
            print(f"{directory}  stopped")
            well = False
            continue
        sandbox = Sandbox(Instance(directory), record)
        ailing = sandbox.ailing()
        well = well and not ailing
        print(f"{directory}  {'not well' if ailing else 'running'}")
        for name, part in sandbox.parts.items():
            health = "no answer" if name in ailing else "ready"
            print(f"  {name:24} {health:10}{part.process.pid:>8}  {sandbox.log(name)}")
    if not directories:
        print("no sandbox: `python -m sandbox up` starts one")
    return 0 if well else 1


def _env(options: argparse.Namespace, progress: Progress) -> int:
    sandbox = Sandbox.attach(_directory(options))
    home = sandbox.directory / "pulumi"
    provider = toolchain.install_provider(sandbox.directory / "bin", home)
    for name, value in {**sandbox.environment(home), **provider}.items():
        if name != "PATH":
            print(f"export {name}={shlex.quote(value)}")
    print(f'export PATH={shlex.quote(os.pathsep.join(sandbox.search_path))}:"$PATH"')
    return 0


def _clean(options: argparse.Namespace, progress: Progress) -> int:
    chosen = [_directory(options)] if options.dir or options.name else _instances()
    for directory in chosen:
        if directory.is_dir() and Instance(directory).read():
            Sandbox.stop_in(directory)
            Instance(directory).clear()
            shutil.rmtree(directory)
            progress.say(f"removed {directory}")
    if not (options.dir or options.name):
        _remove_leftovers(progress)
    if options.cache:
        shutil.rmtree(parts.cache_directory(), ignore_errors=True)
        progress.say(f"removed {parts.cache_directory()}")
    return 0


def _remove_leftovers(progress: Progress) -> None:
    """Empty the folder of instances, but keep the state of a demo in the user's own cluster, to remove that by."""
    for path in sorted(INSTANCES.iterdir()) if INSTANCES.is_dir() else ():
        if path == CURRENT:
            progress.say(
                f"kept {CURRENT}, the state of the demo in your own cluster; {demo.DESTROY_CURRENT} removes both"
            )
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    if not CURRENT.exists():
        shutil.rmtree(INSTANCES, ignore_errors=True)


def _demo(options: argparse.Namespace, progress: Progress) -> int:
    if options.cluster == "current":
        environment = demo.current_cluster(CURRENT, progress)
    else:
        environment = demo.in_sandbox(Sandbox.start(_directory(options), progress=progress))
    if not options.destroy:
        return demo.deploy(environment, options.cluster)
    code = demo.destroy(environment)
    if not code and options.cluster == "current":
        shutil.rmtree(CURRENT)
    return code


def _instances() -> list[Path]:
    return sorted(record.parent for record in INSTANCES.rglob("instance.json")) if INSTANCES.is_dir() else []


_COMMANDS = {
    "build": _build,
    "up": _up,
    "down": _down,
    "status": _status,
    "env": _env,
    "clean": _clean,
    "demo": _demo,
}
