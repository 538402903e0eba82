"""What an argparse parser makes of a command line, as plain JSON. Runs inside an engine's own environment."""

import argparse
import contextlib
import io
import json
import platform
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

Json = Any
Check = Callable[[argparse.Namespace], str | None]


class Rejected(Exception):  # noqa: N818
    """The program would exit with this message."""


def _raise(_parser: argparse.ArgumentParser, message: str | None = None, *_: object) -> NoReturn:
    raise Rejected(message or "")


def _exit(_parser: argparse.ArgumentParser, status: int = 0, message: str | None = None) -> NoReturn:
    raise Rejected(message or f"exits with {status} after printing")


def report_errors() -> None:
    """Let every parser raise `Rejected` where it would print a message and exit."""
    argparse.ArgumentParser.error = _raise  # type: ignore[method-assign]
    argparse.ArgumentParser.exit = _exit  # type: ignore[method-assign]


def forget_defaults(parser: argparse.ArgumentParser) -> None:
    """Make the parser return only what a command line states."""
    parser._defaults.clear()
    for action in parser._actions:
        action.default = argparse.SUPPRESS


def registered(parser: argparse.ArgumentParser) -> list[list[str]]:
    """What each flag takes, then its spellings; sorted by the first."""
    flags = [[_kind(action), *_spellings(action)] for action in parser._actions if action.option_strings]
    return sorted(flags, key=lambda flag: flag[1])


def _kind(action: argparse.Action) -> str:
    if isinstance(action, argparse.BooleanOptionalAction):
        return "switch-or-no"
    if action.nargs == 0:
        return "switch"
    if action.nargs is not None:
        return "list"
    return "int" if action.type is int else "value"


def _spellings(action: argparse.Action) -> list[str]:
    names = list(action.option_strings)
    if isinstance(action, argparse.BooleanOptionalAction):
        names = [name for name in names if _switches_on(action, name)]
    return sorted(names, key=lambda name: not name.startswith("--"))


def _switches_on(action: argparse.BooleanOptionalAction, name: str) -> bool:
    found = argparse.Namespace()
    action(argparse.ArgumentParser(), found, None, name)
    return bool(getattr(found, action.dest, False))


def answers(
    parser: argparse.ArgumentParser,
    flags: argparse.ArgumentParser,
    lines: Sequence[Sequence[str]],
    check: Check,
    prefix: Sequence[str] = (),
) -> list[Json]:
    """One answer per line: what it sets by flag, or the error.

    `parser` parses `prefix` and the line; `flags` is where the flags are registered, `parser` itself or a subcommand.
    `check` says what refuses a parsed line later, while the program starts.
    """
    names = {}
    for action in reversed(flags._actions):
        if action.option_strings:
            names[action.dest] = _spellings(action)[0]
    return [_answer(parser, names, [*prefix, *line], check) for line in lines]


def _answer(parser: argparse.ArgumentParser, names: dict[str, str], line: list[str], check: Check) -> Json:
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            found = parser.parse_args(line)
    except Rejected as error:
        return {"error": _short(str(error))}
    except Exception as error:
        return {"error": _short(f"{type(error).__name__}: {error}")}
    answer: Json = {"sets": {names[dest]: _plain(value) for dest, value in vars(found).items() if dest in names}}
    refusal = check(found)
    return {**answer, "refused": _short(refusal)} if refusal else answer


def _plain(value: object) -> Json:
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return type(value).__name__


def _short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= 120 else f"{line[:117]}..."


def respond(answer: Callable[[Json], Json]) -> None:
    """Read the question from stdin, write the answer to stdout; whatever the engine prints goes to stderr."""
    question, out = json.load(sys.stdin), sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        found = {"python": platform.python_version(), **answer(question)}
    json.dump(found, out)
