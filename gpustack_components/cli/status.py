"""`status`: what stands of a deployment, replica by replica, and why a replica waits."""

import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from gpustack_components.cli import options, output
from gpustack_components.cli.guard import CommandError, ExitCode, guarded
from gpustack_components.cli.output import TableYamlOrJson

if TYPE_CHECKING:
    from gpustack_components.cli.judge import Judgement
    from gpustack_components.cli.standing import Known, Standing
    from gpustack_components.cluster.port import Cluster

REFRESH = 5.0
"""Seconds after which a watched table is drawn anew though nothing changed, so that ages move on; nothing is asked."""


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

    Exit code 0: shown. 1: there is no such deployment, or it is not this package's. 2: wrong usage. 3: it cannot be
    rendered with the bindings of the files. 4: the cluster cannot be read. 130: a watch was ended by Ctrl-C.
    """
    from gpustack_components.cli.judge import judge, read, read_settings
    from gpustack_components.cli.live import reaching
    from gpustack_components.cli.sources import require_one_reader_of_stdin
    from gpustack_components.cli.standing import call_lines, find

    if "/" in name:
        of, _, own = name.rpartition("/")
        raise CommandError(f"{name}: is no name of a deployment; write `status {own} -n {of}`")
    require_one_reader_of_stdin(*(file or ()), settings)
    judgement = judge(read(file), read_settings(settings)) if file else None
    with reaching(kubeconfig, context) as cluster:
        known = _known(cluster, judgement) if judgement is not None else None
        found = find(cluster, namespace, name, known=known, closely=why)

        def calls(standing: "Standing") -> list[str]:
            return call_lines(standing, kubeconfig, context)

        if watch:
            _follow(_changes(cluster, found, known, why), calls, why, form)
        else:
            _show(found, calls(found), why, form)
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
    from gpustack_components.cluster.readings import timestamp
    from gpustack_components.status.timeline import Timelines

    now = datetime.now(UTC)
    if form is TableYamlOrJson.JSON:
        output.write_json(as_json(found, calls, now))
    elif form is TableYamlOrJson.YAML:
        output.write_yaml(as_json(found, calls, now))
    else:
        timelines = Timelines()
        timelines.look(found.observation, timestamp(now))
        draw(page(found, calls, why, now, timelines if why else None))


def _follow(
    changes: "Iterator[Standing]", calls: "Callable[[Standing], list[str]]", why: bool, form: TableYamlOrJson
) -> None:
    """Show every change until the process is interrupted or the deployment is gone: on a terminal one table in place,
    else one line a change."""
    if form is TableYamlOrJson.TABLE and sys.stdout.isatty():
        _follow_in_place(changes, calls, why)
        return
    before: list[str] = []
    for standing in changes:
        lines = _lines(standing, calls, why, form)
        for line in lines:
            if line not in before:
                output.say(line)
        before = lines
        sys.stdout.flush()


def _follow_in_place(changes: "Iterator[Standing]", calls: "Callable[[Standing], list[str]]", why: bool) -> None:
    from rich.live import Live

    from gpustack_components.cli.standing_text import console, page
    from gpustack_components.cluster.readings import timestamp
    from gpustack_components.status.timeline import Timelines

    timelines = Timelines()
    with Live(console=console(), auto_refresh=False) as table:
        for standing in changes:
            now = datetime.now(UTC)
            timelines.look(standing.observation, timestamp(now))
            table.update(page(standing, calls(standing), why, now, timelines), refresh=True)


def _lines(
    standing: "Standing", calls: "Callable[[Standing], list[str]]", why: bool, form: TableYamlOrJson
) -> list[str]:
    """What is told of a state where lines are appended: one document, or one line for each replica."""
    from gpustack_components.api.yaml_text import yaml_text
    from gpustack_components.cli.standing import as_json
    from gpustack_components.cli.standing_text import plain_lines

    now = datetime.now(UTC)
    if form is TableYamlOrJson.TABLE:
        return plain_lines(standing, why, now)
    report = as_json(standing, calls(standing), now, aged=False)
    if form is TableYamlOrJson.YAML:
        return [f"---\n{yaml_text(report)}".rstrip()]
    return [json.dumps(report, ensure_ascii=False)]


def _changes(cluster: "Cluster", found: "Standing", known: "Known | None", why: bool) -> "Iterator[Standing]":
    """The deployment each time something of it changed, and from time to time; it ends when the deployment is gone.

    The record, the Lease, the router and the Services are read again only when a watch has shown a change of them.
    """
    from threading import Event

    from gpustack_components.api.names import router_name
    from gpustack_components.cli.standing import renewed, services
    from gpustack_components.cluster.port import CONFIG_MAP, DEPLOYMENT, LEASE, SERVICE
    from gpustack_components.cluster.weight_objects import Named
    from gpustack_components.rollout.record import record_name
    from gpustack_components.rollout.view import LiveView

    namespace, name = found.record.namespace, found.record.name
    view = LiveView(cluster, namespace, name, Event(), without_kueue=True)
    beside = [Named(CONFIG_MAP, namespace, record_name(name)), Named(LEASE, namespace, record_name(name))]
    if found.deployment.spec.router is not None:
        beside.append(Named(DEPLOYMENT, namespace, router_name(name)))
    beside += [Named(SERVICE, namespace, service) for service in services(found.deployment)]
    try:
        view.fresh()
        view.attend(tuple(beside))
        seen = view.attended
        while True:
            yield found
            view.wait(REFRESH)
            snapshot = view.snapshot()
            changed, seen = view.attended != seen, view.attended
            after = renewed(cluster, found, snapshot.pods, snapshot.workloads, known, anew=changed, closely=why)
            if after is None:
                return
            found = after
    finally:
        view.close()
