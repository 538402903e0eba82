"""From reviewed documents to deployments that can be rendered: what `render` and `plan` share."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from gpustack_components.cli import output
from gpustack_components.cli.guard import CommandError, ExitCode
from gpustack_components.cluster.binding_objects import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from gpustack_components.bindings.kv_cache import Store
    from gpustack_components.bindings.resolve import ResolvedDeployment
    from gpustack_components.cli.judge import Judgement

NEWEST_KUBERNETES = (1, 35)
"""The version rendered for when none is known."""


def parse_version(text: str) -> tuple[int, int]:
    """Major and minor of `1.30`, `v1.30` or `1.30.4`; raises `CommandError` for anything else."""
    found = re.fullmatch(r"v?(\d{1,4})\.(\d{1,4})(?:[.+-].*)?", text, re.ASCII)
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
    judgement: "Judgement",
    *,
    runtime_classes: frozenset[str] = frozenset(),
    kubernetes: tuple[int, int] | None = None,
    operator_present: bool = True,
    remembered: "Callable[[str, str], Store | None] | None" = None,
) -> "list[ResolvedDeployment]":
    """Every accepted deployment with what its bindings decide.

    `remembered` gives the KV cache store that a deployment, by namespace and name, last rendered.
    Raises `CommandError` with every render failure of every deployment, or when there is no deployment at all.
    """
    from gpustack_components.api.model_deployment import ModelDeployment
    from gpustack_components.bindings.resolve import resolve

    resolved: list[ResolvedDeployment] = []
    problems: list[str] = []
    for one in judgement.judged:
        document = one.review.document
        if not isinstance(document, ModelDeployment):
            continue
        last = (
            remembered(document.metadata.namespace or DEFAULT_NAMESPACE, document.metadata.name) if remembered else None
        )
        answer = resolve(
            document,
            judgement.bindings,
            judgement.settings,
            runtime_classes=runtime_classes,
            kubernetes=kubernetes or NEWEST_KUBERNETES,
            operator_present=operator_present,
            remembered=last,
        )
        problems.extend(
            f"{one.place}: {one.kind} {one.label}: {failure} (not-renderable)" for failure in answer.failures
        )
        if answer.resolved is not None:
            resolved.append(answer.resolved)
    if problems:
        raise CommandError(*problems, code=ExitCode.RENDER_FAILED)
    if not resolved:
        raise CommandError("the files declare no ModelDeployment; name a file that does with -f")
    return resolved
