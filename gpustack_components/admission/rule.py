"""What a rule of admission is: its id, what it needs to see, and the sentence that explains it (api sheet 6)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from gpustack_components.api.refusal import Refusal

if TYPE_CHECKING:
    from gpustack_components.admission.case import Case, RoleCase

Layer = Literal["decode", "schema", "mutating", "webhook", "review", "program", "render"]
"""Where the operator answers: strict decoding, the CRD schema, one of its two webhooks, its render; `review` and
`program` are ours alone."""
Operation = Literal["create", "update"]
"""The writes a rule judges."""
Need = Literal["object", "previous", "instance types", "bindings", "settings", "target", "other documents"]
"""What a rule has to see to judge at all. `target` is a scaler's ModelDeployment."""
Severity = Literal["refuse", "warn", "hold"]
"""Whether a finding stops the write, is only said, or holds Pods back for now."""

BOTH: tuple[Operation, ...] = ("create", "update")
"""A rule of creation and update alike."""
UPDATE: tuple[Operation, ...] = ("update",)
"""A rule that compares with the stored object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: what it refuses, where, when, and how to get past it. Rules are constants and never change their id."""

    id: str
    """Kebab-case id, part of users' state once released."""
    subject: str
    """The group a reader looks under, e.g. `engine arguments`; policies are grouped by it."""
    layer: Layer
    """Where the operator would answer."""
    when: str
    """The condition, in one sentence fragment that follows "Refused when"."""
    way_out: str
    """What to do about it, in one sentence."""
    source: str
    """The section of the contract it follows, e.g. `api-and-admission 6.2`."""
    paths: tuple[str, ...]
    """Where its refusals are attached; `[]` stands for any index, an empty text for the document as a whole."""
    operations: tuple[Operation, ...] = BOTH
    """The writes it judges."""
    needs: frozenset[Need] = frozenset(("object",))
    """What it has to see; without it the rule is reported as not judged."""
    severity: Severity = "refuse"
    """What a finding does."""

    def refuse(self, path: str, message: str, value: Any = None, *, transient: bool = False) -> Refusal:
        """A refusal under this rule's id."""
        return Refusal(self.id, path, message, value, transient)


RoleCheck: TypeAlias = "Callable[[Case, RoleCase], Iterable[Refusal]]"
"""A check of one role; it yields its refusals."""
DeploymentCheck: TypeAlias = "Callable[[Case], Iterable[Refusal]]"
"""A check of the whole deployment; it yields its refusals."""
