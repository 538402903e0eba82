"""Plain words for a deployment's state: a row per replica, with what holds it.

Data only; a door decides about columns and colours. Times are RFC 3339 text as objects carry it; ages are
counted to the `now` that is passed in.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gpustack_components.api.model_deployment import ModelDeployment, Role
from gpustack_components.cluster import readings
from gpustack_components.cluster.readings import at, moment
from gpustack_components.status.deployed import Observation, Replica
from gpustack_components.status.facts import Expected
from gpustack_components.status.holds import Around, Hold, State, hold_of
from gpustack_components.status.retirement import retirement_hold, retires
from gpustack_components.status.rollout import outdated


@dataclass(frozen=True, slots=True)
class Row:
    """One replica, as a line of a table."""

    role: str
    """Role name."""
    ordinal: int | None
    """Ordinal; None for a Pod that names none."""
    state: State
    """Where it stands."""
    admitted: bool
    """Whether its Workload is admitted."""
    ready: tuple[int, int]
    """Ready members, and members it should have."""
    age: float | None
    """Seconds since its oldest Pod was created; None without a Pod."""
    current: bool | None
    """Whether it runs what the spec asks for now; None when that was not compared."""
    hold: Hold | None
    """Why it is not serving; None when it is."""
    whole: bool = False
    """Whether all its members are there and Ready, so that the status document counts it as ready."""
    retiring: bool = False
    """Whether it is being retired, and its hold says how far that is."""

    @property
    def name(self) -> str:
        """`server/2`."""
        return f"{self.role}/{'?' if self.ordinal is None else self.ordinal}"


def rows(
    deployment: ModelDeployment,
    observation: Observation,
    now: datetime,
    expected: Expected | None = None,
    around: Around | None = None,
    retirement: Any = None,
) -> tuple[Row, ...]:
    """A row per declared replica, in order, and one for each further replica that still reads. `retirement` is that
    section of the status document."""
    around = around or Around()
    found: list[Row] = []

    def told(role: Role | None, replica: Replica) -> Row:
        seen = row(role, replica, now, expected, around)
        if seen.state == "leaving" or not retires(retirement, replica):
            return seen
        return replace(seen, state="leaving", current=None, hold=retirement_hold(deployment, retirement), retiring=True)

    declared = {role.name: role for role in deployment.spec.roles}
    for role in deployment.spec.roles:
        standing = {replica.ordinal: replica for replica in observation.replicas(role.name)}
        for ordinal in range(role.replicas):
            replica = standing.pop(ordinal, None)
            if replica is None:
                found.append(_missing(role, ordinal, observation))
            else:
                found.append(told(role, replica))
        extra = [r for r in observation.replicas(role.name) if r.ordinal is None or r.ordinal >= role.replicas]
        found += [told(role, replica) for replica in extra]
    for replica in observation.replicas():
        if replica.role not in declared:
            found.append(told(None, replica))
    return tuple(found)


def row(role: Role | None, replica: Replica, now: datetime, expected: Expected | None, around: Around) -> Row:
    """One replica that reads; `role` is None when the spec no longer declares it."""
    state, hold = hold_of(role, replica, around, now)
    total = replica.shape.total or (role.size if role is not None else len(replica.members))
    created = [time for pod in replica.members if (time := moment(at(pod, "metadata", "creationTimestamp")))]
    return Row(
        role=replica.role,
        ordinal=replica.ordinal,
        state=state,
        admitted=replica.admitted,
        ready=(sum(readings.ready(pod) for pod in replica.live), total),
        age=(now - min(created)).total_seconds() if created else None,
        current=None if expected is None or replica.leaving else not outdated(replica, expected),
        hold=hold,
        whole=replica.ready,
    )


def duration(seconds: float) -> str:
    """Seconds in at most two units, as people write them: `1.2 s`, `45 s`, `3m10s`, `2h5m`, `3d4h`."""
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    for upper, lower, size in (("d", "h", 86400), ("h", "m", 3600), ("m", "s", 60)):
        if whole >= size:
            count, rest = divmod(whole, size)
            minor = rest // {"h": 3600, "m": 60, "s": 1}[lower]
            return f"{count}{upper}{minor}{lower}" if minor else f"{count}{upper}"
    return f"{whole} s"


def _missing(role: Role, ordinal: int, observation: Observation) -> Row:
    started = bool(observation.pods)
    what = "it does not exist" if started else "no Pod of the deployment exists"
    hold = Hold(what, "", "the next `pulumi up`, or the run that is under way, creates it", "pulumi up")
    return Row(role.name, ordinal, "missing", False, (0, role.size), None, None, hold)
