"""Accelerator manufacturers: resource keys, RuntimeClass names, partition kinds (bindings sheet 1.3)."""

from dataclasses import dataclass

from gpustack_components.bindings.settings import Settings

CREDITS_PER_CARD = 1_600_000
"""Credits of one whole accelerator; a slice or partition is charged its share of them (bindings sheet 1.5)."""

ASCEND = "ascend"
"""The manufacturer whose vLLM has connectors of its own."""


@dataclass(frozen=True, slots=True)
class Manufacturer:
    """How one manufacturer's cards are asked for."""

    name: str
    """Lower-case name as `InstanceType.status.detail.manufacturer` holds it."""
    resource: str
    """Extended resource of one whole card, e.g. `nvidia.com/gpu`; the base of the slice and partition keys."""
    runtime_class: str
    """RuntimeClass to run under when the cluster has it; empty: none."""
    partition_kind: str
    """Infix of a partition's key, e.g. `mig`; empty: this manufacturer's cards cannot be partitioned."""

    @property
    def credits(self) -> str:
        """Resource in which the operator's queues count this manufacturer's cards."""
        return f"credits.gpustack.ai/{self.name}"


_DEFAULTS = {
    m.name: m
    for m in (
        Manufacturer("nvidia", "nvidia.com/gpu", "nvidia", "mig"),
        Manufacturer("amd", "amd.com/gpu", "amd", ""),
        Manufacturer(ASCEND, "huawei.com/npu", "ascend", ""),
        Manufacturer("cambricon", "cambricon.com/mlu", "cambricon", ""),
        Manufacturer("hygon", "hygon.com/dcu", "hygon", "mig"),
        Manufacturer("iluvatar", "iluvatar.com/gpu", "iluvatar", ""),
        Manufacturer("metax", "metax-tech.com/gpu", "metax", ""),
        Manufacturer("mthreads", "mthreads.com/gpu", "mthreads", ""),
        Manufacturer("thead", "alibabacloud.com/ppu", "", "mig"),
    )
}

KNOWN = tuple(_DEFAULTS)
"""Names of the manufacturers known without a setting."""


def manufacturer(name: str, settings: Settings) -> Manufacturer | None:
    """The manufacturer of that name with the settings' overrides; None when neither knows its resource."""
    default = _DEFAULTS.get(name)
    resource = settings.accelerator_resource_names.get(name, default.resource if default else "")
    if not name or not resource:
        return None
    return Manufacturer(
        name=name,
        resource=resource,
        runtime_class=settings.accelerator_runtime_names.get(name, default.runtime_class if default else ""),
        partition_kind=settings.accelerator_partition_kinds.get(name, default.partition_kind if default else ""),
    )
