"""Reading the objects a deployment depends on: only those it names, and what may not be read is said."""

from collections.abc import Iterable
from typing import Any

import pytest

from gpustack_components.cluster.binding_objects import (
    ARTIFACT,
    BACKEND,
    INSTANCE_TYPE,
    KINDS,
    OPERATOR_CRD,
    POOL,
    POOL_BINDING,
    operator_runs,
    read_all,
    read_named,
)
from gpustack_components.cluster.port import (
    CUSTOM_RESOURCE_DEFINITION,
    Busy,
    ClusterError,
    Forbidden,
    Kind,
    Listing,
    NotServed,
)

Json = dict[str, Any]


class Holding:
    """A cluster that holds these objects, and refuses some kinds."""

    def __init__(self, objects: Iterable[Json], refusing: dict[Kind, ClusterError] | None = None) -> None:
        self.objects = list(objects)
        self.refusing = refusing or {}
        self.asked: list[str] = []

    def get(self, kind: Kind, namespace: str | None, name: str) -> Json | None:
        self.asked.append(f"{kind.kind} {namespace or '-'} {name}")
        self._refuse(kind)
        found = (one for one in self.objects if one["kind"] == kind.kind and one["metadata"]["name"] == name)
        return next((one for one in found if one["metadata"].get("namespace") == namespace), None)

    def list(self, kind: Kind, namespace: str | None) -> Listing:
        self._refuse(kind)
        return Listing(tuple(one for one in self.objects if one["kind"] == kind.kind), "1")

    def _refuse(self, kind: Kind) -> None:
        if kind in self.refusing:
            raise self.refusing[kind]


def made(kind: str, name: str, namespace: str | None = None, **spec: Any) -> Json:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"kind": kind, "metadata": metadata, "spec": spec}


OBJECTS = [
    made("InstanceType", "h20"),
    made("InstanceType", "a10"),
    made("KVCachePoolBinding", "dram", "team-a", poolRef={"name": "pool"}),
    made("KVCachePoolBinding", "dram", "team-b", poolRef={"name": "other"}),
    made("KVCachePool", "pool", backends=["mooncake"]),
    made("KVCachePool", "other", backends=["elsewhere"]),
    made("KVCacheBackend", "mooncake"),
    made("ModelArtifact", "qwen", "team-a"),
]
DEPLOYMENT: Json = {
    "metadata": {"name": "qwen", "namespace": "team-a"},
    "spec": {
        "model": {"artifactRef": {"name": "qwen"}},
        "kvCache": {"poolRef": {"name": "dram"}},
        "roles": [{"instanceType": "h20"}, {"instanceType": "h20"}],
    },
}


def read(cluster: Any, document: Any = DEPLOYMENT, **beside: Any):
    return read_named(cluster, document, **beside)


def test_each_object_on_the_way_is_asked_for_once_and_nothing_else():
    cluster = Holding(OBJECTS)
    found = read(cluster)
    assert cluster.asked == [
        "KVCachePoolBinding team-a dram",
        "KVCachePool - pool",
        "InstanceType - h20",
        "ModelArtifact team-a qwen",
        "KVCacheBackend - mooncake",
    ]
    assert {(one["kind"], one["metadata"]["name"]) for one in found.objects} == {
        ("InstanceType", "h20"),
        ("KVCachePoolBinding", "dram"),
        ("KVCachePool", "pool"),
        ("KVCacheBackend", "mooncake"),
        ("ModelArtifact", "qwen"),
    }
    assert all(one["apiVersion"] == "worker.gpustack.ai/v1" for one in found.objects)
    assert (found.kinds, found.unread) == ({kind.kind for kind in KINDS}, ())


def test_a_declared_binding_leads_to_a_pool_in_the_cluster():
    declared = made("KVCachePoolBinding", "dram", "team-a", poolRef={"name": "other"})
    cluster = Holding(one for one in OBJECTS if one["kind"] != "KVCachePoolBinding")
    found = read(cluster, declared=[declared])
    assert [one["metadata"]["name"] for one in found.objects if one["kind"] == "KVCachePool"] == ["other"]


def test_what_may_not_be_read_is_said_and_the_rest_is_read():
    cluster = Holding(OBJECTS, {INSTANCE_TYPE: Forbidden("403: may not get instancetypes.")})
    found = read(cluster)
    assert found.unread == ("InstanceType h20 could not be read: 403: may not get instancetypes.",)
    assert "InstanceType" not in found.kinds and POOL.kind in found.kinds
    assert len(found.objects) == 4


def test_a_kind_that_is_not_served_is_no_failure_and_not_read():
    found = read(Holding(OBJECTS, {ARTIFACT: NotServed("404")}))
    assert found.unread == () and "ModelArtifact" not in found.kinds


def test_a_cluster_that_does_not_answer_is_the_callers_to_tell():
    with pytest.raises(Busy):
        read(Holding(OBJECTS, {POOL_BINDING: Busy("503")}))


@pytest.mark.parametrize(
    ("unknown", "unasked"),
    [
        ("spec.kvCache.poolRef.name", {POOL_BINDING, POOL, BACKEND}),
        ("spec.kvCache", {POOL_BINDING, POOL, BACKEND}),
        ("spec.model.artifactRef.name", {ARTIFACT}),
        ("spec", set(KINDS)),
        ("spec.engine.image", set()),
    ],
)
def test_a_reference_that_is_not_known_yet_is_not_looked_for(unknown: str, unasked: set[Kind]):
    cluster = Holding(OBJECTS)
    found = read(cluster, unknown=[unknown])
    kinds = {kind.kind for kind in unasked}
    assert not kinds & {line.split()[0] for line in cluster.asked}
    assert found.kinds == {kind.kind for kind in KINDS} - kinds


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"metadata": [], "spec": None},
        {
            "metadata": {"namespace": 3},
            "spec": {"roles": [{"instanceType": "../secrets/x"}, {"instanceType": 7}, None]},
        },
        {"spec": {"kvCache": {"poolRef": {"name": "a\n"}}, "model": {"artifactRef": "x"}}},
        {"spec": {"roles": {"instanceType": "h20"}}},
    ],
)
def test_a_name_that_no_object_can_have_is_not_asked_for(document: Json):
    cluster = Holding(OBJECTS)
    assert read(cluster, document).objects == ()
    assert cluster.asked == []


def test_a_command_reads_every_object_and_says_what_it_may_not():
    found = read_all(Holding(OBJECTS, {BACKEND: Forbidden("403"), ARTIFACT: NotServed("404")}))  # pyright: ignore[reportArgumentType]
    assert len(found.objects) == 6
    assert found.kinds == {"InstanceType", "KVCachePoolBinding", "KVCachePool"}
    assert found.unread == ("the cluster's kvcachebackends could not be read: 403",)


CRD = {"kind": "CustomResourceDefinition", "metadata": {"name": OPERATOR_CRD}}


@pytest.mark.parametrize(
    ("objects", "refusing", "runs"),
    [
        ([CRD], {}, True),
        ([], {}, False),
        ([], {CUSTOM_RESOURCE_DEFINITION: Forbidden("403")}, True),
        ([], {CUSTOM_RESOURCE_DEFINITION: Forbidden("403"), INSTANCE_TYPE: NotServed("404")}, False),
        ([], {CUSTOM_RESOURCE_DEFINITION: Forbidden("403"), INSTANCE_TYPE: Forbidden("403")}, False),
    ],
)
def test_the_operator_runs_where_its_instance_types_are_served(objects: Any, refusing: Any, runs: bool):
    cluster: Any = Holding(objects, refusing)
    assert operator_runs(cluster) is runs
