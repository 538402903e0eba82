"""Which bindings become inputs of a deployment."""

from typing import Any

import pytest

from gpustack_components.components.relevance import relevant


def binding(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name}, "spec": spec}


BINDINGS = [
    binding("InstanceType", "h20"),
    binding("InstanceType", "a10"),
    binding("KVCachePoolBinding", "dram", poolRef={"name": "pool"}),
    binding("KVCachePoolBinding", "other", poolRef={"name": "pool-2"}),
    binding("KVCachePool", "pool", backends=["mooncake"]),
    binding("KVCachePool", "pool-2", backends=["mooncake-2"]),
    binding("KVCacheBackend", "mooncake"),
    binding("KVCacheBackend", "mooncake-2"),
    binding("ModelArtifact", "qwen"),
    binding("ModelArtifact", "llama"),
]


def names(document: Any, *unknown: str) -> list[str]:
    return [one["metadata"]["name"] for one in relevant(BINDINGS, document, unknown)]


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        ({"roles": [{"instanceType": "h20"}]}, ["h20"]),
        ({"roles": [{"instanceType": "a10"}, {"instanceType": "h20"}]}, ["h20", "a10"]),
        ({"kvCache": {"poolRef": {"name": "dram"}}}, ["dram", "pool", "mooncake"]),
        ({"kvCache": {"poolRef": {"name": "nowhere"}}}, []),
        ({"model": {"artifactRef": {"name": "qwen"}}}, ["qwen"]),
        ({}, []),
        (None, []),
        ([], []),
        ({"roles": "text", "kvCache": [], "model": 3}, []),
    ],
)
def test_only_what_the_document_refers_to_is_kept_in_order(spec: Any, kept: list[str]):
    assert names({"spec": spec}) == kept


@pytest.mark.parametrize(
    ("unknown", "kept"),
    [
        ("spec.model.artifactRef.name", ["qwen", "llama"]),
        ("spec.kvCache.poolRef.name", ["dram", "other", "pool", "pool-2", "mooncake", "mooncake-2"]),
        ("spec.roles[0].image", []),
        ("spec", [one["metadata"]["name"] for one in BINDINGS]),
    ],
)
def test_where_a_reference_is_not_known_yet_everything_it_could_mean_is_kept(unknown: str, kept: list[str]):
    assert names({"spec": {}}, unknown) == kept


def test_a_binding_of_an_unknown_kind_is_kept_to_be_refused():
    stray = {"kind": "Strange", "metadata": {"name": "x"}}
    assert relevant([stray], {"spec": {}}) == [stray]
    assert relevant([{"metadata": []}], {}) == [{"metadata": []}]
