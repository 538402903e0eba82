"""`render --explain`: one line for everything in a Pod or a router, with its rule and its input field."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gpustack_components.cli import output

if TYPE_CHECKING:
    from gpustack_components.bindings.resolve import ResolvedDeployment
    from gpustack_components.render.explain import Explained

Json = dict[str, Any]

WIDTH = 100
"""Characters of a name or a value that a line shows."""
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

    @property
    def place(self) -> str:
        """Which Pod it is, for people."""
        return f"{self.role}/{self.ordinal} member {self.member}"


@dataclass(frozen=True, slots=True)
class ExplainedRouter:
    """One deployment's router with the reasons for everything in it."""

    namespace: str
    """Namespace of the deployment."""
    deployment: str
    """Name of the deployment."""
    router: str
    """Which router it is."""
    explained: "tuple[Explained, ...]"
    """Everything in its objects, in the order of the manifests."""

    @property
    def place(self) -> str:
        """Which router it is, for people."""
        return f"router ({self.router})"


def explain_pods(
    resolved: "Sequence[ResolvedDeployment]", role: str | None, ordinal: int | None, member: int | None
) -> list[ExplainedPod]:
    """One Pod of each role, or of the named one; the first of its first replica unless the seat is given."""
    from gpustack_components.render.explain import explain

    replica, seat = ordinal or 0, member or 0
    return [
        ExplainedPod(
            deployment.namespace,
            deployment.name,
            each.name,
            replica,
            seat,
            tuple(line.shown() for line in explain(deployment, each, replica, seat)),
        )
        for deployment in resolved
        for each in deployment.roles
        if role in (None, each.name)
    ]


def explain_routers(resolved: "Sequence[ResolvedDeployment]") -> list[ExplainedRouter]:
    """The router of each deployment that has one."""
    from gpustack_components.render.router.explain import explain_router

    return [
        ExplainedRouter(one.namespace, one.name, one.router.name, tuple(line.shown() for line in explain_router(one)))
        for one in resolved
        if one.router is not None
    ]


def as_json(pods: Sequence[ExplainedPod], routers: Sequence[ExplainedRouter]) -> Json:
    """The reasons as other tools read them; values are whole but for what may be a secret."""
    return {"pods": [_plain(pod) for pod in pods], "routers": [_plain(router) for router in routers]}


def _plain(one: ExplainedPod | ExplainedRouter) -> Json:
    plain = asdict(one)
    for line in plain["explained"]:
        del line["secret"]
    return plain


def lines(pods: Sequence[ExplainedPod], routers: Sequence[ExplainedRouter]) -> Iterator[str]:
    """The reasons for people: a table for each Pod and each router. Long values are cut, and columns are as wide as
    they need."""
    for index, one in enumerate((*pods, *routers)):
        if index:
            yield ""
        yield output.marked(f"{one.namespace}/{one.deployment} {one.place}", bold=True)
        rows = [_HEADINGS, *(_row(line) for line in one.explained)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS) - 1)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)]
            yield "  ".join((*cells, row[-1])).rstrip()


def _row(line: "Explained") -> tuple[str, ...]:
    value = line.value
    if line.part.endswith("argument"):
        value = value.removeprefix(line.name).lstrip(" =")
    return line.part, cut(line.name), line.rule, line.field or _CONSTANT, cut(value)


def cut(value: str) -> str:
    """The value on one line, no longer than `WIDTH`."""
    flat = value.replace("\\", "\\\\").replace("\n", "\\n") if "\n" in value else value
    return flat if len(flat) <= WIDTH else f"{flat[: WIDTH - 3]}..."
