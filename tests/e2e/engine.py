"""A Pulumi project in a directory of its own, driven through the real command line."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any


@dataclass(frozen=True, slots=True)
class Run:
    """One finished Pulumi command."""

    arguments: tuple[str, ...]
    code: int
    output: str
    """Standard output and standard error, in the order they were written."""
    seconds: float

    def expect(self, code: int) -> "Run":
        """Itself when the exit code is the expected one; an AssertionError with the whole output otherwise."""
        assert self.code == code, (
            f"`pulumi {' '.join(self.arguments)}` ended with {self.code}, not {code}:\n{self.output}"
        )
        return self


class Background:
    """A Pulumi command that is still running, in a process group of its own."""

    def __init__(self, arguments: Sequence[str], process: "subprocess.Popen[str]") -> None:
        self.arguments = tuple(arguments)
        self.process = process
        self._started = time.monotonic()
        self._lines: list[str] = []
        self._changed = threading.Condition()
        assert process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()

    @property
    def output(self) -> str:
        """What was written so far."""
        with self._changed:
            return "".join(self._lines)

    def wait_for_text(self, pattern: str, timeout: float = 120) -> "re.Match[str]":
        """The first match of the pattern in the output; AssertionError with the output when none comes in time."""
        deadline = time.monotonic() + timeout
        while True:
            found = re.search(pattern, self.output)
            if found:
                return found
            left = deadline - time.monotonic()
            ended = self.process.poll() is not None and not self._reader.is_alive()
            assert left > 0 and not ended, f"{pattern!r} did not appear in:\n{self.output}"
            with self._changed:
                self._changed.wait(min(left, 0.2))

    def wait_for(self, condition: Callable[[], bool], timeout: float = 120, every: float = 0.1) -> None:
        """Returns once the condition holds; AssertionError with the output when the time or the command ends first."""
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline and self.process.poll() is None, (
                f"not reached, output so far:\n{self.output}"
            )
            time.sleep(every)

    def signal(self, number: int = signal.SIGINT) -> None:
        """Send a signal to the whole process group, as a terminal does."""
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """SIGKILL the `pulumi` process alone; its plugins are left to notice it."""
        self.process.kill()

    def wait(self, timeout: float = 300) -> Run:
        """The finished command; kills it and fails with the output when it does not end in time."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"still running after {timeout} s:\n{self.output}") from None
        self._reader.join(10)
        assert "Traceback (most recent call last)" not in self.output, self.output
        return Run(self.arguments, code, self.output, time.monotonic() - self._started)


class Stack:
    """A project, its program and one stack on a `file://` backend below its directory.

    `environment` is that of the sandbox: PATH with `pulumi` and its plugins, KUBECONFIG. All else the engine writes
    stays in the directory, so stacks do not see each other.
    """

    def __init__(
        self, directory: Path, environment: Mapping[str, str], *, name: str = "test", project: str = "e2e"
    ) -> None:
        self.directory = directory
        self._base = dict(environment)
        self.name = name
        self.project = project
        for part in ("program", "state"):
            (directory / part).mkdir(parents=True, exist_ok=True)
        self.environment = {
            "HOME": str(directory),
            "LANG": "C.UTF-8",
            **environment,
            "PULUMI_HOME": str(directory / "home"),
            "PULUMI_BACKEND_URL": (directory / "state").as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": "e2e",
            "PULUMI_SKIP_UPDATE_CHECK": "1",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "NO_COLOR": "1",
        }
        self._initialised = False

    @property
    def program(self) -> Path:
        """The project's directory."""
        return self.directory / "program"

    def write(
        self, program: str | Path, *, files: Mapping[str, str] | None = None, config: Mapping[str, Any] | None = None
    ) -> None:
        """Write the program (its text, or a directory to copy), files beside it, and the stack's configuration."""
        if isinstance(program, Path):
            shutil.copytree(program, self.program, dirs_exist_ok=True)
        else:
            (self.program / "__main__.py").write_text(program)
        for name, text in (files or {}).items():
            path = self.program / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        project = {
            "name": self.project,
            "runtime": {"name": "python", "options": {"toolchain": "pip", "virtualenv": sys.prefix}},
        }
        (self.program / "Pulumi.yaml").write_text(json.dumps(project))
        self._initialise()
        for key, value in (config or {}).items():
            self.configure(key, value)

    def _initialise(self) -> None:
        if not self._initialised:
            self.run("stack", "init", self.name).expect(0)
            self._initialised = True

    def configure(self, key: str, value: Any, *, secret: bool = False) -> None:
        """Set a value of the stack's configuration; a list or mapping is stored as JSON text."""
        text = value if isinstance(value, str) else json.dumps(value)
        self.run("config", "set", "--stack", self.name, *(["--secret"] if secret else []), "--", key, text).expect(0)

    def start(self, *arguments: str) -> Background:
        """Start a Pulumi command in the project's directory."""
        process = subprocess.Popen(
            ["pulumi", "--non-interactive", *arguments],
            cwd=self.program,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        return Background(arguments, process)

    def run(self, *arguments: str, timeout: float = 300) -> Run:
        """Run a Pulumi command to its end, whatever its exit code."""
        return self.start(*arguments).wait(timeout)

    def _on_stack(self, command: str, arguments: Sequence[str]) -> tuple[str, ...]:
        return (command, "--stack", self.name, *arguments)

    def preview(self, *arguments: str, timeout: float = 300) -> Run:
        """`pulumi preview`."""
        return self.run(*self._on_stack("preview", arguments), timeout=timeout)

    def up(self, *arguments: str, timeout: float = 300) -> Run:
        """`pulumi up --yes --skip-preview`."""
        return self.run(*self._on_stack("up", ("--yes", "--skip-preview", *arguments)), timeout=timeout)

    def start_up(self, *arguments: str) -> Background:
        """`pulumi up --yes --skip-preview`, in the background."""
        return self.start(*self._on_stack("up", ("--yes", "--skip-preview", *arguments)))

    def refresh(self, *arguments: str, timeout: float = 300) -> Run:
        """`pulumi refresh --yes --skip-preview`."""
        return self.run(*self._on_stack("refresh", ("--yes", "--skip-preview", *arguments)), timeout=timeout)

    def destroy(self, *arguments: str, timeout: float = 300) -> Run:
        """`pulumi destroy --yes --skip-preview`."""
        return self.run(*self._on_stack("destroy", ("--yes", "--skip-preview", *arguments)), timeout=timeout)

    def copy_to(self, directory: Path) -> "Stack":
        """The same stack as another machine has it: program and state as they are now, without the lock."""
        shutil.copytree(self.directory / "program", directory / "program")
        shutil.copytree(self.directory / "state", directory / "state", ignore=shutil.ignore_patterns("locks"))
        other = Stack(directory, self._base, name=self.name, project=self.project)
        other._initialised = True
        return other

    def cancel(self) -> Run:
        """`pulumi cancel --yes`: removes the lock a killed engine left behind."""
        return self.run("cancel", self.name, "--yes")

    def state(self) -> dict[str, Any]:
        """The exported deployment: `resources`, and `pending_operations` when a run was interrupted."""
        exported = self._captured("stack", "export", "--stack", self.name)
        deployment: dict[str, Any] = json.loads(exported)["deployment"]
        return deployment

    def resources(self, type_: str = "") -> list[dict[str, Any]]:
        """The resources in state, of one type when it is given."""
        return [item for item in self.state().get("resources", []) if type_ in ("", item["type"])]

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs, secrets in plain text."""
        found: dict[str, Any] = json.loads(
            self._captured("stack", "output", "--stack", self.name, "--json", "--show-secrets")
        )
        return found

    def _captured(self, *arguments: str) -> str:
        """Standard output alone; warnings on standard error would spoil the JSON."""
        done = subprocess.run(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=self.program,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
