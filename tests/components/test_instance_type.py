"""A pool of nodes as a document: what the arguments become, and which arguments are refused."""

import asyncio
from typing import Any

import pulumi
import pytest

from gpustack_components.cluster import keys
from gpustack_components.components.instance_type import InstanceType, compose, quota_of, read, states_quota

GOOD: dict[str, Any] = {
    "nodes": 2,
    "unit_resources": {"cpu": "16", "ram": "64Gi"},
    "node_labels": {"gpu": "h20", "zone": "a"},
    "manufacturer": "nvidia",
    "cards_per_node": 8,
    "cores_per_node": 0,
    "memory": None,
    "accelerator_group": None,
    "local_storage": "100Gi",
    "os": "linux",
    "arch": "amd64",
}
CPU_ONLY = {**GOOD, "manufacturer": None, "cards_per_node": 0, "cores_per_node": 96}


@pytest.mark.parametrize(("arguments", "quota"), [(GOOD, (2, 8)), (CPU_ONLY, (2, 96)), ({**GOOD, "nodes": 1}, (1, 8))])
def test_the_document_decodes_and_gives_back_the_quota(arguments: dict[str, Any], quota: tuple[int, int]):
    document = compose("pool", **arguments)
    assert read(document).metadata.name == "pool"
    assert quota_of(document) == (*quota, {"gpu": "h20", "zone": "a"})
    assert states_quota(document)


def test_an_instance_type_without_node_labels_describes_a_queue_that_is_there():
    document = compose("pool", **GOOD)
    del document["metadata"]["annotations"]
    assert not states_quota(document)
    assert not states_quota({"kind": "ModelDeployment", "metadata": {"annotations": {keys.NODE_LABELS: "a=b"}}})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nodes": 0}, "nodes: a pool has at least 1 node, found 0"),
        ({"cards_per_node": 0}, "cards_per_node, a CPU-only pool cores_per_node; found 0 and 0"),
        ({"cores_per_node": 4}, "found 8 and 4"),
        ({"manufacturer": None}, "manufacturer and cards_per_node belong together"),
        ({"node_labels": {}}, "node_labels: name at least one label"),
        ({"unit_resources": {"cpu": "16"}}, "unit_resources: takes cpu and ram, both; found cpu"),
        ({"unit_resources": {"cpu": "1", "ram": "1Gi", "gpu": "1"}}, "takes cpu and ram, both; found cpu, ram, gpu"),
    ],
)
def test_wrong_arguments_are_refused_with_what_was_found(change: dict[str, Any], words: str):
    with pytest.raises(pulumi.RunError) as refused:
        compose("pool", **{**GOOD, **change})
    assert words in str(refused.value) and str(refused.value).startswith("InstanceType pool: ")


async def declare_mistyped() -> None:
    """Outputs are made in an event loop only."""
    arguments: dict[str, Any] = {
        "nodes": "two",
        "unit_resources": "16 cpu",
        "node_labels": None,
        "manufacturer": 1,
        "cards_per_node": 2.5,
        "cores_per_node": True,
        "local_storage": pulumi.Output.from_input("1Gi"),
        "slices": "yes",
        "interfaces": ["rdma/hca"],
        "tolerations": "all",
    }
    InstanceType("pool", **arguments)


def test_arguments_of_another_type_are_refused_all_at_once():
    with pytest.raises(pulumi.RunError) as refused:
        asyncio.run(declare_mistyped())
    assert str(refused.value).splitlines() == [
        "InstanceType pool: nodes is a whole number, found 'two'",
        "InstanceType pool: unit_resources maps names to values, found '16 cpu'",
        "InstanceType pool: node_labels maps names to values, found None",
        "InstanceType pool: manufacturer is text, found 1",
        "InstanceType pool: cards_per_node is a whole number, found 2.5",
        "InstanceType pool: cores_per_node is a whole number, found True",
        "InstanceType pool: local_storage must be known when the program runs, found an Output",
        "InstanceType pool: slices is True or False, found 'yes'",
        "InstanceType pool: interfaces maps names to values, found a list",
        "InstanceType pool: tolerations is a list, found 'all'",
    ]


def test_all_wrong_arguments_are_refused_at_once():
    with pytest.raises(pulumi.RunError) as refused:
        compose("pool", **{**GOOD, "nodes": 0, "node_labels": {}, "unit_resources": {}})
    assert len(str(refused.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("annotations", "capacity", "words"),
    [
        ({keys.NODE_LABELS: "gpu", keys.NODES: "2"}, "16", "as in gpu=h20,zone=a; found 'gpu'"),
        ({keys.NODE_LABELS: "gpu=h20", keys.NODES: "3"}, "16", "must be a multiple of the number of nodes"),
        ({keys.NODE_LABELS: "gpu=h20", keys.NODES: "two"}, "16", "found '16' and 'two'"),
        ({keys.NODE_LABELS: "gpu=h20"}, "16", "found '16' and ''"),
        ({keys.NODE_LABELS: "gpu=h20", keys.NODES: "2"}, "many", "found 'many' and '2'"),
    ],
)
def test_a_document_whose_quota_cannot_be_read_is_refused(annotations: dict[str, str], capacity: str, words: str):
    document = compose("pool", **GOOD)
    document["metadata"]["annotations"] = annotations
    document["status"]["accelerator"]["capacity"] = capacity
    with pytest.raises(pulumi.RunError, match="InstanceType pool: ") as refused:
        quota_of(document)
    assert words in str(refused.value)
