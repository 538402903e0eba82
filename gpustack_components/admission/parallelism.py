"""Parallel degrees a role declares: readable, no wider than its cards, servable (api sheet 4.8 to 4.12)."""

from collections.abc import Iterator

from gpustack_components.admission.case import Case, RoleCase
from gpustack_components.admission.rule import Rule
from gpustack_components.api.command_line.owned import VLLM
from gpustack_components.api.refusal import Refusal

_SUBJECT = "parallelism"

PARALLEL_DEGREE = Rule(
    id="parallel-degree",
    subject=_SUBJECT,
    layer="webhook",
    when="a parallelism flag of the role's arguments, or `VLLM_DP_SIZE`, has no readable value within its bounds",
    way_out="Give the flag an integer within its bounds; a `command` that starts no engine directly can own the "
    "whole line.",
    source="api-and-admission 4.8, 4.9, 6.2",
    paths=("spec.roles[]",),
)
PARALLEL_WIDTH = Rule(
    id="parallel-width",
    subject=_SUBJECT,
    layer="webhook",
    when="the declared degrees need more cards per Pod than `resources.accelerator` asks for",
    way_out="Ask for as many cards as the width, or lower a degree; `size` does not help, since the width is per "
    "member.",
    source="api-and-admission 4.11, 6.2",
    paths=("spec.roles[].resources.accelerator",),
    needs=frozenset(("object", "instance types")),
)
BALANCE_SHAPE = Rule(
    id="balance-shape",
    subject=_SUBJECT,
    layer="webhook",
    when="the data-parallel flags of a managed vLLM role open several ports, or contradict each other",
    way_out="Keep one load-balancing flag, or own the command line with `command`.",
    source="api-and-admission 4.12, 6.2",
    paths=("spec.roles[].extraArgs",),
)

RULES = (PARALLEL_DEGREE, PARALLEL_WIDTH, BALANCE_SHAPE)


def judge_parallelism(case: Case, role: RoleCase) -> Iterator[Refusal]:
    """Degrees and width of one role; unreadable degrees silence the width."""
    read = role.parallelism
    if read.errors:
        other_way = (
            f"start the engine from a script that {role.path}.command runs"
            if role.takes_over
            else f"own the whole command line with {role.path}.command"
        )
        for error in read.errors:
            spelled = "" if error.spelling.startswith(error.flag) else f' (spelled "{error.spelling}")'
            yield PARALLEL_DEGREE.refuse(
                role.path,
                f'role "{role.name}": {error.flag}{spelled} {error.reason}; correct it, or {other_way}',
                error.spelling,
            )
        return
    cards = role.role.resources.accelerator if role.role.resources else None
    unknown = cards is None and case.instance_type(role) is None and not case.deleting
    if unknown and not read.wiring and read.width != 1 and not case.bindings.complete:
        case.leave_type_open((PARALLEL_WIDTH.id,), role)
    if cards is None or not cards.is_whole or cards <= 0 or read.wiring:
        return
    width = read.width
    if width is not None and width <= cards.floor():
        return
    degrees = read.width_degrees()
    product = " x ".join(f"{degree.label} {degree.value}" for degree in degrees)
    flags = _either(degree.flag for degree in degrees)
    count = cards.floor()
    held = f"{count} card{'' if count == 1 else 's'} cannot hold {product}"
    per_member = "per Pod, whatever the role's size"
    needed = f" = {width} {per_member}; ask for {width} cards, or lower {flags}"
    beyond = f", more than can be counted, {per_member}; lower {flags}"
    yield PARALLEL_WIDTH.refuse(
        f"{role.path}.resources.accelerator", held + (beyond if width is None else needed), count
    )


def _either(flags: Iterator[str]) -> str:
    *others, last = flags
    return f"{', '.join(others)} or {last}" if others else last


def judge_balance(case: Case, role: RoleCase) -> Iterator[Refusal]:
    """The load-balance shape of a managed vLLM role."""
    if role.takes_over or case.engine != VLLM or role.parallelism.errors:
        return
    balance = role.parallelism.balance()
    if balance.shape == "MultiPort":
        found = "--data-parallel-multi-port-external-lb opens a port per rank (shape MultiPort), and a role serves one"
    elif balance.reason:
        found = balance.reason
    else:
        return
    yield BALANCE_SHAPE.refuse(
        f"{role.path}.extraArgs",
        f"{found}; keep one of the load-balancing flags, or own the whole command line with {role.path}.command",
        balance.shape,
    )
