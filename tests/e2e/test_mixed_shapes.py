"""Who is reached while the replicas of a role differ in shape: each by what it was created as (rollout sheet 5.3)."""

import time
from collections.abc import Callable, Iterator

import pytest

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import ENDPOINT_SLICE, SERVICE, Json
from gpustack_components.cluster.readings import at, each, member_index, ordinal, uid
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
BY_LABEL, BY_LEADER = {keys.ENDPOINT_ELIGIBLE: "true"}, {keys.MEMBER_INDEX: "0"}


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
    case.change(timeouts={"admission": "3s", "ready": "60s", "drain": "60s"})
    case.deploy(case.role(3, **old))
    case.stack.up().expect(0)

    case.edit(**new, resources={"accelerator": each_pod})
    stuck = case.stack.up()
    assert stuck.code != 0 and "insufficient unused quota" in stuck.output, "one new replica fits beside two old ones"
    for service in FRONTS:
        assert selector(case, service) == between
        comes_to(among, case, service)

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
