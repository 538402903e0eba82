"""Accelerator request and derived host resources of one Pod's `main` container (bindings sheet 2, rendering sheet
12)."""

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from gpustack_components.api.quantity import Quantity
from gpustack_components.bindings.failure import RenderFailure
from gpustack_components.bindings.manufacturers import CREDITS_PER_CARD, Manufacturer

if TYPE_CHECKING:
    from gpustack_components.api.instance_type import InstanceType
    from gpustack_components.api.model_deployment import Resources, Role

Mode = Literal["whole", "sliced", "partitioned", "cpu"]
"""How an accelerator is asked for; `cpu` on a type without accelerators."""

CPU = "cpu"
"""Resource name of cores."""
MEMORY = "memory"
"""Resource name of memory."""
EPHEMERAL = "ephemeral-storage"
"""Resource name of a Pod's scratch space."""

EPHEMERAL_DEFAULT = Quantity("15Gi")
"""Ephemeral storage of a Pod, unless the type's local storage is smaller."""
_GIB = 1 << 30
_MIB = 1 << 20
_PER_GIB = Quantity("128Mi")
_PER_CORE_ACCELERATED = Quantity("100m")
_PER_CORE_GENERAL = Quantity("800m")
_WHOLE_PERCENT = 100


@dataclass(frozen=True, slots=True)
class PodResources:
    """What one Pod asks for, before settings and artifact delivery shape the requests."""

    mode: Mode
    """How the accelerator is asked for."""
    accelerators: tuple[tuple[str, str], ...]
    """Accelerator keys and counts; request and limit alike. Empty without a card."""
    cpu: Quantity
    """Cores."""
    memory: Quantity
    """Bytes."""
    ephemeral: Quantity
    """Bytes."""
    units: tuple[tuple[str, str], ...] = ()
    """The `.units` key of a slice or partition, which only a cluster without the operator's Pod webhook needs."""


def request_mode(resources: "Resources | None") -> Mode:
    """The mode a request names, whatever its type offers: a profile, else a percentage, else whole cards."""
    if resources is None:
        return "whole"
    if resources.accelerator_partitioned_profile:
        return "partitioned"
    if resources.accelerator_sliced_memory_percentage or resources.accelerator_sliced_cores_percentage:
        return "sliced"
    return "whole"


def slice_percentages(resources: "Resources") -> tuple[int, int]:
    """Memory and cores percentage of a slice; one that is not set takes the value of the other."""
    memory = resources.accelerator_sliced_memory_percentage or 0
    cores = resources.accelerator_sliced_cores_percentage or 0
    return (memory or cores, cores or memory)


def card_count(resources: "Resources | None") -> Quantity:
    """Cards one Pod asks for; 0 when unset."""
    accelerator = resources.accelerator if resources else None
    return accelerator if accelerator is not None else Quantity(0)


def overcommitted(resources: PodResources, *, accelerated: bool) -> tuple[Quantity, Quantity, Quantity]:
    """Cpu, memory and ephemeral-storage requests under `instance-general-resources-overcommit` (bindings sheet
    2.4)."""
    per_core = _PER_CORE_ACCELERATED if accelerated else _PER_CORE_GENERAL
    cpu = min(per_core * resources.cpu.ceil(), resources.cpu)
    return cpu, _per_gib(resources.memory), _per_gib(resources.ephemeral)


def _per_gib(amount: Quantity) -> Quantity:
    return _PER_GIB * (amount.floor() // _GIB)


def _share_of_cores(amount: Quantity, percent: int) -> Quantity:
    """A share, rounded up to the thousandth of a core that Kubernetes allows."""
    exact = amount * Fraction(percent, _WHOLE_PERCENT)
    return exact if exact * 1000 == Quantity(exact.to_milli()) else Quantity(f"{exact.to_milli()}m")


def _share_of_bytes(amount: Quantity, percent: int) -> Quantity:
    """A share, rounded up to a whole byte."""
    exact = amount * Fraction(percent, _WHOLE_PERCENT)
    return exact if exact.is_whole else Quantity(exact.ceil())


def size_pod(role: "Role", instance_type: "InstanceType", maker: Manufacturer | None) -> PodResources | RenderFailure:
    """Derive one Pod's resources from its request and type, or say why they cannot be derived."""
    unit = _units(role.name, instance_type)
    if isinstance(unit, RenderFailure):
        return unit
    unit_cpu, unit_memory = unit
    ephemeral = _ephemeral(instance_type.spec.local_storage)
    accelerated = instance_type.spec.acceleratable
    mode = request_mode(role.resources)
    if not accelerated:
        return PodResources("cpu", (), unit_cpu, unit_memory, ephemeral)
    if maker is None:
        return _unknown_maker(role.name, instance_type)
    if mode == "whole":
        count = card_count(role.resources)
        if not count.is_whole or count < 0:
            return RenderFailure(
                role.name, f"resources.accelerator asks for {count} cards; ask for a whole number of them, 0 or more"
            )
        cards = count.floor()
        accelerators = ((maker.resource, str(cards)),) if cards else ()
        factor = max(cards, 1)
        return PodResources(mode, accelerators, unit_cpu * factor, unit_memory * factor, ephemeral)
    assert role.resources is not None
    if mode == "sliced":
        memory_share, cores_share = slice_percentages(role.resources)
        accelerators = (
            (f"{maker.resource}.sliced", "1"),
            (f"{maker.resource}.sliced.memory-percentage", str(memory_share)),
            (f"{maker.resource}.sliced.cores-percentage", str(cores_share)),
        )
        credits = CREDITS_PER_CARD * memory_share // 100
        units = ((f"{maker.resource}.sliced.units", str(credits)),)
        cpu, memory = _share_of_cores(unit_cpu, memory_share), _share_of_bytes(unit_memory, memory_share)
        return PodResources(mode, accelerators, cpu, memory, ephemeral, units)
    return _partition(role, instance_type, maker, unit_cpu, unit_memory, ephemeral)


def _partition(
    role: "Role",
    instance_type: "InstanceType",
    maker: Manufacturer,
    unit_cpu: Quantity,
    unit_memory: Quantity,
    ephemeral: Quantity,
) -> PodResources | RenderFailure:
    name = instance_type.metadata.name
    profile = role.resources.accelerator_partitioned_profile if role.resources else ""
    if not maker.partition_kind:
        return RenderFailure(
            role.name,
            f"cards of {maker.name} have no partitions; "
            "ask for a slice or whole cards, or set accelerator-partition-kinds",
        )
    detail = instance_type.status.detail if instance_type.status else None
    card = _read(detail.memory if detail else None)
    if not card:
        return RenderFailure(
            role.name,
            f"InstanceType {name} shows no card memory yet, so profile {profile} cannot be sized",
            retryable=True,
        )
    sliced = detail.sliced_detail if detail else None
    offered = (sliced.physical.profiles if sliced and sliced.physical else None) or ()
    mebibytes = next((p.memory_mib or 0 for p in offered if p.name == profile), 0)
    if not mebibytes:
        return RenderFailure(
            role.name, f"InstanceType {name} does not say how much memory profile {profile} holds", retryable=True
        )
    held = mebibytes * _MIB
    percent = min(max(held * _WHOLE_PERCENT // card.floor(), 1), _WHOLE_PERCENT)
    credits = CREDITS_PER_CARD * held // card.floor()
    return PodResources(
        "partitioned",
        (
            (f"{maker.resource}.partitioned", "1"),
            (f"{maker.resource}.partitioned.{maker.partition_kind}-{profile}", "1"),
        ),
        _share_of_cores(unit_cpu, percent),
        _share_of_bytes(unit_memory, percent),
        ephemeral,
        ((f"{maker.resource}.partitioned.units", str(credits)),),
    )


def _unknown_maker(role: str, instance_type: "InstanceType") -> RenderFailure:
    name = instance_type.metadata.name
    detail = instance_type.status.detail if instance_type.status else None
    found = (detail.manufacturer if detail else None) or ""
    if not found:
        return RenderFailure(
            role,
            f"InstanceType {name} shows no manufacturer yet (status.detail.manufacturer), "
            "so its cards cannot be asked for",
            retryable=True,
        )
    return RenderFailure(
        role,
        f"InstanceType {name} is of manufacturer {found}, whose card resource is not known; name it under the setting "
        "accelerator-resource-names",
    )


def _units(role: str, instance_type: "InstanceType") -> tuple[Quantity, Quantity] | RenderFailure:
    unit = instance_type.spec.unit_resources
    cpu, memory = _read(unit.cpu), _read(unit.ram)
    name = instance_type.metadata.name
    if cpu is None or cpu <= 0:
        return RenderFailure(role, f"InstanceType {name}: spec.unitResources.cpu {unit.cpu!r} is no positive quantity")
    if memory is None or memory <= 0:
        return RenderFailure(role, f"InstanceType {name}: spec.unitResources.ram {unit.ram!r} is no positive quantity")
    return cpu, memory


def _ephemeral(local_storage: object) -> Quantity:
    local = _read(local_storage)
    return EPHEMERAL_DEFAULT if not local or local <= 0 else min(EPHEMERAL_DEFAULT, local)


def _read(text: object) -> Quantity | None:
    if text is None or text == "":
        return None
    if isinstance(text, Quantity):
        return text
    try:
        return Quantity(str(text))
    except ValueError:
        return None
