"""Writes `docs/reference/cli.md` from the commands: `python -m gpustack_components.cli.reference` prints it."""

import sys
from collections.abc import Iterator
from typing import Any

import typer.main

from gpustack_components.cli.guard import ExitCode
from gpustack_components.cli.main import app

EXIT_CODES = {
    ExitCode.DONE: "done: accepted, rendered, found",
    ExitCode.REFUSED: "refused; `status`: there is no such deployment, or it is not this package's",
    ExitCode.UNUSABLE: "unreadable input or wrong usage: nothing was judged",
    ExitCode.RENDER_FAILED: "`render`, `plan`: accepted, but not to be rendered with these bindings",
    ExitCode.CLUSTER: "the cluster cannot be reached or does not let this identity read",
    ExitCode.INTERNAL: "a defect of the program; `GPUSTACK_DEBUG=1` shows its traceback",
    ExitCode.OUTPUT_FAILED: "the output could not be written, for example on a full disk",
    ExitCode.INTERRUPTED: "ended by Ctrl-C",
    ExitCode.BROKEN_PIPE: "the reader of the output went away",
}


BAR = "\\|"
"""A bar inside a cell of a Markdown table."""


def page() -> str:
    """The whole reference page as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    root: Any = typer.main.get_command(app)
    yield "# Command line"
    yield ""
    yield "<!-- Made from the commands: python -m gpustack_components.cli.reference > docs/reference/cli.md -->"
    yield ""
    yield root.help
    yield ""
    yield "| Command | Does |"
    yield "|---|---|"
    commands = {name: command for name, command in root.commands.items() if not command.hidden}
    for name, command in commands.items():
        yield f"| [`{name}`](#{name}) | {_first_sentence(command.help)} |"
    yield ""
    yield "## Exit codes"
    yield ""
    yield "| Code | Meaning |"
    yield "|---|---|"
    for code, meaning in EXIT_CODES.items():
        yield f"| {int(code)} | {meaning} |"
    for name, command in commands.items():
        yield from _command(name, command)
    yield ""
    yield "## Shell completion"
    yield ""
    yield "`gpustack-components --install-completion` sets it up; `--show-completion` prints the script."


def _command(name: str, command: Any) -> Iterator[str]:
    context = command.make_context(name, [], resilient_parsing=True)
    told = {True: list[tuple[str, str]](), False: list[tuple[str, str]]()}
    usage = [f"gpustack-components {name}"]
    for parameter in command.params:
        spelled, meaning = parameter.get_help_record(context)
        called = parameter.metavar or parameter.name.upper()
        is_option = parameter.param_type_name == "option"
        told[is_option].append((spelled if is_option else called, meaning))
        if not is_option:
            usage.append(called if parameter.required else f"[{called}]")
        elif parameter.required:
            usage.append(f"{parameter.opts[-1]} {called}")
    yield from ("", f"## {name}", "", f"```sh\n{' '.join(usage)} [OPTIONS]\n```", "", command.help)
    for heading, rows in (("Argument", told[False]), ("Option", told[True])):
        if rows:
            yield from ("", f"| {heading} | Meaning |", "|---|---|")
        for spelled, meaning in rows:
            cells = (f"`{spelled}`", " ".join(meaning.split()))
            yield f"| {' | '.join(cell.replace('|', BAR) for cell in cells)} |"


def _first_sentence(text: str) -> str:
    return text.split("\n\n")[0].replace("\n", " ").strip()


if __name__ == "__main__":
    sys.stdout.write(page())
