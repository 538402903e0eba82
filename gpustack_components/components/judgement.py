"""The corridor up to a resolved deployment, walked the same way in the program and in the provider.

Nothing here raises on bad input: what is wrong comes back as refusals, all at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gpustack_components.api.refusal import Refusal
from gpustack_components.cluster.binding_objects import BACKEND, INSTANCE_TYPE, POOL, POOL_BINDING, Reading
from gpustack_components.cluster.readings import at
from gpustack_components.components.plain import Json, Known
from gpustack_components.components.request import Request

if TYPE_CHECKING:
    from gpustack_components.api.model_deployment import ModelDeployment
    from gpustack_components.bindings.catalog import Bindings
    from gpustack_components.bindings.failure import RenderFailure
    from gpustack_components.bindings.kv_cache import Store
    from gpustack_components.bindings.resolve import ResolvedDeployment
    from gpustack_components.bindings.settings import Settings
    from gpustack_components.rollout.contract import Timeouts

KUBERNETES = (1, 35)
"""The version rendered for while no cluster was asked."""

_MISSING = ("BindingNotFound", "PoolNotFound", "BackendNotFound", "ArtifactNotFound")
"""Why a store or the weights are left out of what is rendered: an object is not known."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is known about one deployment before anything is applied."""

    document: "ModelDeployment | None"
    """The defaulted document; None when it does not decode."""
    refusals: tuple[Refusal, ...]
    """Why it is refused; empty: accepted as far as it could be judged."""
    failures: "tuple[RenderFailure, ...]" = ()
    """Why it cannot be rendered although it is accepted."""
    bindings: "Bindings | None" = None
    """The objects it depends on, as far as they were declared or read."""
    resolved: "ResolvedDeployment | None" = None
    """Every value another object decides; None when refused or not renderable."""
    warnings: tuple[str, ...] = ()
    """What is legal and probably not meant."""
    unjudged: tuple[str, ...] = ()
    """What could not be judged, and why, one sentence each."""
    unread: tuple[str, ...] = ()
    """What may be in the cluster and could not be read, one sentence each."""
    contradictions: tuple[str, ...] = ()
    """Where declared objects and the cluster's differ, and observed ones that cannot be read; among the warnings."""
    facts: Json = field(default_factory=dict[str, Any])
    """What objects read from the cluster decide of the Pods, by kind and name."""

    @property
    def blind(self) -> bool:
        """Whether nothing is wrong but that objects are missing which could not be looked for. What is `resolved` then
        lacks a store or weights that may well be there."""
        if self.refusals or not self.unread:
            return False
        if self.resolved is None:
            return bool(self.failures) and all(failure.retryable for failure in self.failures)
        reasons = {self.resolved.connection.reason, *(hold.reason for hold in self.resolved.holds)}
        return not reasons.isdisjoint(_MISSING)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Everything that holds the deployment back, one sentence each, in order."""
        return (
            *(str(refusal) for refusal in self.refusals),
            *(f"{failure} (not-renderable)" for failure in self.failures),
            *(self.unread if self.blind else ()),
        )


@dataclass(frozen=True, slots=True)
class Depended:
    """The objects a deployment depends on, declared and observed."""

    bindings: "Bindings"
    """Both together."""
    refusals: tuple[Refusal, ...]
    """Why a declared one is refused."""
    contradictions: tuple[str, ...] = ()
    """Declared ones that contradict the cluster, and observed ones that cannot be read."""
    facts: Json = field(default_factory=dict[str, Any])
    """What the observed ones decide."""


def read_bindings(request: Request, observed: Reading | None = None) -> Depended:
    """The readable binding objects of a request beside those `observed` in its cluster."""
    from gpustack_components.admission.documents import binding_conflicts
    from gpustack_components.api.decode import decode
    from gpustack_components.bindings.catalog import Bindings

    decoded = (decode(raw).document for raw in request.bindings)
    declared = Bindings.of([document for document in decoded if document is not None])
    refusals = tuple(Refusal(one.rule, "bindings", one.message, one.value) for one in binding_conflicts(declared))
    declared = replace(declared, conflicts=())
    if observed is None:
        return Depended(declared, refusals)
    from gpustack_components.bindings.observed import decode_observed, differences, facts

    found = decode_observed(observed.objects)
    live = Bindings.of(found.documents, complete=_is_complete(request.document, observed))
    contradictions = (*found.unreadable, *differences(declared, live))
    return Depended(declared.over(live), refusals, contradictions, dict(facts(live)))


def _is_complete(document: Json, observed: Reading) -> bool:
    """Whether every kind that the document refers to was read, so that what is missing does not exist."""
    caching = {POOL_BINDING.kind, POOL.kind, BACKEND.kind} if at(document, "spec", "kvCache") else set[str]()
    return {INSTANCE_TYPE.kind, *caching} <= observed.kinds


def read_settings(request: Request) -> "tuple[Settings, list[Refusal]]":
    """The settings of a request over their defaults, and refusals of those that cannot be read."""
    from gpustack_components.bindings.settings import InvalidSettings, Settings

    try:
        return Settings.from_mapping(request.settings), []
    except InvalidSettings as invalid:
        return Settings(), [Refusal("settings", "settings", problem) for problem in invalid.problems]


def read_timeouts(request: Request) -> "tuple[Timeouts, list[Refusal]]":
    """The timeouts of a request over their defaults, and refusals of those that cannot be read."""
    from gpustack_components.rollout.contract import Timeouts

    try:
        return Timeouts.parse(request.timeouts), []
    except ValueError as wrong:
        places = (line.partition(": ") for line in str(wrong).splitlines())
        return Timeouts(), [Refusal("timeouts", path, message) for path, _, message in places]


def review_only(
    request: Request, *, old: Mapping[str, Any] | None = None, observed: Reading | None = None
) -> Judgement:
    """Review a request without resolving it; `old` is the stored document that update rules compare with, `observed`
    what was read of the cluster's binding objects."""
    from gpustack_components.admission.defaulting import default
    from gpustack_components.admission.review import review
    from gpustack_components.api.decode import decode

    depended = read_bindings(request, observed)
    bindings, refusals = depended.bindings, list(depended.refusals)
    settings, more = read_settings(request)
    refusals += more
    refusals += read_timeouts(request)[1]
    hidden = Known(None, request.unknown)
    for index, raw in enumerate(request.bindings):
        place = f"bindings[{index}]"
        for one in review(raw, bindings=bindings, settings=settings).refusals:
            found = replace(one, path=f"{place}.{one.path}" if one.path else place)
            refusals += [] if hidden.hides(found.path) else [found]
    answer = review(request.document, old=old, bindings=bindings, settings=settings)
    refusals += [refusal for refusal in answer.refusals if not hidden.hides(refusal.path)]
    unjudged = tuple(str(one) for one in answer.unjudged)
    warnings = (*(str(warning) for warning in answer.warnings), *depended.contradictions)
    document: Any = answer.document
    if document is None and not refusals:
        decoded: Any = decode(request.document).document
        document = default(decoded, bindings) if decoded is not None else None
    return Judgement(
        document,
        tuple(refusals),
        bindings=bindings,
        warnings=warnings,
        unjudged=unjudged,
        unread=observed.unread if observed is not None else (),
        contradictions=depended.contradictions,
        facts=depended.facts,
    )


def judge(
    request: Request,
    *,
    old: Mapping[str, Any] | None = None,
    runtime_classes: frozenset[str] = frozenset(),
    kubernetes: tuple[int, int] = KUBERNETES,
    operator: bool = False,
    remembered: "Store | None" = None,
    observed: Reading | None = None,
) -> Judgement:
    """Review and resolve a request; the rest of the arguments is what was found in the cluster, `remembered` in the
    record."""
    from gpustack_components.bindings.resolve import resolve

    judgement = review_only(request, old=old, observed=observed)
    if judgement.refusals or judgement.document is None or judgement.bindings is None:
        return judgement
    resolution = resolve(
        judgement.document,
        judgement.bindings,
        read_settings(request)[0],
        runtime_classes=runtime_classes,
        kubernetes=kubernetes,
        operator_present=operator,
        remembered=remembered,
    )
    return replace(judgement, failures=resolution.failures, resolved=resolution.resolved)


def encode(document: "ModelDeployment") -> Json:
    """A document as JSON in camelCase without absent fields."""
    from gpustack_components.api.encode import encode as encode_document

    return encode_document(document)
