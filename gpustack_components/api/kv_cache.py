"""From a namespace's grant to a KV store: KVCachePoolBinding, KVCachePool, KVCacheBackend (bindings sheet 3)."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from gpustack_components.api.document import Document
from gpustack_components.api.names import DNS_1123_LABEL
from gpustack_components.api.part import (
    Bool,
    Condition,
    Count,
    ImageReference,
    LocalRef,
    Observed,
    Opaque,
    Part,
    PositiveInt,
    PositiveQuantity,
    PullPolicy,
    Text,
)

StoreProtocol: TypeAlias = Literal["", "Auto", "TCP", "RDMA", "EFA", "CANN", "ROCM", "MUSA", "MACA"]
"""Protocols a store's members may speak; empty is as good as absent, `Auto` is TCP and never a probe."""


class ObjectRef(Part, frozen=True):
    """A reference by name to a cluster-scoped object."""

    name: Text
    """Name of the object."""


class Quota(Part, frozen=True):
    """What a Binding asks of its pool."""

    ceiling: PositiveQuantity
    """Bytes requested, above 0; a request, not a grant."""


class Domain(Part, frozen=True):
    """The one reuse domain a Binding registers. Every field is frozen."""

    name: Annotated[str, Field(min_length=1, max_length=63, pattern=DNS_1123_LABEL)] = "default"
    """Domain name, which is the store's tenant id."""
    block_size: PositiveInt
    """Tokens per cache block."""
    dtype: Annotated[str, Field(min_length=1, max_length=32, pattern=r"^[^A-Z]+$")]
    """Element type of the blocks in the engine's own spelling, lower case."""


class KVCachePoolBindingSpec(Part, frozen=True):
    """What a Binding grants to its namespace."""

    pool_ref: ObjectRef
    """The cluster-scoped KVCachePool; frozen."""
    quota: Quota
    """What is asked of the pool."""
    domain: Domain
    """The reuse domain."""


class KVCachePoolBindingStatus(Observed, frozen=True):
    """What was observed of a Binding."""

    phase: str = ""
    """`Provisioning`, `Ready`, `Degraded`, `Error` or `Deleting`."""
    conditions: tuple[Condition, ...] = ()
    """Conditions; `QuotaGranted` decides with the phase whether the Binding is usable."""


class KVCachePoolBinding(Document, frozen=True):
    """A namespace's authorization to use one pool, with one reuse domain."""

    kind: Literal["KVCachePoolBinding"] = "KVCachePoolBinding"
    """Name of the kind."""
    spec: KVCachePoolBindingSpec
    """What is granted."""
    status: KVCachePoolBindingStatus | None = None
    """What was observed. A document without a status (None) is usable, one with an empty status is not."""


class PoolQuota(Part, frozen=True):
    """The size of a pool."""

    total: PositiveQuantity
    """Bytes the pool hands out in all."""


class KVCachePoolSpec(Part, frozen=True):
    """What a pool stands on."""

    backends: Annotated[tuple[Text, ...], Field(min_length=1, max_length=1)]
    """Names of the backends; exactly one."""
    quota: PoolQuota
    """Size of the pool."""


class KVCachePoolStatus(Observed, frozen=True):
    """What was observed of a pool."""

    client_endpoint: Annotated[str, Field(max_length=259)] = ""
    """`host:port` engines dial; empty: nothing published yet, and never guessed."""
    conditions: tuple[Condition, ...] = ()
    """Conditions; `QuotaLedgerAvailable` says whether tenants are kept apart."""


class KVCachePool(Document, frozen=True):
    """A share of a store that Bindings draw from. Cluster-scoped."""

    kind: Literal["KVCachePool"] = "KVCachePool"
    """Name of the kind."""
    spec: KVCachePoolSpec
    """What the pool stands on."""
    status: KVCachePoolStatus | None = None
    """What was observed; None when the document has no status."""


class Transport(Part, frozen=True):
    """The protocol of a store or of one group of its members."""

    protocol: StoreProtocol | None = None
    """Protocol; absent or empty: the backend's, and `Auto` on the backend itself."""


class Leader(Part, frozen=True):
    """The leader of a managed store."""

    replicas: Annotated[PositiveInt, Field(le=5)] = 1
    """Leaders, 1 to 5."""
    allocation_strategy: Literal["Random", "FreeRatioFirst"] = "FreeRatioFirst"
    """How blocks are spread over members."""
    multi_tenancy: Bool = True
    """Whether the leader keeps a ledger per tenant; false drops the tenant id."""
    election_backend: Any = None
    """How leaders elect, as raw JSON."""
    extra_args: tuple[str, ...] = ()
    """Arguments appended to the leader's own."""
    extra_env: tuple[Opaque, ...] = ()
    """Environment of the leader, as raw JSON."""


class MemberGroup(Part, frozen=True):
    """A group of equal members of a managed store; its identity is its position."""

    node_selector: dict[str, str] = Field(default_factory=dict[str, str])
    """Nodes the group stands on."""
    medium: Literal["DRAM", "VRAM"] | None = None
    """What the members lend."""
    capacity_per_member: PositiveQuantity | None = None
    """Bytes one member lends."""
    image: ImageReference | None = None
    """Image of the group; absent: the backend's."""
    transport: Transport | None = None
    """Protocol of this group; absent: the backend's."""
    fabric_interface_count: Count | None = None
    """Fabric interfaces per member; absent: none."""
    local_disks: tuple[Opaque, ...] = ()
    """Disk tier, as raw JSON."""
    host_paths: tuple[Opaque, ...] = ()
    """Host paths, as raw JSON."""
    extra_args: tuple[str, ...] = ()
    """Arguments appended to a member's own."""
    extra_env: tuple[Opaque, ...] = ()
    """Environment of a member, as raw JSON."""
    runtime_class_name: str | None = None
    """RuntimeClass of the members."""
    security_context: Opaque | None = None
    """Security context of the members, as raw JSON."""


class ManagedConnection(Part, frozen=True):
    """A store the operator runs."""

    leader: Leader = Field(default_factory=Leader)
    """Its leader."""
    members: Annotated[tuple[MemberGroup, ...], Field(max_length=32)] = ()
    """Its member groups in order; at most 32."""


class StoreEndpoint(Part, frozen=True):
    """One endpoint of a store."""

    name: Literal["Client", "Admin"]
    """`Client` is what engines dial, `Admin` is never handed out."""
    address: Text
    """`host:port`."""


class ExternalConnection(Part, frozen=True):
    """A store somebody else runs."""

    endpoints: tuple[StoreEndpoint, ...]
    """Its endpoints; both names are required."""


class Connection(Part, frozen=True):
    """Where the store is: exactly one of the two."""

    managed: ManagedConnection | None = None
    """A store the operator runs."""
    external: ExternalConnection | None = None
    """A store somebody else runs."""


class KVCacheBackendSpec(Part, frozen=True):
    """What a store is made of."""

    type: Literal["Mooncake"] = "Mooncake"
    """Kind of store; one value today."""
    image: ImageReference | None = None
    """Image of leader and members; absent: the one from the settings."""
    image_pull_policy: PullPolicy | None = None
    """Pull policy; absent: Kubernetes' default."""
    image_pull_secrets: Annotated[tuple[LocalRef, ...], Field(max_length=32)] = ()
    """Secrets for pulling the image."""
    connection: Connection
    """Where the store is."""
    transport: Transport = Field(default_factory=Transport)
    """Protocol of every group that names none of its own."""


class KVCacheBackendStatus(Observed, frozen=True):
    """What was observed of a store."""

    phase: str = ""
    """One-word state."""


class KVCacheBackend(Document, frozen=True):
    """A store for KV blocks. Cluster-scoped."""

    kind: Literal["KVCacheBackend"] = "KVCacheBackend"
    """Name of the kind."""
    spec: KVCacheBackendSpec
    """What the store is made of."""
    status: KVCacheBackendStatus | None = None
    """What was observed; None when the document has no status."""
