"""`check`: what the admission would refuse, before anything is applied."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpustack_components.cli import options, output
from gpustack_components.cli.guard import ExitCode, guarded
from gpustack_components.cli.output import TextOrJson

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack_components.admission.case import Unjudged
    from gpustack_components.api.refusal import Refusal
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
    from gpustack_components.cli.judge import judge, read, read_old, read_settings
    from gpustack_components.cli.live import bindings_of
    from gpustack_components.cli.sources import require_one_reader_of_stdin

    require_one_reader_of_stdin(*file, old, settings)
    raws = read(file)
    before = read_old(old, file) if old is not None else {}
    settled = read_settings(settings)
    observed = bindings_of(kubeconfig, context) if live else None
    judgement = judge(raws, settled, old=before, live=observed)
    if form is TextOrJson.JSON:
        output.write_json(report(judgement))
    else:
        for line in lines(judgement):
            output.say(line)
    return ExitCode.REFUSED if judgement.refused else ExitCode.DONE


def report(judgement: "Judgement") -> Json:
    """The verdict as other tools read it (design, section 8)."""
    from gpustack_components.api.encode import encode

    judged = judgement.judged
    return {
        "refused": judgement.refused,
        "refusals": [_finding(one, refusal) for one in judged for refusal in one.review.refusals],
        "warnings": [warning for one in judged for warning in _warnings(one)],
        "documents": [encode(one.review.document) for one in judged if one.review.document is not None],
    }


def lines(judgement: "Judgement") -> list[str]:
    """The verdict for people: the documents that something is said of, one line for each thing, and a summary."""
    told: list[str] = []
    for one in judgement.judged:
        review = one.review
        if not (review.refusals or review.warnings or review.unjudged):
            continue
        told.append(output.marked(f"{one.place}: {one.kind} {one.label}", bold=True))
        told.extend(f"  {output.marked('refused', 'red')}  {refusal}" for refusal in review.refusals)
        told.extend(f"  {output.marked('warning', 'yellow')}  {warning}" for warning in review.warnings)
        told.extend(f"  {output.marked('unknown', 'cyan')}  {_gap(gap)}" for gap in review.unjudged)
    told.append(_summary(judgement))
    return told


def counted(number: int, noun: str) -> str:
    """A number with its noun in the right number: `1 document`, `2 documents`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _gap(gap: "Unjudged") -> str:
    rules = gap.rules[0] if len(gap.rules) == 1 else counted(len(gap.rules), "rule")
    return f"{gap.path}: {gap.reason} ({rules} not judged)".removeprefix(": ")


def _finding(one: "Judged", found: "Refusal") -> Json:
    return {
        "rule": found.rule,
        "path": found.path,
        "message": found.message,
        "value": found.value,
        "transient": found.transient,
        "document": one.label,
        "source": one.place,
    }


def _warnings(one: "Judged") -> "Iterator[Json]":
    """What is accepted and worth a word; a gap in what is known has no rule and names the rules it leaves open."""
    for warning in one.review.warnings:
        yield _finding(one, warning)
    for gap in one.review.unjudged:
        yield {
            "rule": None,
            "path": gap.path,
            "message": gap.reason,
            "value": None,
            "transient": True,
            "document": one.label,
            "source": one.place,
            "notJudged": list(gap.rules),
        }


def _summary(judgement: "Judgement") -> str:
    reviews = [one.review for one in judgement.judged]
    refusals = sum(len(review.refusals) for review in reviews)
    warnings = sum(len(review.warnings) for review in reviews)
    open_rules = len({rule for review in reviews for gap in review.unjudged for rule in gap.rules})
    verdict = f"refused ({counted(refusals, 'refusal')})" if refusals else "accepted"
    told = [output.marked(verdict, "red" if refusals else "green", bold=True)]
    if warnings:
        told.append(counted(warnings, "warning"))
    if open_rules:
        told.append(f"{counted(open_rules, 'rule')} not judged")
    return f"{counted(len(reviews), 'document')}: {', '.join(told)}"
