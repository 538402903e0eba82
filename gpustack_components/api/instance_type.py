"""InstanceType: the pool of equal nodes behind one Kueue queue (bindings sheet 1.1)."""

from typing import Annotated, Literal

from pydantic import Field

from gpustack_components.api.document import Document
from gpustack_components.api.part import Bool, Count, Observed, Part
from gpustack_components.api.quantity import Quantity


class UnitResources(Part, frozen=True):
    """CPU and memory that come with one card, or with one unit of a CPU-only type."""

    cpu: str
    """Cores, e.g. `"16"`; a quantity as text, judged when a Pod is rendered."""
    ram: str
    """Memory, e.g. `64Gi`; a quantity as text, judged when a Pod is rendered."""


class InstanceTypeSpec(Part, frozen=True):
    """What an administrator states. Everything but `displayName` and `inactive` is frozen after creation."""

    display_name: Annotated[str, Field(max_length=64)] | None = None
    """Name for people; at most 64 characters."""
    description: Annotated[str, Field(max_length=1024)] | None = None
    """Free text; at most 1024 characters."""
    inactive: Bool = False
    """True holds the queue: running Pods stay, new ones wait."""
    accelerator_group: str | None = None
    """Accelerator key such as `nvidia-a10g`; types of one group may share cards."""
    general_group: str | None = None
    """CPU key; absent or empty: `generic`."""
    acceleratable: Bool
    """Whether the type has accelerators."""
    os: str
    """Operating system of the nodes, e.g. `linux`."""
    arch: str
    """Architecture of the nodes, e.g. `amd64`."""
    unit_resources: UnitResources
    """CPU and memory per card or unit."""
    local_storage: str
    """Local storage of a node, e.g. `512Gi`; a quantity as text."""


class LogicalSlices(Observed, frozen=True):
    """Logical slices the pool offers."""

    count: Count = 0
    """Slices in the whole pool; above 0 means that slicing is offered."""


class PartitionProfile(Observed, frozen=True):
    """One hardware partition profile the pool offers."""

    name: str
    """Name of the profile, e.g. `3g.40gb`."""
    count: Count = 0
    """Partitions of this profile the pool can hold."""
    memory_mib: Count = 0
    """Memory of one partition in MiB; 0: not known."""


class PhysicalPartitions(Observed, frozen=True):
    """Hardware partitions the pool offers; a catalogue that does not move with use."""

    count: Count = 0
    """Partitions in the whole pool; above 0 means that partitioning is offered."""
    profiles: tuple[PartitionProfile, ...] = ()
    """Profiles offered."""


class SlicedDetail(Observed, frozen=True):
    """How cards of the pool may be shared."""

    logical: LogicalSlices = Field(default_factory=LogicalSlices)
    """Logical slices."""
    physical: PhysicalPartitions = Field(default_factory=PhysicalPartitions)
    """Hardware partitions."""


class InstanceTypeDetail(Observed, frozen=True):
    """Observed hardware."""

    manufacturer: str = ""
    """Maker of the accelerators in lower case, e.g. `nvidia`; empty: not observed yet."""
    product: str = ""
    """Product name of the accelerators."""
    family: str = ""
    """Family of the accelerators."""
    memory: str = ""
    """Memory of one card, e.g. `98304Mi`; a quantity as text, empty: not known."""
    sliced_detail: SlicedDetail = Field(default_factory=SlicedDetail)
    """How cards may be shared."""


class Amounts(Observed, frozen=True):
    """One view of a pool's cards or cores."""

    capacity: Quantity = Quantity(0)
    """Everything the pool holds, in use or not."""
    remaining: Quantity | None = None
    """What is free now; absent when not observed."""
    once_max_request: Quantity | None = None
    """The most one Pod could get now; absent when not observed."""


class InstanceTypeStatus(Observed, frozen=True):
    """What was observed of the pool."""

    detail: InstanceTypeDetail = Field(default_factory=InstanceTypeDetail)
    """Hardware."""
    entrance: str | None = None
    """LocalQueue name Pods carry. None: the key is absent, so it is derived from the name. Empty: missing."""
    phase: str = ""
    """One-word state."""
    accelerator: Amounts = Field(default_factory=Amounts)
    """Whole-card view; unpartitioned cards only."""
    cpu: Amounts = Field(default_factory=Amounts)
    """CPU view."""


class InstanceType(Document, frozen=True):
    """A pool of equal nodes; fronts the Kueue ClusterQueue of the same name. Cluster-scoped."""

    kind: Literal["InstanceType"] = "InstanceType"
    """Name of the kind."""
    spec: InstanceTypeSpec
    """What an administrator states."""
    status: InstanceTypeStatus | None = None
    """What was observed; None when the document has no status."""
