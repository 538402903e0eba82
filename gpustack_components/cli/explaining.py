"""`render --explain`: one line for everything in a Pod, with the rule and the input field that put it there."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gpustack_components.cli import output

if TYPE_CHECKING:
    from gpustack_components.bindings.resolve import ResolvedDeployment
    from gpustack_components.render.explain import Explained

Json = dict[str, Any]

WIDTH = 100
"""Characters of a value that a line shows."""
_HEADINGS = ("PART", "NAME", "RULE", "FROM", "VALUE")
_CONSTANT = "-"


@dataclass(frozen=True, slots=True)
class ExplainedPod:
    """One Pod with the reasons for everything in it."""

    namespace: str
    """Namespace of the deployment."""
    deployment: str
    """Name of the deployment."""
    role: str
    """Name of the role."""
    ordinal: int
    """Which replica, from 0."""
    member: int
    """Which Pod of the replica, from 0."""
    explained: "tuple[Explained, ...]"
    """Everything in the Pod, in the order of the manifest."""


def explain_pods(
    resolved: "Sequence[ResolvedDeployment]", role: str | None, ordinal: int | None, member: int | None
) -> list[ExplainedPod]:
    """One Pod of each role, or of the named one; the first of its first replica unless the seat is given."""
    from gpustack_components.render.explain import explain

    replica, seat = ordinal or 0, member or 0
    return [
        ExplainedPod(
            deployment.namespace, deployment.name, each.name, replica, seat, explain(deployment, each, replica, seat)
        )
        for deployment in resolved
        for each in deployment.roles
        if role in (None, each.name)
    ]


def as_json(pods: Sequence[ExplainedPod]) -> Json:
    """The reasons as other tools read them; values are whole."""
    return {"pods": [asdict(pod) for pod in pods]}


def lines(pods: Sequence[ExplainedPod]) -> Iterator[str]:
    """The reasons for people: a table for each Pod. Long values are cut, and columns are as wide as they need."""
    for index, pod in enumerate(pods):
        if index:
            yield ""
        place = f"{pod.role}/{pod.ordinal} member {pod.member}"
        yield output.marked(f"{pod.namespace}/{pod.deployment} {place}", bold=True)
        rows = [_HEADINGS, *(_row(line) for line in pod.explained)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS) - 1)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)]
            yield "  ".join((*cells, row[-1])).rstrip()


def _row(line: "Explained") -> tuple[str, ...]:
    value = line.value
    if line.part.endswith("argument"):
        value = value.removeprefix(line.name).lstrip(" =")
    return line.part, line.name, line.rule, line.field or _CONSTANT, cut(value)


def cut(value: str) -> str:
    """The value on one line, no longer than `WIDTH`."""
    flat = value.replace("\\", "\\\\").replace("\n", "\\n") if "\n" in value else value
    return flat if len(flat) <= WIDTH else f"{flat[: WIDTH - 3]}..."
