"""From KVCachePoolBinding over pool to backend: what a store client is told, or why there is no store (bindings
sheet 3)."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gpustack_components.bindings.catalog import DEFAULT_NAMESPACE, Bindings
from gpustack_components.bindings.transport import offers

if TYPE_CHECKING:
    from gpustack_components.api.kv_cache import KVCacheBackend, KVCachePool
    from gpustack_components.api.model_deployment import ModelDeployment

CLIENT_CONFIG_PATH = "/etc/gpustack/kvcache"
"""Where the configuration of a vLLM store client is mounted (bindings sheet 3.7)."""


@dataclass(frozen=True, slots=True)
class Domain:
    """The reuse domain a Binding registers; echoed in `status.kvCache`."""

    name: str
    """Domain name, which is the store's tenant id."""
    block_size: int
    """Tokens per cache block; no engine argument carries it."""
    dtype: str
    """KV dtype in the engine's own spelling."""


@dataclass(frozen=True, slots=True)
class Store:
    """A usable connection to a store (bindings sheet 3.4)."""

    binding: str
    """Name of the KVCachePoolBinding."""
    pool: str
    """Name of the KVCachePool."""
    endpoint: str
    """The pool's published client endpoint, `host:port`."""
    offers: tuple[str, ...]
    """Transports of the backend's member groups in order, in Mooncake's spelling."""
    tenant: str
    """Tenant id to render; empty on a store that keeps no tenants (bindings sheet 3.5)."""
    domain: Domain
    """The Binding's reuse domain."""

    def to_json(self) -> dict[str, Any]:
        """The store as JSON, for the record that remembers it."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Store":
        """The store `to_json` wrote. Raises `KeyError` or `TypeError` when the value is none."""
        return cls(
            binding=value["binding"],
            pool=value["pool"],
            endpoint=value["endpoint"],
            offers=tuple(value["offers"]),
            tenant=value["tenant"],
            domain=Domain(**value["domain"]),
        )


@dataclass(frozen=True, slots=True)
class Connection:
    """The outcome of following `spec.kvCache`."""

    store: Store | None
    """What to render, or None: then no connector at all."""
    reason: str
    """Reason of the condition `DomainRegistered`: `NotApplicable`, `BindingNotFound`, `BindingDeleting`,
    `BindingNotReady`, `PoolNotFound`, `EndpointNotPublished`, `BackendNotFound` or `Registered`."""
    message: str = ""
    """One sentence on what is missing; empty when nothing is."""


def connect(deployment: "ModelDeployment", bindings: Bindings) -> Connection:
    """Follow the deployment's Binding to its store. A missing link gives no store, never a partial one and never a
    failure."""
    cache = deployment.spec.kv_cache
    if cache is None:
        return Connection(None, "NotApplicable")
    namespace = deployment.metadata.namespace or DEFAULT_NAMESPACE
    name = cache.pool_ref.name
    binding = bindings.pool_binding(namespace, name)
    if binding is None:
        return Connection(None, "BindingNotFound", f"KVCachePoolBinding {name} is not known in namespace {namespace}")
    if binding.metadata.deletion_timestamp is not None:
        return Connection(None, "BindingDeleting", f"KVCachePoolBinding {name} is being deleted")
    if binding.status is not None and not _usable(binding.status):
        return Connection(
            None,
            "BindingNotReady",
            f"KVCachePoolBinding {name} is not Ready with QuotaGranted (phase {binding.status.phase})",
        )
    pool_name = binding.spec.pool_ref.name
    pool = bindings.pool(pool_name)
    if pool is None:
        return Connection(None, "PoolNotFound", f"KVCachePool {pool_name} is not known")
    endpoint = (pool.status.client_endpoint if pool.status else None) or ""
    if not endpoint:
        return Connection(None, "EndpointNotPublished", f"KVCachePool {pool_name} publishes no status.clientEndpoint")
    backend_name = next(iter(pool.spec.backends or ()), "")
    backend = bindings.backend(backend_name)
    if backend is None:
        return Connection(
            None, "BackendNotFound", f"KVCacheBackend {backend_name} of KVCachePool {pool_name} is not known"
        )
    domain = binding.spec.domain
    registered = Domain(domain.name, domain.block_size, domain.dtype)
    tenant = registered.name if keeps_ledger(backend, pool) else ""
    return Connection(Store(name, pool_name, endpoint, offers(backend), tenant, registered), "Registered")


def keeps_ledger(backend: "KVCacheBackend | None", pool: "KVCachePool") -> bool:
    """Whether the store behind a pool keeps its tenants apart (bindings sheet 3.5); so it does unless declared not
    to."""
    managed = backend.spec.connection.managed if backend and backend.spec.connection else None
    single = managed is not None and not managed.leader.multi_tenancy
    conditions = pool.status.conditions if pool.status else None
    return not single and _condition(conditions, "QuotaLedgerAvailable") != ("False", "MultiTenancyDisabled")


def _usable(status: Any) -> bool:
    return status.phase == "Ready" and _condition(status.conditions, "QuotaGranted")[0] == "True"


def _condition(conditions: Iterable[Any] | None, kind: str) -> tuple[str, str]:
    for condition in conditions or ():
        if condition.type == kind:
            return (condition.status or "", condition.reason or "")
    return ("", "")
