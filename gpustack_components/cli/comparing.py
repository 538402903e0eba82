"""`render --diff`: what an edit changes in which Pods, and which replicas it turns over."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal

from gpustack_components.cli import output, sources
from gpustack_components.cli.check import counted
from gpustack_components.cli.explaining import WIDTH, cut
from gpustack_components.cli.guard import CommandError, ExitCode
from gpustack_components.cli.judge import Identity, Judgement, key

if TYPE_CHECKING:
    from gpustack_components.api.load import RawDocument
    from gpustack_components.api.model_deployment import ModelDeployment
    from gpustack_components.bindings.catalog import Bindings
    from gpustack_components.bindings.resolve import Resolution, ResolvedDeployment
    from gpustack_components.render.difference import (
        Change,
        FloorDifference,
        RoleDifference,
        RouterDifference,
    )

Json = dict[str, Any]
Resolve = Callable[["ModelDeployment", "Bindings"], "Resolution"]
"""Resolves a deployment beside bindings, everything else as for the documents after the edit."""

_CONTEXT = 20
"""Characters shown of what two long values begin with alike."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One deployment before and after the edit."""

    namespace: str
    """Its namespace."""
    name: str
    """Its name."""
    declared: Literal["both", "new", "gone"]
    """Whether it is declared before and after the edit, only after, or only before."""
    roles: "tuple[RoleDifference, ...]"
    """The roles that differ; all of them when the deployment is new or gone."""
    floor: "FloorDifference | None" = None
    """How the oldest render version that may go on running differs; None when it is asked for as before."""
    router: "RouterDifference | None" = None
    """How the router differs; None when it does not, or when the deployment is new or gone."""


def read_before(old: str, files: Sequence[str]) -> "dict[Identity, RawDocument]":
    """The documents before the edit; `old` and `files` are read as `check --old` reads them."""
    return {key(raw.value): raw for raw in sources.read_old(old, files)}


def compare(
    before: "Mapping[Identity, RawDocument]",
    judgement: Judgement,
    after: "Sequence[ResolvedDeployment]",
    resolve: Resolve,
) -> list[Compared]:
    """Every deployment of either side, those of the later documents first.

    Objects a deployment depends on and that `before` does not hold are taken to be the same before the edit. Raises
    `CommandError` when the earlier documents cannot be read or rendered, or the Pods of one side are held.
    """
    from gpustack_components.render.difference import difference, floors, router_difference

    old = {(one.namespace, one.name): one for one in _resolved(before, judgement, resolve)}
    held = [
        f"{one.namespace}/{one.name}: its Pods are not rendered yet: {hold}"
        for one in (*after, *old.values())
        for hold in one.holds
    ]
    if held:
        raise CommandError(*dict.fromkeys(held), code=ExitCode.RENDER_FAILED)
    compared: list[Compared] = []
    for one in after:
        earlier = old.pop((one.namespace, one.name), None)
        if earlier is None:
            compared.append(Compared(one.namespace, one.name, "new", _whole(one, new=True)))
        else:
            roles, floor = difference(earlier, one), floors(earlier, one)
            router = router_difference(earlier, one)
            compared.append(Compared(one.namespace, one.name, "both", roles, floor, router))
    compared += [Compared(one.namespace, one.name, "gone", _whole(one, new=False)) for one in old.values()]
    return compared


def _whole(resolved: "ResolvedDeployment", *, new: bool) -> "tuple[RoleDifference, ...]":
    from gpustack_components.render.difference import RoleDifference

    return tuple(
        RoleDifference(role.name, False, (0, role.replicas) if new else (role.replicas, 0), ())
        for role in resolved.roles
    )


def _resolved(
    before: "Mapping[Identity, RawDocument]", judgement: Judgement, resolve: Resolve
) -> "Iterator[ResolvedDeployment]":
    """The earlier deployments, each with what its bindings decided then."""
    from gpustack_components.admission.defaulting import default
    from gpustack_components.api.decode import decode
    from gpustack_components.api.model_deployment import ModelDeployment
    from gpustack_components.bindings.catalog import Bindings

    read = [(raw, decode(raw.value, stored=True)) for raw in before.values()]
    unreadable = [f"{raw.source}:{raw.line}: {refusal}" for raw, decoded in read for refusal in decoded.refusals]
    if unreadable:
        raise CommandError(*unreadable)
    bindings = Bindings.of([decoded.document for _, decoded in read]).over(judgement.bindings)
    problems: list[str] = []
    for raw, decoded in read:
        if not isinstance(decoded.document, ModelDeployment):
            continue
        answer = resolve(default(decoded.document, bindings), bindings)
        problems += [f"{raw.source}:{raw.line}: before the edit: {failure}" for failure in answer.failures]
        if answer.resolved is not None:
            yield answer.resolved
    if problems:
        raise CommandError(*problems, code=ExitCode.RENDER_FAILED)


def as_json(compared: Sequence[Compared]) -> Json:
    """The differences as other tools read them; values are whole but for what may be a secret."""
    return {
        "deployments": [
            {
                "namespace": one.namespace,
                "name": one.name,
                "declared": one.declared,
                "rolls": any(role.rolls for role in one.roles),
                "renderVersionFloor": asdict(one.floor) if one.floor else None,
                "router": _router_as_json(one.router) if one.router else None,
                "roles": [
                    {
                        "role": role.role,
                        "rolls": role.rolls,
                        "replicas": {"before": role.replicas[0], "after": role.replicas[1]},
                        "changes": [asdict(change) for change in role.changes],
                    }
                    for role in one.roles
                ],
            }
            for one in compared
        ]
    }


def _router_as_json(router: "RouterDifference") -> Json:
    return {
        "rolls": router.rolls,
        "replicas": {"before": router.replicas[0], "after": router.replicas[1]},
        "changes": [asdict(change) for change in router.changes],
    }


def lines(compared: Sequence[Compared]) -> Iterator[str]:
    """The differences for people: the roles that differ, and one line for each change in their Pods."""
    for index, one in enumerate(compared):
        if index:
            yield ""
        told = {"both": "", "new": " is new", "gone": " is no longer declared"}[one.declared]
        yield output.marked(f"{one.namespace}/{one.name}{told}", bold=True)
        if one.floor:
            yield f"  {_floor(one.floor)}"
        if not one.roles and not (one.floor and one.floor.raised):
            yield "  no engine Pod changes and no replica rolls" if one.router else "  no Pod changes and nothing rolls"
        for role in one.roles:
            yield f"  {role.role}: {_outcome(role)}"
            yield from (f"    {_worded(change)}" for change in role.changes)
        if one.router:
            yield f"  router: {_router_outcome(one.router)}"
            yield from (f"    {_worded(change)}" for change in one.router.changes)


def _floor(floor: "FloorDifference") -> str:
    """What moving the floor does to replicas that stand, which no fingerprint shows."""
    from gpustack_components.render.version import read

    asked = read(floor.stated)
    told = f"min-render-version {floor.before} -> {floor.after}"
    if floor.stated is not None and asked is None:
        told += f" ({floor.stated!r} is no version, so the oldest supported one counts)"
    elif asked is not None and asked > floor.current:
        told += f" ({asked} is above this release's render version, so {floor.current} counts)"
    if floor.raised:
        return f"{told}: every role rolls its replicas that a version below {floor.after} rendered, one at a time"
    return f"{told}: rolls nothing"


def _router_outcome(router: "RouterDifference") -> str:
    before, after = router.replicas
    if not before or not after:
        many, one = ("are created", "is created") if after else ("leave", "leaves")
        return f"{counted(before or after, 'router Pod')} {one if before + after == 1 else many}"
    counts = "" if before == after else f"{before} -> {after} Pods; "
    return f"{counts}{'its Pods are replaced' if router.rolls else 'no Pod of it is replaced'}, and no engine replica"


def _outcome(role: "RoleDifference") -> str:
    before, after = role.replicas
    if not before:
        return f"{counted(after, 'replica')} are created" if after != 1 else "1 replica is created"
    if not after:
        return f"{counted(before, 'replica')} leave" if before != 1 else "1 replica leaves"
    counts = "" if before == after else f"{before} -> {after} replicas; "
    if role.rolls:
        staying = min(before, after)
        return f"{counts}rolls {counted(staying, 'replica')}{', one at a time' if staying > 1 else ''}"
    return f"{counts}rolls nothing{', new and replaced Pods differ' if role.changes else ''}"


def _worded(change: "Change") -> str:
    origin = f"[{change.rule}; {change.field}]" if change.field else f"[{change.rule}]"
    if change.before is not None and change.after is not None:
        before, after = _apart(change.before, change.after)
        return f"~ {change.part} {change.name}: {before} -> {after}  {origin}"
    sign, value = ("+", change.after) if change.before is None else ("-", change.before)
    value = value or ""
    if change.part.endswith("argument"):
        return f"{sign} {change.part} {cut(value)}  {origin}"
    return f"{sign} {change.part} {change.name}: {cut(value)}  {origin}"


def _apart(before: str, after: str) -> tuple[str, str]:
    """Two values as they are shown; long ones from a little before the place where they part."""
    if max(len(before), len(after)) <= WIDTH:
        return cut(before), cut(after)
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    skipped = max(0, alike - _CONTEXT)
    lead = "..." if skipped else ""
    return lead + cut(before[skipped:]), lead + cut(after[skipped:])
