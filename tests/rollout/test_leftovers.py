"""What a killed run, a deleted namespace or a person leaves behind, and what the next run makes of it."""

import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import CONFIG_MAP, LEASE, NAMESPACE, POD
from gpustack_components.cluster.readings import annotation
from gpustack_components.rollout.contract import SystemClock
from gpustack_components.rollout.lease import DriverLease
from gpustack_components.rollout.liveness import Holder
from gpustack_components.rollout.record import record_name
from tests.rollout.lab import EXIT_AFTER, NAME, Lab, Role

pytestmark = pytest.mark.cluster


def test_a_lease_that_a_killed_run_left_is_removed_by_the_next_one_and_a_live_one_is_left_alone(lab: Lab) -> None:
    lab.open_queue(1)
    lab.up(server=Role())
    here = Holder.here("a run before")
    killed, elsewhere = replace(here, started="1"), replace(here, machine="elsewhere")
    assert DriverLease(lab.unseen, lab.namespace, record_name(NAME), killed, SystemClock()).acquire() is None

    lab.requests.clear()
    cleared = lab.up(server=Role())
    assert cleared.phase == "Converged" and cleared.wrote
    assert lab.unseen.get(LEASE, lab.namespace, record_name(NAME)) is None
    writes = [one for one in lab.writes() if not one.startswith("create")]
    assert writes == [f"{verb} Lease {lab.namespace}/{record_name(NAME)}" for verb in ("update", "delete")]

    assert DriverLease(lab.unseen, lab.namespace, record_name(NAME), elsewhere, SystemClock()).acquire() is None
    unblocked = lab.up(server=Role())
    assert unblocked.phase == "Converged" and not unblocked.wrote
    assert lab.unseen.get(LEASE, lab.namespace, record_name(NAME)) is not None
    lab.close_lease()


def test_a_deployment_is_removed_from_a_namespace_that_is_being_deleted(kubeconfig: Path) -> None:
    lab = Lab(kubeconfig, f"leaving-{uuid.uuid4().hex[:8]}")
    lab.unseen.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": lab.namespace}})
    try:
        lab.open_queue(2)
        lab.until(lambda: lab.up(server=Role(replicas=2, annotations={EXIT_AFTER: "2"})).phase == "Converged")
        lab.unseen.delete(NAMESPACE, None, lab.namespace)
        gone = lab.down()
        assert gone.phase == "Deleted", gone.reasons
        lab.until(lambda: lab.unseen.get(NAMESPACE, None, lab.namespace) is None, 60)
    finally:
        lab.close()


def test_the_record_says_what_its_deletion_means(lab: Lab) -> None:
    lab.open_queue(1)
    lab.up(server=Role())
    record = lab.unseen.get(CONFIG_MAP, lab.namespace, record_name(NAME))
    assert record is not None
    assert "deleting it deletes them" in (annotation(record, keys.DESCRIPTION) or "")
    (pod,) = lab.unseen.list(POD, lab.namespace).items
    assert [owner["uid"] for owner in pod["metadata"]["ownerReferences"]] == [record["metadata"]["uid"]]
