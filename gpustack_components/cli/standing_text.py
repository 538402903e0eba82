"""The pages of `status`: a table of replicas, what is not fine, what holds them, what happened when, how the last run
ended, and how to call the endpoint."""

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gpustack_components.cli import output
from gpustack_components.cli.check import counted
from gpustack_components.cli.standing import Standing, causes, document, rows, warnings

if TYPE_CHECKING:
    from rich.console import Console, Group, RenderableType
    from rich.table import Table

    from gpustack_components.status.document import RoleStatus
    from gpustack_components.status.text import Row
    from gpustack_components.status.timeline import Timelines

COLOURS = {
    "serving": "green",
    "starting": "yellow",
    "waiting": "yellow",
    "leaving": "cyan",
    "missing": "cyan",
    "Ready": "green",
    "Starting": "yellow",
    "Degraded": "yellow",
    "Deleting": "cyan",
}
"""Colours of states and phases; any other is a fault, and red."""

WIDE = 10_000
"""Columns of output that is no terminal: lines are never broken."""

RECENT = 6
"""How many of the last things that happened to a replica are shown."""


def console() -> "Console":
    """A console on standard output: as wide as the terminal, or wide enough for anything."""
    from rich.console import Console

    plain = not output.on_terminal()
    return Console(
        file=sys.stdout,
        highlight=False,
        markup=False,
        emoji=False,
        no_color=plain,
        width=None if sys.stdout.isatty() else WIDE,
    )


def draw(page: "Group") -> None:
    """Write a page to standard output, without the padding that a table leaves at line ends."""
    target = console()
    with target.capture() as captured:
        target.print(page)
    for line in captured.get().splitlines():
        output.say(line.rstrip())


def page(
    standing: Standing, calls: Sequence[str], why: bool, now: datetime, timelines: "Timelines | None" = None
) -> "Group":
    """Everything `status` shows of a deployment; with `timelines`, also what happened to each replica."""
    from rich.console import Group
    from rich.text import Text

    told = rows(standing, now)
    parts: list[RenderableType] = [_head(standing, told), Text(), _replicas(told)]
    parts += _sections(("not fine", _conditions(standing)))
    if why:
        parts += _sections(("what holds it", _causes(standing, now)))
    parts += _sections(("warnings", _warnings(standing, why)))
    if timelines is not None:
        parts += _sections(("timeline", _timelines(timelines, now)))
    parts += _sections(("last run", _run(standing)))
    if calls:
        parts += [Text(), Text("call it", style="bold"), *(Text(f"  {line}", overflow="fold") for line in calls)]
    return Group(*parts)


def plain_lines(standing: Standing, why: bool, now: datetime) -> list[str]:
    """One line for each replica, then the deployment as a whole, for output that only grows."""
    name = f"{standing.record.namespace}/{standing.record.name}"
    told = document(standing)
    lines = [
        f"{name} {row.name}  {row.state}, {row.ready[0]}/{row.ready[1]} Pods ready"
        + (f": {row.hold.what}" if row.hold else "")
        + (f"; released when {row.hold.release}" if row.hold and why else "")
        for row in rows(standing, now)
    ]
    lines.append(f"{name}  {told.phase}, {told.role_summary}{f': {told.phase_message}' if told.phase_message else ''}")
    return [
        *lines,
        *(f"{name}  warning {label}: {message}" for label, message in _warnings(standing, causes_too=False)),
    ]


def _head(standing: Standing, rows: "Sequence[Row]") -> "Table":
    told = document(standing)
    grid = _grid()
    grid.add_row("deployment", f"{standing.record.namespace}/{standing.record.name}")
    grid.add_row("phase", _coloured(told.phase, f": {told.phase_message}" if told.phase_message else ""))
    grid.add_row("endpoint", told.endpoint or "none yet")
    grid.add_row("model", standing.deployment.spec.model.name)
    for role in told.roles:
        flavors = f", on {', '.join(role.assigned_flavors)}" if role.assigned_flavors else ""
        grid.add_row("role", f"{role.name} ({role.kind}): {_ready(role, rows)}{flavors}")
    if router := standing.deployment.spec.router:
        found = standing.facts.router
        state = "not looked at"
        if found is not None:
            ready = f"{found.ready} of {router.replicas or 1} Pods ready"
            state = ready if found.deployed else "its Deployment does not exist"
        grid.add_row("router", f"{router.name}: {state}")
    return grid


def _ready(role: "RoleStatus", rows: "Sequence[Row]") -> str:
    """How many of its declared replicas are ready, and what stands beside them."""
    own = [row for row in rows if row.role == role.name]
    leaving = sum(row.state == "leaving" for row in own)
    staying = [row for row in own if row.state != "leaving"]
    declared = [row for row in staying if row.ordinal is not None and row.ordinal < role.desired]
    more = len(staying) - len(declared)
    return (
        f"{sum(row.whole for row in declared)} of {role.desired} replicas ready"
        + (f", {leaving} leaving" if leaving else "")
        + (f", {more} more than declared" if more else "")
    )


def _replicas(told: "Sequence[Row]") -> "Table":
    from rich.table import Table

    from gpustack_components.status.text import duration

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    compared = any(row.current is not None for row in told)
    for heading in ("REPLICA", "STATE", "READY", "ADMITTED", *(["CONFIG"] if compared else []), "AGE"):
        table.add_column(heading, no_wrap=True)
    table.add_column("WHY", overflow="fold")
    for row in told:
        config = {True: "current", False: "outdated", None: ""}[row.current]
        table.add_row(
            row.name,
            _coloured(row.state),
            f"{row.ready[0]}/{row.ready[1]}",
            "yes" if row.admitted else "no",
            *([config] if compared else []),
            "" if row.age is None else duration(row.age),
            row.hold.what if row.hold else "",
        )
    return table


def _conditions(standing: Standing) -> Iterator[tuple[str, str]]:
    from gpustack_components.status.why import unfine

    for condition in unfine(document(standing)):
        yield condition.type, f"{condition.status}, {condition.reason}: {condition.message}"


def _causes(standing: Standing, now: datetime) -> Iterator[tuple[str, str]]:
    for cause in causes(standing, now):
        since = _since(cause.hold.since, now)
        yield cause.subject, f"{cause.hold.what}{f' (for {since})' if since else ''}"
        yield "", f"released when {cause.hold.release}"
        if cause.hold.command:
            yield "", f"$ {cause.hold.command}"


def _warnings(standing: Standing, causes_too: bool) -> Iterator[tuple[str, str]]:
    """What its Pods warn of, and Services that do not exist unless `causes_too`, the causes, are told as well."""
    from gpustack_components.status.missing import COMMAND, unreached

    if not causes_too:
        for service in standing.absent:
            yield "services", f"{unreached(service)}; `{COMMAND}` makes it again"
    for warning in warnings(standing):
        yield warning.reason, warning.message


def _timelines(timelines: "Timelines", now: datetime) -> Iterator[tuple[str, str]]:
    for replica in timelines.replicas:
        words = dict.fromkeys(f"{one.words} {_since(one.time, now)} ago" for one in timelines.of(replica))
        yield replica, ", ".join(list(words)[-RECENT:])


def _run(standing: Standing) -> Iterator[tuple[str, str]]:
    record = standing.record
    updated = f", {record.updated}" if record.updated else ""
    yield "phase", f"{record.phase} (edit {record.generation}{updated})"
    if record.owner:
        yield "owner", record.owner
    if standing.driver:
        yield "driver", f"{standing.driver} is at work"
    for slot in record.slots.values():
        yield "turning over", f"{slot.role}/{slot.ordinal} ({slot.phase})"
    for reason in record.reasons:
        yield "reason", reason
    if standing.strangers:
        several = len(standing.strangers) > 1
        yield (
            "strangers",
            f"{counted(len(standing.strangers), 'Pod')} {'carry' if several else 'carries'} its labels and "
            f"{'belong' if several else 'belongs'} to something else: {', '.join(standing.strangers)}",
        )


def _sections(*sections: tuple[str, Iterator[tuple[str, str]]]) -> "Iterator[RenderableType]":
    """Each heading with its lines; a section without lines is left out."""
    from rich.padding import Padding
    from rich.text import Text

    for heading, lines in sections:
        grid = _grid()
        for label, words in lines:
            grid.add_row(label, words)
        if grid.row_count:
            yield from (Text(), Text(heading, style="bold"), Padding(grid, (0, 0, 0, 2)))


def _grid() -> "Table":
    from rich.table import Table

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _coloured(word: str, more: str = "") -> Any:
    from rich.text import Text

    return Text.assemble((word, COLOURS.get(word, "red")), more)


def _since(time: str, now: datetime) -> str:
    from gpustack_components.status.text import duration

    try:
        return duration((now - datetime.fromisoformat(time)).total_seconds()) if time else ""
    except (TypeError, ValueError):
        return ""
