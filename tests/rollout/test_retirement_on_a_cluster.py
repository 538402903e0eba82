"""A replica that serves leaves a real cluster: out of the Service, drained, deleted; killed half-way and resumed."""

import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gpustack_components.api.names import role_service
from gpustack_components.cluster import keys
from gpustack_components.cluster.client import connect
from gpustack_components.cluster.port import CONFIG_MAP, ENDPOINT_SLICE, Json
from gpustack_components.cluster.readings import at, each, label, ordinal, terminating, uid
from gpustack_components.rollout.contract import Timeouts, Wanted
from gpustack_components.rollout.converge import converge
from gpustack_components.rollout.desired import Protocol
from gpustack_components.rollout.record import Record, record_name
from tests.faults.proxy import FaultProxy
from tests.rollout.lab import EXIT_CODE, NAME, Lab, Role, wanted

pytestmark = pytest.mark.cluster
TIMEOUTS = Timeouts(admission=30, drain=30, ready=30, lease=3)
METRICS = "GET */pods/*/proxy/metrics"
ENGINE = {keys.PROMETHEUS_PORT: "8000", EXIT_CODE: "0"}
STATES = ["Admitted", "Disqualified", "Withdrawing", "Draining", "Deleting", "Settling", ""]


def metrics(running: int) -> bytes:
    """What a vLLM engine reports."""
    return f"# HELP\nvllm:num_requests_running {running}\nvllm:num_requests_waiting 0\n".encode()


def asked(namespace: str, replicas: int, *, protocol: bool = True, retry: str = "") -> Wanted:
    """One role of that many replicas, under the protocol or not."""
    of = wanted(namespace, {"server": Role(replicas=replicas, annotations=ENGINE, resource="cpu")})
    return replace(of, desired=replace(of.desired, engine="vLLM", protocol=Protocol(retry=retry) if protocol else None))


@pytest.fixture
def lab(kubeconfig: Path, namespace: str) -> Iterator[Lab]:
    of = Lab(kubeconfig, namespace, resource="cpu")
    of.open_queue(3)
    yield of
    of.close()


@pytest.fixture
def proxy(kubeconfig: Path) -> Iterator[FaultProxy]:
    with FaultProxy(kubeconfig) as of:
        yield of


class Follower:
    """Every state of the retirement that the record ever held."""

    def __init__(self, lab: Lab) -> None:
        self.states: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, args=(lab,), daemon=True)
        self._thread.start()

    def _follow(self, lab: Lab) -> None:
        listing = lab.unseen.list(CONFIG_MAP, lab.namespace)
        changes = lab.unseen.watch(
            CONFIG_MAP, lab.namespace, resource_version=listing.resource_version, stop=self._stop
        )
        for event in changes:
            if at(event.object, "metadata", "name") == record_name(NAME) and event.type != "DELETED":
                state = at(json.loads(event.object["data"]["state"]), "retirement", "state") or ""
                if state != (self.states or [""])[-1]:
                    self.states.append(state)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(5)


def front(lab: Lab) -> None:
    """The role's Service, as a program makes it where qualification is on."""
    labels = {keys.APP_NAME: keys.APP_NAME_VALUE, keys.APP_INSTANCE: NAME}
    selector = {**labels, keys.APP_COMPONENT: "server", keys.ENDPOINT_ELIGIBLE: "true"}
    lab.unseen.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": role_service(NAME, "server"), "namespace": lab.namespace, "labels": labels},
            "spec": {"selector": selector, "ports": [{"port": 8000}]},
        }
    )


def listed_by_hand(lab: Lab, pod_uid: str) -> None:
    """A list of the Service's endpoints that nobody keeps up to date."""
    service = {"kubernetes.io/service-name": role_service(NAME, "server")}
    labels = {keys.APP_NAME: keys.APP_NAME_VALUE, keys.APP_INSTANCE: NAME, **service}
    reference = {"kind": "Pod", "namespace": lab.namespace, "name": "whatever", "uid": pod_uid}
    lab.unseen.create(
        {
            "apiVersion": ENDPOINT_SLICE.api_version,
            "kind": ENDPOINT_SLICE.kind,
            "metadata": {"name": "by-hand", "namespace": lab.namespace, "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"], "targetRef": reference}],
            "ports": [{"port": 8000}],
        }
    )


def served(lab: Lab) -> set[str]:
    """Uids of the Pods that the Service leads to."""
    endpoints = [
        one for item in lab.unseen.list(ENDPOINT_SLICE, lab.namespace).items for one in each(item, "endpoints")
    ]
    return {at(one, "targetRef", "uid") for one in endpoints if at(one, "conditions", "ready")}


def retirement(lab: Lab) -> Json:
    stored = lab.unseen.get(CONFIG_MAP, lab.namespace, record_name(NAME))
    found = Record.from_object(stored).retirement if stored else None
    return found.to_json() if found else {}


def labelled(lab: Lab) -> Mapping[int | None, str | None]:
    return {ordinal(pod): label(pod, keys.ENDPOINT_ELIGIBLE) for pod in lab.pods()}


def _run_in_a_process(kubeconfig: str, namespace: str, replicas: int) -> None:
    outcome = converge(connect(kubeconfig), asked(namespace, replicas), timeouts=TIMEOUTS)
    os._exit(0 if outcome.phase == "Converged" else 3)


def test_a_replica_is_withdrawn_and_drained_before_it_is_deleted_also_when_its_driver_is_killed(
    lab: Lab, proxy: FaultProxy
) -> None:
    front(lab)
    first = converge(lab.cluster, asked(lab.namespace, 3), timeouts=TIMEOUTS)
    assert first.phase == "Converged", first.reasons
    assert labelled(lab) == {0: "true", 1: "true", 2: "true"}
    before = {ordinal(pod): uid(pod) for pod in lab.pods()}
    lab.until(lambda: served(lab) == set(before.values()))

    busy = proxy.answer(METRICS, 200, metrics(running=3))
    states = Follower(lab)
    driver = multiprocessing.get_context("fork").Process(
        target=_run_in_a_process, args=(proxy.kubeconfig, lab.namespace, 2)
    )
    driver.start()
    lab.until(lambda: busy.used >= 2, 40)
    assert retirement(lab) | {"state": "Draining"} == retirement(lab)
    assert retirement(lab)["targetMemberUIDs"] == [before[2]] and "Busy" in retirement(lab)["reason"]
    assert labelled(lab) == {0: "true", 1: "true", 2: None}
    assert served(lab) == {before[0], before[1]}
    assert not [pod for pod in lab.pods() if terminating(pod)], "it is kept while its engine is busy"
    assert driver.pid is not None
    os.kill(driver.pid, signal.SIGKILL)
    driver.join()

    reads = busy.used
    lines: list[str] = []
    proxy.clear()
    proxy.answer(METRICS, 200, metrics(running=3), times=1)
    idle = proxy.answer(METRICS, 200, metrics(running=0))
    resumed = converge(connect(proxy.kubeconfig), asked(lab.namespace, 2), timeouts=TIMEOUTS, progress=lines.append)
    assert resumed.phase == "Converged", resumed.reasons
    assert reads >= 2 and idle.used == 2, "it is deleted on the second idle read in a row"
    lab.until(lambda: states.states[-1:] == [""])
    states.close()
    assert states.states == STATES
    assert {ordinal(pod): uid(pod) for pod in lab.pods()} == {0: before[0], 1: before[1]}
    assert len(lab.workloads()) == 2 and not retirement(lab)
    assert [line for line in lines if "server/2  retirement Completed" in line], lines

    lab.requests.clear()
    again = converge(lab.cluster, asked(lab.namespace, 2), timeouts=TIMEOUTS)
    assert again.phase == "Converged" and lab.writes() == [], "nothing is left to do"

    asked_before = proxy.count(METRICS)
    plain = converge(connect(proxy.kubeconfig), asked(lab.namespace, 1, protocol=False), timeouts=TIMEOUTS)
    assert plain.phase == "Converged", plain.reasons
    assert proxy.count(METRICS) == asked_before, "without the setting nobody is asked"
    assert [ordinal(pod) for pod in lab.pods()] == [0]


def test_a_replica_that_cannot_be_withdrawn_in_time_is_kept_until_a_person_has_it_tried_again(
    lab: Lab, proxy: FaultProxy
) -> None:
    front(lab)
    first = converge(lab.cluster, asked(lab.namespace, 2), timeouts=TIMEOUTS)
    assert first.phase == "Converged", first.reasons
    before = {ordinal(pod): uid(pod) for pod in lab.pods()}
    listed_by_hand(lab, before[1])

    kept = converge(lab.cluster, asked(lab.namespace, 1), timeouts=TIMEOUTS)
    assert kept.phase == "Incomplete"
    (reason,) = kept.reasons
    assert "its retirement was aborted and it keeps running" in reason
    assert f"StillServed: Service {role_service(NAME, 'server')} still leads to it" in reason
    assert {ordinal(pod): uid(pod) for pod in lab.pods()} == before
    assert labelled(lab) == {0: "true", 1: None}, "it stays out of selection"
    again = converge(lab.cluster, asked(lab.namespace, 1), timeouts=TIMEOUTS)
    assert again.phase == "Incomplete" and again.reasons == kept.reasons, "nothing is tried again by itself"

    lab.unseen.delete(ENDPOINT_SLICE, lab.namespace, "by-hand")
    proxy.answer(METRICS, 200, metrics(running=0))
    tried = converge(connect(proxy.kubeconfig), asked(lab.namespace, 1, retry="server:1:second-try"), timeouts=TIMEOUTS)
    assert tried.phase == "Converged", tried.reasons
    assert {ordinal(pod): uid(pod) for pod in lab.pods()} == {0: before[0]}
    assert not retirement(lab)
