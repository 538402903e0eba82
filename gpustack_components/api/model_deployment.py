"""ModelDeployment: one model served by one engine, as one or more roles of replicas (api sheet 2)."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, Strict

from gpustack_components.api.document import Document
from gpustack_components.api.part import (
    Bool,
    Count,
    EnvVar,
    ImageReference,
    LocalRef,
    Opaque,
    Part,
    PositiveInt,
    PullPolicy,
    Text,
)
from gpustack_components.api.quantity import Quantity

EngineName: TypeAlias = Literal["vLLM", "SGLang"]
"""Inference engines, spelled exactly so."""

RoleKind: TypeAlias = Literal["Server", "Prefill", "Decode", "Encode"]
"""What part of a request a role computes; a Server computes all of it alone."""

RouterName: TypeAlias = Literal["llm-d-router", "vllm-router", "sglang-gateway"]
"""Routers this product renders."""

TransferProtocol: TypeAlias = Literal["Auto", "TCP", "RDMA", "EFA", "CANN", "ROCM"]
"""Protocols of the direct leg between a prefill and a decode role; those that work inside one node only are none."""

PortProtocol: TypeAlias = Literal["TCP", "UDP", "SCTP"]
"""Transport protocols of a port."""

HostPathType: TypeAlias = Literal[
    "", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"
]
"""What Kubernetes checks of a host path before it mounts it."""

_Percentage: TypeAlias = Annotated[int, Strict(), Field(ge=0, le=100)]


class Model(Part, frozen=True):
    """The model served. The whole object is frozen after creation."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name callers send, and what the engine's own hub client loads unless `artifactRef` or `command` decides."""
    artifact_ref: LocalRef | None = None
    """ModelArtifact in the same namespace that provides the weights; absent: the engine or a volume does."""


class Engine(Part, frozen=True):
    """The inference engine of every role."""

    name: EngineName
    """Which engine; frozen after creation."""
    image: Annotated[str, Field(min_length=1, max_length=512)]
    """Image of every role that names none of its own. There is no version field."""


class KVCache(Part, frozen=True):
    """A shared store for KV blocks. The whole object is frozen after creation, adding and removing it included."""

    pool_ref: LocalRef
    """KVCachePoolBinding in the deployment's own namespace; never a pool and never another namespace."""
    connector: Literal["Mooncake"] = "Mooncake"
    """Store connector; one value today."""


class KVTransfer(Part, frozen=True):
    """How a prefill and a decode role hand blocks to each other directly."""

    protocol: TransferProtocol | None = None
    """Protocol of the direct leg; absent renders as TCP."""


class Router(Part, frozen=True):
    """The router in front of the roles; may be added and removed."""

    name: RouterName
    """Which router; frozen while a router is set."""
    replicas: PositiveInt | None = None
    """Copies of the router; absent is 1 and stays distinguishable from it."""
    image: ImageReference | None = None
    """Image; absent: the one from the settings."""
    image_pull_policy: PullPolicy | None = None
    """Pull policy of the router's image; absent: Kubernetes' default."""
    image_pull_secrets: Annotated[tuple[LocalRef, ...], Field(max_length=32)] = ()
    """Secrets for pulling the router's image; at most 32."""
    extra_args: tuple[str, ...] = ()
    """Arguments appended to the router's own; those the product sets itself are refused."""
    request_timeout_seconds: PositiveInt | None = None
    """Seconds a request may take; absent: the router's own default."""
    disaggregation_threshold_tokens: Count | None = None
    """Uncached prompt tokens from which llm-d-router splits a request; absent: its default. No other router has it."""


class Resources(Part, frozen=True):
    """What one Pod of a role asks for. CPU, memory and storage follow from the InstanceType and cannot be written."""

    accelerator: Quantity | None = None
    """Whole cards per Pod; absent on an acceleratable type becomes 1. An explicit 0 stays."""
    accelerator_sliced_memory_percentage: _Percentage | None = None
    """Percent of one card's memory, 0 to 100; absent or 0: no slice."""
    accelerator_sliced_cores_percentage: _Percentage | None = None
    """Percent of one card's compute, 0 to 100; absent or 0: no slice."""
    accelerator_partitioned_profile: Annotated[str, Field(max_length=64)] | None = None
    """Hardware partition profile, e.g. `3g.40gb`; absent or empty: none."""
    interface: Quantity | None = None
    """Fabric interfaces per Pod, a whole number; absent: none."""


class Topology(Part, frozen=True):
    """Where the Pods of one replica may stand relative to each other."""

    required_level: str | None = None
    """Node label whose value all Pods of a replica share; absent or empty: unconstrained."""


class Port(Part, frozen=True):
    """A port of a role's container and Service. The first one is where the role serves."""

    port: Annotated[int, Strict(), Field(ge=1, le=65535)]
    """Port number."""
    protocol: PortProtocol = "TCP"
    """Transport protocol."""
    name: str | None = None
    """Port name; used when it is legal and unique, else derived."""


class HostPath(Part, frozen=True):
    """A directory or file of the node; needs the setting `instance-host-path-volume-allowed`."""

    path: Text
    """Absolute path on the node."""
    type: HostPathType | None = None
    """What must stand at the path; absent: not checked."""


class Volume(Part, frozen=True):
    """A mount in a role's container, from exactly one source."""

    mount_path: Annotated[str, Field(max_length=1024, pattern=r"^(/[^/]+)+$")]
    """Absolute path in the container, no trailing slash; unique in the role."""
    read_only: Bool = False
    """Whether the container may only read it."""
    sub_path: Annotated[str, Field(max_length=1024, pattern=r"^[^/].*$")] | None = None
    """Path inside the volume, not absolute; absent: its root."""
    config_map: LocalRef | None = None
    """ConfigMap in the same namespace."""
    secret: LocalRef | None = None
    """Secret in the same namespace."""
    host_path: HostPath | None = None
    """Path on the node."""


class ElasticEP(Part, frozen=True):
    """Elastic expert parallelism: the role is one replica that grows by data-parallel ranks."""

    width: Annotated[int, Strict(), Field(ge=2, le=64)]
    """Data-parallel ranks, one Pod each, 2 to 64; may only grow."""


class Role(Part, frozen=True):
    """One group of equal replicas. The set of roles is frozen after creation."""

    name: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
    """Name of the role, unique in the deployment."""
    kind: RoleKind = "Server"
    """Part of a request the role computes; frozen after creation."""
    replicas: Annotated[int, Strict(), Field(ge=1, le=1024)] = 1
    """Replicas, 1 to 1024; each is admitted and turned over as one."""
    size: Annotated[int, Strict(), Field(ge=1, le=64)] = 1
    """Pods per replica, 1 to 64."""
    instance_type: Annotated[str, Field(min_length=1, max_length=253)]
    """InstanceType whose queue and node shape the Pods use."""
    resources: Resources | None = None
    """Request of one Pod; absent: one whole card on an acceleratable type."""
    topology: Topology | None = None
    """Placement of one replica's Pods; absent: unconstrained."""
    image: ImageReference | None = None
    """Image of this role; absent: `engine.image`."""
    image_pull_policy: PullPolicy | None = None
    """Pull policy; absent: Kubernetes' default."""
    image_pull_secrets: Annotated[tuple[LocalRef, ...], Field(max_length=32)] = ()
    """Secrets for pulling the image; at most 32."""
    privileged: Bool = False
    """Whether the container runs privileged; needs the setting `instance-privileged-allowed`."""
    ports: tuple[Port, ...] = ()
    """Ports of the container and the Service, unique by number and protocol; empty: 8000."""
    additional_volumes: tuple[Volume, ...] = ()
    """Mounts beside the product's own."""
    shm_size: Quantity | None = None
    """Size of `/dev/shm`, above 0; absent renders 16Gi."""
    command: tuple[str, ...] = ()
    """The whole command line. Not empty: the role takes over, and nothing is added to it."""
    extra_args: tuple[str, ...] = ()
    """Arguments appended to the engine's command line; inert beside `command`."""
    env: tuple[EnvVar, ...] = ()
    """Environment variables, unique by name."""
    termination_grace_period_seconds: Annotated[int, Strict(), Field(ge=15, le=3600)] | None = None
    """Seconds between the request to stop and the kill, 15 to 3600; absent renders 30."""
    startup_timeout_seconds: Annotated[int, Strict(), Field(ge=10, le=86400)] = 1800
    """Seconds the engine may take to start, 10 to 86400."""
    elastic_ep: ElasticEP | None = None
    """Elastic expert parallelism; presence is frozen after creation."""


class ModelDeploymentSpec(Part, frozen=True):
    """What is wanted of a ModelDeployment."""

    model: Model
    """The model served."""
    engine: Engine
    """The engine that serves it."""
    kv_cache: KVCache | None = None
    """Shared KV store; absent: none."""
    kv_transfer: KVTransfer | None = None
    """Direct leg between prefill and decode; absent: TCP."""
    router: Router | None = None
    """Router in front; absent: none."""
    roles: Annotated[tuple[Role, ...], Field(min_length=1)]
    """Roles, unique by name; at least one."""


class ModelDeployment(Document, frozen=True):
    """One model served by one engine on Kubernetes, replica by replica admitted by Kueue."""

    kind: Literal["ModelDeployment"] = "ModelDeployment"
    """Name of the kind."""
    spec: ModelDeploymentSpec
    """What is wanted."""
    status: Opaque | None = None
    """What was observed, as raw JSON; never read by a rule and never compared."""
