"""Reading what a user names: files, standard input, Git revisions. Every unreadable one is reported at once."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gpustack_components.cli import git
from gpustack_components.cli.guard import CommandError
from gpustack_components.manifest_files import covers, expanded, root

if TYPE_CHECKING:
    import yaml

    from gpustack_components.api.load import RawDocument

STDIN = "-"


def require_one_reader_of_stdin(*names: str | None) -> None:
    """Raise `CommandError` when more than one input of a command is standard input, which can be read once."""
    if names.count(STDIN) > 1:
        raise CommandError("standard input (-) can be read once only; name a file for the other input")


def read_documents(files: Iterable[str]) -> "tuple[RawDocument, ...]":
    """The raw documents of all files in the order given; a folder or glob stands for its files, `-` is standard input.

    Raises `CommandError` with one sentence for each file that cannot be read.
    """
    from gpustack_components.api.load import UnreadableInput, load_text

    documents: list[RawDocument] = []
    problems: list[str] = []
    for name in expanded(files, problems, untouched=STDIN):
        try:
            documents.extend(load_text(read_text(name), "<stdin>" if name == STDIN else name))
        except UnreadableInput as unreadable:
            problems.append(str(unreadable))
        except CommandError as failure:
            problems.extend(failure.sentences)
    if problems:
        raise CommandError(*problems)
    return tuple(documents)


def read_old(old: str, new_files: Iterable[str]) -> "tuple[RawDocument, ...]":
    """The documents as they were: a file, `-`, `git:REF:path`, or `git:REF` for the same files at that revision.

    A file that the revision does not hold is new: nothing of it was there before. Of a folder or glob all files are
    read that the revision holds there, also those that have another name by now.
    """
    if not old.startswith(git.PREFIX):
        return read_documents([old])
    revision, _, path = old.removeprefix(git.PREFIX).partition(":")
    git.require(revision)
    if path:
        return _read_at(revision, [path])
    named = [name for name in new_files if name != STDIN]
    files = expanded(named, [])
    if not files:
        raise CommandError(
            f"{old}: standard input has no earlier revision; name the file, as in git:{revision}:deployments/qwen.yaml"
        )
    several = [name for name in named if name not in files]
    former = [one for name in several for one in git.files_below(revision, root(name)) if covers(name, one)]
    single = [name for name in named if name in files and git.exists_at(revision, name)]
    return _read_at(revision, [*former, *single])


def read_mapping(file: str, what: str) -> dict[str, Any]:
    """The single YAML or JSON mapping a file holds; an empty file is an empty mapping. `what` names it in sentences."""
    import yaml

    try:
        value: Any = yaml.safe_load(read_text(file))
    except yaml.YAMLError as broken:
        raise CommandError(f"{file}: not readable as YAML: {_place(broken)}") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise CommandError(f"{file}: {what} are a mapping of names to values, found {type(value).__name__}")
    return {str(key): item for key, item in cast("dict[Any, Any]", value).items()}


def _place(broken: "yaml.YAMLError") -> str:
    """What is wrong with a YAML text, and where, in a few words."""
    mark, problem = getattr(broken, "problem_mark", None), getattr(broken, "problem", None)
    where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
    return f"{problem or 'broken'}{where}"


def _read_at(revision: str, paths: Iterable[str]) -> "tuple[RawDocument, ...]":
    from gpustack_components.api.load import UnreadableInput, load_text

    documents: list[RawDocument] = []
    problems: list[str] = []
    for path in paths:
        source = f"{git.PREFIX}{revision}:{path}"
        try:
            documents.extend(load_text(_decoded(git.read_at(revision, path), source), source))
        except UnreadableInput as unreadable:
            problems.append(str(unreadable))
        except CommandError as failure:
            problems.extend(failure.sentences)
    if problems:
        raise CommandError(*problems)
    return tuple(documents)


def read_text(name: str) -> str:
    """The text of a file, or of standard input for `-`; raises `CommandError` with a sentence."""
    if name == STDIN:
        return _decoded(_read_stdin(), "<stdin>")
    try:
        return _decoded(Path(name).read_bytes(), name)
    except FileNotFoundError:
        raise CommandError(f"{name}: no such file") from None
    except IsADirectoryError:
        raise CommandError(f"{name}: is a directory; name a file") from None
    except PermissionError:
        raise CommandError(f"{name}: not readable by this user (permission denied)") from None
    except OSError as failure:
        raise CommandError(f"{name}: cannot be read: {failure.strerror or failure}") from None
    except ValueError as failure:
        raise CommandError(f"{name!r}: is no file name: {failure}") from None


def _read_stdin() -> bytes:
    stdin = sys.stdin
    if stdin is None or stdin.closed:
        raise CommandError("standard input is closed; pipe a manifest into the command or name a file")
    try:
        return stdin.buffer.read()
    except OSError as failure:
        raise CommandError(f"standard input cannot be read: {failure.strerror or failure}") from None


def _decoded(content: bytes, source: str) -> str:
    if b"\0" in content[:8192]:
        raise CommandError(f"{source}: looks like a binary file; manifests are YAML or JSON text in UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        line = content.count(b"\n", 0, failure.start) + 1
        raise CommandError(
            f"{source}:{line}: not UTF-8 text (byte 0x{content[failure.start]:02x}); save the file as UTF-8"
        ) from None
