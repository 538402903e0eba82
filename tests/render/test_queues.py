"""Kueue objects of an InstanceType: a queue that covers whatever its Pods request (bindings sheet 1.4, kueue-facts
1)."""

from typing import Any

import pytest

from gpustack_components.api.quantity import Quantity
from gpustack_components.render.objects import local_queues, render_all
from gpustack_components.render.queues import instance_type_objects, local_queue
from tests.render import build

Json = dict[str, Any]
LABELS = {"gpu": "h20"}


def quotas(queue: Json) -> dict[str, str]:
    (group,) = queue["spec"]["resourceGroups"]
    (flavor,) = group["flavors"]
    assert [resource["name"] for resource in flavor["resources"]] == group["coveredResources"]
    return {resource["name"]: resource["nominalQuota"] for resource in flavor["resources"]}


def test_a_local_queue_leads_to_the_types_cluster_queue_and_records_its_name() -> None:
    assert local_queue(build.instance_type(), "team-a") == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {
            "name": "gpustack-fnv64-a5858ac7f29544c0",
            "namespace": "team-a",
            "annotations": {"schedule.gpustack.ai/queue": "h20-8x"},
        },
        "spec": {"clusterQueue": "h20-8x"},
    }


def test_a_published_entrance_names_the_local_queue() -> None:
    queue = local_queue(build.instance_type(status={"entrance": "queue-for-h20-8x"}), "team-a")
    assert queue["metadata"]["name"] == "queue-for-h20-8x"
    assert queue["spec"]["clusterQueue"] == "h20-8x"


def test_flavor_and_queue_stand_for_the_nodes() -> None:
    flavor, queue = instance_type_objects(build.instance_type(), nodes=2, cards_per_node=8, node_labels=LABELS)
    assert flavor == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "h20-8x"},
        "spec": {"nodeLabels": LABELS},
    }
    assert queue["metadata"]["name"] == "h20-8x"
    assert queue["spec"]["queueingStrategy"] == "BestEffortFIFO"
    assert queue["spec"]["namespaceSelector"] == {}
    assert queue["spec"]["stopPolicy"] == "None"
    assert quotas(queue)["nvidia.com/gpu"] == "16"
    assert quotas(queue)["cpu"] == "256"
    assert quotas(queue)["memory"] == "1Ti"


def test_an_inactive_type_holds_its_queue() -> None:
    _, queue = instance_type_objects(
        build.instance_type(spec={"inactive": True}), nodes=1, cards_per_node=1, node_labels=LABELS
    )
    assert queue["spec"]["stopPolicy"] == "Hold"


def test_required_levels_need_a_topology_on_the_flavor() -> None:
    taint: Json = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    flavor, _ = instance_type_objects(
        build.instance_type(), nodes=1, cards_per_node=1, node_labels=LABELS, topology_name="racks", tolerations=[taint]
    )
    assert flavor["spec"]["topologyName"] == "racks"
    assert flavor["spec"]["tolerations"] == [taint]


@pytest.mark.parametrize("overcommit", [True, False])
@pytest.mark.parametrize("operator", [True, False])
@pytest.mark.parametrize(
    ("role", "queue_options"),
    [
        ({"resources": {"accelerator": 8}}, {}),
        ({"resources": {"accelerator": 0}}, {}),
        ({"resources": {"accelerator": 1, "acceleratorSlicedMemoryPercentage": 50}}, {}),
        ({"resources": {"accelerator": 1, "acceleratorPartitionedProfile": "3g.40gb"}}, {}),
        ({"resources": {"accelerator": 1, "interface": 2}}, {"interfaces": {"device.gpustack.ai/rdma": 16}}),
    ],
    ids=["cards", "none", "slice", "partition", "interfaces"],
)
def test_every_resource_a_pod_requests_is_covered_and_fits(
    role: Json, queue_options: Json, operator: bool, overcommit: bool
) -> None:
    kind = build.instance_type()
    document = build.deployment(roles=[role], kvCache={"poolRef": {"name": "cache"}})
    settings = {"instance-general-resources-overcommit": overcommit}
    pod = build.pod(document, [kind, *build.store(protocol="RDMA")], settings=settings, operator_present=operator)
    _, queue = instance_type_objects(kind, nodes=2, cards_per_node=8, node_labels=LABELS, **queue_options)
    covered = quotas(queue)
    for key, requested in build.main(pod)["resources"]["requests"].items():
        assert Quantity(requested) <= Quantity(covered[key]), key


def test_slices_are_covered_as_the_type_offers_them_unless_told_otherwise() -> None:
    def sliced(count: int, slices: bool | None = None) -> bool:
        kind = build.instance_type(status={"detail": {"slicedDetail": {"logical": {"count": count}}}})
        _, queue = instance_type_objects(kind, nodes=1, cards_per_node=8, node_labels=LABELS, slices=slices)
        return "nvidia.com/gpu.sliced.memory-percentage" in quotas(queue)

    assert (sliced(16), sliced(0), sliced(16, False), sliced(0, True)) == (True, False, False, True)


def test_a_cpu_type_is_queued_by_its_units() -> None:
    _, queue = instance_type_objects(
        build.instance_type(manufacturer=""), nodes=3, cards_per_node=32, node_labels=LABELS
    )
    assert quotas(queue) == {"cpu": "96", "memory": "192Gi", "ephemeral-storage": "1536Gi"}


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({}, {"nodes": 0}, ["h20-8x", "at least 1"]),
        ({}, {"node_labels": {}}, ["h20-8x", "node labels"]),
        ({"status": {"detail": {"manufacturer": ""}}}, {}, ["h20-8x", "manufacturer"]),
        ({"spec": {"unitResources": {"ram": "64GB"}}}, {}, ["h20-8x", "unitResources.ram", "64GB"]),
    ],
)
def test_a_type_that_cannot_be_queued_says_why(change: Json, options: Json, words: list[str]) -> None:
    arguments: Json = {"nodes": 1, "cards_per_node": 8, "node_labels": LABELS, **options}
    with pytest.raises(ValueError) as caught:
        instance_type_objects(build.instance_type(**change), **arguments)
    assert all(word in str(caught.value) for word in words)


def test_roles_on_one_type_share_a_local_queue() -> None:
    found = build.resolved(build.deployment(roles=build.pair()))
    assert [queue["metadata"]["name"] for queue in local_queues(found)] == ["gpustack-fnv64-a5858ac7f29544c0"]


def test_objects_come_in_the_order_to_apply_them() -> None:
    found = build.resolved(build.deployment(roles=[{"size": 2, "replicas": 2}, {"name": "other"}]))
    named = [f"{o['kind']} {o['metadata'].get('name', o['metadata'].get('generateName'))}" for o in render_all(found)]
    assert named == [
        "LocalQueue gpustack-fnv64-a5858ac7f29544c0",
        "Service qwen",
        "Service qwen-server",
        "Service qwen-other",
        "Service qwen-server-r0",
        "Pod qwen-server-r0-m0",
        "Pod qwen-server-r0-m1",
        "Service qwen-server-r1",
        "Pod qwen-server-r1-m0",
        "Pod qwen-server-r1-m1",
        "Pod qwen-other-",
    ]
