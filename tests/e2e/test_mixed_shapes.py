"""Who is reached while the replicas of a role differ in shape: each by what it was created as (rollout sheet 5.3)."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import CLUSTER_QUEUE, ENDPOINT_SLICE, SERVICE, Json
from gpustack_components.cluster.readings import at, each, label, member_index, ordinal, uid
from tests.e2e.case import Case

pytestmark = pytest.mark.engine

NewCase = Callable[..., Case]
EXTERNAL = ["--data-parallel-size=2", "--data-parallel-rank=$(GPUSTACK_MEMBER_INDEX)"]
FRONTS = ("qwen", "qwen-server")


def selector(case: Case, service: str) -> dict[str, str]:
    """What a Service selects by, beyond the deployment and the role."""
    found: dict[str, str] = at(case.cluster.get(SERVICE, case.namespace, service), "spec", "selector")
    return {key: value for key, value in found.items() if not key.startswith("app.kubernetes.io/")}


def reached(case: Case, service: str) -> set[tuple[int, int]]:
    """Ordinal and member of every Pod that gets requests through a Service."""
    seats = {uid(pod): (ordinal(pod) or 0, member_index(pod) or 0) for pod in case.pods()}

    def endpoints() -> Iterator[Json]:
        for one in case.cluster.list(ENDPOINT_SLICE, case.namespace, f"kubernetes.io/service-name={service}").items:
            yield from each(one, "endpoints")

    return {seats[str(at(one, "targetRef", "uid"))] for one in endpoints() if at(one, "conditions", "ready")}


def comes_to(wanted: set[tuple[int, int]], case: Case, service: str) -> None:
    """The endpoints of a Service become these; they follow a write within a moment."""
    end = time.monotonic() + 20
    while (found := reached(case, service)) != wanted and time.monotonic() < end:
        time.sleep(0.1)
    assert found == wanted


LEADERS, RANKS = {"size": 2, "extraArgs": []}, {"size": 2, "extraArgs": EXTERNAL}
BY_LABEL, BY_LEADER = {keys.API_ANSWERING: "true"}, {keys.MEMBER_INDEX: "0"}


@pytest.mark.parametrize(
    ("old", "new", "cards", "between", "among", "after"),
    [
        (LEADERS, RANKS, (8, 2), BY_LABEL, {(2, 0), (2, 1), (0, 0)}, {}),
        (RANKS, LEADERS, (8, 2), BY_LABEL, {(2, 0), (0, 0), (0, 1)}, BY_LEADER),
        (LEADERS, {"size": 1}, (7, 3), BY_LEADER, {(2, 0), (0, 0)}, {}),
    ],
    ids=["a leader's group becomes ranks", "ranks become a leader's group", "a group becomes one Pod"],
)
def test_each_replica_is_reached_by_its_own_shape_and_services_are_as_declared_in_the_end(
    new_case: NewCase,
    old: Json,
    new: Json,
    cards: tuple[int, int],
    between: dict[str, str],
    among: set[tuple[int, int]],
    after: dict[str, str],
) -> None:
    quota, each_pod = cards
    case = new_case(cards=quota)
    case.change(timeouts={"admission": "60s", "ready": "60s", "drain": "60s"})
    case.deploy(case.role(3, **old))
    case.stack.up().expect(0)

    case.change(timeouts={"admission": "6s", "ready": "60s", "drain": "60s"})
    case.edit(**new, resources={"accelerator": each_pod})
    stuck = case.stack.up()
    assert stuck.code != 0 and "insufficient unused quota" in stuck.output, "one new replica fits beside two old ones"
    for service in FRONTS:
        assert selector(case, service) == between
        comes_to(among, case, service)

    case.change(timeouts={"admission": "60s", "ready": "60s", "drain": "60s"})
    case.edit(resources={"accelerator": 1})
    resumed = case.stack.up().expect(0)
    assert "Service qwen-server selects what it declares" in resumed.output
    answering = {(number, index) for number in range(3) for index in range(1 if new["size"] == 1 or after else 2)}
    for service in FRONTS:
        assert selector(case, service) == after
        comes_to(answering, case, service)
    case.stack.up("--expect-no-changes").expect(0)

    case.edit(**old)
    case.stack.preview().expect(0)
    case.stack.up().expect(0)
    assert selector(case, "qwen") == ({} if old is RANKS else BY_LEADER), "Pulumi can still change what a rollout wrote"


@contextmanager
def recorded(case: Case) -> Iterator[dict[str, Json]]:
    """Every Pod that ever got requests through one of the Services while the block runs, by uid."""
    pods: dict[str, Json] = {}
    found: set[str] = set()
    done = threading.Event()

    def record() -> None:
        while not done.is_set():
            pods.update({uid(pod): pod for pod in case.pods()})
            for one in case.cluster.list(ENDPOINT_SLICE, case.namespace, "kubernetes.io/service-name").items:
                if label(one, "kubernetes.io/service-name") in FRONTS:
                    ready = (end for end in each(one, "endpoints") if at(end, "conditions", "ready"))
                    found.update(str(at(end, "targetRef", "uid")) for end in ready)
            done.wait(0.03)

    thread = threading.Thread(target=record, daemon=True)
    thread.start()
    seen: dict[str, Json] = {}
    yield seen
    done.set()
    thread.join(10)
    seen.update({one: pods[one] for one in found})


def test_nobody_who_does_not_answer_is_reached_at_any_moment_of_an_edit_also_of_one_that_is_refused(
    new_case: NewCase,
) -> None:
    case = new_case(cards=4)
    case.deploy(case.role(2, size=2))
    case.stack.up().expect(0)
    with recorded(case) as reached_ever:
        case.edit(size=1)
        case.cluster.patch(CLUSTER_QUEUE, None, case.pool, [{"op": "add", "path": "/spec/stopPolicy", "value": "Hold"}])
        refused = case.stack.up()
        assert refused.code != 0 and "is stopped" in refused.output
        assert selector(case, "qwen") == selector(case, "qwen-server") == BY_LEADER
        case.cluster.patch(CLUSTER_QUEUE, None, case.pool, [{"op": "remove", "path": "/spec/stopPolicy"}])
        case.stack.up().expect(0)
        comes_to({(0, 0), (1, 0)}, case, "qwen")
    assert selector(case, "qwen") == selector(case, "qwen-server") == {}
    assert len(reached_ever) == 4, "two replicas before, two after"
    assert all(member_index(pod) == 0 for pod in reached_ever.values())


def test_a_service_of_somebody_else_is_an_error_and_left_alone(new_case: NewCase) -> None:
    case = new_case(cards=2)
    case.save()
    case.stack.up().expect(0)
    spec = {"selector": {"app": "billing"}, "ports": [{"name": "http", "port": 8000, "targetPort": 9999}]}
    metadata = {"name": "qwen", "namespace": case.namespace}
    theirs = case.cluster.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    case.deploy(case.role(1))
    run = case.stack.up()
    assert run.code != 0 and "conflict" in run.output
    found = case.cluster.get(SERVICE, case.namespace, "qwen")
    assert found is not None and found["spec"] == theirs["spec"]
    assert case.pods() == []
    case.cluster.delete(SERVICE, case.namespace, "qwen")
    case.stack.up().expect(0)
