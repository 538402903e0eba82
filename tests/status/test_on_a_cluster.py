"""The status of replicas that a real Kueue admits, holds back and can never admit."""

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpustack_components.cluster.port import POD, WORKLOAD
from gpustack_components.rollout.contract import Timeouts
from gpustack_components.status.deployed import Observation
from gpustack_components.status.report import report
from gpustack_components.status.text import rows
from gpustack_components.status.timeline import timeline
from tests.rollout.lab import Lab, Role
from tests.status.objects import deployment

pytestmark = pytest.mark.cluster


@pytest.fixture
def lab(kubeconfig: Path, namespace: str) -> Iterator[Lab]:
    lab = Lab(kubeconfig, namespace)
    yield lab
    lab.close()


def observed(lab: Lab) -> Observation:
    pods = lab.unseen.list(POD, lab.namespace).items
    return Observation(pods, lab.unseen.list(WORKLOAD, lab.namespace).items)


def until(lab: Lab, condition: Callable[[Observation], bool], seconds: float = 20) -> Observation:
    end = time.monotonic() + seconds
    while not condition(found := observed(lab)):
        assert time.monotonic() < end, [pod["status"] for pod in found.pods]
        time.sleep(0.1)
    return found


def test_a_waiting_and_a_serving_replica_are_told_apart_in_kueues_own_words(lab: Lab) -> None:
    lab.open_queue(1)
    stop = threading.Event()
    patient = Timeouts(admission=60, ready=20, drain=20, lease=3)
    run = threading.Thread(target=lambda: lab.up(patient, stop=stop, server=Role(replicas=2)))
    run.start()
    try:
        found = until(lab, lambda o: any(r.ready for r in o.replicas()) and len(o.workloads) == 2)
    finally:
        stop.set()
        run.join()
    document = deployment([{"replicas": 2}])
    status = report(document, found)
    assert (status.phase, status.role_summary) == ("Degraded", "1S")
    quota = status.condition("QuotaReserved")
    assert quota is not None
    assert quota.reason == "Pending"
    assert "1 of 2 replicas wait for quota" in quota.message
    assert "insufficient unused quota for nvidia.com/gpu" in quota.message
    waiting = next(row for row in rows(document, found, datetime.now(UTC)) if row.state != "serving")
    assert waiting.state == "waiting"
    assert waiting.hold is not None
    assert waiting.hold.since
    assert "more needed" in waiting.hold.what
    words = [moment.words for moment in timeline(found)]
    assert {"created", "got quota", "admitted", "Ready"} <= set(words)


def test_a_replica_that_can_never_fit_is_told_from_one_that_waits(lab: Lab) -> None:
    lab.open_queue(1)
    stop = threading.Event()
    run = threading.Thread(target=lambda: lab.up(Timeouts(admission=10), stop=stop, server=Role(cards=2)))
    run.start()
    try:
        document = deployment([{}])

        def told(found: Observation) -> bool:
            row = rows(document, found, datetime.now(UTC))[0]
            return row.hold is not None and "quota" in row.hold.what

        (row,) = rows(document, until(lab, told), datetime.now(UTC))
    finally:
        stop.set()
        run.join()
    assert row.state == "never fits"
    assert row.hold is not None
    assert "waiting does not help" in row.hold.release
