"""Official programs on PATH are used when they are complete and new enough, and never taken from a sandbox."""

from pathlib import Path

import pytest

from sandbox import toolchain

HELPERS = ("pulumi-language-python", "pulumi-language-python-exec", "pulumi-resource-pulumi-python")


def install(folder: Path, *names: str, version: str = "v3.250.1") -> str:
    """Put programs into a folder, each printing a version; returns the folder as a PATH."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(f"#!/bin/sh\necho {version}\n")
        (folder / name).chmod(0o755)
    return str(folder)


def test_a_complete_official_installation_is_used(tmp_path: Path) -> None:
    path = install(tmp_path / "bin", "pulumi", *HELPERS)
    assert [file.name for file in toolchain.official_pulumi(path)] == ["pulumi", *HELPERS]


@pytest.mark.parametrize(
    ("version", "used"), [("v3.199.9", False), ("v3.200.0", True), ("v4.0.0", True), ("dev", False)]
)
def test_an_old_or_unversioned_engine_is_not_used(tmp_path: Path, version: str, used: bool) -> None:
    path = install(tmp_path / "bin", "pulumi", *HELPERS, version=version)
    assert bool(toolchain.official_pulumi(path)) is used


@pytest.mark.parametrize("missing", HELPERS)
def test_an_engine_without_its_python_host_is_not_used(tmp_path: Path, missing: str) -> None:
    path = install(tmp_path / "bin", "pulumi", *(name for name in HELPERS if name != missing))
    assert toolchain.official_pulumi(path) == ()


def test_the_tools_of_a_sandbox_are_not_official(tmp_path: Path) -> None:
    path = install(tmp_path / "bin", "pulumi", *HELPERS, "pulumi-resource-kubernetes")
    (tmp_path / "bin" / toolchain.MARKER).touch()
    assert toolchain.official_pulumi(path) == ()
    assert toolchain.official_kubernetes_provider(path) is None


def test_an_official_provider_is_found_on_path(tmp_path: Path) -> None:
    path = install(tmp_path / "bin", "pulumi-resource-kubernetes")
    assert toolchain.official_kubernetes_provider(path) == tmp_path / "bin" / "pulumi-resource-kubernetes"


def test_an_official_provider_is_found_among_the_users_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import version

    monkeypatch.setenv("PULUMI_HOME", str(tmp_path))
    assert toolchain.official_kubernetes_provider(str(tmp_path)) is None
    plugin = tmp_path / "plugins" / f"resource-kubernetes-v{version('pulumi-kubernetes')}"
    plugin.parent.mkdir()
    install(plugin, "pulumi-resource-kubernetes")
    assert toolchain.official_kubernetes_provider(str(tmp_path)) == plugin / "pulumi-resource-kubernetes"
