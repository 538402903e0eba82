"""`render`: the objects a deployment becomes, in the order they are applied."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpustack_components.cli import options, output
from gpustack_components.cli.guard import CommandError, ExitCode, complain, guarded
from gpustack_components.cli.output import YamlOrJson

if TYPE_CHECKING:
    from gpustack_components.bindings.resolve import ResolvedDeployment

Json = dict[str, Any]


@guarded
def render(
    file: options.Files,
    settings: options.SettingsFile = None,
    kubernetes_version: options.KubernetesVersion = "1.35",
    runtime_class: options.RuntimeClasses = None,
    without_operator: options.WithoutOperator = False,
    live: options.Live = False,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    role: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only the Pods of this role.", show_default=False)
    ] = None,
    ordinal: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Only the replica of this ordinal; needs --role.", show_default=False),
    ] = None,
    member: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Only the Pod of this member index; needs --ordinal.", show_default=False
        ),
    ] = None,
    form: Annotated[
        YamlOrJson, typer.Option("--output", "-o", help="YAML documents, or one JSON `v1` List.")
    ] = YamlOrJson.YAML,
) -> ExitCode:
    """Print every object of the deployments in apply order, or only the Pods asked for.

    Exit code 0: printed. 1: refused, with the refusals `check` gives. 2: something could not be read. 3: accepted, but
    cannot be rendered with these bindings.
    """
    from gpustack_components.cli.judge import judge, read, read_settings
    from gpustack_components.cli.live import bindings_of
    from gpustack_components.cli.resolving import parse_version, refuse, resolve_all
    from gpustack_components.cli.sources import require_one_reader_of_stdin

    _require_narrowing(role, ordinal, member)
    kubernetes = parse_version(kubernetes_version)
    require_one_reader_of_stdin(*file, settings)
    raws, settled = read(file), read_settings(settings)
    judgement = judge(raws, settled, live=bindings_of(kubeconfig, context) if live else None)
    if judgement.refused:
        return refuse(judgement, as_json=form is YamlOrJson.JSON)
    resolved = resolve_all(
        judgement,
        runtime_classes=frozenset(runtime_class or ()),
        kubernetes=kubernetes,
        operator_present=not without_operator,
    )
    held = [
        f"{one.namespace}/{one.name}: its Pods are not rendered yet: {hold}" for one in resolved for hold in one.holds
    ]
    if held and role is not None:
        raise CommandError(*held, code=ExitCode.RENDER_FAILED)
    for sentence in held:
        complain(sentence)
    if role is None:
        output.write_objects(_everything(resolved), form)
    else:
        output.write_objects(_pods(_having(resolved, role, ordinal, member), role, ordinal, member), form)
    return ExitCode.DONE


def _require_narrowing(role: str | None, ordinal: int | None, member: int | None) -> None:
    if member is not None and ordinal is None:
        raise CommandError("--member needs --ordinal: a member index counts within one replica")
    if ordinal is not None and role is None:
        raise CommandError("--ordinal needs --role: an ordinal counts within one role")


def _everything(resolved: "Iterable[ResolvedDeployment]") -> Iterator[Json]:
    """The objects of all deployments; a LocalQueue they share once, before its first user."""
    from gpustack_components.render.objects import render_all

    queues: set[tuple[str, str]] = set()
    for deployment in resolved:
        for obj in render_all(deployment):
            if obj["kind"] == "LocalQueue":
                queue = (obj["metadata"]["namespace"], obj["metadata"]["name"])
                if queue in queues:
                    continue
                queues.add(queue)
            yield obj


def _having(
    resolved: "Sequence[ResolvedDeployment]", role: str, ordinal: int | None, member: int | None
) -> "list[ResolvedDeployment]":
    """The deployments with that seat; raises `CommandError` when none has it, naming what there is."""
    named = [(deployment, each) for deployment in resolved for each in deployment.roles if each.name == role]
    if not named:
        roles = sorted({each.name for deployment in resolved for each in deployment.roles})
        raise CommandError(f"--role {role}: no deployment of the files has that role; they have {', '.join(roles)}")
    replicas, size = max(each.replicas for _, each in named), max(each.size for _, each in named)
    if ordinal is not None and ordinal >= replicas:
        raise CommandError(f"--ordinal {ordinal}: role {role} has {replicas} replicas, ordinals 0 to {replicas - 1}")
    if member is not None and member >= size:
        raise CommandError(f"--member {member}: a replica of role {role} has {size} Pods, members 0 to {size - 1}")
    return [deployment for deployment, each in named if (ordinal or 0) < each.replicas and (member or 0) < each.size]


def _pods(
    resolved: "Iterable[ResolvedDeployment]", role: str, ordinal: int | None, member: int | None
) -> Iterator[Json]:
    """The Pods of the seats asked for, replica by replica."""
    from gpustack_components.render.replica import render_replica

    for deployment in resolved:
        count = deployment.role(role).replicas
        for each in range(count) if ordinal is None else (ordinal,):
            members = render_replica(deployment, role, each).members
            yield from members if member is None else (members[member],)
