"""The review of one document, or of several: every refusal at once, in one order, never raising (api sheet 6 to 8)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from gpustack_components.admission import (
    documents as several,
)
from gpustack_components.admission import (
    elastic,
    elastic_rules,
    engine_arguments,
    host_access,
    identity,
    instance_types,
    lint,
    names,
    objects,
    parallelism,
    ports,
    registry,
    roles,
    router,
    scaler,
    scaler_rules,
    transport,
    volumes,
)
from gpustack_components.admission.case import Case, Side, Unjudged
from gpustack_components.admission.defaulting import default
from gpustack_components.admission.rule import DeploymentCheck, RoleCheck
from gpustack_components.api.decode import Decoded, decode
from gpustack_components.api.document import Document
from gpustack_components.api.model_deployment import ModelDeployment
from gpustack_components.api.refusal import Refusal
from gpustack_components.api.scaler import ModelDeploymentScaler
from gpustack_components.bindings.catalog import DEFAULT_NAMESPACE, Bindings
from gpustack_components.bindings.settings import Settings

Raw: TypeAlias = Any
"""A document as raw JSON, or as a document already decoded."""
Identity: TypeAlias = tuple[str, str, str]
"""Kind, namespace (`default` when unstated) and name."""


@dataclass(frozen=True, slots=True)
class Review:
    """The verdict on one document."""

    document: Document | None
    """The document with every default filled in; None when it is refused."""
    refusals: tuple[Refusal, ...]
    """Everything that is refused, in the order of section 8; empty when the document is accepted."""
    warnings: tuple[Refusal, ...] = ()
    """What is accepted and still worth a word; these rules have severity `warn`."""
    unjudged: tuple[Unjudged, ...] = ()
    """Rules that could not be judged, and what was missing for it."""

    @property
    def accepted(self) -> bool:
        """Whether nothing is refused."""
        return not self.refusals


_ROLE_CHECKS: tuple[RoleCheck, ...] = (
    engine_arguments.judge_owned_arguments,
    parallelism.judge_parallelism,
    parallelism.judge_balance,
    engine_arguments.judge_owned_env,
    instance_types.judge_interface_count,
    instance_types.judge_partition_with_slice,
    roles.judge_shared_memory,
    volumes.judge_volumes,
    engine_arguments.judge_artifact_arguments,
    volumes.judge_artifact_mounts,
    ports.judge_reserved_ports,
)
_DEPLOYMENT_CHECKS: tuple[DeploymentCheck, ...] = (
    transport.judge_pool_ref,
    roles.judge_count,
    names.judge_role_services,
    names.judge_router_service,
    names.judge_collisions,
    names.judge_members,
    roles.judge_kinds,
    roles.judge_topology,
    router.judge_router,
    elastic.judge_elastic,
    host_access.judge_host_access,
    ports.judge_listen_ports,
    ports.judge_reserved_listen_ports,
    engine_arguments.judge_served_name,
    engine_arguments.judge_cache_dtype,
    identity.judge_identity,
    identity.judge_router_name,
    several.judge_conflicts,
    instance_types.judge_instance_types,
)
_LAST_CHECKS: tuple[DeploymentCheck, ...] = (transport.judge_interface_path, transport.judge_pool_transport)
"""Each runs only while nothing at all was refused before it."""
_LINTS: tuple[RoleCheck, ...] = (
    lint.warn_api_keys,
    lint.warn_encoders,
    lint.warn_dropped_fields,
    lint.warn_client_config_mounts,
)

_UPDATE_RULES = {
    **objects.FROZEN,
    "ModelDeploymentScaler": (scaler_rules.SCALER_TARGET_CHANGED.id,),
    "ModelDeployment": tuple(
        rule.id
        for rules in (identity.RULES, elastic_rules.RULES, lint.RULES)
        for rule in rules
        if rule.operations == ("update",)
    ),
}
"""The rules of each kind that only compare with the stored object."""


def review(
    new: Raw,
    *,
    old: Raw | None = None,
    bindings: Bindings,
    settings: Settings,
    target: Raw | None = None,
    writer: str | None = None,
) -> Review:
    """Judge one document of any kind as it is created, or, with `old`, as it replaces the stored one.

    `target` is the ModelDeployment a ModelDeploymentScaler scales; `writer` names the scaler that makes this write, if
    one does. Never raises: a crash inside a rule becomes the refusal `internal-error`.
    """
    return _review(_decode(new), old, bindings, settings, target, writer)


def review_all(
    documents: Sequence[Raw],
    *,
    old: Mapping[Identity, Raw] = MappingProxyType({}),
    bindings: Bindings,
    settings: Settings,
) -> tuple[Review, ...]:
    """Judge the documents of one input together; the answer holds one review per document, in their order.

    Binding objects among them join `bindings` and go before equal names there. A scaler is judged by its deployment
    when that is among them. `old` holds stored documents by kind, namespace and name.
    """
    decoded = [_decode(document) for document in documents]
    known = _joined(bindings, [one.document for one in decoded if one.document is not None])
    deployments = {
        _identity(one.document): one.document for one in decoded if isinstance(one.document, ModelDeployment)
    }
    extra: dict[int, list[Refusal]] = {}
    together = _guarded(
        "the review of several documents", lambda: several.judge_together([d.document for d in decoded])
    )
    for position, refusal in together if isinstance(together, tuple) else ((0, together),):
        extra.setdefault(position, []).append(refusal)
    reviews: list[Review] = []
    for position, one in enumerate(decoded):
        target = None
        if isinstance(one.document, ModelDeploymentScaler):
            namespace = one.document.metadata.namespace or DEFAULT_NAMESPACE
            target = deployments.get(("ModelDeployment", namespace, one.document.spec.target_ref.name))
        stored = old.get(_identity(one.document)) if one.document is not None else None
        verdict = _review(one, stored, known, settings, target, None)
        more = tuple(extra.get(position, ()))
        reviews.append(replace(verdict, document=None, refusals=(*verdict.refusals, *more)) if more else verdict)
    return tuple(reviews)


@dataclass(frozen=True, slots=True)
class _Previous:
    """The stored document, or why it cannot be read."""

    document: Document | None = None
    fault: str = ""

    @classmethod
    def of(cls, old: Raw | None) -> "_Previous":
        if old is None or isinstance(old, Document):
            return cls(old)
        decoded = decode(old, stored=True)
        return cls(decoded.document, "" if decoded.document else str(decoded.refusals[0]))


def _review(
    decoded: Decoded,
    old: Raw | None,
    bindings: Bindings,
    settings: Settings,
    target: Raw | None,
    writer: str | None,
) -> Review:
    if decoded.document is None:
        return Review(None, decoded.refusals)
    try:
        return _review_document(decoded.document, _Previous.of(old), bindings, settings, target, writer)
    except Exception as crash:
        return Review(None, (_internal_error("the review", crash),))


def _review_document(
    document: Document,
    previous: _Previous,
    bindings: Bindings,
    settings: Settings,
    target: Raw | None,
    writer: str | None,
) -> Review:
    unjudged: list[Unjudged] = []
    update_rules = _UPDATE_RULES.get(document.kind, ())
    if previous.fault and update_rules:
        unjudged.append(
            Unjudged(update_rules, "", f"the previous document cannot be read ({previous.fault}); give one that can")
        )
    elif update_rules and previous.document is not None and type(previous.document) is not type(document):
        unjudged.append(
            Unjudged(
                update_rules, "kind", f"the previous document is a {previous.document.kind}; give one of this kind"
            )
        )
    if isinstance(document, ModelDeployment):
        old = previous.document if isinstance(previous.document, ModelDeployment) else None
        return _review_deployment(document, old, bindings, settings, writer, unjudged)
    if isinstance(document, ModelDeploymentScaler):
        stored = previous.document if isinstance(previous.document, ModelDeploymentScaler) else None
        return _review_scaler(document, stored, target, unjudged)
    same = previous.document if type(previous.document) is type(document) else None
    return _review_object(objects.ObjectCase(document, same, bindings, settings, unjudged))


def _review_deployment(
    document: ModelDeployment,
    old: ModelDeployment | None,
    bindings: Bindings,
    settings: Settings,
    writer: str | None,
    unjudged: list[Unjudged],
) -> Review:
    document = default(document, bindings)
    stored = Side(default(old, bindings)) if old is not None else None
    case = Case(Side(document), stored, bindings, settings, writer, unjudged)
    refusals: list[Refusal] = []
    for role in case.new.roles:
        for check in _ROLE_CHECKS:
            _run(refusals, check, lambda check=check, role=role: check(case, role))
    for last in _DEPLOYMENT_CHECKS:
        _run(refusals, last, lambda last=last: last(case))
    for last in _LAST_CHECKS:
        if not refusals:
            _run(refusals, last, lambda last=last: last(case))
    warnings: list[Refusal] = []
    for role in case.new.roles:
        for check in _LINTS:
            _run(warnings, check, lambda check=check, role=role: check(case, role))
    _run(warnings, lint.warn_token_counting, lambda: lint.warn_token_counting(case))
    return _verdict(document, refusals, warnings, case.unjudged)


def _review_scaler(
    document: ModelDeploymentScaler,
    old: ModelDeploymentScaler | None,
    target: Raw | None,
    unjudged: list[Unjudged],
) -> Review:
    deployment = decode(target).document if target is not None else None
    case = scaler.ScalerCase(document, old, deployment if isinstance(deployment, ModelDeployment) else None, unjudged)
    refusals: list[Refusal] = []
    warnings: list[Refusal] = []
    for check in (scaler.judge_document, scaler.judge_target):
        _run(refusals, check, lambda check=check: check(case))
    _run(warnings, scaler.warn_window, lambda: scaler.warn_window(case))
    return _verdict(document, refusals, warnings, case.unjudged)


def _review_object(case: objects.ObjectCase) -> Review:
    refusals: list[Refusal] = []
    for check in (objects.judge_object, objects.judge_frozen):
        _run(refusals, check, lambda check=check: check(case))
    return _verdict(case.new, refusals, [], case.unjudged)


def _verdict(document: Document, refusals: list[Refusal], warnings: list[Refusal], unjudged: list[Unjudged]) -> Review:
    return Review(None if refusals else document, tuple(refusals), tuple(warnings), tuple(unjudged))


def _run(found: list[Refusal], check: Callable[..., object], judge: Callable[[], Iterable[Refusal]]) -> None:
    """Add what one check finds; what it found before a crash stays, and the crash itself is a finding."""
    try:
        for refusal in judge():
            found.append(refusal)
    except instance_types.NotReadyError as end:
        found.append(end.refusal)
    except Exception as crash:
        found.append(_internal_error(getattr(check, "__name__", "a check"), crash))


def _guarded(
    what: str, judge: Callable[[], Iterable[tuple[int, Refusal]]]
) -> tuple[tuple[int, Refusal], ...] | Refusal:
    try:
        return tuple(judge())
    except Exception as crash:
        return _internal_error(what, crash)


def _internal_error(what: str, crash: Exception) -> Refusal:
    return registry.INTERNAL_ERROR.refuse(
        "",
        f"{what} failed with {type(crash).__name__}: {crash}; this is a defect of gpustack-components and no fault of "
        "the document, please report it together with the document",
    )


def _decode(document: Raw) -> Decoded:
    try:
        return decode(document)
    except Exception as crash:
        return Decoded(None, (_internal_error("decoding", crash),))


def _identity(document: Document) -> Identity:
    return document.kind, document.metadata.namespace or DEFAULT_NAMESPACE, document.metadata.name


def _joined(bindings: Bindings, documents: Sequence[Document]) -> Bindings:
    """The given bindings with the objects of the input in front; one name twice in it is a refusal of its own."""
    return replace(Bindings.of(documents), conflicts=()).over(bindings)
