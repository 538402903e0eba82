"""The objects a deployment depends on, judged as documents of their own (bindings sheet 1.1, 3.1 to 3.3, 5.1).

An object read back from a cluster (it has a `resourceVersion`) stands there already: only an edit of it is judged.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpustack_components.admission.case import Unjudged
from gpustack_components.admission.object_rules import (
    ARTIFACT_FROZEN,
    ARTIFACT_HUB_ONLY,
    ARTIFACT_SOURCE,
    BACKEND_ENDPOINTS,
    BACKEND_MEMBERS,
    INSTANCE_TYPE_FROZEN,
    INSTANCE_TYPE_GROUP,
    INSTANCE_TYPE_UNITS,
    POOL_BINDING_CEILING,
    POOL_BINDING_DOMAIN,
    POOL_BINDING_DTYPE,
    POOL_BINDING_FROZEN,
    POOL_BINDING_POOL,
    POOL_FROZEN,
)
from gpustack_components.admission.rule import Rule
from gpustack_components.api.document import Document
from gpustack_components.api.instance_type import InstanceType
from gpustack_components.api.kv_cache import KVCacheBackend, KVCachePool, KVCachePoolBinding
from gpustack_components.api.model_artifact import ModelArtifact
from gpustack_components.api.quantity import Quantity
from gpustack_components.api.refusal import Refusal
from gpustack_components.api.wording import shown
from gpustack_components.bindings.catalog import DEFAULT_NAMESPACE, Bindings
from gpustack_components.bindings.kv_cache import keeps_ledger
from gpustack_components.bindings.settings import Settings

_OTHERS = (POOL_BINDING_POOL.id, POOL_BINDING_CEILING.id, POOL_BINDING_DOMAIN.id)
_LARGEST_PORT = 65535
_MOST_DIGITS = 9


@dataclass(frozen=True)
class ObjectCase:
    """One write of a binding object under review."""

    new: Document
    """The submitted object."""
    old: Document | None
    """The stored object, of the same kind; None on create."""
    bindings: Bindings
    """The other objects."""
    settings: Settings
    """The settings."""
    unjudged: list[Unjudged] = field(default_factory=list[Unjudged])
    """What had to be left open."""


def judge_object(case: ObjectCase) -> Iterator[Refusal]:
    """The object itself and beside the others; nothing for one that stands in a cluster already."""
    new = case.new
    if new.metadata.resource_version:
        return
    match new:
        case InstanceType():
            yield from _judge_instance_type(new)
        case KVCachePoolBinding():
            yield from _judge_pool_binding(case, new)
        case KVCacheBackend():
            yield from _judge_backend(new)
        case ModelArtifact():
            yield from _judge_artifact(new)
        case _:
            pass


def judge_frozen(case: ObjectCase) -> Iterator[Refusal]:
    """The object against the stored one; nothing on create."""
    match case.new, case.old:
        case InstanceType() as new, InstanceType() as old:
            yield from _judge_frozen_instance_type(new, old)
        case KVCachePoolBinding() as new, KVCachePoolBinding() as old:
            yield from _judge_frozen_pool_binding(new, old)
        case KVCachePool() as new, KVCachePool() as old:
            yield from _judge_frozen_pool(new, old)
        case ModelArtifact() as new, ModelArtifact() as old:
            yield from _judge_frozen_artifact(new, old)
        case _:
            pass


def _changes(rule: Rule, values: Mapping[str, tuple[Any, Any]], way_out: str) -> Iterator[Refusal]:
    for path, (before, after) in values.items():
        if before != after:
            yield rule.refuse(path, f"{_edit(before, after)}, and it is fixed at creation; {way_out}")


def _edit(before: Any, after: Any) -> str:
    plain = all(value is None or isinstance(value, str | int) for value in (before, after))
    return f"{shown(before)} became {shown(after)}" if plain else "it differs from the stored one"


def _judge_instance_type(new: InstanceType) -> Iterator[Refusal]:
    spec = new.spec
    if spec.acceleratable and not spec.accelerator_group:
        yield INSTANCE_TYPE_GROUP.refuse(
            "spec.acceleratorGroup",
            "an acceleratable type names the group of its accelerators, which tells whose cards are shared; state one "
            "such as nvidia-a10g, or set acceleratable to false",
            spec.accelerator_group,
        )
    cpu, ram, storage = spec.unit_resources.cpu, spec.unit_resources.ram, spec.local_storage
    cores = int(cpu) if len(cpu) <= _MOST_DIGITS and cpu.isascii() and cpu.isdecimal() else 0
    if cores < 1 or (cores > 1 and not spec.acceleratable):
        wanted = "a whole number of cores per card, as 16" if spec.acceleratable else "1, the unit of a CPU-only type"
        yield INSTANCE_TYPE_UNITS.refuse("spec.unitResources.cpu", f"found {shown(cpu)}; write {wanted}", cpu)
    if not _is_positive(ram):
        yield INSTANCE_TYPE_UNITS.refuse(
            "spec.unitResources.ram", f"found {shown(ram)}; write an amount of memory such as 64Gi", ram
        )
    if not storage.endswith("Gi") or not _is_positive(storage):
        yield INSTANCE_TYPE_UNITS.refuse(
            "spec.localStorage", f"found {shown(storage)}; write an amount in Gi, such as 512Gi", storage
        )


def _is_positive(amount: str) -> bool:
    try:
        return Quantity(amount) > 0
    except ValueError:
        return False


def _judge_frozen_instance_type(new: InstanceType, old: InstanceType) -> Iterator[Refusal]:
    yield from _changes(
        INSTANCE_TYPE_FROZEN,
        {
            "spec.description": (old.spec.description or "", new.spec.description or ""),
            "spec.acceleratorGroup": (old.spec.accelerator_group or "", new.spec.accelerator_group or ""),
            "spec.generalGroup": (old.spec.general_group or "generic", new.spec.general_group or "generic"),
            "spec.acceleratable": (old.spec.acceleratable, new.spec.acceleratable),
            "spec.os": (old.spec.os, new.spec.os),
            "spec.arch": (old.spec.arch, new.spec.arch),
            "spec.unitResources.cpu": (old.spec.unit_resources.cpu, new.spec.unit_resources.cpu),
            "spec.unitResources.ram": (old.spec.unit_resources.ram, new.spec.unit_resources.ram),
            "spec.localStorage": (old.spec.local_storage, new.spec.local_storage),
        },
        "restore it, or create another InstanceType (displayName and inactive may change)",
    )


def _judge_pool_binding(case: ObjectCase, new: KVCachePoolBinding) -> Iterator[Refusal]:
    spec = new.spec
    created = case.old is None
    if created and spec.domain.dtype == "auto" and case.settings.model_deployment_kv_cache_dtype_owned:
        yield POOL_BINDING_DTYPE.refuse(
            "spec.domain.dtype",
            "auto names no element type, and every engine of this domain is told the one stated here; state the dtype "
            "the engines store, such as bfloat16 or fp8_e4m3",
            "auto",
        )
    moved = not isinstance(case.old, KVCachePoolBinding) or case.old.spec.quota.ceiling != spec.quota.ceiling
    if new.metadata.deleting or not moved:
        return
    pool = case.bindings.pool(spec.pool_ref.name)
    if pool is None:
        yield from _judge_missing_pool(case, spec.pool_ref.name)
        return
    if spec.quota.ceiling > pool.spec.quota.total:
        yield POOL_BINDING_CEILING.refuse(
            "spec.quota.ceiling",
            f'{spec.quota.ceiling} exceeds the {pool.spec.quota.total} of KVCachePool "{pool.metadata.name}"; ask for '
            f"at most {pool.spec.quota.total}, or enlarge the pool first",
            str(spec.quota.ceiling),
        )
    if created:
        yield from _judge_domain(case, new, pool)


def _judge_missing_pool(case: ObjectCase, name: str) -> Iterator[Refusal]:
    if case.bindings.complete and case.bindings.pools:
        yield POOL_BINDING_POOL.refuse(
            "spec.poolRef.name",
            f'there is no KVCachePool "{name}" (there are {", ".join(sorted(case.bindings.pools)[:10])}); correct the '
            "name, or create the pool first",
            name,
        )
    else:
        case.unjudged.append(
            Unjudged(
                _OTHERS,
                "spec.poolRef.name",
                f'KVCachePool "{name}" is not among the given documents; add it, or read it from the cluster',
            )
        )


def _judge_domain(case: ObjectCase, new: KVCachePoolBinding, pool: KVCachePool) -> Iterator[Refusal]:
    """The domain against those of bindings known before this one: two new ones are refused on the later."""
    name, backend = new.spec.domain.name, pool.spec.backends[0]
    for other in _earlier_bindings(case.bindings, new):
        behind = case.bindings.pool(other.spec.pool_ref.name)
        if behind is None or behind.spec.backends[0] != backend:
            continue
        place = f"{other.metadata.namespace or DEFAULT_NAMESPACE}/{other.metadata.name}"
        if other.spec.domain.name == name:
            message = (
                f'domain "{name}" is already registered on KVCacheBackend "{backend}" by KVCachePoolBinding {place}, '
                "and a domain belongs to one Binding; choose another name, or use that Binding"
            )
        elif not keeps_ledger(case.bindings.backend(backend), pool):
            message = (
                f'KVCacheBackend "{backend}" keeps no ledger per tenant and already holds domain '
                f'"{other.spec.domain.name}" of KVCachePoolBinding {place}; use that Binding, or a pool of another '
                "backend"
            )
        else:
            continue
        yield POOL_BINDING_DOMAIN.refuse("spec.domain.name", message, name)
        return


def _earlier_bindings(bindings: Bindings, new: KVCachePoolBinding) -> Iterator[KVCachePoolBinding]:
    own = (new.metadata.namespace or DEFAULT_NAMESPACE, new.metadata.name)
    for place, other in bindings.pool_bindings.items():
        if place == own:
            return
        yield other


def _judge_frozen_pool_binding(new: KVCachePoolBinding, old: KVCachePoolBinding) -> Iterator[Refusal]:
    yield from _changes(
        POOL_BINDING_FROZEN,
        {
            "spec.poolRef.name": (old.spec.pool_ref.name, new.spec.pool_ref.name),
            "spec.domain.name": (old.spec.domain.name, new.spec.domain.name),
            "spec.domain.blockSize": (old.spec.domain.block_size, new.spec.domain.block_size),
            "spec.domain.dtype": (old.spec.domain.dtype, new.spec.domain.dtype),
        },
        "restore it, or create another KVCachePoolBinding",
    )


def _judge_frozen_pool(new: KVCachePool, old: KVCachePool) -> Iterator[Refusal]:
    yield from _changes(
        POOL_FROZEN,
        {"spec.backends": (old.spec.backends[0], new.spec.backends[0])},
        "restore it, or create another KVCachePool",
    )


def _judge_backend(new: KVCacheBackend) -> Iterator[Refusal]:
    managed, external = new.spec.connection.managed, new.spec.connection.external
    if managed is not None:
        path = "spec.connection.managed.members"
        if not managed.members:
            yield BACKEND_MEMBERS.refuse(path, "a managed store has no member group; declare at least one")
        disks = [index for index, group in enumerate(managed.members) if group.local_disks]
        for index in disks[1:]:
            yield BACKEND_MEMBERS.refuse(
                f"{path}[{index}].localDisks",
                f"{path}[{disks[0]}] has the disk tier already, and one group may; keep it on one of the two",
            )
    if external is not None:
        path = "spec.connection.external.endpoints"
        names = [endpoint.name for endpoint in external.endpoints]
        missing = [name for name in ("Client", "Admin") if name not in names]
        if missing:
            yield BACKEND_ENDPOINTS.refuse(
                path, f"an external store states Client and Admin, and {' and '.join(missing)} is missing; add it"
            )
        for index, endpoint in enumerate(external.endpoints):
            if endpoint.name in names[:index]:
                yield BACKEND_ENDPOINTS.refuse(
                    f"{path}[{index}].name",
                    f"{endpoint.name} is already {path}[{names.index(endpoint.name)}]; keep one of the two",
                    endpoint.name,
                )
            if not _is_address(endpoint.address):
                yield BACKEND_ENDPOINTS.refuse(
                    f"{path}[{index}].address",
                    f"found {shown(endpoint.address)}; write host:port, as store.example.com:50051",
                    endpoint.address,
                )


def _is_address(address: str) -> bool:
    host, _, port = address.rpartition(":")
    return (
        bool(host)
        and not any(character.isspace() or character == "/" for character in host)
        and port.isascii()
        and port.isdecimal()
        and 1 <= int(port[:6]) <= _LARGEST_PORT
    )


def _judge_artifact(new: ModelArtifact) -> Iterator[Refusal]:
    spec, source = new.spec, new.spec.source
    claim = source.persistent_volume_claim
    if claim is not None and ".." in claim.path.split("/"):
        yield ARTIFACT_SOURCE.refuse(
            "spec.source.persistentVolumeClaim.path",
            f'"{claim.path}" steps up with "..", which no mount may; state the path inside the volume',
            claim.path,
        )
    for name, hub in (("huggingFace", source.hugging_face), ("modelScope", source.model_scope)):
        if hub is not None and ".." in hub.repository:
            yield ARTIFACT_SOURCE.refuse(
                f"spec.source.{name}.repository",
                f'"{hub.repository}" holds "..", which no repository may; write owner/name or a name',
                hub.repository,
            )
    if source.hugging_face is not None or source.model_scope is not None:
        return
    kind = "a claim" if claim is not None else "an image"
    hub_only: tuple[tuple[str, Any], ...] = (
        ("allowPatterns", spec.allow_patterns),
        ("ignorePatterns", spec.ignore_patterns),
        ("expectedDigest", spec.expected_digest),
    )
    for name, value in hub_only:
        if value:
            yield ARTIFACT_HUB_ONLY.refuse(
                f"spec.{name}", f"{kind} is mounted whole, and {name} is for hub sources; remove it"
            )


def _judge_frozen_artifact(new: ModelArtifact, old: ModelArtifact) -> Iterator[Refusal]:
    yield from _changes(
        ARTIFACT_FROZEN,
        {
            "spec.source": (old.spec.source, new.spec.source),
            "spec.allowPatterns": (old.spec.allow_patterns, new.spec.allow_patterns),
            "spec.ignorePatterns": (old.spec.ignore_patterns, new.spec.ignore_patterns),
            "spec.expectedDigest": (old.spec.expected_digest, new.spec.expected_digest),
        },
        "create another ModelArtifact instead",
    )


FROZEN: Mapping[str, tuple[str, ...]] = {
    "InstanceType": (INSTANCE_TYPE_FROZEN.id,),
    "KVCachePoolBinding": (POOL_BINDING_FROZEN.id,),
    "KVCachePool": (POOL_FROZEN.id,),
    "ModelArtifact": (ARTIFACT_FROZEN.id,),
}
"""The update rules of each kind that has any."""
