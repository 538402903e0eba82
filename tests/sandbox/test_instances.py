"""Instances side by side: started, found again, broken, repaired, stopped; and what is said when a start fails."""

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import cluster, parts, ports
from sandbox.cluster import Sandbox, sweep
from sandbox.errors import SandboxError
from sandbox.processes import alive, identify, kill, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """An instance that the tests of this module restart and look at, but leave running."""
    started = Sandbox.start(tmp_path_factory.mktemp("first") / "instance", owner=identify(os.getpid()))
    yield started
    started.stop()


def kubectl(sandbox: Sandbox, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run kubectl against an instance."""
    argv = ["kubectl", "--kubeconfig", str(sandbox.kubeconfig), "--request-timeout=20s", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def python(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `python -m sandbox`."""
    return subprocess.run([sys.executable, "-m", "sandbox", *arguments], capture_output=True, text=True, check=False)


def test_a_second_start_finds_the_running_instance(first: Sandbox) -> None:
    again = Sandbox.start(first.directory)
    assert {name: part.process for name, part in again.parts.items()} == {
        name: part.process for name, part in first.parts.items()
    }


def test_secrets_are_readable_by_the_owner_only(first: Sandbox) -> None:
    files = [first.kubeconfig, *first.directory.glob("pki/*.key"), *first.directory.glob("config/*.kubeconfig")]
    assert len(files) > 8
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_nodes_look_like_gpu_servers(first: Sandbox) -> None:
    columns = "NAME:.metadata.name,GPU:.status.allocatable.nvidia\\.com/gpu,KIND:.metadata.labels.gpu"
    shown = kubectl(first, "get", "nodes", "--no-headers", f"--output=custom-columns={columns}")
    assert [line.split() for line in shown.stdout.splitlines()] == [
        ["cpu-0", "<none>", "<none>"],
        ["gpu-0", "8", "h20"],
        ["gpu-1", "8", "h20"],
    ]


def test_stopping_one_instance_leaves_the_other_alone(first: Sandbox, tmp_path: Path) -> None:
    second = Sandbox.start(tmp_path / "second", owner=identify(os.getpid()))
    assert second.ailing() == []
    assert kubectl(second, "create", "configmap", "only-here").returncode == 0
    assert kubectl(first, "get", "configmap", "only-here").returncode == 1
    second.stop()
    assert not any(alive(part.process) for part in second.parts.values())
    assert first.ailing() == []
    with pytest.raises(SandboxError, match="no sandbox runs in"):
        Sandbox.attach(second.directory)


def test_a_plugin_whose_engine_was_killed_ends_with_the_instance(tmp_path: Path) -> None:
    own = Sandbox.start(tmp_path / "own")
    program = own.directory / "bin" / "pulumi-resource-kubernetes"
    plugin = subprocess.Popen([program, "127.0.0.1:1"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert plugin.stdout is not None and plugin.stdout.readline().strip().isdigit(), "it says its port once it listens"
    own.stop()
    assert plugin.wait(10) != 0


@pytest.mark.parametrize("part", ["kueue", "kube-apiserver", "kwok"])
def test_a_killed_part_is_named_and_comes_back_on_restart(first: Sandbox, part: str) -> None:
    first.kill(part)
    assert part in first.ailing()
    with pytest.raises(SandboxError, match=f"no answer from .*{part}"):
        Sandbox.attach(first.directory)
    first.restart(part)
    assert wait_until(lambda: first.ailing() == [], seconds=60)
    assert kubectl(first, "get", "workloads.v1beta1.kueue.x-k8s.io").returncode == 0


def test_an_unknown_part_is_refused_with_the_known_ones(first: Sandbox) -> None:
    with pytest.raises(SandboxError, match="no part is called 'kubelet'; there are etcd, kube-apiserver"):
        first.kill("kubelet")


def test_a_silent_node_sends_no_heartbeat_and_starts_no_pod(first: Sandbox) -> None:
    def heartbeat() -> str:
        path = '{.status.conditions[?(@.type=="Ready")].lastHeartbeatTime}'
        return kubectl(first, "get", "node", "cpu-0", f"--output=jsonpath={path}").stdout

    def phase() -> str:
        return kubectl(first, "get", "pod", "p", "--output=jsonpath={.status.phase}").stdout

    kubectl(first, "label", "node", "cpu-0", "sandbox.gpustack.ai/kubelet=silent")
    kubectl(first, "run", "p", "--image=p", '--overrides={"spec":{"nodeName":"cpu-0"}}')
    before = heartbeat()
    assert before
    assert not wait_until(lambda: heartbeat() != before, seconds=14, every=1)
    assert phase() == "Pending"
    kubectl(first, "label", "node", "cpu-0", "sandbox.gpustack.ai/kubelet-")
    assert wait_until(lambda: phase() == "Running" and heartbeat() != before, seconds=60)


def test_the_command_line_says_what_runs(first: Sandbox, tmp_path: Path) -> None:
    running = python("status", "--dir", str(first.directory))
    assert running.returncode == 0
    assert [line.split()[1] for line in running.stdout.splitlines()[1:]] == ["ready"] * 6
    stopped = python("status", "--dir", str(tmp_path / "nothing"))
    assert stopped.returncode == 1
    assert stopped.stdout.strip().endswith("stopped")
    assert python("down", "--dir", str(tmp_path / "nothing")).returncode == 0


def test_the_printed_environment_reaches_the_cluster_and_offers_the_engine(first: Sandbox) -> None:
    shown = python("env", "--dir", str(first.directory))
    script = f"{shown.stdout}\nkubectl get node gpu-0 --output=name\npulumi version\npulumi stack ls"
    done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "node/gpu-0"


def test_what_a_crashed_run_left_is_replaced_by_a_start_and_removed_by_clean(tmp_path: Path) -> None:
    directory = tmp_path / "crashed"
    left = Sandbox.start(directory)
    for part in ("kube-apiserver", "kueue"):
        kill(left.parts[part].process, signal.SIGKILL)
    fresh = Sandbox.start(directory)
    assert fresh.ailing() == []
    assert not any(alive(part.process) for part in left.parts.values())
    assert python("clean", "--dir", str(directory)).returncode == 0
    assert not directory.exists()
    assert not any(alive(part.process) for part in fresh.parts.values())


def test_instances_of_a_run_that_was_killed_are_swept(tmp_path: Path) -> None:
    owner = subprocess.Popen(["sleep", "600"])
    orphan = Sandbox.start(tmp_path / "instances" / "orphan", owner=identify(owner.pid))
    assert sweep(tmp_path / "instances") == []
    owner.kill()
    owner.wait()
    assert sweep(tmp_path / "instances") == [orphan.directory]
    assert not any(alive(part.process) for part in orphan.parts.values())


def test_a_port_taken_in_between_is_given_up_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as rival:
        rival.bind(("127.0.0.1", 0))
        rival.listen()
        taken = rival.getsockname()[1]
        first_answers = {count: [taken, *ports.free_ports(count - 1)] for count in (1, 2, 3)}
        monkeypatch.setattr(
            cluster, "free_ports", lambda count: first_answers.pop(count, None) or ports.free_ports(count)
        )
        started = Sandbox.start(tmp_path / "instance")
        assert started.ailing() == []
        assert "address already in use" in started.log("etcd").read_text()
        started.stop()


def test_a_part_that_fails_is_named_with_its_words_and_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "cache"
    broken.mkdir()
    for built in parts.cache_directory().iterdir():
        (broken / built.name).symlink_to(built)
        if built.name.startswith("kueue-") and built.is_dir():
            (broken / built.name).unlink()
            (broken / built.name / "bin").mkdir(parents=True)
            (broken / built.name / "manifests").symlink_to(built / "manifests")
            (broken / built.name / "bin" / "kueue").write_text("#!/bin/sh\necho no quota for you >&2\nexit 3\n")
            (broken / built.name / "bin" / "kueue").chmod(0o755)
    monkeypatch.setenv("GPUSTACK_SANDBOX_CACHE", str(broken))
    directory = tmp_path / "instance"
    failed = python("up", "--dir", str(directory))
    assert failed.returncode == 1
    assert "error: kueue: ended during the start" in failed.stderr
    assert "no quota for you" in failed.stderr
    assert f"Its log: {directory / 'logs' / 'kueue.log'}" in failed.stderr
    shown = subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(directory) not in shown


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(SandboxError, match=r"holds thesis\.txt, which no sandbox wrote"):
        Sandbox.start(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
