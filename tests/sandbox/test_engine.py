"""The Pulumi engine of the sandbox: Python programs, a dynamic provider, pulumi-kubernetes, a policy pack; all real."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sandbox.cluster import Sandbox
from sandbox.processes import Process, alive, identify, wait_until

pytestmark = pytest.mark.engine

PROGRAM = """
import sys
import pulumi
import pulumi_kubernetes as k8s
import provider

config = pulumi.Config()
settings = k8s.core.v1.ConfigMap(
    "settings",
    metadata={"name": "settings", "namespace": config.require("namespace")},
    data={"text": config.require("text")},
)
echo = provider.Echo("echo", text=settings.data["text"], seconds=config.get_float("seconds") or 0)
print("a word on stderr", file=sys.stderr)
pulumi.export("python", sys.executable)
pulumi.export("echoed", echo.echoed)
"""
PROVIDER = """
import time
import pulumi
from pulumi.dynamic import CreateResult, Resource, ResourceProvider, UpdateResult


class EchoProvider(ResourceProvider):
    def create(self, props):
        print(f"echoing {props['text']}", flush=True)
        time.sleep(props["seconds"])
        return CreateResult("echo", {**props, "echoed": props["text"].upper()})

    def update(self, id, olds, news):
        return UpdateResult({**news, "echoed": news["text"].upper()})


class Echo(Resource, module="sandbox", name="Echo"):
    echoed: pulumi.Output[str]

    def __init__(self, name, text, seconds):
        super().__init__(EchoProvider(), name, {"text": text, "seconds": seconds, "echoed": None})
"""
PACK = """
from pulumi_policy import EnforcementLevel, PolicyPack, ResourceValidationPolicy


def no_shouting(args, report):
    if args.resource_type == "kubernetes:core/v1:ConfigMap" and args.props["data"]["text"].isupper():
        report("do not shout")


PolicyPack("manners", enforcement_level=EnforcementLevel.MANDATORY, policies=[
    ResourceValidationPolicy(name="no-shouting", description="Text is not all upper case.", validate=no_shouting)
])
"""


class Project:
    """A Pulumi project with one stack on a local backend."""

    def __init__(self, directory: Path, environment: dict[str, str], namespace: str, options: dict[str, str]) -> None:
        self.directory = directory
        self.environment = {**os.environ, **environment, "NO_COLOR": "1"}
        runtime = {"name": "python", "options": options}
        (directory / "Pulumi.yaml").write_text(json.dumps({"name": "sandbox-proof", "runtime": runtime}))
        (directory / "__main__.py").write_text(PROGRAM)
        (directory / "provider.py").write_text(PROVIDER)
        pack = directory / "pack"
        pack.mkdir()
        (pack / "PulumiPolicy.yaml").write_text(json.dumps({"runtime": {"name": "python", "options": options}}))
        (pack / "__main__.py").write_text(PACK)
        self.expect(0, "stack", "init", "proof")
        self.expect(0, "config", "set", "namespace", namespace)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start a command without waiting for it."""
        return subprocess.Popen(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def expect(self, code: int, *arguments: str) -> str:
        """Run a command to its end; returns what it said."""
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=180)
        assert process.returncode == code, output
        return output

    def resources(self) -> set[str]:
        """Types of the resources in the state."""
        state = json.loads(self.expect(0, "stack", "export"))
        return {resource["type"] for resource in state["deployment"].get("resources", [])}


@pytest.fixture
def project(sandbox: Sandbox, tmp_path: Path, namespace: str) -> Project:
    """A project that runs in this Python's virtual environment."""
    return Project(tmp_path, sandbox.environment(tmp_path / "state"), namespace, {"virtualenv": sys.prefix})


def test_a_program_with_a_dynamic_provider_and_kubernetes_resources_comes_and_goes(
    project: Project, core: Any, namespace: str
) -> None:
    project.expect(0, "config", "set", "text", "hello")
    output = project.expect(0, "up", "--yes", "--skip-preview")
    assert "a word on stderr" in output
    assert "echoing hello" in output
    assert core.read_namespaced_config_map("settings", namespace).data == {"text": "hello"}
    assert json.loads(project.expect(0, "stack", "output", "--json")) == {
        "echoed": "HELLO",
        "python": str(Path(sys.prefix) / "bin" / "python"),
    }
    project.expect(0, "preview", "--expect-no-changes")
    project.expect(0, "destroy", "--yes", "--skip-preview")
    assert project.resources() == set()


def test_a_policy_pack_refuses_in_preview(project: Project) -> None:
    project.expect(0, "config", "set", "text", "HELLO")
    output = project.expect(1, "preview", "--policy-pack", "pack")
    assert "do not shout" in output
    project.expect(0, "config", "set", "text", "hello")
    project.expect(0, "preview", "--policy-pack", "pack")


def test_a_program_that_fails_shows_its_own_error(project: Project) -> None:
    (project.directory / "__main__.py").write_text("raise ValueError('so it is')")
    output = project.expect(1, "preview")
    assert "ValueError: so it is" in output


def test_a_missing_virtual_environment_is_named(project: Project) -> None:
    runtime = {"name": "python", "options": {"virtualenv": "nowhere"}}
    (project.directory / "Pulumi.yaml").write_text(json.dumps({"name": "sandbox-proof", "runtime": runtime}))
    output = project.expect(1, "preview")
    assert "nowhere" in output
    assert "pulumi install" in output


def test_the_ambient_python_runs_a_project_that_names_no_environment(project: Project) -> None:
    (project.directory / "Pulumi.yaml").write_text(json.dumps({"name": "sandbox-proof", "runtime": "python"}))
    (project.directory / "__main__.py").write_text("import pulumi, sys; pulumi.export('python', sys.executable)")
    project.expect(0, "up", "--yes", "--skip-preview")
    assert json.loads(project.expect(0, "stack", "output", "--json")) == {"python": sys.executable}


def test_about_knows_the_python_and_its_packages(project: Project) -> None:
    about = json.loads(project.expect(0, "about", "--json"))
    assert about["runtime"]["executable"] == str(Path(sys.prefix) / "bin" / "python")
    assert "gpustack-components" in {package["name"] for package in about["dependencies"]}


def test_one_interrupt_lets_an_operation_end_and_records_it(project: Project) -> None:
    project.expect(0, "config", "set", "text", "hello")
    project.expect(0, "config", "set", "seconds", "4")
    running = project.start("up", "--yes", "--skip-preview")
    _wait_for_line(running, "echoing hello")
    os.killpg(running.pid, signal.SIGINT)
    output, _ = running.communicate(timeout=60)
    assert running.returncode != 0, output
    assert "pulumi-python:dynamic/sandbox:Echo" in project.resources()


def test_the_language_host_and_its_program_end_when_the_engine_is_killed(project: Project) -> None:
    project.expect(0, "config", "set", "text", "hello")
    project.expect(0, "config", "set", "seconds", "3")
    running = project.start("up", "--yes", "--skip-preview")
    _wait_for_line(running, "echoing hello")
    started = _descendants(running.pid, "language")
    assert len(started) >= 2
    running.kill()
    assert wait_until(lambda: not any(map(alive, started)), seconds=20)


def _descendants(ancestor: int, word: str) -> list[Process]:
    """Processes below one, those with the word in their command line."""
    shown = subprocess.run(["ps", "-ewwo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [(int(pid), int(parent), args) for pid, parent, args in (line.split(None, 2) for line in shown.splitlines())]
    family = {ancestor}
    while more := {pid for pid, parent, _ in rows if parent in family} - family:
        family |= more
    return [identify(pid) for pid, _, args in rows if pid in family and word in args]


def _wait_for_line(process: "subprocess.Popen[str]", text: str) -> None:
    assert process.stdout is not None
    deadline = time.monotonic() + 60
    for line in process.stdout:
        if text in line:
            return
        assert time.monotonic() < deadline
    raise AssertionError(f"{text!r} was never said")
