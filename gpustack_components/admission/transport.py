"""The KV cache and its transport: the binding a deployment names, the protocols its pool speaks (api sheet 6.8)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpustack_components.admission.case import Case, RoleCase
from gpustack_components.admission.rule import Need, Rule
from gpustack_components.api.instance_type import InstanceType
from gpustack_components.api.kv_cache import KVCacheBackend
from gpustack_components.api.refusal import Refusal
from gpustack_components.bindings import shape
from gpustack_components.bindings.transport import REQUIRED, interface_key, offers

_SUBJECT = "KV cache and transport"
_NEEDS: frozenset[Need] = frozenset(("object", "previous", "instance types", "bindings"))

KV_CACHE_POOL_REF = Rule(
    id="kv-cache-pool-ref",
    subject=_SUBJECT,
    layer="webhook",
    when="`kvCache.poolRef.name` is empty",
    way_out="Name the KVCachePoolBinding of this namespace, or remove `kvCache`.",
    source="api-and-admission 6.2, bindings 3.1",
    paths=("spec.kvCache.poolRef.name",),
)
INTERFACE_PATH = Rule(
    id="interface-path",
    subject=_SUBJECT,
    layer="webhook",
    when="a positive `resources.interface` has no RDMA or EFA path to serve, or two different ones; on an update "
    "only where the request, its type, its `command` or its direct transfer moved",
    way_out="Move the pool's backend or `kvTransfer.protocol` to RDMA or EFA on every side, or drop the request.",
    source="api-and-admission 6.7, 7; bindings 4.5",
    paths=("spec.roles[].resources.interface",),
    needs=_NEEDS,
)
POOL_TRANSPORT = Rule(
    id="pool-transport",
    subject=_SUBJECT,
    layer="webhook",
    when="the pool's member groups speak different protocols and a role's engine takes whichever comes first; on an "
    "update only where a role's type or `command` moved",
    way_out="Give every group of the backend one protocol, or use another pool.",
    source="api-and-admission 6.8, 7; bindings 4.3",
    paths=("spec.kvCache.poolRef.name",),
    needs=_NEEDS,
)

RULES = (KV_CACHE_POOL_REF, INTERFACE_PATH, POOL_TRANSPORT)


def judge_pool_ref(case: Case) -> Iterator[Refusal]:
    """The name of the binding."""
    if case.spec.kv_cache is not None and not case.spec.kv_cache.pool_ref.name:
        yield KV_CACHE_POOL_REF.refuse(
            "spec.kvCache.poolRef.name",
            "an empty reference names no KVCachePoolBinding, and the Binding is what authorizes this namespace to "
            "use a pool; name one, or remove kvCache",
            "",
        )


@dataclass(frozen=True, slots=True)
class _Chain:
    """What the deployment's binding leads to."""

    backend: KVCacheBackend | None
    missing: str
    """The first object of the chain that is not there, in words; empty when all are."""


def _follow(case: Case) -> _Chain:
    cache = case.spec.kv_cache
    if cache is None:
        return _Chain(None, "")
    binding = case.bindings.pool_binding(case.new.namespace, cache.pool_ref.name)
    if binding is None:
        return _Chain(None, f'KVCachePoolBinding "{cache.pool_ref.name}"')
    pool = case.bindings.pool(binding.spec.pool_ref.name)
    if pool is None:
        return _Chain(None, f'KVCachePool "{binding.spec.pool_ref.name}"')
    if not pool.spec.backends:
        return _Chain(None, f'a backend of KVCachePool "{pool.metadata.name}"')
    backend = case.bindings.backend(pool.spec.backends[0])
    return _Chain(backend, "" if backend else f'KVCacheBackend "{pool.spec.backends[0]}"')


def _manufacturer(named: InstanceType | None) -> str:
    return named.status.detail.manufacturer if named and named.status else ""


def _interfaces(role: RoleCase) -> int:
    count = role.role.resources.interface if role.role.resources else None
    return count.floor() if count is not None and count > 0 and count.is_whole else 0


def _direct(case: Case, role: RoleCase) -> str:
    return shape.direct_protocol(role.spec, role.role, _manufacturer(case.instance_type(role)))


def _placement_moved(role: RoleCase, stored: RoleCase) -> bool:
    """The two moves that re-judge both checks: another type, or `command` appearing or going (section 7)."""
    return role.role.instance_type != stored.role.instance_type or role.takes_over != stored.takes_over


def _interface_moved(case: Case, role: RoleCase) -> bool:
    """Whether the interface rule judges this role: always on create, on update only what moved."""
    stored = case.stored(role)
    return (
        stored is None
        or _placement_moved(role, stored)
        or _interfaces(role) != _interfaces(stored)
        or _direct(case, role) != _direct(case, stored)
    )


def judge_interface_path(case: Case) -> Iterator[Refusal]:
    """A path for every requested fabric interface."""
    if case.deleting:
        return
    judged = [role for role in case.new.roles if _interfaces(role) and _interface_moved(case, role)]
    if not judged:
        return
    chain = _follow(case)
    if chain.missing:
        path = f"{judged[0].path}.resources.interface"
        if case.bindings.complete:
            yield INTERFACE_PATH.refuse(
                path,
                f"an interface is given for the transport of the cache, and {chain.missing} does not resolve; create "
                "it first, or drop the interface request",
                _interfaces(judged[0]),
            )
        else:
            case.leave_open(
                (INTERFACE_PATH.id,),
                path,
                f"{chain.missing} is not among the given documents; add it, or read it from the cluster",
            )
        return
    offered = offers(chain.backend) if chain.backend else ()
    for role in judged:
        if case.instance_type(role) is None:
            case.leave_open(
                (INTERFACE_PATH.id,),
                f"{role.path}.resources.interface",
                f'InstanceType "{role.role.instance_type}" is not among the given documents; add it, or read it from '
                "the cluster",
            )
            continue
        store: Sequence[str] = () if role.takes_over else offered
        verdict = interface_key(store, _direct(case, role), _interfaces(role))
        if verdict.problem:
            yield INTERFACE_PATH.refuse(
                f"{role.path}.resources.interface", f"interface: {verdict.problem}", _interfaces(role)
            )


def judge_pool_transport(case: Case) -> Iterator[Refusal]:
    """One protocol across the pool, for engines that take the first one offered; one refusal is enough."""
    cache = case.spec.kv_cache
    if case.deleting or cache is None:
        return
    judged = [
        role for role in case.new.roles if (stored := case.stored(role)) is None or _placement_moved(role, stored)
    ]
    if not judged:
        return
    chain = _follow(case)
    if chain.backend is None:
        if not case.bindings.complete:
            case.leave_open(
                (POOL_TRANSPORT.id,),
                "spec.kvCache.poolRef.name",
                f"{chain.missing} is not among the given documents; add it, or read it from the cluster",
            )
        return
    distinct = tuple(dict.fromkeys(offer for offer in offers(chain.backend) if offer))
    if len(distinct) < 2:
        return
    for role in {role.role.instance_type: role for role in reversed(judged)}.values():
        named = case.instance_type(role)
        if named is None and case.engine == "vLLM":
            case.leave_open(
                (POOL_TRANSPORT.id,),
                f"{role.path}.instanceType",
                f'InstanceType "{role.role.instance_type}" is not among the given documents; add it, or read it from '
                "the cluster",
            )
            continue
        if shape.family(case.engine, _manufacturer(named)) in REQUIRED:
            continue
        yield POOL_TRANSPORT.refuse(
            "spec.kvCache.poolRef.name",
            f'the pool behind "{cache.pool_ref.name}" speaks {" and ".join(distinct)}, and the one transport '
            f"{case.engine} installs ({distinct[0]}) cannot read blocks kept on the others; use one protocol across "
            "the backend's groups, or another pool",
            cache.pool_ref.name,
        )
        return
