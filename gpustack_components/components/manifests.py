"""Manifest files of a program: paths, folders and globs to raw documents, every unreadable one reported at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulumi

from gpustack_components.cluster.binding_objects import KINDS
from gpustack_components.cluster.readings import at
from gpustack_components.components.arguments import KIND
from gpustack_components.components.plain import Json
from gpustack_components.manifest_files import expanded

if TYPE_CHECKING:
    from gpustack_components.api.load import RawDocument

BINDING_KINDS = tuple(kind.kind for kind in KINDS)
"""Kinds a deployment may depend on."""


@dataclass(frozen=True, slots=True)
class Manifests:
    """What the files hold."""

    deployments: tuple[Json, ...]
    """Raw ModelDeployments in the order of the files."""
    bindings: tuple[Json, ...]
    """Raw documents of everything a deployment may depend on."""


def resource_name_of(document: Json) -> str:
    """The logical name of a deployment from a file: its namespace and name, whatever else the files hold."""
    namespace, name = (at(document, "metadata", key) for key in ("namespace", "name"))
    return f"{namespace or 'default'}/{name or 'unnamed'}"


def read(patterns: Sequence[str]) -> Manifests:
    """The documents of all files that the paths, folders and globs name. Raises `pulumi.RunError` with one sentence per
    problem.
    """
    problems: list[str] = []
    documents: list[RawDocument] = []
    for path in dict.fromkeys(map(Path, expanded(patterns, problems))):
        documents.extend(_load(path, problems))
    kept = _without_repeats(documents, problems)
    if problems:
        raise pulumi.RunError("\n".join(problems))
    return Manifests(
        tuple(one.value for one in kept if _kind(one.value) == KIND),
        tuple(one.value for one in kept if _kind(one.value) in BINDING_KINDS),
    )


def _load(path: Path, problems: list[str]) -> "Sequence[RawDocument]":
    from gpustack_components.api.load import UnreadableInput, load_text

    try:
        return load_text(path.read_text(encoding="utf-8-sig"), str(path))
    except UnreadableInput as unreadable:
        problems.append(str(unreadable))
    except UnicodeDecodeError:
        problems.append(f"{path}: not UTF-8 text; save the file as UTF-8")
    except FileNotFoundError:
        problems.append(f"{path}: no such file, looked from {Path.cwd()}")
    except OSError as failure:
        problems.append(f"{path}: cannot be read: {failure.strerror or failure}")
    return ()


def _without_repeats(documents: "Sequence[RawDocument]", problems: list[str]) -> "list[RawDocument]":
    """Each object once; two different documents of one name are a problem, and so is a kind nothing here can use."""
    first: dict[tuple[str, str, str], RawDocument] = {}
    for one in documents:
        kind = _kind(one.value)
        if kind not in (KIND, *BINDING_KINDS):
            known = ", ".join((KIND, *BINDING_KINDS))
            problems.append(
                f"{one.source}:{one.line}: kind {kind or '(none)'} cannot be deployed; kinds read here are {known}"
            )
            continue
        namespace, name = (at(one.value, "metadata", key) for key in ("namespace", "name"))
        key = (kind, str(namespace or ""), str(name or f"#{one.source}:{one.index}"))
        earlier = first.setdefault(key, one)
        if earlier.value != one.value:
            problems.append(
                f"{one.source}:{one.line}: {kind} {key[2]} is declared differently at {earlier.source}:{earlier.line}; "
                "keep one of the two"
            )
    return list(first.values())


def _kind(value: Any) -> str:
    kind = at(value, "kind")
    return kind if isinstance(kind, str) else ""
