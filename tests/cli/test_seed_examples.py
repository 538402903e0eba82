"""`examples/seeds`: the documented scenarios as runnable manifests, with the diagrams `render --graph` prints."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "seeds"
SEEDS = ROOT / "tests" / "data" / "seeds"
MANIFESTS = sorted(EXAMPLES.glob("*.yaml"))
PLACEHOLDER = "<a runner image your cluster can pull>"


def deployments(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one and one["kind"] == "ModelDeployment"]


def is_elastic(deployment: dict[str, Any]) -> bool:
    return any("elasticEp" in role for role in deployment["spec"]["roles"])


DOCUMENTED = {
    path.stem: deployment
    for path in SEEDS.glob("*.yaml")
    for deployment in deployments(path)
    if not is_elastic(deployment)
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_documented_scenario_has_its_example_as_it_stands(name: str) -> None:
    [example] = deployments(EXAMPLES / f"{name}.yaml")
    documented = DOCUMENTED[name]
    if documented["spec"]["engine"]["image"] == PLACEHOLDER:
        documented["spec"]["engine"]["image"] = example["spec"]["engine"]["image"]
    assert example == documented


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_an_example_renders_and_its_diagram_is_current(cli, manifest: Path) -> None:
    drawn = cli("render", "-f", str(manifest), "--graph")
    assert (drawn.code, drawn.err) == (0, "")
    assert manifest.with_suffix(".txt").read_text() == drawn.out
    rendered = json.loads(cli("render", "-f", str(manifest), "-o", "json").out)["items"]
    [deployment] = deployments(manifest)
    pods = sum(role.get("replicas", 1) * role.get("size", 1) for role in deployment["spec"]["roles"])
    assert [one["kind"] for one in rendered].count("Pod") == pods
    verdict = json.loads(cli("check", "-f", str(manifest), "-o", "json").out)
    assert (verdict["refused"], verdict["warnings"]) == (False, [])


def test_every_file_is_explained() -> None:
    explained = (EXAMPLES / "README.md").read_text()
    files = {path.name for path in EXAMPLES.iterdir()} - {"README.md"}
    assert files == {path.name for path in MANIFESTS} | {f"{path.stem}.txt" for path in MANIFESTS}
    for name in files:
        assert f"({name})" in explained


def test_only_the_scenarios_that_lose_a_transfer_warn() -> None:
    warned = {path.stem for path in EXAMPLES.glob("*.txt") if "warning:" in path.read_text()}
    assert warned == {"deployment-pair", "prefill-decode-two-manufacturers"}
