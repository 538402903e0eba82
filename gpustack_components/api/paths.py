"""Field paths as the API server writes them: `spec.roles[1].replicas`, `metadata.labels[app.kubernetes.io/name]`."""

import re
from collections.abc import Sequence

Location = tuple[str | int, ...]
"""A place in a document: keys of maps and positions in lists, outermost first."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")
_LONGEST_KEY = 80


def path_of(location: Sequence[str | int]) -> str:
    """The location as a field path; empty for the document as a whole."""
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _PLAIN_KEY.match(step) and len(step) <= _LONGEST_KEY:
            path += f".{step}" if path else step
        else:
            path += f"[{printable(step, _LONGEST_KEY)}]"
    return path


def printable(text: str, longest: int) -> str:
    """The text on one line, encodable and no longer than that many characters."""
    cut = text if len(text) <= longest else text[: longest - 3] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in cut)
