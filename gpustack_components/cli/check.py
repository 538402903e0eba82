"""`check`: what the admission would refuse, before anything is applied."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpustack_components.cli import options, output
from gpustack_components.cli.guard import ExitCode, guarded
from gpustack_components.cli.output import TextOrJson

if TYPE_CHECKING:
    from gpustack_components.cli.judge import Judged, Judgement

Json = dict[str, Any]


@guarded
def check(
    file: options.Files,
    old: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|git:REF[:PATH]",
            help="The documents before the edit: a file, a file at a Git revision, or the same files at that revision. "
            "With it, update rules and frozen fields are judged too.",
            show_default=False,
        ),
    ] = None,
    settings: options.SettingsFile = None,
    live: options.Live = False,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    form: Annotated[TextOrJson, typer.Option("--output", "-o", help="For people or for tools.")] = TextOrJson.TEXT,
) -> ExitCode:
    """Tell every reason why the documents would be refused.

    Exit code 0: accepted. 1: refused. 2: something could not be read.
    """
    from gpustack_components.cli.judge import judge
    from gpustack_components.cli.live import bindings_of

    observed = bindings_of(kubeconfig, context) if live else None
    judgement = judge(file, old=old, settings_file=settings, live=observed)
    if form is TextOrJson.JSON:
        output.write_json(report(judgement))
    else:
        for line in lines(judgement):
            output.say(line)
    return ExitCode.REFUSED if judgement.refused else ExitCode.DONE


def report(judgement: "Judgement") -> Json:
    """The verdict as other tools read it (design, section 8)."""
    from gpustack_components.api.encode import encode

    return {
        "refused": judgement.refused,
        "refusals": [_refusal(one, refusal) for one in judgement.judged for refusal in one.refusals],
        "warnings": [
            {"document": one.label, "source": one.place, "message": str(warning)}
            for one in judgement.judged
            for warning in _remarks(one)
        ],
        "documents": [encode(one.review.document) for one in judgement.judged if one.review.document is not None],
    }


def lines(judgement: "Judgement") -> list[str]:
    """The verdict for people: the documents that something is said of, one line for each thing, and a summary."""
    told: list[str] = []
    for one in judgement.judged:
        remarks = _remarks(one)
        if not one.refusals and not remarks:
            continue
        told.append(output.marked(f"{one.place}: {one.kind} {one.label}", "white", bold=True))
        told.extend(f"  {output.marked('refused', 'red')}  {refusal}" for refusal in one.refusals)
        told.extend(f"  {output.marked('warning', 'yellow')}  {remark}" for remark in remarks)
    told.append(_summary(judgement))
    return told


def counted(number: int, noun: str) -> str:
    """A number with its noun in the right number: `1 document`, `2 documents`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _refusal(one: "Judged", refusal: Any) -> Json:
    return {
        "rule": refusal.rule,
        "path": refusal.path,
        "message": refusal.message,
        "value": refusal.value,
        "transient": refusal.transient,
        "document": one.label,
        "source": one.place,
    }


def _remarks(one: "Judged") -> tuple[str, ...]:
    return tuple(str(remark) for remark in (*one.review.warnings, *one.review.unjudged))


def _summary(judgement: "Judgement") -> str:
    refusals = sum(len(one.refusals) for one in judgement.judged)
    remarks = sum(len(_remarks(one)) for one in judgement.judged)
    read = counted(len(judgement.judged), "document")
    verdict = (
        output.marked(f"refused ({counted(refusals, 'refusal')})", "red", bold=True)
        if refusals
        else output.marked("accepted", "green", bold=True)
    )
    return f"{read}: {verdict}" + (f", {counted(remarks, 'warning')}" if remarks else "")
