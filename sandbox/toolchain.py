"""Which programs an instance runs: official ones that are installed and new enough, else those built from pins."""

import importlib.metadata
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from sandbox import build, parts
from sandbox.progress import Progress

LOWEST_PULUMI = (3, 200)
"""The oldest official Pulumi CLI that is used instead of a build."""
MARKER = ".gpustack-sandbox"
"""File in a folder of tools that we made: what lies there is never taken for an official installation."""


@dataclass(frozen=True)
class Engine:
    """What a Pulumi run needs."""

    commands: tuple[Path, ...]
    """Programs that `PATH` must offer: the engine and its plugins."""
    own_language_host: bool
    """Whether Pulumi was built here, so that our Python language host has to stand in for the official one."""


@dataclass(frozen=True)
class Toolchain:
    """Absolute paths of everything that an instance needs."""

    control_plane: Path
    """etcd, kube-apiserver, kube-controller-manager and kube-scheduler in one program."""
    kueue: Path
    """Kueue's controller."""
    kueue_manifests: Path
    """Folder with Kueue's CRDs and webhooks, of the same version."""
    kwok: Path
    """The simulated kubelets."""
    engine: Engine
    """Pulumi."""


def find(*, progress: Progress | None = None) -> Toolchain:
    """The whole toolchain, built as far as it is missing. Raises SandboxError when a part cannot be built."""
    cluster = (parts.CONTROL_PLANE, parts.KUEUE, parts.KWOK)
    engine = _Official.find()
    built = build.build((*cluster, *engine.missing), progress=progress)
    return Toolchain(
        control_plane=_binary(built, parts.CONTROL_PLANE),
        kueue=_binary(built, parts.KUEUE),
        kueue_manifests=built[parts.KUEUE.name] / "manifests",
        kwok=_binary(built, parts.KWOK),
        engine=engine.completed(built),
    )


def find_engine(*, progress: Progress | None = None) -> Engine:
    """Pulumi alone, for a cluster that is there already. Raises SandboxError when a part cannot be built."""
    engine = _Official.find()
    return engine.completed(build.build(engine.missing, progress=progress))


def official_pulumi(path: str | None = None) -> tuple[Path, ...]:
    """The official engine and its Python host on `path`, or nothing when too old or incomplete."""
    engine = _installed("pulumi", path)
    if not engine or _version(engine) < LOWEST_PULUMI:
        return ()
    beside = [engine.parent / name for name in _language_plugin_names()]
    found = [
        _installed(name, path) or _if_executable(file)
        for name, file in zip(_language_plugin_names(), beside, strict=True)
    ]
    language = [file for file in found if file]
    return (engine, *language) if len(language) == len(beside) else ()


def official_kubernetes_provider(path: str | None = None) -> Path | None:
    """An installed pulumi-kubernetes plugin: on `path`, or the Python package's version in the user's plugins."""
    name = parts.KUBERNETES_PROVIDER.binary
    found = _installed(name, path)
    if found:
        return found
    home = Path(os.environ.get("PULUMI_HOME") or "~/.pulumi").expanduser()
    return _if_executable(home / "plugins" / f"resource-kubernetes-v{_provider_version()}" / name)


@dataclass(frozen=True)
class _Official:
    """What is installed of the engine."""

    pulumi: tuple[Path, ...]
    provider: Path | None

    @classmethod
    def find(cls) -> "_Official":
        return cls(official_pulumi(), official_kubernetes_provider())

    @property
    def missing(self) -> tuple[parts.Part, ...]:
        pulumi = () if self.pulumi else (parts.PULUMI,)
        return pulumi if self.provider else (*pulumi, parts.KUBERNETES_PROVIDER)

    def completed(self, built: dict[str, Path]) -> Engine:
        pulumi = self.pulumi or tuple(sorted((built[parts.PULUMI.name] / "bin").iterdir()))
        provider = self.provider or _binary(built, parts.KUBERNETES_PROVIDER)
        return Engine((*pulumi, provider), own_language_host=not self.pulumi)


def _binary(built: dict[str, Path], part: parts.Part) -> Path:
    return built[part.name] / "bin" / part.binary


def _language_plugin_names() -> tuple[str, ...]:
    return ("pulumi-language-python", "pulumi-language-python-exec", "pulumi-resource-pulumi-python")


def _installed(name: str, path: str | None) -> Path | None:
    """The program on PATH, leaving out folders that a sandbox made."""
    folders = (path or os.environ.get("PATH", "")).split(os.pathsep)
    official = [folder for folder in folders if folder and not (Path(folder) / MARKER).exists()]
    found = shutil.which(name, path=os.pathsep.join(official))
    return Path(found).absolute() if found else None


def _if_executable(file: Path) -> Path | None:
    return file if os.access(file, os.X_OK) and file.is_file() else None


def _version(engine: Path) -> tuple[int, int]:
    try:
        shown = subprocess.run(
            [engine, "version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "1"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    numbers = re.search(r"(\d+)\.(\d+)\.\d+", shown.stdout)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


def link_commands(engine: Engine, folder: Path) -> None:
    """Fill a folder for PATH with the engine, its plugins, and our language host if there is no official one."""
    (folder / MARKER).touch()
    for command in engine.commands:
        if engine.own_language_host and command.name == parts.PULUMI.binary:
            _duplicate(command, folder / command.name)
        else:
            (folder / command.name).symlink_to(command)
    if engine.own_language_host:
        host = folder / "pulumi-language-python"
        program = Path(__file__).parent / "language_host.py"
        # -P: the folder of the file holds modules whose names mean something else to the libraries it loads.
        command = shlex.join([sys.executable, "-P", str(program), str(folder)])
        host.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        host.chmod(0o755)


def search_path(folder: Path) -> tuple[str, ...]:
    """What a Pulumi run needs in front of PATH: a folder from `link_commands`, and this Python's programs."""
    return (str(folder), str(Path(sys.executable).parent))


def pulumi_environment(home: Path) -> dict[str, str]:
    """Variables that keep Pulumi's state and settings in a folder, and run programs with this Python."""
    return {
        "PULUMI_BACKEND_URL": home.absolute().as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "sandbox",
        "PULUMI_HOME": str(home.absolute() / ".pulumi-home"),
        "PULUMI_PYTHON_CMD": sys.executable,
        "PULUMI_SKIP_UPDATE_CHECK": "1",
    }


def install_provider(folder: Path, home: Path) -> dict[str, str]:
    """Put pulumi-kubernetes where the engine keeps its plugins, so that it does not warn of one on PATH in every run.

    Good for programs that use this Python's version of the package; returns the variables that go with it.
    """
    name = parts.KUBERNETES_PROVIDER.binary
    plugin = home / ".pulumi-home" / "plugins" / f"resource-kubernetes-v{_provider_version()}" / name
    plugin.parent.mkdir(parents=True, exist_ok=True)
    plugin.unlink(missing_ok=True)
    plugin.symlink_to((folder / name).resolve())
    return {"PULUMI_IGNORE_AMBIENT_PLUGINS": "true"}


def _provider_version() -> str | None:
    try:
        return importlib.metadata.version("pulumi-kubernetes")
    except importlib.metadata.PackageNotFoundError:
        return None


def _duplicate(source: Path, target: Path) -> None:
    """The same file in another folder, for the engine, which looks for its language host beside itself."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)
