"""Parts of the control plane that crash in the middle of a turnover: Kueue and its webhook, API server and its store.

Each run ends converged, or says what it waited for and is completed by the next one; at no moment is a second replica
away, and no seat is ever filled twice.
"""

import time
from collections.abc import Iterator

import pytest

from gpustack_components.cluster.client import connect
from gpustack_components.cluster.port import POD
from gpustack_components.cluster.readings import ordinal, terminal, uid
from gpustack_components.rollout.contract import RolloutRefused, Timeouts
from sandbox.cluster import Sandbox
from tests.e2e.timeline import Timeline
from tests.faults.proxy import FaultProxy
from tests.rollout.lab import EXIT_AFTER, EXIT_CODE, Lab, Role, seconds_waited
from tests.rollout.side_by_side import CPU, open_lab
from tests.rollout.weather import PATIENT, Running

pytestmark = pytest.mark.cluster

REPLICAS = 3
AWAY = 3.0


def role(config: str) -> Role:
    """Three servers that take a second to exit."""
    return Role(config, replicas=REPLICAS, annotations={EXIT_AFTER: "1", EXIT_CODE: "0"}, resource=CPU)


@pytest.fixture
def standing(breakable_sandbox: Sandbox) -> Iterator[Lab]:
    """Three replicas that are about to be turned over."""
    for part in breakable_sandbox.ailing(patience=5):
        breakable_sandbox.restart(part)
    with open_lab(breakable_sandbox.kubeconfig) as lab:
        lab.open_queue(REPLICAS)
        outcome = lab.up(server=role("v1"), timeouts=PATIENT)
        assert outcome.phase == "Converged", outcome.reasons
        yield lab


def judge(lab: Lab, timeline: Timeline) -> None:
    """All replicas are new; on the way one at a time was away, and every seat was filled once before and once after."""
    assert lab.configs() == {number: ["v2"] for number in range(REPLICAS)}
    assert len(lab.workloads()) == REPLICAS
    assert timeline.fewest_admitted("server", after=REPLICAS) >= REPLICAS - 1
    assert timeline.most_on_one_seat() == 1
    assert {seat: len(uids) for seat, uids in timeline.ever_on_each_seat().items()} == {
        ("server", number, 0): 2 for number in range(REPLICAS)
    }


def test_kueue_is_away_while_a_pod_exits_and_the_run_goes_on_when_it_is_back(
    breakable_sandbox: Sandbox, standing: Lab
) -> None:
    with Timeline(standing.unseen, standing.namespace) as timeline:
        running = Running(standing, role("v2"))
        running.says("server/2  turning over")
        breakable_sandbox.kill("kueue")
        leaving = next(pod for pod in standing.pods() if ordinal(pod) == 2)
        standing.until(lambda: terminal(next(pod for pod in standing.pods() if uid(pod) == uid(leaving))))
        time.sleep(AWAY)
        assert uid(leaving) in {uid(pod) for pod in standing.pods()}, "only Kueue lets go of it"
        breakable_sandbox.restart("kueue")
        outcome = running.end()
    assert outcome.phase == "Converged", outcome.reasons
    judge(standing, timeline)


def test_kueue_stays_away_and_the_run_names_what_it_waits_for(breakable_sandbox: Sandbox, standing: Lab) -> None:
    with Timeline(standing.unseen, standing.namespace) as timeline:
        brief = {"timeouts": Timeouts(admission=3, drain=3, ready=5, lease=5)}
        running = Running(standing, role("v2"), brief)
        running.says("server/2  turning over")
        breakable_sandbox.kill("kueue")
        outcome = running.end()
        assert outcome.phase == "Incomplete"
        (reason,) = outcome.reasons
        assert (
            "server/2: after " in reason
            and seconds_waited(reason) >= 3
            and "it still waits for Kueue to release Pod" in reason
        )
        assert "Is Kueue's controller running?" in reason and "kubectl -n" in reason
        breakable_sandbox.restart("kueue")
        resumed = standing.up(server=role("v2"), timeouts=PATIENT)
    assert resumed.phase == "Converged", resumed.reasons
    judge(standing, timeline)


def test_a_webhook_that_does_not_answer_refuses_a_run_before_its_first_write(
    breakable_sandbox: Sandbox, standing: Lab
) -> None:
    before = {uid(pod) for pod in standing.pods()}
    breakable_sandbox.kill("kueue")
    try:
        with pytest.raises(RolloutRefused, match=r"Admission webhook mpod.kb.io did not answer .*controller running\?"):
            standing.up(server=role("v2"), timeouts=PATIENT)
    finally:
        breakable_sandbox.restart("kueue")
    assert {uid(pod) for pod in standing.pods()} == before


def test_a_webhook_that_does_not_answer_is_named_and_creation_tried_again(
    breakable_sandbox: Sandbox, standing: Lab
) -> None:
    """Kueue crashes the moment the new Pod is about to be created."""
    lab = standing
    with Timeline(lab.unseen, lab.namespace) as timeline, FaultProxy(lab.kubeconfig) as proxy:
        running = Running(lab, role("v2"), {"cluster": connect(proxy.kubeconfig)})
        running.says("server/2  turning over")
        proxy.call("POST */pods*", lambda: breakable_sandbox.kill("kueue"))
        running.says("did not answer when creating Pod")
        time.sleep(AWAY)
        assert 2 not in lab.configs(), "nothing is created past the webhook"
        breakable_sandbox.restart("kueue")
        outcome = running.end()
    assert outcome.phase == "Converged", outcome.reasons
    judge(lab, timeline)


@pytest.mark.parametrize("part", ["kube-apiserver", "etcd"])
def test_the_api_server_or_its_store_crashes_in_the_middle_of_a_turnover(
    breakable_sandbox: Sandbox, standing: Lab, part: str
) -> None:
    running = Running(standing, role("v2"))
    running.says("server/2  turning over")
    before = {uid(pod): ordinal(pod) for pod in standing.pods() if ordinal(pod) != 2}
    breakable_sandbox.kill(part)
    if part == "kube-apiserver":
        running.says("the API server cannot be reached, trying again")
    time.sleep(AWAY)
    breakable_sandbox.restart(part)
    with Timeline(standing.unseen, standing.namespace) as timeline:
        outcome = running.end()
    assert outcome.phase == "Converged", outcome.reasons
    if part == "kube-apiserver":
        assert any("the API server answers again after" in line for line in standing.lines)
    assert standing.configs() == {number: ["v2"] for number in range(REPLICAS)}
    assert len(standing.workloads()) == REPLICAS and len(standing.unseen.list(POD, standing.namespace).items) == 3
    assert timeline.most_on_one_seat() == 1
    for number in range(REPLICAS):
        assert len(timeline.ever_on_each_seat()["server", number, 0] - before.keys()) == 1
