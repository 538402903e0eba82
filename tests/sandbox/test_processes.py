"""Only what we started is ever signalled, and ports are kept out of the way of outgoing connections."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.ports import free_ports
from sandbox.processes import Process, alive, below, identify, kill, spawn, stop, wait_until


def sleeper(tmp_path: Path, program: str = "sleep 60") -> Process:
    """A process that does nothing for a minute."""
    return spawn(["sh", "-c", program], log=tmp_path / "log", env=os.environ, cwd=tmp_path)


def test_a_process_is_stopped(tmp_path: Path) -> None:
    process = sleeper(tmp_path, "exec sleep 60")
    assert alive(process)
    stop([process], grace=5)
    assert not alive(process)


def test_a_process_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    process = sleeper(tmp_path, "trap '' TERM; echo set; while :; do sleep 0.1; done")
    assert wait_until(lambda: "set" in (tmp_path / "log").read_text(), seconds=5)
    stop([process], grace=0.3)
    assert not alive(process)


def test_a_process_that_took_over_the_id_is_left_alone(tmp_path: Path) -> None:
    bystander = sleeper(tmp_path, "exec sleep 60")
    ours = Process(bystander.pid, "another time")
    assert not alive(ours)
    kill(ours, signal.SIGKILL)
    stop([ours], grace=1)
    assert alive(bystander)
    stop([bystander], grace=5)


def test_a_process_that_has_ended_is_unknown(tmp_path: Path) -> None:
    process = sleeper(tmp_path, "exit 3")
    assert wait_until(lambda: not alive(process), seconds=5)
    with pytest.raises(ProcessLookupError):
        identify(process.pid)
    assert alive(identify(os.getpid()))


def test_a_process_lives_until_its_last_thread_has_let_go_of_its_files(tmp_path: Path) -> None:
    program = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(1.5,)).start()\n"
        "print('leaving', flush=True)\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    process = spawn([sys.executable, "-c", program], log=tmp_path / "log", env=os.environ, cwd=tmp_path)
    assert wait_until(lambda: "leaving" in (tmp_path / "log").read_text(), seconds=5)
    state = Path(f"/proc/{process.pid}/stat")
    if state.exists():
        assert wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "Z", seconds=1)
    assert alive(process)
    stop([process], grace=5)
    assert not alive(process)


def test_the_log_holds_what_the_process_writes(tmp_path: Path) -> None:
    process = sleeper(tmp_path, "echo out; echo err >&2")
    assert wait_until(lambda: not alive(process), seconds=5)
    assert sorted((tmp_path / "log").read_text().split()) == ["err", "out"]


def test_free_ports_are_distinct_and_can_be_bound() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))


def test_programs_and_scripts_of_a_folder_are_found_with_what_they_started(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "plugin"
    script.write_text("#!/bin/sh\nsleep 60 &\nwait\n")
    script.chmod(0o755)
    program = folder / "program"
    program.symlink_to(shutil.which("sleep") or "/bin/sleep")
    other = subprocess.Popen(["sleep", "60"])
    started = [subprocess.Popen([script]), subprocess.Popen([program, "60"])]
    try:
        assert wait_until(lambda: len(below(folder)) == 3, seconds=10)
        pids = {process.pid for process in below(folder)}
        assert pids > {child.pid for child in started} and other.pid not in pids
        stop(below(folder), grace=5)
        assert below(folder) == []
        assert other.poll() is None
    finally:
        for child in (*started, other):
            child.kill()
            child.wait()


def test_free_ports_lie_below_those_of_outgoing_connections() -> None:
    with socket.socket() as client:
        client.bind(("127.0.0.1", 0))
        assert max(free_ports(50)) < client.getsockname()[1]
