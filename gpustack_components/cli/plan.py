"""`plan`: what the next run would do to which replica, and the whole way to the declared state."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpustack_components.cli import options, output
from gpustack_components.cli.check import counted
from gpustack_components.cli.guard import CommandError, ExitCode, guarded
from gpustack_components.cli.output import TextOrJson

if TYPE_CHECKING:
    from gpustack_components.bindings.resolve import ResolvedDeployment
    from gpustack_components.cli.observed import Snapshot
    from gpustack_components.rollout.actions import Action, Decision
    from gpustack_components.rollout.forecast import Forecast

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Planned:
    """One deployment with what is ahead of it."""

    namespace: str
    """Its namespace."""
    name: str
    """Its name."""
    decision: "Decision"
    """The next pass."""
    forecast: "Forecast"
    """The whole way from here."""


@guarded
def plan(
    file: options.Files,
    observed: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="What stands: the output of `kubectl get pods,workloads,configmaps -o yaml`, `-` for standard input. "
            "Add clusterqueues,localqueues to see what fits.",
            show_default=False,
        ),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Read what stands from the cluster instead.")] = False,
    settings: options.SettingsFile = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    form: Annotated[TextOrJson, typer.Option("--output", "-o", help="For people or for tools.")] = TextOrJson.TEXT,
) -> ExitCode:
    """Show what the next run would do, and the whole way to the declared state.

    Nothing is changed. Exit code 0: shown. 1: refused, with the refusals `check` gives. 2: something could not be read.
    3: accepted, but cannot be rendered. 4: the cluster cannot be read.
    """
    from gpustack_components.cli.judge import judge, namespace_of, read, read_settings
    from gpustack_components.cli.live import reaching, read_bindings, with_weights
    from gpustack_components.cli.observed import look, read_snapshot
    from gpustack_components.cli.resolving import refuse, resolve_all
    from gpustack_components.cli.sources import require_one_reader_of_stdin

    if live == (observed is not None):
        raise CommandError(
            "plan compares with what stands: name a snapshot with --observed FILE, or read the cluster with --live"
        )
    require_one_reader_of_stdin(*file, observed, settings)
    raws, settled = read(file), read_settings(settings)
    if observed is not None:
        snapshot, bindings = read_snapshot(observed), None
    else:
        with reaching(kubeconfig, context) as cluster:
            snapshot, bindings = look(cluster, map(namespace_of, raws), with_queues=True), read_bindings(cluster)
    judgement = judge(raws, settled, old=snapshot.documents, live=bindings or snapshot.bindings)
    if judgement.refused:
        return refuse(judgement, as_json=form is TextOrJson.JSON)
    resolved = resolve_all(
        judgement,
        runtime_classes=snapshot.runtime_classes,
        kubernetes=snapshot.kubernetes,
        operator_present=bindings is None or "InstanceType" in bindings.kinds,
        remembered=snapshot.store,
    )
    if live:
        with reaching(kubeconfig, context) as cluster:
            resolved = [with_weights(cluster, one) for one in resolved]
    planned = [plan_of(one, snapshot) for one in resolved]
    if form is TextOrJson.JSON:
        output.write_json({"deployments": [as_json(one) for one in planned]})
    else:
        for line in lines(planned):
            output.say(line)
    return ExitCode.DONE


def plan_of(resolved: "ResolvedDeployment", snapshot: "Snapshot") -> Planned:
    """What is ahead of one deployment, given what stands.

    Raises `CommandError` when the snapshot holds an object that no API server gives out.
    """
    from gpustack_components.api.encode import encode
    from gpustack_components.rollout.decide import decide
    from gpustack_components.rollout.desired import Desired
    from gpustack_components.rollout.edited_fields import changes
    from gpustack_components.rollout.forecast import forecast
    from gpustack_components.rollout.observe import observe
    from gpustack_components.rollout.record import record_name
    from gpustack_components.rollout.retirement.outlook import worth_a_run
    from gpustack_components.rollout.retirement.reservation import Retiring

    namespace, name = resolved.namespace, resolved.name
    record = snapshot.record(namespace, name)
    if record is None and snapshot.names_record(namespace, name):
        raise CommandError(
            f"{snapshot.source}: Pods of {namespace}/{name} belong to ConfigMap {record_name(name)}, which is not "
            "there; save it with them: kubectl get pods,workloads,configmaps -o yaml"
        )
    desired = Desired.of(resolved)
    slots, retirement = (record.slots, record.retirement) if record else ({}, None)
    try:
        observed = observe(
            snapshot.pods(namespace, name),
            snapshot.workloads(namespace),
            record.uid if record else "",
            record_name=record_name(name),
            services=snapshot.services(namespace, name),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as odd:
        raise CommandError(
            f"{snapshot.source}: a Pod or Workload of {namespace}/{name} is not as an API server gives it out "
            f"({type(odd).__name__}: {odd}); save what `kubectl get ... -o yaml` prints"
        ) from None
    before = record.document if record else {}
    ahead = forecast(
        desired,
        observed,
        slots,
        snapshot.queues(resolved),
        changed=changes(before, encode(resolved.declared)),
        turnovers=record.turnovers if record else {},
        retirement=retirement,
    )
    decision = worth_a_run(desired, decide(desired, observed, slots, retiring=Retiring(retirement)))
    return Planned(namespace, name, decision, ahead)


def as_json(planned: Planned) -> Json:
    """The plan as other tools read it."""
    from gpustack_components.rollout.slots import slots_to_json

    decision = planned.decision
    return {
        "namespace": planned.namespace,
        "name": planned.name,
        "converged": decision.converged,
        "actions": [{"action": type(action).__name__, **asdict(action)} for action in decision.actions],
        "slots": slots_to_json(decision.slots),
        "waits": [asdict(wait) for wait in decision.waits],
        "forecast": {
            "steps": [asdict(step) for step in planned.forecast.steps],
            "lines": list(planned.forecast.lines),
            "estimates": [asdict(one) for one in planned.forecast.estimates],
        },
    }


def lines(planned: list[Planned]) -> Iterator[str]:
    """The plans for people: what happens next, what is waited for, and the way from there."""
    for index, one in enumerate(planned):
        if index:
            yield ""
        yield output.marked(f"{one.namespace}/{one.name}", bold=True)
        if one.decision.converged:
            yield "  nothing to do: everything declared runs admitted and current"
            continue
        for action in one.decision.actions:
            yield f"  next   {_worded(action)}"
        for wait in one.decision.waits:
            if wait.kind == "turn":
                continue
            yield f"  waits  {_place(wait.role, wait.ordinal)}: {wait.message}"
        for line in one.forecast.lines:
            yield f"  plan   {line}"


def _worded(action: "Action") -> str:
    """One action as a line."""
    from gpustack_components.rollout import actions

    match action:
        case actions.DeletePods(role, ordinal, pods, why):
            names = ", ".join(pod.name for pod in pods)
            return f"{_place(role, ordinal)}: delete {counted(len(pods), 'Pod')} ({why}): {names}"
        case actions.DeleteWorkload(role, ordinal, name, _):
            return f"{_place(role, ordinal)}: delete Workload {name}, whose Pods have exited"
        case actions.ReleaseFinalizer(role, ordinal, pod):
            return f"{_place(role, ordinal)}: release Pod {pod.name}, which has exited, from Kueue's finalizer"
        case actions.EnsureService(role, ordinal):
            return f"{_place(role, ordinal)}: create its headless Service"
        case actions.PruneService(name, _):
            return f"delete headless Service {name}, which no Pod needs"
        case actions.CreateReplica(role, ordinal, members):
            return f"{_place(role, ordinal)}: create {counted(len(members), 'Pod')}"
        case actions.Mark(role, ordinal, pod, eligible):
            how = "may be selected by" if eligible else "is taken out of the selection of"
            return f"{_place(role, ordinal)}: Pod {pod.name} {how} Services and routers"
        case actions.Select(role, name, _, _, selector, mixed):
            terms = ", ".join(f"{key}={value}" for key, value in sorted(selector.items()))
            why = "while the replicas differ in shape" if mixed else "as declared"
            return f"{role}: Service {name} selects by {terms}, {why}"


def _place(role: str, ordinal: int | None) -> str:
    return role if ordinal is None else f"{role}/{ordinal}"
