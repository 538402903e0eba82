"""Which manifest files a person means by a path: a file itself, the manifests of a folder, or what a glob matches."""

import os.path
from collections.abc import Iterable
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path

SUFFIXES = (".yaml", ".yml", ".json")
"""Suffixes of a folder's manifests; folders inside it are not looked into, as with `kubectl -f`."""


class NoFileError(Exception):
    """A folder or glob that names no file; its text is the sentence for the user."""


def files_of(path: str) -> list[str]:
    """The files that a path names, in order of their names. A path that is neither folder nor glob is returned as it
    is, whether or not it can be read.

    Raises `NoFileError`, also for a folder that may not be read.
    """
    place = Path(path)
    try:
        if place.is_dir():
            return _of_folder(path, place)
        if not has_magic(path) or place.exists():
            return [path]
        found = _sorted(Path(place.anchor).glob(path.removeprefix(place.anchor)))
    except OSError as failure:
        raise NoFileError(f"{path}: cannot be read: {failure.strerror or failure}") from None
    except (ValueError, NotImplementedError) as failure:
        raise NoFileError(f"{path}: is no glob: {failure}") from None
    if not found:
        raise NoFileError(f"{path}: no file matches, looked from {Path.cwd()}")
    return found


def covers(path: str, file: str) -> bool:
    """Whether a folder or glob would name a file if it existed, or one above it."""
    absolute, pattern = os.path.abspath(file), os.path.abspath(path)  # noqa: PTH100 - Path.resolve follows links
    if has_magic(path):
        return fnmatchcase(absolute, pattern.replace("**/", "*"))
    return str(Path(absolute).parent) == pattern and Path(file).suffix.lower() in SUFFIXES


def root(path: str) -> str:
    """The folder below which all lies that a folder or glob names."""
    parts = Path(path).parts
    plain = next((index for index, part in enumerate(parts) if has_magic(part)), len(parts))
    return str(Path(*parts[:plain]))


def _of_folder(path: str, folder: Path) -> list[str]:
    found = _sorted(one for one in folder.iterdir() if one.suffix.lower() in SUFFIXES)
    if not found:
        raise NoFileError(f"{path}: the folder holds no manifest ({', '.join(SUFFIXES)}); name a file or a glob")
    return found


def _sorted(paths: Iterable[Path]) -> list[str]:
    return sorted(str(one) for one in paths if one.is_file())
