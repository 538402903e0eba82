"""`render`: the objects a deployment becomes, in the order they are applied, and three views of them.

`--explain` says why everything is in a Pod or a router, `--diff` what an edit changes, `--graph` draws the deployment.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpustack_components.cli import options, output
from gpustack_components.cli.guard import CommandError, ExitCode, complain, guarded
from gpustack_components.cli.output import YamlTextOrJson

if TYPE_CHECKING:
    from gpustack_components.api.model_deployment import ModelDeployment
    from gpustack_components.bindings.catalog import Bindings
    from gpustack_components.bindings.resolve import Resolution, ResolvedDeployment

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
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Instead of objects, say of everything in one Pod of each role and in the router which rule and which "
            "input field put it there; --role, --ordinal and --member choose another Pod.",
        ),
    ] = False,
    diff: Annotated[
        str | None,
        typer.Option(
            "--diff",
            metavar="FILE|git:REF[:PATH]",
            help="Instead of objects, show what changed in which Pods and in the router since these documents, and "
            "what that rolls: a file, a file at a Git revision, or the same files at that revision.",
            show_default=False,
        ),
    ] = None,
    graph: Annotated[
        bool,
        typer.Option(
            "--graph",
            help="Instead of objects, draw roles, ports, connectors, store and router, and warn of transfers that "
            "would silently not happen.",
        ),
    ] = False,
    form: Annotated[
        YamlTextOrJson | None,
        typer.Option(
            "--output",
            "-o",
            help="Objects: `yaml` documents (the default), or `json`, one `v1` List. --explain, --diff and --graph: "
            "`text` (the default) or `json`.",
            show_default=False,
        ),
    ] = None,
) -> ExitCode:
    """Print every object of the deployments in apply order, or only the Pods asked for.

    Exit code 0: printed. 1: refused, with the refusals `check` gives. 2: something could not be read. 3: accepted, but
    cannot be rendered with these bindings.
    """
    from gpustack_components.bindings.resolve import resolve
    from gpustack_components.cli import comparing, explaining
    from gpustack_components.cli.comparing import read_before
    from gpustack_components.cli.judge import judge, read, read_settings
    from gpustack_components.cli.live import bindings_of
    from gpustack_components.cli.resolving import parse_version, refuse, resolve_all
    from gpustack_components.cli.sources import require_one_reader_of_stdin

    _require_one_view(explain=explain, diff=diff is not None, graph=graph, role=role, form=form)
    _require_narrowing(role, ordinal, member)
    kubernetes = parse_version(kubernetes_version)
    require_one_reader_of_stdin(*file, settings, diff)
    as_json = form is YamlTextOrJson.JSON
    raws, settled = read(file), read_settings(settings)
    before = read_before(diff, file) if diff is not None else {}
    observed = bindings_of(kubeconfig, context) if live else None
    judgement = judge(raws, settled, old={each: raw.value for each, raw in before.items()}, live=observed)
    if judgement.refused:
        return refuse(judgement, as_json=as_json)
    cluster: Json = {
        "runtime_classes": frozenset(runtime_class or ()),
        "kubernetes": kubernetes,
        "operator_present": not without_operator,
    }
    resolved = resolve_all(judgement, **cluster)
    if diff is not None:

        def resolve_alike(document: "ModelDeployment", bindings: "Bindings") -> "Resolution":
            return resolve(document, bindings, settled, **cluster)

        compared = comparing.compare(before, judgement, resolved, resolve_alike)
        _show(comparing.as_json(compared) if as_json else None, comparing.lines(compared))
        return ExitCode.DONE
    held = [
        f"{one.namespace}/{one.name}: its Pods are not rendered yet: {hold}" for one in resolved for hold in one.holds
    ]
    if held and (role is not None or explain):
        raise CommandError(*held, code=ExitCode.RENDER_FAILED)
    for sentence in held:
        complain(sentence)
    chosen = resolved if role is None else _having(resolved, role, ordinal, member)
    if graph:
        _show(_graphs_as_json(chosen) if as_json else None, _graphs(chosen))
    elif explain:
        pods = explaining.explain_pods(chosen, role, ordinal, member)
        routers = explaining.explain_routers(chosen) if role is None else []
        _show(explaining.as_json(pods, routers) if as_json else None, explaining.lines(pods, routers))
    elif role is None:
        output.write_objects(_everything(chosen), as_json=as_json)
    else:
        output.write_objects(_pods(chosen, role, ordinal, member), as_json=as_json)
    return ExitCode.DONE


def _show(document: Json | None, lines: Iterable[str]) -> None:
    """Write a view: the document if there is one, else the lines."""
    if document is not None:
        output.write_json(document)
        return
    for line in lines:
        output.say(line)


def _graphs(resolved: "Sequence[ResolvedDeployment]") -> Iterator[str]:
    from gpustack_components.render.graph import graph

    for index, one in enumerate(resolved):
        if index:
            yield ""
        yield from graph(one).splitlines()


def _graphs_as_json(resolved: "Sequence[ResolvedDeployment]") -> Json:
    from gpustack_components.render.graph import diagram, mistakes

    return {
        "deployments": [
            {
                "namespace": one.namespace,
                "name": one.name,
                "diagram": diagram(one),
                "warnings": list(mistakes(one)),
            }
            for one in resolved
        ]
    }


def _require_one_view(*, explain: bool, diff: bool, graph: bool, role: str | None, form: YamlTextOrJson | None) -> None:
    views = [option for option, chosen in (("--explain", explain), ("--diff", diff), ("--graph", graph)) if chosen]
    if len(views) > 1:
        raise CommandError(f"{' and '.join(views)}: are views of their own; run the command once for each")
    if views and form is YamlTextOrJson.YAML:
        raise CommandError(f"{views[0]} with -o yaml: prints text or json; choose one of them")
    if not views and form is YamlTextOrJson.TEXT:
        raise CommandError("-o text: objects are printed as yaml or json; text is for --explain, --diff and --graph")
    if role is not None and (diff or graph):
        raise CommandError(f"{views[0]} with --role: shows whole deployments; leave --role out")


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
