"""The real executor retires replicas of a simulated cluster, killed anywhere, with engines that are busy or odd."""

import json
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpustack_components.api.names import role_service
from gpustack_components.cluster import keys
from gpustack_components.cluster.port import (
    CONFIG_MAP,
    ENDPOINT_SLICE,
    SERVICE,
    Forbidden,
    Json,
    Kind,
    Listing,
    Unreachable,
)
from gpustack_components.cluster.readings import annotation, at, label, name, ordinal, ready, role, terminating, uid
from gpustack_components.rollout.contract import Outcome, RolloutRefused, Timeouts
from gpustack_components.rollout.converge import converge, teardown
from gpustack_components.rollout.desired import Protocol
from gpustack_components.rollout.record import Record, record_name
from tests.rollout.lab import NAME, OWNER, Role, wanted
from tests.rollout.simulation.clock import SimulatedClock
from tests.rollout.simulation.cluster import SimulatedCluster
from tests.rollout.simulation.view import SimulatedView

NAMESPACE = "team-a"
TIMEOUTS = Timeouts(admission=60, drain=60, ready=60, lease=0)
IDLE = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"
BUSY = "vllm:num_requests_running 2\nvllm:num_requests_waiting 0\n"
ENGINE = {keys.PROMETHEUS_PORT: "8000"}


class Killed(BaseException):
    """The driver's process died."""


class Serving(SimulatedCluster):
    """A simulated cluster whose Pods answer, behind Services that select by the label."""

    def __init__(self) -> None:
        super().__init__(SimulatedClock(), 100)
        self.answers: dict[str, list[str]] = {}
        """What the engines of a role's ordinal report next, `role/ordinal`; the last for ever, idle without any."""
        self.reads = 0
        self.stale_endpoints: set[str] = set()
        """Uids that the endpoints never let go of."""
        self.operations: list[Json] = []
        """Every retirement the record held, one entry per change."""
        self.last_read: dict[str, str] = {}
        self.protocol = True
        self.on_change = self._judge

    def read_pod(self, namespace: str, name: str, port: int, path: str, *, scheme: str = "http") -> str:
        self.reads += 1
        pod = self.objects["Pod", name]
        left = self.answers.get(f"{role(pod)}/{ordinal(pod)}", [])
        text = left.pop(0) if len(left) > 1 else left[0] if left else IDLE
        self.last_read[name] = text
        if text == "away":
            raise Unreachable("no answer")
        return text

    def get(self, kind: Kind, namespace: str | None, name: str) -> Json | None:
        if kind is SERVICE and not name.startswith(f"{NAME}-server-r"):
            return {"spec": {"selector": {keys.ENDPOINT_ELIGIBLE: "true"}}}
        return super().get(kind, namespace, name)

    def list(self, kind: Kind, namespace: str | None, selector: str = "", *, field_selector: str = "") -> Listing:
        if kind is not ENDPOINT_SLICE:
            return super().list(kind, namespace, selector, field_selector=field_selector)
        slices = [
            {
                "metadata": {"labels": {"kubernetes.io/service-name": role_service(NAME, role(pod) or "")}},
                "endpoints": [{"targetRef": {"uid": uid(pod)}, "conditions": {"ready": True}}],
            }
            for pod in self.pods()
            if (label(pod, keys.ENDPOINT_ELIGIBLE) and ready(pod)) or uid(pod) in self.stale_endpoints
        ]
        return Listing(tuple(slices), str(self.version))

    def retirement(self) -> Json:
        """What the record says of it."""
        stored = self.objects.get((CONFIG_MAP.kind, record_name(NAME)))
        return (at(json.loads(stored["data"]["state"]), "retirement") or {}) if stored else {}

    def _judge(self, obj: Json) -> None:
        if obj["kind"] == CONFIG_MAP.kind and self.retirement() != (self.operations or [{}])[-1]:
            before, now = (self.operations or [{}])[-1], self.retirement()
            if before and now:
                assert now["targetMemberUIDs"] == before["targetMemberUIDs"], "one operation after another"
            self.operations.append(now)
        if obj["kind"] == "Pod" and terminating(obj) and self.protocol and at(obj, "spec", "nodeName"):
            if at(obj, "status", "phase") != "Running":
                return
            record = self.retirement()
            assert record.get("state") == "Deleting" and uid(obj) in record["targetMemberUIDs"], record
            assert label(obj, keys.ENDPOINT_ELIGIBLE) is None, "it left the selection before"
            answering = int(label(obj, keys.MEMBER_INDEX) or 0) == 0
            assert not answering or self.last_read[name(obj)] == IDLE, "it was idle when it was last asked"


class Mortal:
    """A cluster whose driver dies at its k-th request."""

    def __init__(self, cluster: Serving, calls: int | None) -> None:
        self._cluster, self._calls = cluster, calls

    def __getattr__(self, verb: str) -> Any:
        whole = getattr(self._cluster, verb)

        def call(*args: Any, **kwargs: Any) -> Any:
            if self._calls is not None:
                self._calls -= 1
                if self._calls < 0:
                    raise Killed
            answer = whole(*args, **kwargs)
            if self._calls == 0:
                raise Killed
            return answer

        return call


def run(
    cluster: Serving,
    chance: Random,
    roles: Mapping[str, Role],
    *,
    dies_after: int | None = None,
    timeouts: Timeouts = TIMEOUTS,
    **more: Any,
) -> tuple[Outcome | None, list[str]]:
    """One run of the driver; no outcome when its process died."""
    lines: list[str] = []
    of = wanted(NAMESPACE, {key: replace(role_, annotations=ENGINE) for key, role_ in roles.items()})
    protocol = Protocol(**more) if cluster.protocol else None
    of = replace(of, desired=replace(of.desired, engine="vLLM", protocol=protocol))
    mortal: Any = Mortal(cluster, dies_after)
    view = SimulatedView(cluster, NAMESPACE, NAME, chance)
    try:
        outcome = converge(mortal, of, timeouts=timeouts, clock=cluster.clock, view=view, progress=lines.append)
    except Killed:
        for (kind, _), obj in list(cluster.objects.items()):
            if kind == "Lease":
                dead = {**obj["metadata"]["annotations"], "modeldeployment.gpustack.ai/driver-process": "4194999"}
                cluster.update(obj, metadata={"annotations": dead})
        return None, lines
    return outcome, lines


def standing(cluster: Serving) -> dict[int | None, list[str]]:
    """Uids of the Pods that are not leaving, by ordinal."""
    found: dict[int | None, list[str]] = {}
    for pod in cluster.pods():
        if not terminating(pod):
            found.setdefault(ordinal(pod), []).append(uid(pod))
    return dict(sorted(found.items(), key=lambda one: one[0] or 0))


def begun(replicas: int, size: int = 1, seed: int = 0) -> tuple[Serving, Random]:
    """A deployment that runs."""
    cluster, chance = Serving(), Random(seed)
    outcome, _ = run(cluster, chance, {"server": Role(replicas=replicas, size=size)})
    assert outcome is not None and outcome.phase == "Converged", outcome
    return cluster, chance


def record(cluster: Serving) -> Record:
    return Record.from_object(cluster.objects[CONFIG_MAP.kind, record_name(NAME)])


def states(cluster: Serving) -> list[str]:
    """The states of every retirement so far, without repetition."""
    found: list[str] = []
    for one in cluster.operations:
        word = f"{one['replicaOrdinal']} {one['state']}" if one else "-"
        if word != (found or ["-"])[-1]:
            found.append(word)
    return found


def way(*ordinals: int) -> list[str]:
    words = ("Admitted", "Disqualified", "Withdrawing", "Draining", "Deleting", "Settling")
    return [entry for number in ordinals for entry in (*(f"{number} {word}" for word in words), "-")]


def test_several_leave_one_after_another_highest_first() -> None:
    cluster, chance = begun(4)
    before = standing(cluster)
    cluster.answers["server/2"] = [BUSY, BUSY, IDLE, BUSY, IDLE]
    outcome, lines = run(cluster, chance, {"server": Role(replicas=1)})
    assert outcome is not None and outcome.phase == "Converged", outcome
    assert states(cluster) == way(3, 2, 1)
    assert standing(cluster) == {0: before[0]}
    assert any("server/2  retirement Draining: Pod" in line and "still has requests" in line for line in lines)
    assert len(cluster.workloads()) == 1


WORLDS = st.tuples(
    st.integers(0, 2**16),
    st.integers(2, 4),
    st.integers(1, 2),
    st.lists(st.integers(1, 60), max_size=6),
    st.lists(st.sampled_from([BUSY, IDLE, "away", "", IDLE.replace(" 0", " NaN")]), max_size=12),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(WORLDS)
def test_killed_anywhere_the_next_runs_finish_it_and_nobody_leaves_who_was_not_drained(
    world: tuple[int, int, int, list[int], list[str]],
) -> None:
    seed, replicas, size, deaths, answers = world
    cluster, chance = begun(replicas, size, seed)
    before = standing(cluster)
    for number in range(1, replicas):
        cluster.answers[f"server/{number}"] = [*answers, IDLE]
    roles = {"server": Role(replicas=1, size=size)}
    for death in deaths:
        run(cluster, chance, roles, dies_after=death)
    outcome, lines = run(cluster, chance, roles)
    assert outcome is not None and outcome.phase == "Converged", (outcome, lines, cluster.operations[-1:])
    assert standing(cluster) == {0: before[0]}
    assert record(cluster).retirement is None and len(cluster.workloads()) == 1
    leader = next(pod for pod in cluster.pods() if int(label(pod, keys.MEMBER_INDEX) or 0) == 0)
    assert [uid(pod) for pod in cluster.pods() if label(pod, keys.ENDPOINT_ELIGIBLE)] == [uid(leader)]


def test_a_replica_that_is_never_idle_is_kept_and_the_run_says_the_ways_out() -> None:
    cluster, chance = begun(3)
    before = standing(cluster)
    cluster.answers["server/2"] = [BUSY]
    outcome, _ = run(cluster, chance, {"server": Role(replicas=1)})
    assert outcome is not None and outcome.phase == "Incomplete"
    (reason,) = outcome.reasons
    assert reason.startswith("qwen server/2: its retirement was aborted and it keeps running with its quota: Aborted")
    for words in ("still has requests", "retirement-retry: 'server:2:<new token>'", "raise replicas", "qualification"):
        assert words in reason
    assert standing(cluster) == before, "nobody else leaves meanwhile either"
    reads = cluster.reads
    again, _ = run(cluster, chance, {"server": Role(replicas=1)})
    assert again is not None and again.phase == "Incomplete" and cluster.reads == reads, "nothing is tried unasked"

    stale, _ = run(cluster, chance, {"server": Role(replicas=1)}, retry="server:1:x")
    assert stale is not None and stale.phase == "Incomplete", "a directive for another replica"
    cluster.answers["server/2"] = [IDLE]
    retried, _ = run(cluster, chance, {"server": Role(replicas=1)}, retry="server:2:x")
    assert retried is not None and retried.phase == "Converged", retried
    assert standing(cluster) == {0: before[0]}


def test_a_replica_whose_retirement_was_aborted_is_kept_when_it_is_declared_again() -> None:
    cluster, chance = begun(2)
    before = standing(cluster)
    cluster.answers["server/1"] = ["away"]
    aborted, _ = run(cluster, chance, {"server": Role(replicas=1)})
    assert aborted is not None and aborted.phase == "Incomplete"
    kept, lines = run(cluster, chance, {"server": Role(replicas=2)})
    assert kept is not None and kept.phase == "Converged", kept
    assert standing(cluster) == before and record(cluster).retirement is None
    assert all(label(pod, keys.ENDPOINT_ELIGIBLE) == "true" for pod in cluster.pods())
    assert any("kept after all" in line for line in lines)


def test_a_replica_on_its_way_out_is_kept_when_it_is_declared_again_before_its_deletion() -> None:
    found: set[str] = set()
    for death in range(8, 40):
        cluster, chance = begun(2)
        before = standing(cluster)
        cluster.answers["server/1"] = [BUSY]
        outcome, _ = run(cluster, chance, {"server": Role(replicas=1)}, dies_after=death)
        if outcome is None:
            found.add(cluster.retirement().get("state", ""))
        kept, _ = run(cluster, chance, {"server": Role(replicas=2)})
        assert kept is not None and kept.phase == "Converged", (death, kept)
        assert standing(cluster) == before and record(cluster).retirement is None
    assert found >= {"", "Admitted", "Disqualified", "Withdrawing", "Draining"}


def test_a_service_that_does_not_let_go_aborts_the_withdrawal() -> None:
    cluster, chance = begun(2)
    cluster.stale_endpoints = set(standing(cluster)[1])
    outcome, _ = run(cluster, chance, {"server": Role(replicas=1)})
    assert outcome is not None and outcome.phase == "Incomplete"
    assert "not withdrawn in time; StillServed: Service qwen-server still leads to it" in outcome.reasons[0]
    assert cluster.reads == 0


def test_a_target_that_somebody_else_deletes_ends_its_retirement() -> None:
    cluster, chance = begun(2)
    cluster.answers["server/1"] = [BUSY]
    run(cluster, chance, {"server": Role(replicas=1)}, dies_after=40)
    cluster.protocol = False
    cluster.ask_deletion(next(pod for pod in cluster.pods() if ordinal(pod) == 1))
    cluster.protocol = True
    outcome, lines = run(cluster, chance, {"server": Role(replicas=1)})
    assert outcome is not None and outcome.phase == "Converged", outcome
    assert list(standing(cluster)) == [0] and record(cluster).retirement is None
    assert any("deleted or ended by somebody else" in line for line in lines)


def test_switched_off_half_way_the_rest_is_removed_plainly() -> None:
    cluster, chance = begun(2)
    cluster.answers["server/1"] = [BUSY]
    aborted, _ = run(cluster, chance, {"server": Role(replicas=1)})
    assert aborted is not None and aborted.phase == "Incomplete"
    cluster.protocol = False
    outcome, _ = run(cluster, chance, {"server": Role(replicas=1)})
    assert outcome is not None and outcome.phase == "Converged", outcome
    assert list(standing(cluster)) == [0] and record(cluster).retirement is None


def test_a_replica_that_never_ran_and_a_broken_one_leave_at_once() -> None:
    cluster, chance = begun(3, size=2)
    cluster.set_quota(6)
    queued, _ = run(cluster, chance, {"server": Role(replicas=4, size=2)})
    assert queued is not None and queued.phase == "Incomplete"
    cluster.protocol = False
    cluster.ask_deletion(next(pod for pod in cluster.pods() if ordinal(pod) == 2))
    outcome, _ = run(cluster, chance, {"server": Role(replicas=4, size=2)}, dies_after=0)
    cluster.answers["server/2"] = [BUSY]
    of = {"server": Role(replicas=2, size=2)}
    cluster.protocol = True
    cluster.on_change = lambda obj: None
    outcome, _ = run(cluster, chance, of)
    assert outcome is not None and outcome.phase == "Converged", outcome
    assert list(standing(cluster)) == [0, 1] and cluster.reads == 0 and cluster.operations == []


def test_an_edit_goes_on_beside_a_retirement_and_the_leaving_replica_is_not_turned_over() -> None:
    cluster, chance = begun(3)
    cluster.answers["server/2"] = [BUSY]
    cluster.on_change = lambda obj: None
    kept = standing(cluster)[2]
    outcome, _ = run(cluster, chance, {"server": Role("v2", replicas=2)})
    assert outcome is not None and outcome.phase == "Incomplete"
    configs = {ordinal(pod): (annotation(pod, keys.POD_SPEC_HASH) or "").partition("-")[0] for pod in cluster.pods()}
    assert configs == {0: "v2", 1: "v2", 2: "v1"} and standing(cluster)[2] == kept


def test_a_teardown_waits_for_no_retirement() -> None:
    cluster, chance = begun(2)
    cluster.answers["server/1"] = [BUSY]
    run(cluster, chance, {"server": Role(replicas=1)}, dies_after=40)
    cluster.on_change = lambda obj: None
    view = SimulatedView(cluster, NAMESPACE, NAME, chance)
    outcome = teardown(
        cluster, NAMESPACE, NAME, owner=OWNER, holder="t", timeouts=TIMEOUTS, clock=cluster.clock, view=view
    )
    assert outcome.phase == "Deleted" and not cluster.pods()


@pytest.mark.parametrize("selects", [False, True])
@pytest.mark.parametrize("how", ["refused", "undone"])
def test_labels_that_are_not_taken_end_a_run_only_where_something_selects_by_them(selects: bool, how: str) -> None:
    cluster = Serving()
    cluster.protocol, whole = selects, cluster.patch

    def patch(kind: Kind, namespace: str | None, name: str, operations: Any, **more: Any) -> Json | None:
        if how == "undone":
            return cluster.objects[kind.kind, name]
        if keys.ENDPOINT_ELIGIBLE.partition("/")[2] in operations[-1]["path"]:
            raise Forbidden("a policy forbids it")
        return whole(kind, namespace, name, operations, **more)

    cluster.patch = patch  # type: ignore[method-assign]
    outcome, lines = run(cluster, Random(0), {"server": Role(replicas=2)})
    assert outcome is not None
    why = "a policy forbids it" if how == "refused" else "another controller or a webhook undoes it"
    if selects:
        assert outcome.phase == "Incomplete" and why in outcome.reasons[0], outcome
    else:
        assert outcome.phase == "Converged" and sum(why in line for line in lines) == 1, (outcome, lines)


def test_what_only_a_retirement_needs_is_asked_for_only_where_it_is_in_force() -> None:
    cluster, chance = begun(2)
    cluster.may = lambda verb, kind, namespace, **more: kind is not ENDPOINT_SLICE and not more  # type: ignore[method-assign]
    before, operations = standing(cluster), len(cluster.operations)
    with pytest.raises(RolloutRefused) as refused:
        run(cluster, chance, {"server": Role(replicas=1)})
    assert [sentence.partition(" in namespace")[0] for sentence in refused.value.sentences] == [
        "these credentials may not list endpointslices",
        "these credentials may not get pods/proxy",
    ]
    assert standing(cluster) == before and len(cluster.operations) == operations
    cluster.protocol = False
    outcome, _ = run(cluster, chance, {"server": Role(replicas=1)})
    assert outcome is not None and outcome.phase == "Converged"


def test_a_run_that_does_not_wait_for_readiness_says_what_that_means_for_the_selection() -> None:
    for protocol in (True, False):
        cluster = Serving()
        cluster.protocol = protocol
        cluster.kubelets.sync = lambda pod: False  # type: ignore[method-assign]
        outcome, lines = run(cluster, Random(0), {"server": Role()}, timeouts=replace(TIMEOUTS, ready=0))
        assert outcome is not None and outcome.phase == "Converged", outcome
        assert any("only after another run has labelled it" in line for line in lines) == protocol
