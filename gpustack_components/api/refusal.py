"""What a rule says when it refuses a document: the one shape behind every door."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Refusal:
    """One refusal of one document (api-and-admission sheet, section 6).

    Doors order refusals as `admission.review` returns them and never drop one.
    """

    rule: str
    """Kebab-case id of the rule, e.g. `parallel-width`. Never changes once released."""
    path: str
    """Field path in the document, e.g. `spec.roles[1].resources.accelerator`; empty for the document as a whole."""
    message: str
    """One sentence: what was found, why it cannot be, and the way out."""
    value: Any = None
    """The value found at the path as plain JSON, or None when there is none to show."""
    transient: bool = False
    """True when the same document may be accepted later without an edit (for example an unobserved InstanceType)."""

    def __str__(self) -> str:
        place = f"{self.path}: " if self.path else ""
        return f"{place}{self.message} ({self.rule})"
