"""`render`: the objects a deployment becomes, in the order they are applied."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpustack_components.cli import options, output
from gpustack_components.cli.guard import CommandError, ExitCode, complain, guarded
from gpustack_components.cli.output import YamlOrJson

if TYPE_CHECKING:
    from gpustack_components.bindings.resolve import ResolvedDeployment
    from gpustack_components.cli.judge import Judgement

Json = dict[str, Any]


@guarded
def render(
    file: options.Files,
    settings: options.SettingsFile = None,
    kubernetes_version: options.KubernetesVersion = "1.35",
    runtime_class: options.RuntimeClasses = None,
    role: Annotated[str | None, typer.Option(help="Only the Pods of this role.", show_default=False)] = None,
    ordinal: Annotated[
        int | None, typer.Option(min=0, help="Only the replica of this ordinal; needs --role.", show_default=False)
    ] = None,
    member: Annotated[
        int | None, typer.Option(min=0, help="Only the Pod of this member index; needs --ordinal.", show_default=False)
    ] = None,
    form: Annotated[
        YamlOrJson, typer.Option("--output", "-o", help="YAML documents, or one JSON `v1` List.")
    ] = YamlOrJson.YAML,
) -> ExitCode:
    """Print every object of the deployments in apply order, or only the Pods asked for.

    Exit code 0: printed. 1: refused, with the refusals `check` gives. 2: something could not be read. 3: accepted, but
    cannot be rendered with these bindings.
    """
    from gpustack_components.cli.judge import judge

    _require_narrowing(role, ordinal, member)
    kubernetes = parse_version(kubernetes_version)
    judgement = judge(file, settings_file=settings)
    if judgement.refused:
        return refuse(judgement, as_json=form is YamlOrJson.JSON)
    resolved = resolve_all(judgement, frozenset(runtime_class or ()), kubernetes)
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


def parse_version(text: str) -> tuple[int, int]:
    """Major and minor of `1.30`, `v1.30` or `1.30.4`; raises `CommandError` for anything else."""
    found = re.fullmatch(r"v?(\d+)\.(\d+)(?:\.\d+.*)?", text)
    if found is None:
        raise CommandError(f"--kubernetes-version {text}: is no version; write major.minor, for example 1.30")
    return int(found[1]), int(found[2])


def refuse(judgement: "Judgement", *, as_json: bool) -> ExitCode:
    """Tell the refusals as `check` does: as JSON on standard output, else as text on standard error."""
    from gpustack_components.cli.check import lines, report

    if as_json:
        output.write_json(report(judgement))
    else:
        for line in lines(judgement):
            typer.echo(line, err=True)
    return ExitCode.REFUSED


def resolve_all(
    judgement: "Judgement", runtime_classes: frozenset[str], kubernetes: tuple[int, int]
) -> "list[ResolvedDeployment]":
    """Every accepted deployment with what its bindings decide; raises `CommandError` with all render failures."""
    from gpustack_components.api.model_deployment import ModelDeployment
    from gpustack_components.bindings.resolve import resolve

    resolved: list[ResolvedDeployment] = []
    problems: list[str] = []
    for one in judgement.judged:
        document = one.review.document
        if not isinstance(document, ModelDeployment):
            continue
        answer = resolve(
            document, judgement.bindings, judgement.settings, runtime_classes=runtime_classes, kubernetes=kubernetes
        )
        problems.extend(
            f"{one.place}: {one.kind} {one.label}: cannot be rendered: {failure}" for failure in answer.failures
        )
        if answer.resolved is not None:
            resolved.append(answer.resolved)
    if problems:
        raise CommandError(*problems, code=ExitCode.RENDER_FAILED)
    if not resolved:
        raise CommandError("the files declare no ModelDeployment, so there is nothing to render")
    return resolved


def _require_narrowing(role: str | None, ordinal: int | None, member: int | None) -> None:
    if member is not None and ordinal is None:
        raise CommandError("--member needs --ordinal: a member index counts within one replica")
    if ordinal is not None and role is None:
        raise CommandError("--ordinal needs --role: an ordinal counts within one role")


def _everything(resolved: "Iterable[ResolvedDeployment]") -> Iterator[Json]:
    from gpustack_components.render.objects import render_all

    for deployment in resolved:
        yield from render_all(deployment)


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
