"""The manifests of the seed pages through the command line, as another tool would run it."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from gpustack_components.cli.main import app

SEEDS = Path(__file__).parents[1] / "data" / "seeds"
ACCEPTED = sorted(SEEDS.glob("*.yaml"))
BINDINGS = SEEDS.parent / "minimum_bindings.yaml"


def run(*words: str) -> tuple[int, dict]:
    ran = CliRunner().invoke(app, [*words, "-o", "json"])
    return ran.exit_code, json.loads(ran.stdout)


@pytest.mark.parametrize("manifest", ACCEPTED, ids=lambda path: path.stem)
def test_a_seed_is_accepted_as_it_stands(manifest: Path) -> None:
    code, report = run("check", "-f", str(manifest))
    assert report["refusals"] == []
    assert code == 0
    assert len(report["documents"]) == len([one for one in yaml.safe_load_all(manifest.read_text()) if one])


@pytest.mark.parametrize("manifest", ACCEPTED, ids=lambda path: path.stem)
def test_a_defaulted_seed_is_accepted_unchanged(manifest: Path, tmp_path: Path) -> None:
    _, report = run("check", "-f", str(manifest))
    (tmp_path / "again.yaml").write_text(yaml.safe_dump_all(report["documents"]))
    code, again = run("check", "-f", str(tmp_path / "again.yaml"), "--old", str(manifest))
    assert (code, again["refusals"]) == (0, [])
    assert again["documents"] == report["documents"]


def test_a_field_of_an_older_build_is_refused_by_name() -> None:
    code, report = run("check", "-f", str(SEEDS / "refused" / "prefill-decode-engine-version.yaml"))
    assert code == 1
    refused = {(refusal["rule"], refusal["path"]) for refusal in report["refusals"]}
    assert ("unknown-field", "spec.engine.version") in refused


def test_the_least_that_a_program_states_is_enough_to_render(tmp_path: Path) -> None:
    deployment = yaml.safe_load((SEEDS / "deployment-minimal.yaml").read_text())
    deployment["spec"]["roles"][0]["instanceType"] = "h20-8x"
    deployment["spec"]["engine"]["image"] = "vllm/vllm-openai:v0.25.1"
    (tmp_path / "deployment.yaml").write_text(yaml.safe_dump(deployment))
    code, listed = run("render", "-f", str(tmp_path / "deployment.yaml"), "-f", str(BINDINGS))
    assert code == 0
    kinds = [obj["kind"] for obj in listed["items"]]
    assert kinds == ["LocalQueue", "Service", "Service", "Pod", "Pod", "Pod", "Pod"]
