"""How commands end: exit codes, quiet interruptions, a guard around defects, and imports that stay light."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


def test_version_is_printed(cli) -> None:
    ran = cli("--version")
    assert ran.code == 0
    assert ran.out.startswith("gpustack-components 0.")


def test_no_arguments_show_the_commands(cli) -> None:
    ran = cli()
    assert "check" in ran.out + ran.err


def test_a_defect_is_a_sentence_and_exit_code_70(cli, minimal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpustack_components.cli.sources.read_documents", lambda files: 1 / 0)
    ran = cli("check", "-f", str(minimal))
    assert ran.code == 70
    assert "internal error: ZeroDivisionError: division by zero" in ran.err
    assert "please report it" in ran.err
    assert "Traceback" not in ran.err


def test_the_traceback_of_a_defect_is_shown_on_request(cli, minimal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpustack_components.cli.sources.read_documents", lambda files: 1 / 0)
    monkeypatch.setenv("GPUSTACK_DEBUG", "1")
    ran = cli("check", "-f", str(minimal))
    assert ran.code == 70
    assert "Traceback" in ran.err


def test_a_reader_that_goes_away_ends_the_command_quietly(cli, minimal: Path) -> None:
    ends = subprocess.run(
        [
            "bash",
            "-c",
            f"set -o pipefail; {cli.script} check -f {minimal} -o json | (exec 0<&-; sleep 1); exit ${{PIPESTATUS[0]}}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ends.returncode == 141
    assert ends.stderr == ""


def test_a_full_disk_is_said(cli, minimal: Path) -> None:
    ends = subprocess.run(
        ["sh", "-c", f"{cli.script} check -f {minimal} > /dev/full"], capture_output=True, text=True, check=False
    )
    assert ends.returncode == 74
    assert ends.stderr == "gpustack-components: the output cannot be written: No space left on device\n"


def test_ctrl_c_ends_the_command_quietly(cli) -> None:
    waiting = subprocess.Popen(
        [cli.script, "check", "-f", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    _until_reading(waiting.pid)
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=20)
    assert waiting.returncode == 130
    assert (out, err) == (b"", b"")


def _until_reading(pid: int) -> None:
    """Wait until the process sleeps in a read of its standard input."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        waiting_in = Path(f"/proc/{pid}/wchan").read_text()
        if "pipe" in waiting_in:
            return
        time.sleep(0.05)
    pytest.skip("this kernel does not tell what a process waits in")


HEAVY = ("kubernetes", "pulumi", "pulumi_kubernetes", "pulumi_policy", "grpc", "rich", "jinja2", "requests")


def _modules_after(*arguments: str, cwd: Path) -> set[str]:
    """What a process has imported once the command has ended: other packages by their first name, ours in full."""
    program = (
        "import sys, json\n"
        "sys.argv = ['gpustack-components', *sys.argv[1:]]\n"
        "from gpustack_components.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "ours = 'gpustack_components'\n"
        "names = {name if name.startswith(ours) else name.split('.')[0] for name in sys.modules}\n"
        "print(json.dumps(sorted(names)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=cwd,
        env=dict(os.environ),
    )
    return set(json.loads(done.stderr.strip().splitlines()[-1]))


def test_help_imports_nothing_heavy(minimal: Path) -> None:
    loaded = _modules_after("check", "--help", cwd=minimal.parent)
    assert "typer" in loaded
    assert loaded.isdisjoint((*HEAVY, "yaml"))
    assert not any(name.startswith(("gpustack_components.api", "gpustack_components.admission")) for name in loaded)


def test_check_imports_no_client_and_no_engine(minimal: Path) -> None:
    loaded = _modules_after("check", "-f", str(minimal), cwd=minimal.parent)
    assert "pydantic" in loaded
    assert loaded.isdisjoint(HEAVY)
