"""What must be so before the first side effect, each with its own sentence when it is not.

A run asks before it takes the Lease and is refused with every sentence at once; a preview shows the same sentences as
warnings, as far as they can be known before anything is brought about.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from gpustack_components.cluster.port import (
    CONFIG_MAP,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    LEASE,
    NAMESPACE,
    POD,
    SERVICE,
    WORKLOAD,
    Cluster,
    Forbidden,
    Json,
    Kind,
    NotServed,
)
from gpustack_components.cluster.readings import at
from gpustack_components.rollout.contract import RenderedReplica, RolloutRefused
from gpustack_components.rollout.desired import Desired, DesiredRole
from gpustack_components.rollout.observe import Observed
from gpustack_components.rollout.preflight_kueue import missing, not_taken_in
from gpustack_components.rollout.preflight_queues import queue_findings
from gpustack_components.rollout.role_pass import judge
from gpustack_components.rollout.selection import follows_shapes, selections

Rights = tuple[tuple[Kind, tuple[str, ...]], ...]
"""Kinds, each with the verbs a run uses on it, as RBAC spells them."""

_POD_PROXY = Kind(POD.api_version, POD.kind, f"{POD.plural}/proxy")

RIGHTS: Rights = (
    (POD, ("get", "list", "watch", "create", "patch", "delete")),
    (WORKLOAD, ("list", "watch", "delete")),
    (SERVICE, ("get", "list", "create", "patch", "delete")),
    (CONFIG_MAP, ("get", "create", "update", "delete")),
    (LEASE, ("get", "create", "update", "delete")),
    (DEPLOYMENT, ("list", "watch")),
    (ENDPOINT_SLICE, ("list",)),
    (_POD_PROXY, ("get",)),
)
"""Everything a run may do to a deployment from its first Pod to its removal. Events are a courtesy, and not among
them."""

_READ_BEFORE = frozenset({(POD, "list"), (WORKLOAD, "list"), (SERVICE, "list"), (CONFIG_MAP, "get")})
"""What every run has done once before it comes here."""
_ONLY_TOGETHER = frozenset({(POD, "get"), (SERVICE, "get"), (SERVICE, "create"), (SERVICE, "delete")})
"""What is done for replicas of more than one Pod alone, whose Pods have fixed names and a headless Service."""
_ONLY_RETIRING = frozenset({(ENDPOINT_SLICE, "list"), (_POD_PROXY, "get")})
"""What is done where replicas are withdrawn and drained before they are deleted."""
_ONLY_ROUTED = frozenset({(DEPLOYMENT, "list"), (DEPLOYMENT, "watch")})
"""What is done where a router is waited for."""
_ONLY_MIXED = frozenset({(SERVICE, "patch")})
"""What is done where replicas differ in shape, so that Services select by more than they declare."""
_ONLY_CREATING = frozenset({(POD, "get"), (POD, "create"), (SERVICE, "get"), (SERVICE, "create")})
"""What a removal does not do."""

_granted: WeakKeyDictionary[Cluster, set[tuple[Kind, str, str]]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class ToCome:
    """What a program brings about before its replicas, and a preview does not find in the cluster yet."""

    queues: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """ClusterQueues by the LocalQueue that will lead to each."""
    flavors: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """ResourceFlavors by name."""


def preflight(
    cluster: Cluster,
    desired: Desired,
    observed: Observed,
    render: Callable[[str, int], RenderedReplica],
    pause: Callable[[float], None],
) -> None:
    """Raise `RolloutRefused` with every reason why this deployment could not be driven to its end; `ClusterError` when
    reading fails. `pause` lets that many seconds pass."""
    roles = at_stake(desired, observed)
    mixed = follows_shapes(desired, observed) or any(True for _ in selections(desired, observed))
    sentences = [*_namespace(cluster, desired.namespace)] if desired.roles else []
    if not sentences:
        sentences = [
            *queue_findings(cluster, desired.namespace, roles, pause=pause),
            *_lacking(cluster, desired.namespace, _spared(desired, observed, mixed=mixed) | _READ_BEFORE),
        ]
    if not sentences and desired.hold("weights") is None:
        sentences = [sentence for role in roles for sentence in _probe(cluster, desired.namespace, role, render, pause)]
    if sentences:
        raise RolloutRefused(*dict.fromkeys(sentences))


def warnings(
    cluster: Cluster,
    desired: Desired,
    observed: Observed,
    render: Callable[[str, int], RenderedReplica],
    to_come: ToCome,
) -> tuple[str, ...]:
    """Why an update would not begin, as far as a preview can tell; empty in a namespace that is not there yet. Raises
    `ClusterError`."""
    roles = at_stake(desired, observed)
    if not roles:
        return ()
    try:
        found = cluster.get(NAMESPACE, None, desired.namespace)
    except Forbidden:
        found = {}
    if found is None:
        return ()
    if sentences := tuple(_leaving(found, desired.namespace)):
        return sentences
    try:
        queues = [*queue_findings(cluster, desired.namespace, roles, to_come.queues, to_come.flavors)]
    except NotServed as error:
        return missing(cluster, desired.namespace, error).sentences
    spared = _spared(desired, observed, mixed=follows_shapes(desired, observed))
    rights = [*_lacking(cluster, desired.namespace, spared | _READ_BEFORE)]
    probed = [] if rights or desired.holds else [*_probe(cluster, desired.namespace, roles[0], render)]
    return tuple(dict.fromkeys((*queues, *rights, *probed)))


def rights_missing(
    cluster: Cluster, namespace: str, refused: Forbidden, desired: Desired | None = None
) -> RolloutRefused:
    """The refusal of a run whose first reads were forbidden: everything it lacks, not only what it met first.

    Without `desired`, of what any deployment needs.
    """
    every = _ONLY_TOGETHER | _ONLY_RETIRING | _ONLY_ROUTED | _ONLY_MIXED
    spared = every if desired is None else _spared(desired, None, mixed=False)
    sentences = [*_lacking(cluster, namespace, spared)]
    return RolloutRefused(*(sentences or [str(refused)]))


def at_stake(desired: Desired, observed: Observed) -> tuple[DesiredRole, ...]:
    """The roles of which a run from here creates or replaces some replica, so that it needs Kueue's consent again."""
    return tuple(role for role in desired.roles if _begins(desired, role, observed))


def _begins(desired: Desired, role: DesiredRole, observed: Observed) -> bool:
    for ordinal in range(role.replicas):
        live = tuple(member for member in observed.at(role.name, ordinal) if member.live)
        if not live:
            return True
        replica = judge(desired, role, observed, ordinal, live)
        if not replica.current or replica.broken:
            return True
    return False


def _namespace(cluster: Cluster, namespace: str) -> Iterator[str]:
    try:
        found = cluster.get(NAMESPACE, None, namespace)
    except Forbidden:
        return
    if found is None:
        yield f"namespace {namespace} does not exist: create it, or correct metadata.namespace."
    else:
        yield from _leaving(found, namespace)


def _leaving(found: Json, namespace: str) -> Iterator[str]:
    if at(found, "metadata", "deletionTimestamp"):
        yield (
            f"namespace {namespace} is being deleted: wait until it is gone and create it again; `pulumi destroy` lets "
            "go of the Pods that keep it."
        )


def _spared(desired: Desired, observed: Observed | None, *, mixed: bool) -> frozenset[tuple[Kind, str]]:
    """The rights that this deployment can do without; one without roles is being removed. `mixed`: selectors are
    written."""
    if not desired.roles:
        return _ONLY_CREATING | _ONLY_RETIRING | _ONLY_ROUTED | _ONLY_MIXED
    none = frozenset[tuple[Kind, str]]()
    several = any(role.size > 1 for role in desired.roles) or (observed is not None and bool(observed.services))
    together = none if several else _ONLY_TOGETHER
    if mixed or desired.protocol is not None:
        together -= {(SERVICE, "get")}
    retiring = _ONLY_RETIRING if desired.protocol is None else none
    return together | retiring | (none if desired.router else _ONLY_ROUTED) | (none if mixed else _ONLY_MIXED)


def _lacking(cluster: Cluster, namespace: str, spared: frozenset[tuple[Kind, str]]) -> Iterator[str]:
    """One sentence for each kind on which these credentials lack a verb; rights once found are not asked for again."""
    known = _granted.setdefault(cluster, set())

    def may(kind: Kind, verb: str) -> bool:
        key = (kind, verb, namespace)
        if key not in known and _may(cluster, verb, kind, namespace):
            known.add(key)
        return key in known

    for kind, verbs in RIGHTS:
        lacked = [verb for verb in verbs if (kind, verb) not in spared and not may(kind, verb)]
        if lacked:
            group = kind.api_version.rpartition("/")[0] or '""'
            yield (
                f"these credentials may not {', '.join(lacked)} {kind.plural} in namespace {namespace}: grant "
                f"a Role with apiGroups [{group}], resources [{kind.plural}], verbs [{', '.join(verbs)}]."
            )


def _may(cluster: Cluster, verb: str, kind: Kind, namespace: str) -> bool:
    if kind == _POD_PROXY:
        return cluster.may(verb, POD, namespace, subresource="proxy")
    return cluster.may(verb, kind, namespace)


def _probe(
    cluster: Cluster,
    namespace: str,
    role: DesiredRole,
    render: Callable[[str, int], RenderedReplica],
    pause: Callable[[float], None] | None = None,
) -> Sequence[str]:
    return tuple(not_taken_in(cluster, namespace, role.name, render(role.name, 0).members[0], pause))
