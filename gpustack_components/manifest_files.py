"""Which manifest files a person means by a path: a file itself, the manifests of a folder, or what a glob matches."""

import os.path
from collections.abc import Iterable
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path

SUFFIXES = (".yaml", ".yml", ".json")
"""Suffixes of a folder's manifests; folders inside it are not looked into, as with `kubectl -f`."""


class _NoFileError(Exception):
    """A folder or glob that names no file; its text is the sentence for the user."""


def expanded(paths: Iterable[str], problems: list[str], *, untouched: str | None = None) -> list[str]:
    """The files that paths name, each once; one sentence is added to `problems` for every folder or glob that names
    none, or may not be read. `untouched` is returned as it is.
    """
    files: dict[str, None] = {}
    for path in paths:
        try:
            files.update(dict.fromkeys([path] if path == untouched else _files_of(path)))
        except _NoFileError as nothing:
            problems.append(str(nothing))
    return list(files)


def _files_of(path: str) -> list[str]:
    """The files that a path names, in order of their names. A path that is neither folder nor glob is returned as it
    is, whether or not it can be read.
    """
    place = Path(path)
    try:
        if place.is_dir():
            return _of_folder(path, place)
        if not has_magic(path) or place.exists():
            return [path]
        found = _sorted(Path(place.anchor).glob(path.lstrip(os.sep)))
    except OSError as failure:
        raise _NoFileError(f"{path}: cannot be read: {failure.strerror or failure}") from None
    except ValueError as failure:
        raise _NoFileError(f"{path}: is no glob: {failure}") from None
    if not found:
        raise _NoFileError(f"{path}: no file matches, looked from {Path.cwd()}")
    return found


def covers(path: str, file: str) -> bool:
    """Whether a folder or glob would name a file if it existed, or one above it."""
    folder, pattern = _divided(path)
    inside = os.path.relpath(file, folder)
    if pattern:
        return fnmatchcase(inside, pattern.replace("**/", "*"))
    return os.sep not in inside and Path(file).suffix.lower() in SUFFIXES


def root(path: str) -> str:
    """The folder below which all lies that a folder or glob names."""
    return _divided(path)[0]


def _divided(path: str) -> tuple[str, str]:
    """A folder, and what of the path is a glob in it."""
    place = Path(path)
    if place.is_dir():
        return path, ""
    plain = next((index for index, part in enumerate(place.parts) if has_magic(part)), len(place.parts))
    return str(Path(*place.parts[:plain])), str(Path(*place.parts[plain:]))


def _of_folder(path: str, folder: Path) -> list[str]:
    found = _sorted(one for one in folder.iterdir() if one.suffix.lower() in SUFFIXES)
    if not found:
        raise _NoFileError(f"{path}: the folder holds no manifest ({', '.join(SUFFIXES)}); name a file or a glob")
    return found


def _sorted(paths: Iterable[Path]) -> list[str]:
    return sorted(str(one) for one in paths if one.is_file())
