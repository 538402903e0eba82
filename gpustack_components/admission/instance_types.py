"""What a role asks of its InstanceType: that it exists, offers the mode, and holds the cards (api sheet 6.5)."""

from collections import Counter
from collections.abc import Iterator
from typing import Literal

from gpustack_components.admission.case import Case, RoleCase
from gpustack_components.admission.rule import Need, Rule
from gpustack_components.api.instance_type import InstanceType, InstanceTypeDetail
from gpustack_components.api.model_deployment import Resources
from gpustack_components.api.refusal import Refusal

_SUBJECT = "instance types"
_NEEDS: frozenset[Need] = frozenset(("object", "instance types"))

INTERFACE_COUNT = Rule(
    id="interface-count",
    subject=_SUBJECT,
    layer="webhook",
    when="`resources.interface` is negative or no whole number",
    way_out="Ask for a whole number of interfaces, or leave the field out.",
    source="api-and-admission 6.2, bindings 2.2",
    paths=("spec.roles[].resources.interface",),
)
PARTITION_WITH_SLICE = Rule(
    id="partition-with-slice",
    subject=_SUBJECT,
    layer="webhook",
    when="a request names a partition profile and a slice percentage at once",
    way_out="Keep the profile, or keep the percentages.",
    source="api-and-admission 6.2, bindings 2.2",
    paths=("spec.roles[].resources.acceleratorPartitionedProfile",),
)
INSTANCE_TYPE_NOT_FOUND = Rule(
    id="instance-type-not-found",
    subject=_SUBJECT,
    layer="mutating",
    when="a role names an InstanceType that does not exist",
    way_out="Correct the name, or declare the InstanceType.",
    source="api-and-admission 3.2, 6.5",
    paths=("spec.roles[].instanceType",),
    needs=_NEEDS,
)
INSTANCE_TYPE_NOT_READY = Rule(
    id="instance-type-not-ready",
    subject=_SUBJECT,
    layer="webhook",
    when="a slice or a partition is asked of an acceleratable type whose hardware was not observed yet",
    way_out="Try again once the type's status.detail.manufacturer is filled in; nothing in the manifest has to change.",
    source="api-and-admission 6.5, 11",
    paths=("spec.roles[].instanceType",),
    needs=_NEEDS,
)
SLICE_NOT_OFFERED = Rule(
    id="slice-not-offered",
    subject=_SUBJECT,
    layer="webhook",
    when="a slice is asked of a type that offers no logical slicing",
    way_out="Ask for whole cards, or use a type that offers slices.",
    source="api-and-admission 6.5, bindings 2.2",
    paths=("spec.roles[].resources.acceleratorSlicedMemoryPercentage",),
    needs=_NEEDS,
)
PARTITION_NOT_OFFERED = Rule(
    id="partition-not-offered",
    subject=_SUBJECT,
    layer="webhook",
    when="a partition is asked of a type that offers no partitioning",
    way_out="Ask for whole cards, or use a type that offers partitions.",
    source="api-and-admission 6.5, bindings 2.2",
    paths=("spec.roles[].resources.acceleratorPartitionedProfile",),
    needs=_NEEDS,
)
PARTITION_PROFILE = Rule(
    id="partition-profile",
    subject=_SUBJECT,
    layer="webhook",
    when="the partition profile is not among those the type offers",
    way_out="Use one of the offered profiles.",
    source="api-and-admission 6.5, bindings 2.2",
    paths=("spec.roles[].resources.acceleratorPartitionedProfile",),
    needs=_NEEDS,
)
SINGLE_CARD_MODE = Rule(
    id="single-card-mode",
    subject=_SUBJECT,
    layer="webhook",
    when="a slice or a partition is asked together with an `accelerator` other than 1",
    way_out="Set `accelerator` to 1, or ask for whole cards.",
    source="api-and-admission 6.5, bindings 2.2",
    paths=("spec.roles[].resources.accelerator",),
    needs=_NEEDS,
)
ACCELERATOR_CAPACITY = Rule(
    id="accelerator-capacity",
    subject=_SUBJECT,
    layer="webhook",
    when="a Pod asks for more whole cards than the whole pool of its type has, free or not",
    way_out="Ask for at most the capacity, or use a larger type.",
    source="api-and-admission 6.5, bindings 2.2",
    paths=("spec.roles[].resources.accelerator",),
    needs=_NEEDS,
)
ZERO_ACCELERATOR_SHARED = Rule(
    id="zero-accelerator-shared",
    subject=_SUBJECT,
    layer="webhook",
    when="a role asks for 0 cards of an acceleratable type that another role names too",
    way_out="Ask for at least 1 card, or move the role to a type without accelerators.",
    source="api-and-admission 6.5, bindings 2.2",
    paths=("spec.roles[].resources.accelerator",),
    needs=_NEEDS,
)
PAIR_SHARED_SLICE = Rule(
    id="pair-shared-slice",
    subject=_SUBJECT,
    layer="webhook",
    when="a Prefill and a Decode role both ask for a slice, of types with one accelerator group",
    way_out="Use whole cards or partitions on one side, or types of different groups.",
    source="api-and-admission 6.5, bindings 2.2",
    paths=("spec.roles",),
    needs=_NEEDS,
)

RULES = (
    INTERFACE_COUNT,
    PARTITION_WITH_SLICE,
    INSTANCE_TYPE_NOT_FOUND,
    INSTANCE_TYPE_NOT_READY,
    SLICE_NOT_OFFERED,
    PARTITION_NOT_OFFERED,
    PARTITION_PROFILE,
    SINGLE_CARD_MODE,
    ACCELERATOR_CAPACITY,
    ZERO_ACCELERATOR_SHARED,
    PAIR_SHARED_SLICE,
)

_TYPE_RULES = tuple(rule.id for rule in RULES if "instance types" in rule.needs)
_NO_DETAIL = InstanceTypeDetail()

Mode = Literal["partitioned", "sliced", "whole card"]
"""How a request uses a card."""


class NotReadyError(Exception):
    """A type's hardware is unknown, so the pass ends with this one answer instead of a verdict."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
        """The transient refusal to report."""


def mode(resources: Resources) -> Mode:
    """The mode of a request, decided by what it names and not by what the type offers (2.4)."""
    if resources.accelerator_partitioned_profile:
        return "partitioned"
    if resources.accelerator_sliced_memory_percentage or resources.accelerator_sliced_cores_percentage:
        return "sliced"
    return "whole card"


def judge_interface_count(case: Case, role: RoleCase) -> Iterator[Refusal]:
    """The number of fabric interfaces, as a number."""
    count = role.role.resources.interface if role.role.resources else None
    if count is not None and (count < 0 or not count.is_whole):
        yield INTERFACE_COUNT.refuse(
            f"{role.path}.resources.interface",
            f"resources.interface {count} is no whole number of interfaces; ask for one of at least 0, or leave it out",
            str(count),
        )


def judge_partition_with_slice(case: Case, role: RoleCase) -> Iterator[Refusal]:
    """A partition and a slice asked at once."""
    asked = role.role.resources
    if (
        asked is not None
        and asked.accelerator_partitioned_profile
        and (asked.accelerator_sliced_memory_percentage or asked.accelerator_sliced_cores_percentage)
    ):
        yield PARTITION_WITH_SLICE.refuse(
            f"{role.path}.resources.acceleratorPartitionedProfile",
            f"one accelerator cannot serve partition {asked.accelerator_partitioned_profile} and a slice "
            "(acceleratorSlicedMemoryPercentage, acceleratorSlicedCoresPercentage) at once; keep one of the two",
            asked.accelerator_partitioned_profile,
        )


def judge_instance_types(case: Case) -> Iterator[Refusal]:
    """Every role against its type, then roles against each other. Raises `NotReadyError` when a type ends the pass."""
    if case.deleting:
        return
    for role in case.new.roles:
        named = case.instance_type(role)
        if named is not None:
            yield from _judge_request(case, role, named)
        elif case.bindings.complete:
            yield INSTANCE_TYPE_NOT_FOUND.refuse(
                f"{role.path}.instanceType",
                f'there is no InstanceType "{role.role.instance_type}"{_known(case)}; correct the name, or declare '
                "the type",
                role.role.instance_type,
            )
        else:
            case.leave_type_open(_TYPE_RULES, role)
    yield from _judge_zero(case)
    yield from _judge_pairs(case)


def _known(case: Case) -> str:
    names = sorted(case.bindings.instance_types)
    return f" (there are {', '.join(names)})" if names and len(names) <= 10 else ""


def _judge_request(case: Case, role: RoleCase, named: InstanceType) -> Iterator[Refusal]:
    asked = role.role.resources
    if asked is None or not named.spec.acceleratable:
        return
    detail = named.status.detail if named.status else _NO_DETAIL
    path = f"{role.path}.resources"
    how = mode(asked)
    if how == "whole card":
        if detail.manufacturer:
            yield from _judge_capacity(case, role, named)
        elif asked.accelerator is not None and asked.accelerator > 0:
            case.leave_open(
                (ACCELERATOR_CAPACITY.id,),
                f"{role.path}.resources.accelerator",
                f'the hardware of InstanceType "{named.metadata.name}" was not observed yet '
                "(status.detail.manufacturer is empty), so the cards of its pool are not known; try again later",
            )
        return
    if not detail.manufacturer:
        raise NotReadyError(
            INSTANCE_TYPE_NOT_READY.refuse(
                f"{role.path}.instanceType",
                f'the hardware of InstanceType "{named.metadata.name}" was not observed yet '
                f"(status.detail.manufacturer is empty), so whether it offers a {how} accelerator is not known; try "
                "again later",
                named.metadata.name,
                transient=True,
            )
        )
    if how == "sliced" and detail.sliced_detail.logical.count == 0:
        yield SLICE_NOT_OFFERED.refuse(
            f"{path}.acceleratorSlicedMemoryPercentage",
            f'InstanceType "{named.metadata.name}" offers no sliced accelerators; ask for whole cards, or use a type '
            "that does",
            asked.accelerator_sliced_memory_percentage,
        )
    if how == "partitioned":
        yield from _judge_profile(path, asked.accelerator_partitioned_profile or "", named.metadata.name, detail)
    if asked.accelerator != 1:
        found = "no accelerator count" if asked.accelerator is None else f"accelerator {asked.accelerator}"
        yield SINGLE_CARD_MODE.refuse(
            f"{path}.accelerator",
            f"a {how} request takes exactly 1 card and has {found}; set it to 1, or ask for whole cards",
            None if asked.accelerator is None else str(asked.accelerator),
        )


def _judge_profile(path: str, profile: str, type_name: str, detail: InstanceTypeDetail) -> Iterator[Refusal]:
    physical = detail.sliced_detail.physical
    offered = [one.name for one in physical.profiles]
    if physical.count == 0:
        yield PARTITION_NOT_OFFERED.refuse(
            f"{path}.acceleratorPartitionedProfile",
            f'InstanceType "{type_name}" offers no partitioned accelerators; ask for whole cards, or use a type that '
            "does",
            profile,
        )
    elif profile not in offered:
        yield PARTITION_PROFILE.refuse(
            f"{path}.acceleratorPartitionedProfile",
            f'InstanceType "{type_name}" offers no partition "{profile}"; use one of {", ".join(offered) or "none"}',
            profile,
        )


def _judge_capacity(case: Case, role: RoleCase, named: InstanceType) -> Iterator[Refusal]:
    cards = role.role.resources.accelerator if role.role.resources else None
    if cards is None or named.status is None:
        return
    pool = named.status.accelerator
    if "capacity" not in pool.model_fields_set:
        case.leave_open(
            (ACCELERATOR_CAPACITY.id,),
            f"{role.path}.resources.accelerator",
            f'InstanceType "{named.metadata.name}" states no status.accelerator.capacity; state the cards of its pool',
        )
    elif cards > pool.capacity:
        yield ACCELERATOR_CAPACITY.refuse(
            f"{role.path}.resources.accelerator",
            f"{cards} cards per Pod exceed the {pool.capacity} that the whole pool of InstanceType "
            f'"{named.metadata.name}" has; ask for at most {pool.capacity}, or use a larger type',
            str(cards),
        )


def _judge_zero(case: Case) -> Iterator[Refusal]:
    uses = Counter(role.role.instance_type for role in case.new.roles)
    for role in case.new.roles:
        named = case.instance_type(role)
        cards = role.role.resources.accelerator if role.role.resources else None
        if named is None or not named.spec.acceleratable or cards is None or cards != 0:
            continue
        if uses[role.role.instance_type] > 1:
            yield ZERO_ACCELERATOR_SHARED.refuse(
                f"{role.path}.resources.accelerator",
                f'accelerator 0 on InstanceType "{role.role.instance_type}", which another role names too; ask for at '
                "least 1 accelerator, or move this role to a type without accelerators",
                0,
            )


def _judge_pairs(case: Case) -> Iterator[Refusal]:
    sliced = [role for role in case.new.roles if role.role.resources and mode(role.role.resources) == "sliced"]
    for prefill in sliced:
        for decode in sliced:
            if prefill.kind != "Prefill" or decode.kind != "Decode":
                continue
            first, second = case.instance_type(prefill), case.instance_type(decode)
            group = first.spec.accelerator_group if first else None
            if first is None or second is None or not group or group != second.spec.accelerator_group:
                continue
            yield PAIR_SHARED_SLICE.refuse(
                "spec.roles",
                f'roles "{prefill.name}" ({first.metadata.name}) and "{decode.name}" ({second.metadata.name}) both '
                "ask for a slice (acceleratorSlicedMemoryPercentage, acceleratorSlicedCoresPercentage) of "
                f"accelerator group {group} and could land on one card; use whole cards or partitions on one side, or "
                "types of different groups",
            )
