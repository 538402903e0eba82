"""Objects that are declared and stand in a cluster too: what counts, and what is said."""

from typing import Any

import pytest

from gpustack_components.api.document import Document
from gpustack_components.api.encode import encode
from gpustack_components.bindings.catalog import Bindings
from gpustack_components.bindings.kv_cache import connect
from gpustack_components.bindings.observed import decode_observed, differences, facts
from tests.render import build


def stored(document: Any, **status: Any) -> Any:
    """The document as an API server gives it out, with its status changed."""
    raw = build.merged(encode(document), {"metadata": {"resourceVersion": "7", "uid": "u"}, "status": status})
    raw["spec"]["ofANewerRelease"] = 1
    (read,) = decode_observed([raw]).documents
    return read


def joined(declared: list[Any], observed: list[Any]) -> tuple[Bindings, tuple[str, ...]]:
    ours, theirs = Bindings.of(declared), Bindings.of(observed, complete=True)
    return ours.over(theirs), differences(ours, theirs)


BINDING, POOL, BACKEND = build.store()


def without_status(document: Any) -> Any:
    return type(document).model_validate({**encode(document), "status": None})


def test_an_object_that_is_declared_like_the_one_in_the_cluster_is_that_one():
    live = stored(POOL, clientEndpoint="moved:1")
    bindings, said = joined([without_status(POOL)], [live])
    assert bindings.pool("shared-dram") == live
    assert said == ()


def test_an_observation_counts_and_an_outdated_declaration_of_it_is_said():
    bindings, said = joined([POOL], [stored(POOL, clientEndpoint="moved:1")])
    pool = bindings.pool("shared-dram")
    assert pool is not None and pool.status is not None and pool.status.client_endpoint == "moved:1"
    assert said == (
        "KVCachePool shared-dram is declared here with another state than the cluster has: status.clientEndpoint "
        f"{build.ENDPOINT}, in the cluster moved:1; the cluster's counts, remove the status from the declaration",
    )


def test_a_spec_on_its_way_to_the_cluster_counts_and_is_said_with_every_field():
    declared = build.instance_type(spec={"unitResources": {"cpu": "8", "ram": "32Gi"}}, status=None)
    bindings, said = joined([declared], [stored(build.instance_type(), entrance="gpustack-fnv64-1")])
    found = bindings.instance_type("h20-8x")
    assert found is not None and found.spec.unit_resources.cpu == "8"
    assert found.status is not None and found.status.entrance == "gpustack-fnv64-1"
    assert found.metadata.uid == "u"
    (sentence,) = said
    assert "InstanceType h20-8x" in sentence
    assert "spec.unitResources.cpu 8, in the cluster 16; spec.unitResources.ram 32Gi, in the cluster 64Gi" in sentence


@pytest.mark.parametrize(
    ("declared", "live"),
    [
        (build.store(binding_status={"phase": "Ready"})[0], stored(BINDING, phase="Degraded")),
        (
            build.instance_type(status={"accelerator": {"capacity": "8"}}),
            stored(build.instance_type(), accelerator={"capacity": "80"}),
        ),
    ],
)
def test_a_state_that_moves_by_itself_is_the_clusters_and_no_contradiction(declared: Any, live: Document):
    bindings, said = joined([declared], [live])
    assert live in (*bindings.pool_bindings.values(), *bindings.instance_types.values())
    assert said == ()


def test_objects_of_one_name_in_two_namespaces_are_two():
    other = stored(BINDING).model_copy(
        update={"metadata": stored(BINDING).metadata.model_copy(update={"namespace": "b"})}
    )
    bindings, said = joined([BINDING], [other])
    assert bindings.pool_binding("team-a", "cache") == BINDING and bindings.pool_binding("b", "cache") == other
    assert said == ()


@pytest.mark.parametrize(
    "missing", [{"clientEndpoint": ""}, {"clientEndpoint": None}, None], ids=["empty", "absent", "no status"]
)
def test_a_declared_and_an_observed_pool_without_endpoint_are_the_same(missing: Any):
    raw = build.merged(encode(POOL), {"status": missing})
    (observed,) = decode_observed([{**raw, "metadata": {"name": "shared-dram", "resourceVersion": "7"}}]).documents
    deployment = build.deployment(kvCache={"poolRef": {"name": "cache"}})
    declared = type(observed).model_validate(raw)
    answers = [connect(deployment, Bindings.of([BINDING, pool, BACKEND])) for pool in (declared, observed)]
    assert answers[0] == answers[1]
    assert answers[0].reason == "EndpointNotPublished"


def test_an_object_that_cannot_be_read_is_said_and_not_there():
    broken = {"kind": "KVCachePool", "metadata": {"name": "p"}, "spec": {"backends": "none"}}
    found = decode_observed([broken, {**encode(BACKEND), "spec": {**encode(BACKEND)["spec"], "new": True}}])  # pyright: ignore[reportArgumentType]
    assert [one.metadata.name for one in found.documents] == ["mooncake"]
    (sentence,) = found.unreadable
    assert sentence.startswith("KVCachePool p of the cluster counts as not there, since it cannot be read: spec.")


def test_facts_name_what_decides_a_pod_and_do_not_move_by_themselves():
    live = [stored(one) for one in (build.instance_type(), *build.store(), build.artifact())]
    told = facts(Bindings.of(live))
    assert told["KVCachePool shared-dram"] == {"backend": "mooncake", "clientEndpoint": build.ENDPOINT}
    assert told["KVCacheBackend mooncake"] == {"transport": "tcp"}
    assert told["ModelArtifact weights"] == {"revision": build.COMMIT, "manifestDigest": build.DIGEST}
    assert told["InstanceType h20-8x"] == {"manufacturer": "nvidia", "cpu": "16", "ram": "64Gi"}
    moved = [
        stored(build.instance_type(), phase="Full", accelerator={"capacity": "1"}),
        stored(BINDING, phase="Degraded", conditions=[{"type": "QuotaGranted", "status": "False"}]),
        stored(POOL, conditions=[{"type": "QuotaLedgerAvailable", "status": "False"}]),
        *live[3:],
    ]
    assert facts(Bindings.of(moved)) == told
