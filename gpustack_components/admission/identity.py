"""What an update may not change: the fields that make a deployment the one it is (api sheet 6.3, 7)."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpustack_components.admission.case import Case, RoleCase, Side
from gpustack_components.admission.rule import UPDATE, Need, Rule
from gpustack_components.api.model_deployment import Resources
from gpustack_components.api.quantity import Quantity
from gpustack_components.api.refusal import Refusal
from gpustack_components.cluster.keys import SCALER_BINDING

_SUBJECT = "identity"
_NEEDS: frozenset[Need] = frozenset(("object", "previous"))
_OTHER = "another value describes another deployment, which is created rather than edited; give it a name of its own"
_WAY_OUT = "Create another deployment; this one keeps its name, its status and its place in the cache pool."

IDENTITY_MODEL = Rule(
    id="identity-model",
    subject=_SUBJECT,
    layer="webhook",
    when="`model` differs from the stored one, in its name or its `artifactRef`",
    way_out=_WAY_OUT,
    source="api-and-admission 6.3, 7",
    paths=("spec.model",),
    operations=UPDATE,
    needs=_NEEDS,
)
IDENTITY_ENGINE = Rule(
    id="identity-engine",
    subject=_SUBJECT,
    layer="webhook",
    when="`engine.name` differs from the stored one; its image may change",
    way_out=_WAY_OUT,
    source="api-and-admission 6.3, 7",
    paths=("spec.engine.name",),
    operations=UPDATE,
    needs=_NEEDS,
)
IDENTITY_KV_CACHE = Rule(
    id="identity-kv-cache",
    subject=_SUBJECT,
    layer="webhook",
    when="`kvCache` differs from the stored one, is added or is removed",
    way_out=_WAY_OUT,
    source="api-and-admission 6.3, 7",
    paths=("spec.kvCache",),
    operations=UPDATE,
    needs=_NEEDS,
)
IDENTITY_ROLE_SET = Rule(
    id="identity-role-set",
    subject=_SUBJECT,
    layer="webhook",
    when="a role is added or removed; a rename is both, reordering is neither",
    way_out=_WAY_OUT,
    source="api-and-admission 6.3, 7",
    paths=("spec.roles[].name", "spec.roles"),
    operations=UPDATE,
    needs=_NEEDS,
)
IDENTITY_ROLE_KIND = Rule(
    id="identity-role-kind",
    subject=_SUBJECT,
    layer="webhook",
    when="the kind of a role differs from the stored one; an absent kind is Server",
    way_out=_WAY_OUT,
    source="api-and-admission 6.3, 7",
    paths=("spec.roles[].kind",),
    operations=UPDATE,
    needs=_NEEDS,
)
IDENTITY_ELASTIC_ROLE = Rule(
    id="identity-elastic-role",
    subject=_SUBJECT,
    layer="webhook",
    when="`size`, `instanceType`, `resources` or `command` of a stored elastic role differs",
    way_out="Create another deployment; of an elastic role's configuration only `elasticEp.width` may change.",
    source="api-and-admission 6.3, elastic-ep 1.2",
    paths=(
        "spec.roles[].size",
        "spec.roles[].instanceType",
        "spec.roles[].resources",
        "spec.roles[].command",
    ),
    operations=UPDATE,
    needs=_NEEDS,
)
ROUTER_NAME = Rule(
    id="router-name",
    subject=_SUBJECT,
    layer="webhook",
    when="`router.name` differs while a router was and is set",
    way_out="Remove the router in one edit and add the other one in the next.",
    source="api-and-admission 6.3, 7",
    paths=("spec.router.name",),
    operations=UPDATE,
    needs=_NEEDS,
)
SCALER_OWNS_REPLICAS = Rule(
    id="scaler-owns-replicas",
    subject=_SUBJECT,
    layer="webhook",
    when="`replicas` of a role changes while the stored object is bound to a scaler that is not the writer",
    way_out="Edit the scaler's bounds, or release the target: set the scaler's mode to Shadow, suspend it, or delete "
    "it.",
    source="api-and-admission 6.3, scaler 9",
    paths=("spec.roles[].replicas",),
    operations=UPDATE,
    needs=_NEEDS,
)

RULES = (
    IDENTITY_MODEL,
    IDENTITY_ENGINE,
    SCALER_OWNS_REPLICAS,
    IDENTITY_KV_CACHE,
    IDENTITY_ROLE_SET,
    IDENTITY_ROLE_KIND,
    IDENTITY_ELASTIC_ROLE,
    ROUTER_NAME,
)


def judge_identity(case: Case) -> Iterator[Refusal]:
    """Frozen fields of the deployment and of its roles, matched by name."""
    old = case.old
    if old is None:
        return
    if case.spec.model != old.spec.model:
        yield IDENTITY_MODEL.refuse(
            "spec.model", f"{_model(old)} became {_model(case.new)}; {_OTHER}", _model(case.new)
        )
    if case.engine != old.spec.engine.name:
        yield IDENTITY_ENGINE.refuse(
            "spec.engine.name", f"{old.spec.engine.name} became {case.engine}; {_OTHER}", case.engine
        )
    yield from _judge_replicas(case, old)
    if case.spec.kv_cache != old.spec.kv_cache:
        yield IDENTITY_KV_CACHE.refuse("spec.kvCache", f"{_cache(old)} became {_cache(case.new)}; {_OTHER}")
    yield from _judge_role_set(case, old)
    for role in case.new.roles:
        stored = old.by_name.get(role.name)
        if stored is not None:
            yield from _judge_role(role, stored)


def _model(side: Side) -> str:
    model = side.spec.model
    return f'"{model.name}"' + (f' from artifact "{model.artifact_ref.name}"' if model.artifact_ref else "")


def _cache(side: Side) -> str:
    cache = side.spec.kv_cache
    return f'binding "{cache.pool_ref.name}" over {cache.connector}' if cache else "no cache"


def _judge_role_set(case: Case, old: Side) -> Iterator[Refusal]:
    for role in case.new.roles:
        if role.name not in old.by_name:
            yield IDENTITY_ROLE_SET.refuse(
                f"{role.path}.name",
                f'role "{role.name}" is new; another set of roles describes another deployment, which is created '
                "rather than edited",
                role.name,
            )
    for name in old.by_name:
        if name not in case.new.by_name:
            yield IDENTITY_ROLE_SET.refuse(
                "spec.roles",
                f'role "{name}" is gone; another set of roles describes another deployment, which is created rather '
                "than edited",
                name,
            )


def _judge_role(role: RoleCase, stored: RoleCase) -> Iterator[Refusal]:
    if role.kind != stored.kind:
        yield IDENTITY_ROLE_KIND.refuse(f"{role.path}.kind", f"{stored.kind} became {role.kind}; {_OTHER}", role.kind)
    if not stored.elastic:
        return
    new, old = role.role, stored.role
    changes: tuple[tuple[str, Any, Any], ...] = (
        ("size", old.size, new.size),
        ("instanceType", old.instance_type, new.instance_type),
        ("resources", _request(stored), _request(role)),
        ("command", old.command, new.command),
    )
    for field, before, after in changes:
        if before != after:
            yield IDENTITY_ELASTIC_ROLE.refuse(
                f"{role.path}.{field}",
                f"an elastic role keeps its {field} from creation on, only elasticEp.width may change; another value "
                "describes another deployment, which is created rather than edited; give it a name of its own",
            )


def _request(role: RoleCase) -> tuple[Quantity, int, int, str, Quantity]:
    """An elastic role's request with absent parts filled in; an absent card count is its tensor-parallel degree."""
    asked = role.role.resources or Resources()
    return (
        asked.accelerator if asked.accelerator is not None else Quantity(role.elastic_parallelism.tensor),
        asked.accelerator_sliced_memory_percentage or 0,
        asked.accelerator_sliced_cores_percentage or 0,
        asked.accelerator_partitioned_profile or "",
        asked.interface or Quantity(0),
    )


def _judge_replicas(case: Case, old: Side) -> Iterator[Refusal]:
    holder = bound_scaler(old.document.metadata.annotations.get(SCALER_BINDING))
    if holder is None or holder.name == case.writer:
        return
    for role in case.new.roles:
        stored = old.by_name.get(role.name)
        if stored is not None and stored.role.replicas != role.role.replicas:
            yield SCALER_OWNS_REPLICAS.refuse(
                f"{role.path}.replicas",
                f'{stored.role.replicas} became {role.role.replicas}, but the counts belong to scaler "{holder.name}"; '
                "edit its bounds, or release the target (mode Shadow, suspend, or delete the scaler)",
                role.role.replicas,
            )


@dataclass(frozen=True, slots=True)
class Holder:
    """The scaler that owns a target's counts."""

    name: str
    """Its name."""
    uid: str
    """Its UID: a scaler created anew under the name is another one."""


def bound_scaler(annotation: str | None) -> Holder | None:
    """The scaler a target's binding annotation names (scaler sheet 9); None when there is none or it is unreadable."""
    if not annotation:
        return None
    try:
        binding: Any = json.loads(annotation)
        name, uid, term = binding["name"], binding["uid"], binding["term"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    readable = isinstance(name, str) and name and isinstance(uid, str) and uid and type(term) is int and term >= 1
    return Holder(name, uid) if readable else None


def judge_router_name(case: Case) -> Iterator[Refusal]:
    """The router's name, while one was and is set."""
    before = case.old.spec.router if case.old else None
    after = case.spec.router
    if before is not None and after is not None and before.name != after.name:
        yield ROUTER_NAME.refuse(
            "spec.router.name",
            f"{before.name} became {after.name}, and a router's name cannot change in place; remove the router in one "
            "edit and add the other one in the next",
            after.name,
        )
