"""A rollout through a proxy that loses answers, drops connections, answers 409, 429, 500 and 410, and goes away."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpustack_components.cluster import keys
from gpustack_components.cluster.client import connect
from gpustack_components.cluster.port import CONFIG_MAP
from gpustack_components.cluster.readings import ordinal
from gpustack_components.cluster.retrying import Patience
from gpustack_components.rollout.contract import RolloutRefused, Timeouts
from gpustack_components.rollout.record import record_name
from tests.faults.proxy import FaultProxy
from tests.rollout.lab import EXIT_AFTER, EXIT_CODE, NAME, Lab, Role

pytestmark = pytest.mark.cluster
SHORT = Patience(attempts=2, seconds=2.0)
TIMEOUTS = Timeouts(admission=30, drain=30, ready=30, lease=3)


@pytest.fixture
def proxy(kubeconfig: Path) -> Iterator[FaultProxy]:
    with FaultProxy(kubeconfig) as of:
        yield of


def test_a_lost_answer_to_a_create_doubles_no_replica(lab: Lab, proxy: FaultProxy) -> None:
    lab.open_queue(3)
    proxy.lose("POST */pods?*=Strict", times=2)
    with lab.watching(lambda: len(lab.pods())) as seen:
        outcome = lab.up(server=Role(replicas=3), cluster=connect(proxy.kubeconfig, patience=SHORT), timeouts=TIMEOUTS)
    assert outcome.phase == "Converged", outcome.reasons
    assert max(seen) <= 3 and sorted(number or 0 for number in map(ordinal, lab.pods())) == [0, 1, 2]


UNSEEN = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "message": 'admission webhook "mpod.kb.io" denied the request: Namespace "team-a" not found',
    "reason": "NotFound",
    "details": {"name": "team-a", "kind": "Namespace"},
    "code": 404,
}
"""What Kueue's webhook answers for a moment in a namespace just made, before it has heard of it."""


def test_a_webhook_that_has_not_heard_of_the_namespace_yet_is_asked_again(lab: Lab, proxy: FaultProxy) -> None:
    lab.open_queue(1)
    preflight = proxy.answer("POST */pods?*dryRun=All*", 404, UNSEEN, times=1)
    creation = proxy.answer("POST */pods?*=Strict", 404, UNSEEN, times=2)
    outcome = lab.up(server=Role(), cluster=connect(proxy.kubeconfig, patience=SHORT), timeouts=TIMEOUTS)
    assert outcome.phase == "Converged", outcome.reasons
    assert (preflight.used, creation.used) == (1, 2)
    (failed,) = (line for line in lab.lines if "a request failed, trying again" in line)
    assert "webhook mpod.kb.io does not see yet what it needs when creating Pod" in failed
    assert any("requests succeed again after" in line for line in lab.lines)


def test_a_webhook_that_never_hears_of_the_namespace_is_named_before_anything_is_written(
    lab: Lab, proxy: FaultProxy
) -> None:
    lab.open_queue(1)
    proxy.answer("POST */pods?*dryRun=All*", 404, UNSEEN)
    with pytest.raises(RolloutRefused, match=r"webhook mpod.kb.io does not see yet .*controller running"):
        lab.up(server=Role(), cluster=connect(proxy.kubeconfig, patience=SHORT), timeouts=TIMEOUTS)
    assert lab.unseen.get(CONFIG_MAP, lab.namespace, record_name(NAME)) is None


def test_an_api_server_that_is_away_in_mid_rollout_is_waited_for(lab: Lab, proxy: FaultProxy) -> None:
    lab.open_queue(2)
    slow = {EXIT_AFTER: "2", EXIT_CODE: "0"}
    lab.up(server=Role("v1", replicas=2, annotations=slow))
    outcomes: list[Any] = []
    cluster = connect(proxy.kubeconfig, patience=SHORT)
    run = threading.Thread(
        target=lambda: outcomes.append(
            lab.up(server=Role("v2", replicas=2, annotations=slow), cluster=cluster, timeouts=TIMEOUTS)
        )
    )
    run.start()
    while not any("turning over" in line for line in lab.lines):
        time.sleep(0.02)
    proxy.go_away()
    time.sleep(5)
    proxy.come_back()
    run.join(60)
    assert outcomes and outcomes[0].phase == "Converged", outcomes
    assert any("the API server cannot be reached" in line for line in lab.lines)
    assert any("the API server answers again after" in line for line in lab.lines)
    assert lab.configs() == {0: ["v2"], 1: ["v2"]}


def test_an_api_server_that_stays_away_ends_the_run_and_the_next_one_finishes(lab: Lab, proxy: FaultProxy) -> None:
    lab.open_queue(1)
    lab.up(server=Role("v1"))
    proxy.call("DELETE */pods/*", proxy.go_away)
    brief = Timeouts(admission=2, drain=2, ready=2, lease=0)
    outcome = lab.up(server=Role("v2"), cluster=connect(proxy.kubeconfig, patience=SHORT), timeouts=brief)
    assert outcome.phase == "Incomplete"
    assert any("the API server could not be reached for" in reason for reason in outcome.reasons)
    lab.close_lease()
    assert lab.up(server=Role("v2")).phase == "Converged"


def test_a_record_that_somebody_else_writes_meanwhile_ends_the_run(lab: Lab, proxy: FaultProxy) -> None:
    lab.open_queue(1)
    lab.up(server=Role("v1"))
    proxy.call("PUT */configmaps/*", lambda: lab.scribble(slots={}, phase="Converged", generation=99))
    outcome = lab.up(server=Role("v2"), cluster=connect(proxy.kubeconfig))
    assert outcome.phase == "Incomplete"
    assert "somebody else wrote the record" in outcome.reasons[0]
    assert lab.configs() == {0: ["v1"]}, "nothing may be deleted that is not remembered"


def test_a_mere_annotation_on_the_record_disturbs_nobody(lab: Lab, proxy: FaultProxy) -> None:
    lab.open_queue(1)
    lab.up(server=Role("v1"))
    proxy.call("PUT */configmaps/*", lab.annotate_record)
    outcome = lab.up(server=Role("v2"), cluster=connect(proxy.kubeconfig))
    assert outcome.phase == "Converged", outcome.reasons


def test_a_pod_that_kueue_does_not_take_in_is_no_replica(lab: Lab, proxy: FaultProxy) -> None:
    lab.open_queue(1)
    undecided = {"kind": "Status", "message": 'admission webhook "of.others" does not support dry run', "code": 400}
    proxy.answer("POST */pods?*dryRun=All", 400, body=undecided)
    outcome = lab.up(server=Role(queue=""), cluster=connect(proxy.kubeconfig))
    assert outcome.phase == "Incomplete"
    assert f"no label {keys.MANAGED}" in outcome.reasons[0] and "outside any quota" in outcome.reasons[0]
    lab.until(lambda: not lab.pods())


def test_missing_rights_are_named_before_anything_is_written(lab: Lab, proxy: FaultProxy) -> None:
    lab.open_queue(1)
    denied = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "status": {"allowed": False}}
    proxy.answer("POST */selfsubjectaccessreviews*", 201, body=denied)
    with pytest.raises(RolloutRefused) as refused:
        lab.up(server=Role(), cluster=connect(proxy.kubeconfig))
    denial = f"may not watch, create, patch, delete pods in namespace {lab.namespace}"
    assert any(denial in sentence for sentence in refused.value.sentences)
    assert lab.pods() == []
