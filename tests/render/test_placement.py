"""Where Pods like to be, as far as it is rendered (rendering sheet 19)."""

from typing import Any

import kubernetes_validate
import pytest

from gpustack_components.bindings.weights import claim_of, node_affinity
from gpustack_components.render.explain import explain
from gpustack_components.render.placement import placed
from tests.render import build

Json = dict[str, Any]


def wishes(*roles: Json) -> dict[str, list[tuple[int, str, str]]]:
    """Of each role: weight, kind and topology of every preferred neighbour."""
    resolved = build.resolved(build.deployment(roles=roles))
    found: dict[str, list[tuple[int, str, str]]] = {}
    for role in resolved.roles:
        pod = build.render_replica(resolved, role, 0).members[0]
        affinity = pod["spec"].get("affinity", {}).get("podAffinity", {})
        assert set(affinity) <= {"preferredDuringSchedulingIgnoredDuringExecution"}
        found[role.name] = []
        for one in affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ()):
            labels = one["podAffinityTerm"]["labelSelector"]["matchLabels"]
            assert labels["app.kubernetes.io/instance"] == "qwen"
            kind = labels["modeldeployment.gpustack.ai/role-kind"]
            found[role.name].append((one["weight"], kind, one["podAffinityTerm"]["topologyKey"]))
        lines = [line for line in explain(resolved, role) if line.name == "spec.affinity"]
        assert [line.rule for line in lines] == ["encoders beside prefill, prefill beside decode (19)"] * bool(affinity)
    return found


ENCODE = {"name": "encode", "kind": "Encode"}
NODE = "kubernetes.io/hostname"


def test_in_a_deployment_with_an_encoder_what_feeds_likes_to_be_beside_what_it_feeds() -> None:
    assert wishes(ENCODE, *build.pair()) == {
        "encode": [(50, "prefill", NODE)],
        "prefill": [(100, "decode", NODE)],
        "decode": [],
    }


def test_without_an_encoder_or_without_a_neighbour_nothing_is_wished_for() -> None:
    assert wishes(*build.pair()) == {"prefill": [], "decode": []}
    assert wishes(ENCODE) == {"encode": []}
    assert wishes({}) == {"server": []}


@pytest.mark.parametrize("role", ["encode", "prefill", "decode"])
def test_wishes_and_nodes_of_the_weights_together_are_what_kubernetes_takes(role: str) -> None:
    resolved = build.resolved(build.deployment(roles=[ENCODE, *build.pair()]))
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    claim = claim_of({"status": {"phase": "Bound"}}, None, {"spec": {"nodeAffinity": {"required": zone}}})
    pod = placed(build.render_replica(resolved, role, 0).members[0], node_affinity(claim, ["node-1"]))
    kubernetes_validate.validate(pod, "1.30", strict=True)
    affinity = pod["spec"]["affinity"]
    assert set(affinity["nodeAffinity"]) == {
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    }
    assert ("podAffinity" in affinity) == (role != "decode")
