"""What a preview says: the refusals, and what an update would do to which replica, from what stands in the cluster.

A cluster that does not answer is said and leaves the static rules working; a namespace that does not exist yet is
empty.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from gpustack_components.admission.registry import RULES
from gpustack_components.api import names
from gpustack_components.cluster.binding_objects import Reading
from gpustack_components.cluster.port import Cluster, ClusterError, Forbidden, Json
from gpustack_components.components.config import NAMESPACE
from gpustack_components.components.judgement import Judgement, encode, judge
from gpustack_components.components.observation import (
    Found,
    Surroundings,
    observed_bindings,
    standing,
    surroundings,
)
from gpustack_components.components.request import CONVERGED, REFUSED_UPDATES, Request
from gpustack_components.rollout.contract import RolloutRefused

if TYPE_CHECKING:
    from gpustack_components.rollout.desired import Desired
    from gpustack_components.rollout.forecast import Forecast
    from gpustack_components.rollout.observe import Observed
    from gpustack_components.rollout.record import Record


@dataclass(frozen=True, slots=True)
class Shown:
    """What `check` shows and adds to the inputs."""

    refused: tuple[str, ...] = ()
    """Sentences that hold the deployment back; empty: it may go on."""
    plan: tuple[str, ...] = ()
    """Lines of what an update does, or why that cannot be said; empty: nothing to do."""
    observed: Json = field(default_factory=dict[str, Any])
    """What the plan was made from: the cluster, the record, and whether both agree with the request (`settled`)."""
    warnings: tuple[str, ...] = ()
    """What is legal and probably not meant."""
    unjudged: tuple[str, ...] = ()
    """What could not be judged, and what is missing for it."""
    blind: bool = False
    """Whether the cluster could not be read, so that `plan` only says why there is none."""


def preview(asked: Request, before: Request | None, connect: Callable[[], Cluster]) -> Shown:
    """Judge a request and forecast its update; `before` is what the stack asked for last."""
    stored = before.document if before is not None and before.label == asked.label else None
    try:
        cluster = connect()
    except ClusterError as failure:
        return _blind(asked, stored, failure)
    try:
        around, stands = surroundings(cluster), standing(cluster, asked)
        bound = observed_bindings(cluster, asked, around)
    except Forbidden as failure:
        return _blind(asked, stored, failure, _rights(asked, cluster, failure))
    except ClusterError as failure:
        return _blind(asked, stored, failure)
    except RolloutRefused as refused:
        return Shown((*asked.refused, *judge(asked, old=stored).sentences, *refused.sentences))
    record = stands.record
    if record is not None and record.document:
        stored = record.document
    judgement = _judge(asked, stored, around, record, bound)
    try:
        judgement = with_weights(judgement, cluster)
    except ClusterError as failure:
        return _blind(asked, stored, failure)
    facts = judgement.facts
    refused = (*asked.refused, *(() if judgement.blind else judgement.sentences), *_not_ours(asked, stands))
    if refused or (not judgement.blind and judgement.resolved is None):
        observed = {**_observed("answers", stands, facts), **_refused_updates(judgement)}
        return Shown(refused, observed=observed, warnings=judgement.warnings)
    if judgement.blind:
        line = f"the plan is not known: {'; '.join(judgement.unread)}"
        return Shown((), (line,), _observed("answers", stands, facts), judgement.warnings, _open(judgement), blind=True)
    if asked.unknown:
        line = f"the plan is not known before the update: {', '.join(asked.unknown)}"
        return Shown(plan=(line,), observed=_observed("answers", stands, facts), warnings=judgement.warnings)
    try:
        compared = _compared(judgement, asked, stands)
        ahead = _forecast(judgement, asked, stands, cluster, *compared)
        doubts = _doubts(judgement, asked, cluster, *compared, operator=around.operator) if ahead.steps else ()
        taken = _taken_over(asked, stands)
        settled = _settled(judgement, stands) and not ahead.steps and not taken
        left = settled and _lease_left(asked, cluster)
    except ClusterError as failure:
        line = f"the plan is not known, a queue could not be read: {failure}"
        return Shown(plan=(line,), observed=_observed(str(failure), stands, facts), blind=True)
    if left:
        observed = {**_observed("answers", stands, facts), "settled": False}
        return Shown(plan=("the Lease of a run that was killed is removed; nothing else changes",), observed=observed)
    return Shown(
        plan=() if settled else (*taken, *ahead.lines),
        observed={**_observed("answers", stands, facts), "settled": settled},
        warnings=judgement.contradictions if settled else (*judgement.warnings, *doubts),
        unjudged=judgement.unread if settled else (*judgement.unjudged, *judgement.unread),
    )


def recheck(asked: Request, cluster: Cluster) -> tuple[str, ...] | None:
    """What a refresh finds: None, nothing of the deployment is left; else why it has to be repaired; empty, it need
    not. Raises `ClusterError`, and `RolloutRefused` where that cannot be told.
    """
    around, stands = surroundings(cluster), standing(cluster, asked)
    if stands.empty:
        return None
    bound = observed_bindings(cluster, asked, around)
    judgement = with_weights(_judge(asked, None, around, stands.record, bound), cluster)
    if judgement.blind:
        raise RolloutRefused(*judgement.sentences)
    if judgement.resolved is None:
        return judgement.sentences
    ahead = _forecast(judgement, asked, stands, cluster, *_compared(judgement, asked, stands))
    reasons = tuple(ahead.lines) if ahead.steps else ()
    if not _settled(judgement, stands):
        reasons = ("the last run did not end, or another one changed the deployment since", *reasons)
    return reasons


def prepare(asked: Request, cluster: Cluster) -> Judgement:
    """The judgement that an update goes by: compared with what the record holds, resolved for this cluster. Raises
    `ClusterError`.
    """
    around, stands = surroundings(cluster), standing(cluster, asked)
    record = stands.record
    stored = record.document if record is not None and record.document else None
    return with_weights(_judge(asked, stored, around, record, observed_bindings(cluster, asked, around)), cluster)


def with_weights(judgement: Judgement, cluster: Cluster) -> Judgement:
    """The judgement with what holds Pods back because their weights cannot reach them in this cluster. Raises
    `ClusterError`."""
    from gpustack_components.rollout.weights import look

    if judgement.resolved is None:
        return judgement
    resolved, unread = look(cluster, judgement.resolved)
    return replace(judgement, resolved=resolved, unjudged=(*judgement.unjudged, *unread))


def _judge(
    asked: Request,
    stored: Mapping[str, Any] | None,
    around: Surroundings,
    record: "Record | None",
    observed: Reading | None,
) -> Judgement:
    return judge(
        asked,
        old=stored,
        runtime_classes=around.runtime_classes,
        kubernetes=around.kubernetes,
        operator=around.operator,
        remembered=record.store if record is not None else None,
        observed=observed,
    )


def _not_ours(asked: Request, stands: Found) -> tuple[str, ...]:
    """Why the deployment is another owner's to change; empty when it is ours or free."""
    from gpustack_components.rollout.record import check_owner

    if stands.operated:
        return (
            f"{asked.label} is a ModelDeployment of the GPUStack operator, which drives its Pods. Two drivers would "
            "undo each other's work, so neither the object nor its Pods can be adopted: give this deployment another "
            f"name, move the traffic, then `kubectl -n {asked.namespace} delete modeldeployment {asked.name}`.",
        )
    if stands.record is None:
        return ()
    try:
        check_owner(stands.record, asked.owner, frozenset(asked.adopt))
    except RolloutRefused as refused:
        way = f"`pulumi config set --path '{NAMESPACE}:adopt[0]' '{stands.record.owner}'` says so for the whole stack."
        return tuple(f"{sentence} {way}" for sentence in refused.sentences)
    return ()


def _taken_over(asked: Request, stands: Found) -> tuple[str, ...]:
    """A line of the plan where the deployment changes hands."""
    record = stands.record
    if record is None or record.owner == asked.owner:
        return ()
    return (f"taken over from {record.owner or 'nobody: its record is free'}; its Pods go on",)


def _settled(judgement: Judgement, stands: Found) -> bool:
    """Whether the record says that exactly this document was brought about."""
    record, document = stands.record, judgement.document
    if record is None or document is None or record.phase != CONVERGED:
        return False
    return record.document == encode(document)


_doubted: WeakKeyDictionary[Cluster, dict[object, tuple[str, ...]]] = WeakKeyDictionary()


def _doubts(
    judgement: Judgement, asked: Request, cluster: Cluster, desired: "Desired", observed: "Observed", *, operator: bool
) -> tuple[str, ...]:
    """Why an update would not begin if it came now; looked for once for all deployments that ask for the same. Raises
    `ClusterError`."""
    from gpustack_components.components.quota import to_come
    from gpustack_components.render.replica import render_replica
    from gpustack_components.rollout.preflight import at_stake, warnings

    resolved = judgement.resolved
    assert resolved is not None
    roles = ((role.name, role.queue, role.size, repr(role.requests)) for role in at_stake(desired, observed))
    key, known = (asked.namespace, *roles), _doubted.setdefault(cluster, {})
    if key not in known:
        known[key] = warnings(
            cluster,
            desired,
            observed,
            lambda role, ordinal: render_replica(resolved, role, ordinal),
            to_come(cluster, resolved, asked.bindings, operator=operator),
        )
    return tuple(f"as the cluster is now, an update would not begin: {sentence}" for sentence in known[key])


def _lease_left(asked: Request, cluster: Cluster) -> bool:
    """Whether a run that was killed after all its work left its Lease behind. Raises `ClusterError`."""
    from gpustack_components.rollout.lease import abandoned

    return abandoned(cluster, asked.namespace, names.record_name(asked.name)) is not None


def _rights(asked: Request, cluster: Cluster, refused: Forbidden) -> tuple[str, ...]:
    from gpustack_components.rollout.preflight import rights_missing

    try:
        found = rights_missing(cluster, asked.namespace, refused).sentences
    except ClusterError:
        return ()
    return tuple(f"with these credentials an update would not begin: {sentence}" for sentence in found)


def _compared(judgement: Judgement, asked: Request, stands: Found) -> "tuple[Desired, Observed]":
    """What is wanted and what stands, as the planner compares them."""
    from gpustack_components.rollout.desired import Desired
    from gpustack_components.rollout.observe import observe

    assert judgement.resolved is not None
    observed = observe(
        stands.pods,
        stands.workloads,
        stands.record.uid if stands.record is not None else "",
        record_name=names.record_name(asked.name),
        services=stands.services,
    )
    return Desired.of(judgement.resolved), observed


def _forecast(
    judgement: Judgement, asked: Request, stands: Found, cluster: Cluster, desired: "Desired", observed: "Observed"
) -> "Forecast":
    from gpustack_components.components.quota import queues
    from gpustack_components.rollout.edited_fields import changes
    from gpustack_components.rollout.forecast import Forecast, forecast

    assert judgement.resolved is not None and judgement.document is not None
    record = stands.record
    slots = record.slots if record is not None else {}
    retirement = record.retirement if record is not None else None
    if not forecast(desired, observed, slots, {}, retirement=retirement).steps:
        return Forecast((), ())
    return forecast(
        desired,
        observed,
        slots,
        queues(cluster, judgement.resolved, asked.bindings),
        changed=changes(record.document, encode(judgement.document)) if record is not None else None,
        turnovers=record.turnovers if record is not None else None,
        retirement=retirement,
    )


def _observed(cluster: str, stands: Found, facts: Json) -> Json:
    record = stands.record
    told = "none" if record is None else f"generation {record.generation}, {record.phase}"
    observed: Json = {"cluster": cluster, "record": told}
    return {**observed, "bindings": facts} if facts else observed


def _refused_updates(judgement: Judgement) -> Json:
    """The refusals that only a comparison with the deployment as it stands can find: a policy pack reads them here,
    since it sees no stored document of its own.
    """
    found = [
        {"rule": one.rule, "sentence": str(one)}
        for one in judgement.refusals
        if (rule := RULES.get(one.rule)) is not None and rule.operations == ("update",)
    ]
    return {REFUSED_UPDATES: found} if found else {}


def _open(judgement: Judgement) -> tuple[str, ...]:
    """What could not be judged, with what is missing for a rendering."""
    return (*judgement.unjudged, *map(str, judgement.failures))


def _blind(
    asked: Request, stored: Mapping[str, Any] | None, failure: ClusterError, warnings: tuple[str, ...] = ()
) -> Shown:
    """The static rules alone."""
    judgement = judge(asked, old=stored, observed=Reading(unread=(str(failure),)))
    line = f"the plan is not known, the cluster could not be read: {failure}"
    return Shown(
        (*asked.refused, *(() if judgement.blind else judgement.sentences)),
        (line,),
        {"cluster": str(failure)},
        (*judgement.warnings, *warnings),
        _open(judgement) if judgement.blind else judgement.unjudged,
        blind=True,
    )
