"""Whom the Services in front of a deployment select while a role's replicas differ in shape (rollout sheet 5.3).

Each running replica is reached by its own deployed shape: its only Pod, its leader, or every member that carries ranks
of its own. A Service declares what its role's new shape asks for; while that catches others, or misses some, it selects
leaders only where those are all who answer, and else by the label that whoever answers is created with.
"""

from collections.abc import Iterable, Iterator, Mapping

from gpustack_components.cluster import keys, readings
from gpustack_components.cluster.port import Json
from gpustack_components.rollout.actions import Select
from gpustack_components.rollout.desired import Desired
from gpustack_components.rollout.observe import Member, Observed
from gpustack_components.rollout.qualification import answering, replicas

Selector = Mapping[str, str]

LEADER = {keys.MEMBER_INDEX: "0"}
"""The first member of any replica, also of one that has no other."""
ANSWERING = {keys.API_ANSWERING: "true"}
"""Every member that answers requests, whatever the shape of its replica."""


def labelled(pod: Json) -> Json:
    """A Pod to be created that answers requests, so that Services can tell it in any mix of shapes."""
    metadata = pod["metadata"]
    return {**pod, "metadata": {**metadata, "labels": {**metadata["labels"], **ANSWERING}}}


def selections(desired: Desired, observed: Observed) -> Iterator[Select]:
    """The selectors to write, where they differ from what stands."""
    for front in desired.fronts:
        standing = observed.fronts.get(front.name)
        if standing is None:
            continue
        wanted = _wanted(front.selector, front.role, desired.engine, observed)
        if standing.selector != wanted:
            mixed = wanted != front.selector
            yield Select(front.role, front.name, standing.uid, dict(standing.selector), dict(wanted), mixed=mixed)


def follows_shapes(desired: Desired, observed: Observed) -> bool:
    """Whether some Service has to select by other terms than it declares, given the replicas that stand."""
    return any(_wanted(one.selector, one.role, desired.engine, observed) != one.selector for one in desired.fronts)


def _wanted(declared: Selector, role: str, engine: str, observed: Observed) -> Selector:
    if keys.ENDPOINT_ELIGIBLE in declared or keys.POD_ORDINAL in declared:
        return declared
    standing: list[Member] = []
    answer: set[str] = set()
    for _, _, members in replicas(observed, role):
        if answers := answering(members, engine):
            standing += members
            answer.update(member.uid for member in answers)
    base = {key: value for key, value in declared.items() if key != keys.MEMBER_INDEX}
    for selector in (declared, {**base, **LEADER}, {**base, **ANSWERING}):
        if _selected(selector, standing) == answer:
            return selector
    return {**base, **LEADER}  # some were created without the label: nobody is reached who does not answer


def _selected(selector: Selector, members: Iterable[Member]) -> set[str]:
    wanted = selector.items()
    return {member.uid for member in members if all(readings.label(member.pod, key) == value for key, value in wanted)}
