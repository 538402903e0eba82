"""Writes `docs/reference/cli.md` from the commands: `python -m gpustack_components.cli.reference` prints it."""

import sys
from collections.abc import Iterator
from typing import Any

import typer.main

from gpustack_components.cli.guard import ExitCode
from gpustack_components.cli.main import app

EXIT_CODES = {
    ExitCode.DONE: "done: accepted, rendered, found",
    ExitCode.REFUSED: "refused; `status`: there is no such deployment; `coverage`: a rule lacks a case",
    ExitCode.UNUSABLE: "unreadable input or wrong usage: nothing was judged",
    ExitCode.RENDER_FAILED: "`render`, `plan`: accepted, but not to be rendered with these bindings",
    ExitCode.CLUSTER: "the cluster cannot be reached or does not let this identity read",
    ExitCode.INTERNAL: "a defect of the program; `GPUSTACK_DEBUG=1` shows its traceback",
    ExitCode.INTERRUPTED: "ended by Ctrl-C",
    ExitCode.BROKEN_PIPE: "the reader of the output went away",
}


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
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    usage = [f"gpustack-components {name}"]
    usage += [_usage_of(argument) for argument in arguments]
    usage += [f"-f {option.metavar} [-f ...]" for option in options if option.required]
    yield ""
    yield f"## {name}"
    yield ""
    yield f"```sh\n{' '.join(usage)} [OPTIONS]\n```"
    yield ""
    yield command.help.replace("\n\n\n", "\n\n")
    if arguments:
        yield ""
        yield "| Argument | Meaning |"
        yield "|---|---|"
        for argument in arguments:
            yield f"| `{argument.human_readable_name}` | {argument.help} |"
    yield ""
    yield "| Option | Meaning | Default |"
    yield "|---|---|---|"
    for option in options:
        spelled = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
        value = "" if option.is_flag else f" `{_value_of(option)}`".replace("|", "\\|")
        yield f"| {spelled}{value} | {option.help.replace('|', chr(92) + '|')} | {_default_of(option)} |"


def _usage_of(argument: Any) -> str:
    name = argument.human_readable_name
    return name if argument.required else f"[{name}]"


def _value_of(option: Any) -> str:
    choices = getattr(option.type, "choices", None)
    if option.metavar:
        return option.metavar
    if choices:
        return "|".join(str(getattr(choice, "value", choice)) for choice in choices)
    return option.type.name.upper()


def _default_of(option: Any) -> str:
    if option.required:
        return "required"
    default = option.default
    if default is None or default is False or option.is_flag or default == ():
        return ""
    return f"`{getattr(default, 'value', default)}`"


def _first_sentence(text: str) -> str:
    return text.split("\n\n")[0].replace("\n", " ").strip()


if __name__ == "__main__":
    sys.stdout.write(page())
