"""Documents of one input against each other: one name twice, and Services that two deployments would share."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpustack_components.admission.case import Case
from gpustack_components.admission.rule import Need, Rule
from gpustack_components.admission.scaler_rules import SCALER_ALREADY_BOUND
from gpustack_components.api import names
from gpustack_components.api.document import Document
from gpustack_components.api.model_deployment import ModelDeployment
from gpustack_components.api.refusal import Refusal
from gpustack_components.api.scaler import ModelDeploymentScaler
from gpustack_components.bindings.catalog import DEFAULT_NAMESPACE, Bindings

_SUBJECT = "documents of one input"
_NEEDS: frozenset[Need] = frozenset(("object", "other documents"))
_INSTANCE = re.compile(r"(.+)-r(0|[1-9][0-9]*)\Z")

DOCUMENT_DUPLICATE = Rule(
    id="document-duplicate",
    subject=_SUBJECT,
    layer="review",
    when="two documents of one input have the same kind, namespace and name",
    way_out="Keep one of the two, or rename the later.",
    source="ours",
    paths=("metadata.name",),
    needs=_NEEDS,
)
SERVICE_NAME_SHARED = Rule(
    id="service-name-shared",
    subject=_SUBJECT,
    layer="review",
    when="two deployments of one namespace would name a Service alike, as `a` with role `b-c` and `a-b` with role "
    "`c` do",
    way_out="Rename the role or the deployment that comes later.",
    source="ours; names after api-and-admission 5",
    paths=("metadata.name", "spec.roles[].name", "spec.router"),
    needs=_NEEDS,
)
BINDING_CONFLICT = Rule(
    id="binding-conflict",
    subject=_SUBJECT,
    layer="review",
    when="two objects that a deployment may depend on have the same kind and name, and different content",
    way_out="Keep one of the two; which of them the cluster has is not known.",
    source="ours; bindings 0",
    paths=("",),
    needs=frozenset(("object", "instance types", "bindings")),
)

RULES = (DOCUMENT_DUPLICATE, SERVICE_NAME_SHARED, BINDING_CONFLICT)

_CLUSTER_SCOPED = ("InstanceType", "KVCachePool", "KVCacheBackend")


@dataclass(frozen=True, slots=True)
class _Claim:
    """A Service name one deployment takes."""

    document: int
    path: str
    words: str


def judge_together(documents: Sequence[Document | None]) -> Iterator[tuple[int, Refusal]]:
    """Refusals that only several documents make, each with the position of the document it belongs to."""
    yield from _judge_duplicates(documents)
    deployments: dict[tuple[str, str, str], tuple[int, ModelDeployment]] = {}
    for index, one in enumerate(documents):
        if isinstance(one, ModelDeployment):
            deployments.setdefault(_place(one), (index, one))
    if len(deployments) > 1:
        yield from _judge_services(tuple(deployments.values()))
    yield from _judge_scalers(documents)


def judge_conflicts(case: Case) -> Iterator[Refusal]:
    """Objects around the deployment that are given twice and differ."""
    return binding_conflicts(case.bindings)


def binding_conflicts(bindings: Bindings) -> Iterator[Refusal]:
    """Objects given twice with different content, so that which of the two counts is not known."""
    for conflict in dict.fromkeys(bindings.conflicts):
        yield BINDING_CONFLICT.refuse("", f"{conflict} is declared twice with different content; keep one of the two")


def _place(document: Document) -> tuple[str, str, str]:
    """What makes two documents one object."""
    if document.kind in _CLUSTER_SCOPED:
        return document.kind, "", document.metadata.name
    return document.kind, document.metadata.namespace or DEFAULT_NAMESPACE, document.metadata.name


def _judge_duplicates(documents: Sequence[Document | None]) -> Iterator[tuple[int, Refusal]]:
    first: dict[tuple[str, str, str], int] = {}
    for index, document in enumerate(documents):
        if document is None:
            continue
        earlier = first.setdefault(_place(document), index)
        if earlier != index:
            kind, namespace, name = _place(document)
            where = f" of namespace {namespace}" if namespace else ""
            yield (
                index,
                DOCUMENT_DUPLICATE.refuse(
                    "metadata.name",
                    f'{kind} "{name}"{where} is document {earlier + 1} of this input already; keep '
                    "one of the two, or rename this one",
                    name,
                ),
            )


def _claims(index: int, deployment: ModelDeployment) -> Iterator[tuple[str, _Claim]]:
    name = deployment.metadata.name
    yield name, _Claim(index, "metadata.name", f'deployment "{name}"')
    if deployment.spec.router is not None:
        yield names.router_name(name), _Claim(index, "spec.router", f'the router of deployment "{name}"')
    for position, role in enumerate(deployment.spec.roles):
        words = f'role "{role.name}" of deployment "{name}"'
        yield names.role_service(name, role.name), _Claim(index, f"spec.roles[{position}].name", words)


def _judge_services(deployments: Sequence[tuple[int, ModelDeployment]]) -> Iterator[tuple[int, Refusal]]:
    claimed: dict[tuple[str, str], _Claim] = {}
    sized: dict[tuple[str, str], tuple[_Claim, int]] = {}
    claims: list[tuple[str, str, _Claim]] = []
    for index, deployment in deployments:
        namespace = deployment.metadata.namespace or DEFAULT_NAMESPACE
        claims.extend((namespace, service, claim) for service, claim in _claims(index, deployment))
        for position, role in enumerate(deployment.spec.roles):
            if role.size > 1:
                service = names.role_service(deployment.metadata.name, role.name)
                words = f'a replica of role "{role.name}" of deployment "{deployment.metadata.name}"'
                claim = _Claim(index, f"spec.roles[{position}].name", words)
                sized.setdefault((namespace, service), (claim, role.replicas))
    for namespace, service, claim in claims:
        earlier = claimed.setdefault((namespace, service), claim)
        yield from _shared(namespace, service, earlier, claim)
        match = _INSTANCE.match(service)
        owner = sized.get((namespace, match[1])) if match else None
        if match is not None and owner is not None and int(match[2]) < owner[1]:
            yield from _shared(namespace, service, *sorted((owner[0], claim), key=lambda one: one.document))


def _shared(namespace: str, service: str, first: _Claim, later: _Claim) -> Iterator[tuple[int, Refusal]]:
    if first.document == later.document:
        return
    yield (
        later.document,
        SERVICE_NAME_SHARED.refuse(
            later.path,
            f'"{service}" would name the Service of {later.words} and of {first.words} in namespace {namespace}; '
            "rename the role or the deployment",
            service,
        ),
    )


def _judge_scalers(documents: Sequence[Document | None]) -> Iterator[tuple[int, Refusal]]:
    first: dict[tuple[str, str], str] = {}
    for index, document in enumerate(documents):
        if not isinstance(document, ModelDeploymentScaler) or document.spec.mode != "Active" or document.spec.suspend:
            continue
        target = document.spec.target_ref.name
        holder = first.setdefault((document.metadata.namespace or DEFAULT_NAMESPACE, target), document.metadata.name)
        if holder != document.metadata.name:
            yield (
                index,
                SCALER_ALREADY_BOUND.refuse(
                    "spec.targetRef.name",
                    f'"{target}" is scaled by scaler "{holder}" of this input already; keep one Active scaler per '
                    "deployment",
                    target,
                ),
            )
