"""`status`: what stands of a deployment, replica by replica, and why a replica waits."""

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from gpustack_components.cli import options, output
from gpustack_components.cli.guard import ExitCode, guarded
from gpustack_components.cli.output import TableYamlOrJson

if TYPE_CHECKING:
    from gpustack_components.cli.judge import Judgement
    from gpustack_components.cli.standing import Known, Standing
    from gpustack_components.cluster.port import Cluster

REFRESH = 5.0
"""Seconds after which a watched table is drawn anew though nothing changed, so that ages move on."""


@guarded
def status(
    name: Annotated[str, typer.Argument(help="The deployment's name.", show_default=False)],
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="The deployment's namespace.")
    ] = "default",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Follow it until Ctrl-C.")] = False,
    why: Annotated[
        bool, typer.Option("--why", help="Add what holds each replica, since when, and what would release it.")
    ] = False,
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="The files that declare its InstanceTypes and other bindings: "
            "then replicas that run an earlier configuration are told apart.",
            show_default=False,
        ),
    ] = None,
    settings: options.SettingsFile = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    form: Annotated[
        TableYamlOrJson, typer.Option("--output", "-o", help="A table for people, or the whole report for tools.")
    ] = TableYamlOrJson.TABLE,
) -> ExitCode:
    """Show what stands of a deployment, replica by replica.

    Exit code 0: shown. 1: there is no such deployment. 2: wrong usage. 3: it cannot be rendered with the bindings of
    the files. 4: the cluster cannot be read.
    """
    from gpustack_components.cli.judge import judge, read, read_settings
    from gpustack_components.cli.live import reaching
    from gpustack_components.cli.sources import require_one_reader_of_stdin
    from gpustack_components.cli.standing import call_lines, find

    require_one_reader_of_stdin(*(file or ()), settings)
    judgement = judge(read(file), read_settings(settings)) if file else None
    with reaching(kubeconfig, context) as cluster:
        known = _known(cluster, judgement) if judgement is not None else None
        found = find(cluster, namespace, name, known=known)
        calls = call_lines(found, kubeconfig, context)
        if watch:
            _follow(_changes(cluster, found, known), calls, why, form)
        else:
            _show(found, calls, why, form)
    return ExitCode.DONE


def _known(cluster: "Cluster", judgement: "Judgement") -> "Known":
    """What the files declare, completed by what the cluster has."""
    from gpustack_components.cli.standing import Known
    from gpustack_components.cluster.binding_objects import operator_runs
    from gpustack_components.cluster.port import RUNTIME_CLASS
    from gpustack_components.cluster.readings import name

    return Known(
        judgement.bindings,
        judgement.settings,
        frozenset(name(item) for item in cluster.list(RUNTIME_CLASS, None).items),
        cluster.server_version(),
        operator_runs(cluster),
    )


def _show(found: "Standing", calls: list[str], why: bool, form: TableYamlOrJson) -> None:
    from gpustack_components.cli.standing import as_json
    from gpustack_components.cli.standing_text import draw, page

    now = datetime.now(UTC)
    if form is TableYamlOrJson.JSON:
        output.write_json(as_json(found, calls, now))
    elif form is TableYamlOrJson.YAML:
        output.write_yaml(as_json(found, calls, now))
    else:
        draw(page(found, calls, why, now))


def _follow(changes: "Iterator[Standing]", calls: list[str], why: bool, form: TableYamlOrJson) -> None:
    """Show every change until the process is interrupted: on a terminal one table in place, else one line a change."""
    if form is TableYamlOrJson.TABLE and sys.stdout.isatty():
        from rich.live import Live

        from gpustack_components.cli.standing_text import console, page

        with Live(console=console(), auto_refresh=False) as table:
            for standing in changes:
                table.update(page(standing, calls, why, datetime.now(UTC)), refresh=True)
        return
    before = ""
    for standing in changes:
        for line in _lines(standing, calls, form):
            if line not in before.splitlines():
                output.say(line)
        before = "\n".join(_lines(standing, calls, form))
        sys.stdout.flush()


def _lines(standing: "Standing", calls: list[str], form: TableYamlOrJson) -> list[str]:
    """What is told of a state where lines are appended: one JSON document, or one line for each replica."""
    from gpustack_components.cli.standing import as_json
    from gpustack_components.cli.standing_text import replica_lines

    if form is TableYamlOrJson.TABLE:
        return replica_lines(standing)
    return [json.dumps(as_json(standing, calls, None), ensure_ascii=False)]


def _changes(cluster: "Cluster", found: "Standing", known: "Known | None") -> "Iterator[Standing]":
    """The deployment each time something of it changed, and from time to time."""
    from threading import Event

    from gpustack_components.cli.standing import find
    from gpustack_components.rollout.view import LiveView

    view: LiveView = LiveView(cluster, found.record.namespace, found.record.name, Event())
    try:
        view.fresh()
        while True:
            yield found
            view.wait(REFRESH)
            snapshot = view.snapshot()
            found = find(cluster, found.record.namespace, found.record.name, snapshot.pods, snapshot.workloads, known)
    finally:
        view.close()
