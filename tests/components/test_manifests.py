"""Manifest files of a program: what is read, and every way in which it is not."""

from pathlib import Path

import pulumi
import pytest

from gpustack_components.components.manifests import read, resource_name_of

DEPLOYMENT = "kind: ModelDeployment\nmetadata: {name: NAME, namespace: team-a}\nspec: {}\n"
TYPE = "kind: InstanceType\nmetadata: {name: h20-8x}\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program's directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(directory: Path, name: str, text: str) -> None:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def problems(*patterns: str) -> list[str]:
    with pytest.raises(pulumi.RunError) as refused:
        read(patterns)
    return str(refused.value).splitlines()


def test_globs_are_expanded_in_a_stable_order_and_a_file_named_twice_is_read_once(files: Path):
    for name in ("b", "a", "deep/c"):
        write(files, f"{name}.yaml", DEPLOYMENT.replace("NAME", name.rpartition("/")[2]) + "---\n" + TYPE)
    found = read(["**/*.yaml", "a.yaml", str(files / "b.yaml")])
    assert sorted(map(resource_name_of, found.deployments)) == ["team-a/a", "team-a/b", "team-a/c"]
    assert [one["metadata"]["name"] for one in found.bindings] == ["h20-8x"]
    assert found == read(["**/*.yaml"])


def test_every_problem_of_every_file_is_said_at_once(files: Path):
    write(files, "broken.yaml", "a: [1\n")
    write(files, "kind.yaml", "kind: Deployment\n")
    write(files, "nokind.yaml", "a: 1\n")
    write(files, "one.yaml", TYPE)
    write(files, "two.yaml", TYPE + "spec: {}\n")
    (files / "latin.yaml").write_bytes(b"a: \xff\n")
    (files / "folder").mkdir()
    found = problems("*.yaml", "missing.yaml", "none-*.yaml", "folder")
    assert len(found) == 8
    text = "\n".join(found)
    for part in (
        "broken.yaml",
        "kind.yaml:1: kind Deployment cannot be deployed",
        "nokind.yaml:1: kind (none) cannot be deployed",
        "two.yaml:1: InstanceType h20-8x is declared differently at one.yaml:1",
        "latin.yaml: not UTF-8",
        f"missing.yaml: no such file, looked from {files}",
        f"none-*.yaml: no file matches, looked from {files}",
        "folder: the folder holds no manifest (.yaml, .yml, .json); name a file or a glob",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        ({"name": "chat", "namespace": "team-a"}, "team-a/chat"),
        ({"name": "chat"}, "default/chat"),
        ({}, "default/unnamed"),
        (None, "default/unnamed"),
        ("text", "default/unnamed"),
    ],
)
def test_a_deployment_from_a_file_is_named_by_namespace_and_name(metadata: object, name: str):
    assert resource_name_of({"metadata": metadata}) == name
