"""Which Workloads of a crowded namespace a deployment looks at."""

from gpustack_components.api.names import group_name
from gpustack_components.cluster import keys
from gpustack_components.cluster.port import Json
from gpustack_components.rollout.groups import declared, related
from gpustack_components.rollout.record import Record
from gpustack_components.rollout.slots import Slot


def workload(name: str, *owners: str) -> Json:
    return {"metadata": {"name": name, "ownerReferences": [{"uid": uid} for uid in owners]}}


def test_a_record_names_the_groups_it_declares_and_those_its_slots_remember() -> None:
    roles = [{"name": "server", "replicas": 2}, {"name": "decode"}]
    record = Record("team-a", "qwen", "", {"spec": {"roles": roles}}, slots={"old": Slot("old", 7, "Cleanup")})
    seats = [("server", 0), ("server", 1), ("decode", 0), ("old", 7)]
    assert declared(record) == {group_name("team-a", "qwen", role, ordinal) for role, ordinal in seats}


def test_workloads_of_others_are_left_out_and_none_of_our_own_is() -> None:
    pods = [
        {"metadata": {"uid": "one", "labels": {keys.GROUP_NAME: "of-a-pod"}}},
        {"metadata": {"uid": "two"}},
    ]
    ours = (
        workload("declared"),
        workload("of-a-pod", "gone"),
        workload("named-otherwise", "somebody", "two"),
    )
    theirs = (workload("theirs", "theirs"), workload(""), {"metadata": {"name": "bare"}})
    assert related((*theirs, *ours), pods, {"declared"}) == ours
