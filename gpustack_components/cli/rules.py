"""`explain` and `rules`: what the rules of admission are, one by one and as a page."""

import textwrap
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpustack_components.cli import output
from gpustack_components.cli.guard import CommandError, ExitCode, guarded
from gpustack_components.cli.output import TextOrJson

if TYPE_CHECKING:
    from gpustack_components.admission.rule import Rule

Json = dict[str, Any]

WIDTH = 100
"""Columns that text is wrapped at."""

PREFACE = (
    "Every rule that a document is judged by, behind every door: `gpustack-components check`, `pulumi preview`, the",
    "policy pack `policies/admission`; at the end, what else ends a sentence in brackets. Ids never change. *Judged*",
    "says on which writes, and what has to be known besides the document itself: where that is not known, the rule is",
    "reported as not judged.",
)
"""The words above the list of rules."""


@guarded
def explain(
    rule: Annotated[
        str | None,
        typer.Argument(
            metavar="RULE-ID", help="The id a refusal ends with. Without it: all rules.", show_default=False
        ),
    ] = None,
    form: Annotated[TextOrJson, typer.Option("--output", "-o", help="For people or for tools.")] = TextOrJson.TEXT,
) -> ExitCode:
    """Tell what a rule refuses, where, and the way out.

    Without an id, all rules are listed by subject.

    Exit code 0: told. 2: there is no such rule.
    """
    known = all_rules()
    chosen = known if rule is None else (find(rule, known),)
    if form is TextOrJson.JSON:
        output.write_json([as_json(one) for one in chosen] if rule is None else as_json(chosen[0]))
    elif rule is None:
        for line in _table(chosen):
            output.say(line)
    else:
        for line in _told(chosen[0]):
            output.say(line)
    return ExitCode.DONE


@guarded
def rules(
    markdown: Annotated[bool, typer.Option("--markdown", help="As the page docs/reference/rules.md.")] = False,
    form: Annotated[TextOrJson, typer.Option("--output", "-o", help="For people or for tools.")] = TextOrJson.TEXT,
) -> ExitCode:
    """List every rule of admission by subject."""
    known = all_rules()
    if markdown:
        output.say(page(known).rstrip("\n"))
    elif form is TextOrJson.JSON:
        output.write_json([as_json(one) for one in known])
    else:
        for line in _table(known):
            output.say(line)
    return ExitCode.DONE


def all_rules() -> "tuple[Rule, ...]":
    """Every registered rule in the order of the registry, then what is printed in its way and is no rule."""
    from gpustack_components.admission.beside import BESIDE
    from gpustack_components.admission.registry import RULES

    return (*RULES.values(), *BESIDE.values())


def find(rule_id: str, known: "Iterable[Rule]") -> "Rule":
    """The rule of that id; raises `CommandError` naming the nearest ids when there is none."""
    by_id = {one.id.lower(): one for one in known}
    asked = "-".join(rule_id.strip("()` ").lower().replace("_", "-").split())
    if asked in by_id:
        return by_id[asked]
    near = get_close_matches(asked, by_id, n=3, cutoff=0.5) or [one for one in by_id if asked and asked in one][:3]
    hint = (
        f"did you mean {' or '.join(by_id[one].id for one in near)}?"
        if near
        else "`gpustack-components explain` lists them"
    )
    raise CommandError(f"{rule_id}: there is no such rule; {hint}")


def as_json(rule: "Rule") -> Json:
    """A rule as other tools read it."""
    return {
        "id": rule.id,
        "subject": rule.subject,
        "layer": rule.layer,
        "severity": rule.severity,
        "operations": list(rule.operations),
        "needs": sorted(rule.needs),
        "paths": list(rule.paths),
        "when": rule.when,
        "wayOut": rule.way_out,
        "source": rule.source,
    }


def page(known: "Iterable[Rule]") -> str:
    """The reference page of all rules, as Markdown."""
    return "\n".join(_page_lines(tuple(known))) + "\n"


def _page_lines(known: "tuple[Rule, ...]") -> Iterator[str]:
    yield "# Rules"
    yield ""
    yield "<!-- Made from the registry: gpustack-components rules --markdown > docs/reference/rules.md -->"
    yield ""
    yield from PREFACE
    by_subject = _by_subject(known)
    yield ""
    for subject, rules_of in by_subject.items():
        links = ", ".join(f"[`{one.id}`](#{one.id.lower()})" for one in rules_of)
        yield f"- [{_titled(subject)}](#{_anchor(subject)}): {links}"
    for subject, rules_of in by_subject.items():
        yield ""
        yield f"## {_titled(subject)}"
        for one in rules_of:
            yield ""
            yield f"### {one.id}"
            yield ""
            yield f"{_opening(one)} {_sentence(one.when)}"
            yield ""
            yield f"- Way out: {_sentence(one.way_out)}"
            yield f"- At: {', '.join(f'`{path}`' if path else 'the document' for path in one.paths)}"
            yield f"- Judged: {_judged(one)}"
            yield f"- Follows: {one.source}"


def _told(rule: "Rule") -> Iterator[str]:
    yield output.marked(rule.id, bold=True) + f"  ({rule.subject}, {rule.layer})"
    yield ""
    yield from _wrapped(f"{_opening(rule)} {_sentence(rule.when)}")
    yield ""
    for label, text in (
        ("Way out", _sentence(rule.way_out)),
        ("At", ", ".join(path or "the document as a whole" for path in rule.paths)),
        ("Judged", _judged(rule)),
        ("Follows", rule.source),
    ):
        yield from _wrapped(text, f"{label + ':':<9}")


def _wrapped(text: str, label: str = "") -> list[str]:
    """Lines of at most `WIDTH` columns, the first with a label; names with hyphens stay whole."""
    indent = " " * len(label)
    return textwrap.wrap(text, WIDTH, initial_indent=label, subsequent_indent=indent, break_on_hyphens=False)


def _table(known: "Iterable[Rule]") -> Iterator[str]:
    by_subject = _by_subject(tuple(known))
    width = max((len(one.id) for rules_of in by_subject.values() for one in rules_of), default=0)
    for index, (subject, rules_of) in enumerate(by_subject.items()):
        if index:
            yield ""
        yield output.marked(_titled(subject), bold=True)
        for one in rules_of:
            yield f"  {one.id:<{width}}  {textwrap.shorten(one.when, WIDTH - width - 4, placeholder=' ...')}"
    yield ""
    yield "`gpustack-components explain RULE-ID` tells about one."


def _by_subject(known: "tuple[Rule, ...]") -> "dict[str, list[Rule]]":
    grouped: dict[str, list[Rule]] = {}
    for one in known:
        grouped.setdefault(one.subject, []).append(one)
    return grouped


def _opening(rule: "Rule") -> str:
    return {"refuse": "Refused when", "warn": "Warned of when", "hold": "Pods are held back while"}[rule.severity]


def _judged(rule: "Rule") -> str:
    writes = " and ".join(rule.operations)
    needs = sorted(rule.needs - {"object"})
    return f"on {writes}" + (f"; needs the {', the '.join(needs)}" if needs else "")


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _titled(subject: str) -> str:
    return subject[:1].upper() + subject[1:]


def _anchor(subject: str) -> str:
    return subject.lower().replace(" ", "-")
