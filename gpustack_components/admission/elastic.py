"""Elastic expert parallelism: one role that grows in width, its members' configuration fixed (api sheet 6.4)."""

from collections.abc import Iterator

from gpustack_components.admission.case import Case, RoleCase
from gpustack_components.admission.elastic_rules import (
    ELASTIC_ACCELERATOR,
    ELASTIC_ARGUMENT,
    ELASTIC_COMMAND,
    ELASTIC_ENGINE,
    ELASTIC_ENV,
    ELASTIC_KIND,
    ELASTIC_MAX_WIDTH,
    ELASTIC_MAX_WIDTH_FROZEN,
    ELASTIC_ONLY_ROLE,
    ELASTIC_PARALLEL_UNREADABLE,
    ELASTIC_PP_PCP,
    ELASTIC_PRESENCE,
    ELASTIC_REPLICAS,
    ELASTIC_ROLE_MOVED,
    ELASTIC_SIZE,
    ELASTIC_TP_FROZEN,
    ELASTIC_WHOLE_CARDS,
    ELASTIC_WIDTH_BOUND,
    ELASTIC_WIDTH_DECREASE,
)
from gpustack_components.api.command_line.flags import entry_name, resolve_flag
from gpustack_components.api.command_line.owned import VLLM
from gpustack_components.api.command_line.parallel_flags import ELASTIC_MAX
from gpustack_components.api.model_deployment import Resources
from gpustack_components.api.refusal import Refusal

_OWNED_ARGUMENTS = (
    "--data-parallel-size",
    "--data-parallel-size-local",
    "--data-parallel-backend",
    "--data-parallel-address",
    "--enable-expert-parallel",
    "--enable-elastic-ep",
    "--enable-eplb",
    "--distributed-executor-backend",
    "--ray-address",
)
_SHORT = {
    "-dp": "--data-parallel-size",
    "-dpl": "--data-parallel-size-local",
    "-dpb": "--data-parallel-backend",
    "-dpa": "--data-parallel-address",
    "-ep": "--enable-expert-parallel",
    "-e": "--enable-expert-parallel",
}
_OWNED_ENVIRONMENT = frozenset(
    (
        "VLLM_DP_SIZE",
        "VLLM_DATA_PARALLEL_SIZE_LOCAL",
        "VLLM_ENABLE_ELASTIC_EP",
        "VLLM_ENABLE_EPLB",
        "VLLM_TENSOR_PARALLEL_SIZE",
        "VLLM_PIPELINE_PARALLEL_SIZE",
        "VLLM_RAY_ADDRESS",
        "RAY_ADDRESS",
        "GPUSTACK_ELASTIC_POD_UID",
        "GPUSTACK_ELASTIC_POD_IP",
        "VLLM_RAY_DP_PACK_STRATEGY",
        "RAY_OVERRIDE_LABELS",
    )
)


def judge_elastic(case: Case) -> Iterator[Refusal]:
    """The profile on the submitted object, then against the stored one; nothing where neither carries it."""
    elastic = [role for role in case.new.roles if role.elastic]
    if elastic:
        yield from _judge_deployment(case, elastic)
        for role in elastic:
            yield from _judge_degrees(role)
            yield from _judge_configuration(role)
            yield from _judge_cards(case, role)
            yield from _judge_owned(role)
    if case.old is not None:
        stored = [role for role in case.old.roles if role.elastic]
        if elastic or stored:
            yield from _judge_update(elastic, stored)


def _judge_deployment(case: Case, elastic: list[RoleCase]) -> Iterator[Refusal]:
    if case.engine != VLLM:
        yield ELASTIC_ENGINE.refuse(
            "spec.engine.name",
            f"elasticEp is a profile of vLLM, and the engine is {case.engine}; use vLLM, or drop elasticEp",
            case.engine,
        )
    if len(elastic) > 1:
        named = " and ".join(f'"{role.name}"' for role in elastic)
        yield ELASTIC_ONLY_ROLE.refuse(
            "spec.roles",
            f"roles {named} all carry elasticEp, and one may; keep it on one role, whose width sizes the collective",
        )
    if len(case.new.roles) > 1:
        others = " and ".join(f'"{role.name}"' for role in case.new.roles if role is not elastic[0])
        yield ELASTIC_ONLY_ROLE.refuse(
            "spec.roles",
            f'role "{elastic[0].name}" carries elasticEp and is then the only role, beside it stands {others}; remove '
            "it, its width and not a second role sizes the collective",
        )


def _width(role: RoleCase) -> int:
    return role.role.elastic_ep.width if role.role.elastic_ep else 0


def _judge_degrees(role: RoleCase) -> Iterator[Refusal]:
    read = role.elastic_parallelism
    width_path = f"{role.path}.elasticEp.width"
    width = _width(role)
    if not 2 <= width <= 64:
        yield ELASTIC_WIDTH_BOUND.refuse(width_path, f"{width} is no width; state one from 2 to 64", width)
    if read.errors:
        named = ", ".join(dict.fromkeys(error.flag for error in read.errors))
        yield ELASTIC_PARALLEL_UNREADABLE.refuse(
            f"{role.path}.extraArgs", f"an elastic role needs readable degrees, and {named} is not; correct its value"
        )
        return
    if 0 < read.elastic_max < width:
        yield ELASTIC_MAX_WIDTH.refuse(
            width_path,
            f"width {width} exceeds {ELASTIC_MAX} {read.elastic_max} of {role.path}.extraArgs; lower the width (the "
            "maximum is fixed once the deployment exists)",
            width,
        )
    if read.pipeline != 1 or read.prefill_context != 1:
        yield ELASTIC_PP_PCP.refuse(
            f"{role.path}.extraArgs",
            f"pipeline-parallel {read.pipeline} and prefill-context-parallel {read.prefill_context} must both be 1 on "
            "an elastic role; remove the flags",
        )


def _judge_configuration(role: RoleCase) -> Iterator[Refusal]:
    path, declared = role.path, role.role
    if role.kind != "Server":
        yield ELASTIC_KIND.refuse(
            f"{path}.kind", f"an elastic role is a Server, not {role.kind}; make it one, or drop elasticEp", role.kind
        )
    if declared.replicas != 1:
        yield ELASTIC_REPLICAS.refuse(
            f"{path}.replicas",
            f"an elastic role has 1 replica, not {declared.replicas}; set 1 and size it by {path}.elasticEp.width",
            declared.replicas,
        )
    if declared.size != 1:
        yield ELASTIC_SIZE.refuse(
            f"{path}.size",
            f"an elastic role has size 1, not {declared.size}; set 1 and size it by {path}.elasticEp.width",
            declared.size,
        )
    if declared.command:
        yield ELASTIC_COMMAND.refuse(
            f"{path}.command",
            "an elastic role's command line is rendered; move the arguments into extraArgs, or drop elasticEp",
        )


def _judge_cards(case: Case, role: RoleCase) -> Iterator[Refusal]:
    """The request of one member; silent while the degree it is compared with cannot be read."""
    if not role.elastic_parallelism.errors:
        yield from _judge_count(case, role)
        yield from _judge_shares(role)


def _judge_count(case: Case, role: RoleCase) -> Iterator[Refusal]:
    path, tensor = f"{role.path}.resources.accelerator", role.elastic_parallelism.tensor
    cards = role.role.resources.accelerator if role.role.resources else None
    named = case.instance_type(role)
    if cards is not None and cards != tensor:
        yield ELASTIC_ACCELERATOR.refuse(
            path,
            f"every member of an elastic role holds its tensor-parallel degree in cards, {tensor}, not {cards}; ask "
            f"for {tensor}, or leave the field out",
            str(cards),
        )
    if cards is not None or case.deleting:
        return
    if named is None and not case.bindings.complete:
        case.leave_type_open((ELASTIC_ACCELERATOR.id,), role)
    elif named is not None and not named.spec.acceleratable:
        yield ELASTIC_ACCELERATOR.refuse(
            path,
            f"every member of an elastic role holds its tensor-parallel degree in cards, {tensor}, and InstanceType "
            f'"{named.metadata.name}" has none; use a type with accelerators',
        )


def _judge_shares(role: RoleCase) -> Iterator[Refusal]:
    resources = role.role.resources or Resources()
    shares = (
        ("acceleratorSlicedMemoryPercentage", resources.accelerator_sliced_memory_percentage),
        ("acceleratorSlicedCoresPercentage", resources.accelerator_sliced_cores_percentage),
        ("acceleratorPartitionedProfile", resources.accelerator_partitioned_profile),
    )
    for field, value in shares:
        if value:
            yield ELASTIC_WHOLE_CARDS.refuse(
                f"{role.path}.resources.{field}",
                f"an elastic role takes whole cards, no share of one; remove {field}",
                value,
            )


def _judge_owned(role: RoleCase) -> Iterator[Refusal]:
    for entry in role.role.extra_args:
        flag = _owned_flag(entry)
        if flag is not None:
            spelling = entry_name(entry)
            spelled = "" if spelling == flag else f' (spelled "{spelling}")'
            yield ELASTIC_ARGUMENT.refuse(
                f"{role.path}.extraArgs",
                f"{flag}{spelled} is reserved for what is rendered for an elastic role; remove it",
                entry,
            )
    for position, variable in enumerate(role.role.env):
        if variable.name in _OWNED_ENVIRONMENT:
            yield ELASTIC_ENV.refuse(
                f"{role.path}.env[{position}].name",
                f"{variable.name} is reserved for what is rendered for an elastic role; remove it",
                variable.name,
            )


def _owned_flag(entry: str) -> str | None:
    """The profile's argument that an entry names, with any number of dashes, or in any longer spelling vLLM reads."""
    if not entry.startswith("-"):
        return None
    bare = entry_name(entry).lstrip("-")
    if f"--{bare}" in _OWNED_ARGUMENTS:
        return f"--{bare}"
    return _SHORT.get(f"-{bare}") or resolve_flag(VLLM, entry, _OWNED_ARGUMENTS)


def _judge_update(elastic: list[RoleCase], stored: list[RoleCase]) -> Iterator[Refusal]:
    if not elastic or not stored:
        change = "added to" if elastic else "removed from"
        yield ELASTIC_PRESENCE.refuse(
            "spec.roles.elasticEp",
            f"elasticEp was {change} a stored deployment; that describes another deployment, which is created rather "
            "than edited",
        )
        return
    role, before = elastic[0], stored[0]
    if role.name != before.name:
        yield ELASTIC_ROLE_MOVED.refuse(
            f"{role.path}.name",
            f'elasticEp stood on role "{before.name}" and stands on "{role.name}"; keep it there, or create another '
            "deployment",
            role.name,
        )
        return
    arguments = f"{role.path}.extraArgs"
    new, old = role.elastic_parallelism, before.elastic_parallelism
    if new != old and (new.errors or old.errors):
        side = "submitted" if new.errors else "stored"
        yield ELASTIC_TP_FROZEN.refuse(
            arguments,
            f"the tensor-parallel degree is fixed at creation, and the {side} one cannot be read; correct the "
            "arguments, or create another deployment",
        )
    else:
        if new.tensor != old.tensor:
            yield ELASTIC_TP_FROZEN.refuse(
                arguments,
                f"the tensor-parallel degree is fixed at creation, and {old.tensor} became {new.tensor}; restore "
                f"{old.tensor}, or create another deployment",
                new.tensor,
            )
        if new.elastic_max != old.elastic_max:
            yield ELASTIC_MAX_WIDTH_FROZEN.refuse(
                arguments,
                f"{ELASTIC_MAX} is fixed at creation, and {old.elastic_max or 'no value'} became "
                f"{new.elastic_max or 'no value'}; restore it, or create another deployment",
                new.elastic_max,
            )
    if _width(role) < _width(before):
        yield ELASTIC_WIDTH_DECREASE.refuse(
            f"{role.path}.elasticEp.width",
            f"{_width(before)} became {_width(role)}, and an elastic role only grows; keep {_width(before)} or raise "
            "it, or create another deployment",
            _width(role),
        )
