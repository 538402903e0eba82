"""Documents of a command beside the objects a cluster holds: what counts, and what is said on standard error."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpustack_components.cli.judge import judge, read, read_settings
from gpustack_components.cluster.binding_objects import Reading


def stored(text: str, **spec: Any) -> dict[str, Any]:
    raw = yaml.safe_load(text)
    raw["metadata"]["resourceVersion"] = "7"
    raw["spec"].update(spec)
    raw["status"]["entrance"] = "queue-of-the-operator"
    return raw


@pytest.fixture
def files(minimal: Path, h20_text: str) -> list[str]:
    """The smallest deployment and its InstanceType."""
    (minimal.parent / "types.yaml").write_text(h20_text)
    return [str(minimal), str(minimal.parent / "types.yaml")]


def test_what_the_cluster_observed_of_a_declared_type_counts(files: list[str], h20_text: str, capsys: Any) -> None:
    live = Reading((stored(h20_text),), frozenset(("InstanceType",)))
    judged = judge(read(files), read_settings(None), live=live)
    found = judged.bindings.instance_type("h20-8x")
    assert not judged.refused and found is not None and found.status is not None
    assert found.status.entrance == "queue-of-the-operator"
    assert capsys.readouterr().err == ""


def test_a_declaration_that_differs_from_the_cluster_counts_and_is_said(
    files: list[str], h20_text: str, capsys: Any
) -> None:
    live = Reading((stored(h20_text, unitResources={"cpu": "2", "ram": "64Gi"}),), frozenset(("InstanceType",)))
    judged = judge(read(files), read_settings(None), live=live)
    found = judged.bindings.instance_type("h20-8x")
    assert found is not None and found.spec.unit_resources.cpu == "16"
    assert "InstanceType h20-8x is declared here and differs" in (said := capsys.readouterr().err)
    assert "spec.unitResources.cpu 16, in the cluster 2;" in said


def test_types_that_may_not_be_read_leave_their_rules_open(files: list[str]) -> None:
    [one] = judge(read(files[:1]), read_settings(None), live=Reading(unread=("403",))).judged
    assert one.refusals == () and one.review.unjudged
    [one] = judge(read(files[:1]), read_settings(None), live=Reading(kinds=frozenset(("InstanceType",)))).judged
    assert [refusal.rule for refusal in one.refusals] == ["instance-type-not-found"]
