"""Why something stands in a Pod: the rule that put it there and the input it came from. `render --explain` reads
these."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Origin:
    """The reason for one argument, variable, label, annotation, resource, volume or port."""

    rule: str
    """What decides it, in a few words, with the section of the rendering sheet."""
    field: str = ""
    """The input it comes from: a path in the ModelDeployment, or `<Kind>.<path>` of a binding, or `setting <name>`;
    empty for a constant."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Neighbouring arguments that one rule put on the command line."""

    tokens: tuple[str, ...]
    """The arguments, in order."""
    origin: Origin
    """Why they are there."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One environment variable, port, volume or mount: the dict that is rendered and why."""

    value: dict[str, Any]
    """The dict as rendered."""
    origin: Origin
    """Why it is there."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One key with its value: a label, an annotation or a resource."""

    key: str
    """Key of the label, annotation or resource."""
    value: str
    """Its value."""
    origin: Origin
    """Why it is there."""
