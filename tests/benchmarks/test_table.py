"""What the table of benchmarks says, and when it fails a build."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.row import Row

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    ("value", "verdict"),
    [(None, "not measured"), (0.9, "ok"), (1.0, "ok"), (1.1, "over"), (2.0, "over"), (2.1, "FAIL")],
)
def test_only_twice_the_budget_fails(value: float | None, verdict: str) -> None:
    assert Row("what", "against", value, 1.0).verdict == verdict


def test_an_unknown_row_is_refused_with_those_there_are() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "speed"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "there is no row speed; the rows are check_and_render, check_against_yaml" in done.stderr


def test_a_row_that_cannot_be_measured_says_why_and_fails_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "idle", "--sandbox", str(tmp_path / "none")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "not measured" in done.stdout
    assert "SandboxError" in done.stdout
