"""The packs as a wheel installs them: found by a command, and loaded from outside this checkout."""

import os
import shutil
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from gpustack_components.cli.main import app
from gpustack_components.cli.packs import PACKS

ROOT = Path(__file__).parents[2]


def asked(name: str) -> Any:
    return CliRunner().invoke(app, ["policy-pack", name])


@pytest.mark.parametrize("name", PACKS)
def test_a_pack_is_found_and_names_no_environment_of_a_checkout(name: str) -> None:
    folder = Path(asked(name).stdout.strip())
    project = yaml.safe_load((folder / "PulumiPolicy.yaml").read_text())
    assert project["runtime"] == "python"
    assert (folder / "__main__.py").is_file()


def test_a_pack_that_is_not_there_is_said_with_those_that_are() -> None:
    ran = asked("admision")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "the packs are admission and guardrails" in ran.stderr


def test_another_package_in_the_place_of_the_packs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("policies")
    other.__spec__ = ModuleSpec("policies", None, is_package=True)
    other.__spec__.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setitem(sys.modules, "policies", other)
    ran = asked("admission")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "another package of the name policies" in ran.stderr and str(tmp_path) in ran.stderr.replace("\n", "")


def test_the_packs_load_outside_the_checkout(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    for package in ("gpustack_components", "policies"):
        shutil.copytree(ROOT / package, site / package, ignore=shutil.ignore_patterns("__pycache__"))
    program = (
        "from importlib import import_module; from gpustack_components.cli.packs import PACKS, folder\n"
        "for name in PACKS: print(folder(name), len(import_module(f'policies.{name}.pack').POLICIES))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = dict(line.split() for line in ran.stdout.splitlines())
    assert set(found) == {str(site / "policies" / name) for name in PACKS}
    assert all(int(count) > 3 for count in found.values())
