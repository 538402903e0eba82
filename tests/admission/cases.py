"""The conformance cases of `tests/data/admission`: how one is written down, built, and what is expected of it."""

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpustack_components.api.decode import decode
from gpustack_components.bindings.catalog import Bindings
from gpustack_components.bindings.settings import Settings

DATA = Path(__file__).parents[1] / "data" / "admission"
Json = dict[str, Any]
Expected = tuple[str, str]
"""A rule and the path it is expected at."""

_STEP = re.compile(r"([A-Za-z][\w-]*)|\[(\d+)\]")


@dataclass(frozen=True)
class Case:
    """One row: an edited base, and the verdict on it."""

    source: str
    row: Json

    @property
    def name(self) -> str:
        return f"{self.source}: {self.row['name']}"

    @property
    def document(self) -> Json:
        return edited(self.row.get("base", "server"), self.row.get("set", {}))

    @property
    def neighbour(self) -> Json | None:
        """The same document with the smallest change that makes it right."""
        return applied(self.document, self.row["neighbour"]) if "neighbour" in self.row else None

    @property
    def old(self) -> Json | None:
        return edited(self.row.get("base", "server"), self.row["old"]) if "old" in self.row else None

    @property
    def target(self) -> Json | None:
        return edited("pair", self.row["target"]) if "target" in self.row else None

    @property
    def settings(self) -> Settings:
        return Settings.from_mapping(self.row.get("settings", {}))

    @property
    def bindings(self) -> Bindings:
        return world() if self.row.get("complete", True) else Bindings.of(world_documents())

    @property
    def refused(self) -> list[Expected]:
        """What is refused, in order; empty for an accepted document."""
        if "rules" in self.row:
            return [(rule, path) for rule, path in self.row["rules"]]
        return [(self.row["rule"], self.row["path"])] if "rule" in self.row else []

    @property
    def accepted_rules(self) -> set[str]:
        """Rules this case shows an accepted document of."""
        return set(self.row.get("accepted", ())) | (
            {rule for rule, _ in self.refused} if "neighbour" in self.row else set()
        )

    @property
    def judged_as_update(self) -> bool:
        """Whether an edit from the neighbour to this document is refused like its creation.

        Not where the edit also moves a frozen field, which is then what is refused, nor where stored roles are spared.
        """
        return self.neighbour is not None and self.old is None and self.row.get("update") != "exempt"

    @property
    def arguments(self) -> Json:
        """What `review` takes beside the documents."""
        return {
            "bindings": self.bindings,
            "settings": self.settings,
            "target": self.target,
            "writer": self.row.get("writer"),
        }


@cache
def cases() -> tuple[Case, ...]:
    """Every case, in file order."""
    files = [path for path in sorted(DATA.glob("*.yaml")) if path.stem not in ("bases", "world")]
    return tuple(Case(path.stem, row) for path in files for row in yaml.safe_load(path.read_text()))


@cache
def _bases() -> Json:
    return yaml.safe_load((DATA / "bases.yaml").read_text())


@cache
def world_texts() -> tuple[Json, ...]:
    """The objects every case is judged beside, as raw JSON."""
    return tuple(yaml.safe_load_all((DATA / "world.yaml").read_text()))


def world_documents() -> Iterator[Any]:
    """The same, decoded."""
    return (decode(raw).document for raw in world_texts())


@cache
def world() -> Bindings:
    """The same as bindings that are all there are."""
    return Bindings.of(world_documents(), complete=True)


def edited(base: str, edits: Json) -> Json:
    """A base manifest with values set by field path; None removes a field or the entry at an index."""
    return applied(_bases()[base], edits)


def applied(document: Json, edits: Json) -> Json:
    """A copy of the document with the edits made."""
    document = copy.deepcopy(document)
    for path, value in edits.items():
        _put(document, [name or int(index) for name, index in _steps(path)], _value(value))
    return document


def _steps(path: str) -> Iterator[tuple[str, str]]:
    return ((match[1] or "", match[2] or "") for match in _STEP.finditer(path))


def _put(at: Any, steps: list[str | int], value: Any) -> None:
    *parents, last = steps
    for step in parents:
        at = at[step] if isinstance(step, int) else at.setdefault(step, {})
    if isinstance(last, int) and last == len(at):
        at.append(value)
    elif value is None:
        at.pop(last, None) if isinstance(last, str) else at.pop(last)
    else:
        at[last] = value


def _value(value: Any) -> Any:
    """Values too long to write out: a repeated letter, a number of servers."""
    if isinstance(value, dict) and set(value) == {"repeat", "times"}:
        return value["repeat"] * value["times"]
    if isinstance(value, dict) and set(value) == {"roles"}:
        return [{"name": f"r{n}", "instanceType": "h20-8x"} for n in range(value["roles"])]
    return copy.deepcopy(value)
