"""How far the replicas are from what the spec asks for now: the condition ReplicasUpToDate (rollout sheet 8.2)."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpustack_components.api.model_deployment import ModelDeployment, Role
from gpustack_components.cluster import readings
from gpustack_components.status.deployed import Observation, Replica, spans
from gpustack_components.status.document import Condition, Truth
from gpustack_components.status.facts import Expected, Facts


def outdated(replica: Replica, expected: Expected) -> bool:
    """Whether a replica differs from what the current spec renders, is short of its own total, or too old to stay."""
    seats = expected.hashes.get(replica.role, ())
    if replica.ordinal is None or replica.ordinal >= len(seats) or replica.shape.state == "short":
        return True
    return any(not _current(pod, seats[replica.ordinal], expected.floor) for pod in replica.live)


def up_to_date(
    deployment: ModelDeployment, observation: Observation, facts: Facts, previous: Condition | None
) -> Condition:
    """The condition ReplicasUpToDate."""

    def says(status: Truth, reason: str, message: str) -> Condition:
        return Condition("ReplicasUpToDate", status, reason, message)

    expected = facts.expected
    if expected is None and previous is not None and previous.reason and not facts.deleting:
        return previous
    counts = None if expected is None or facts.deleting else _count(deployment.spec.roles, observation, expected)
    if expected is None or counts is None or counts.accounted == 0:
        return says("Unknown", "RolloutNotObserved", "No replica was compared with the current spec.")
    total, behind = counts.accounted, counts.outdated
    if behind and expected.cache_hold:
        message = f"{len(behind)} of {len(behind)} outdated replicas are kept as they are: {expected.cache_hold}."
        return says("False", "RolloutHeldByCache", message)
    if behind and expected.weights_hold:
        message = f"{len(behind)} of {len(behind)} outdated replicas are kept as they are: {expected.weights_hold}."
        return says("False", "RolloutHeldByWeights", message)
    if behind:
        message = f"{len(behind)} of {total} replicas run an earlier configuration: {spans(behind)}."
        return says("False", "RolloutInProgress", message)
    if counts.missing is not None:
        role, ordinal = counts.missing
        rolling = previous is not None and previous.reason == "RolloutInProgress"
        reason = "RolloutInProgress" if rolling else "ReplacementInProgress"
        return says("False", reason, f"Replica {role}/{ordinal} is being replaced.")
    older = sum(_baseline(replica) < expected.current for replica in counts.compared)
    baseline = f" {older} of them run an older baseline that is still supported." if older else ""
    return says("True", "UpToDate", f"All {total} replicas run the current configuration.{baseline}")


@dataclass(frozen=True, slots=True)
class _Counts:
    accounted: int
    compared: Sequence[Replica]
    outdated: Sequence[Replica]
    missing: tuple[str, int] | None


def _count(roles: Sequence[Role], observation: Observation, expected: Expected) -> _Counts:
    compared: list[Replica] = []
    behind: list[Replica] = []
    missing: tuple[str, int] | None = None
    created = 0
    for role in roles:
        live = observation.live(role.name)
        seated = [replica for replica in live if replica.ordinal is not None and replica.ordinal < role.replicas]
        orphans = [replica for replica in live if replica.ordinal is None]
        taken = {replica.ordinal for replica in seated}
        new = {o for name, o in expected.created if name == role.name and o < role.replicas and o not in taken}
        created += len(new)
        compared += [*seated, *orphans]
        behind += [replica for replica in (*seated, *orphans) if outdated(replica, expected)]
        empty = [ordinal for ordinal in range(role.replicas) if ordinal not in taken and ordinal not in new]
        short = len(empty) - len(orphans)
        if missing is None and short > 0 and _assembled(observation.replicas(role.name)):
            missing = (role.name, empty[0])
    return _Counts(len(compared) + created, compared, behind, missing)


def _assembled(replicas: Sequence[Replica]) -> bool:
    """Whether Kueue has ever made a Workload for a replica of the role that still reads."""
    return any(replica.workload is not None for replica in replicas)


def _current(pod: readings.Json, seats: Sequence[str], floor: int) -> bool:
    index = readings.member_index(pod)
    fits = index is not None and index < len(seats) and readings.fingerprint(pod) == seats[index]
    return fits and readings.render_version(pod) >= floor


def _baseline(replica: Replica) -> int:
    return min((readings.render_version(pod) for pod in replica.live), default=0)
