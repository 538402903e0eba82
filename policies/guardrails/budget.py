"""How many cards the deployments of a stack declare together, remembered as the analyzer sees one resource after the
other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from gpustack_components.api.model_deployment import Role
from policies.deployments import Deployment

_PERCENT = 100


def cards_of(role: Role, *, accelerated: bool) -> Fraction:
    """Cards that all replicas of a role hold; a slice counts as the share of the card's memory or compute it takes."""
    asked = role.resources
    if asked is None or asked.accelerator is None:
        per_pod = Fraction(1 if accelerated else 0)
    else:
        per_pod = Fraction(asked.accelerator.value)
    if asked is not None:
        shares = (asked.accelerator_sliced_memory_percentage or 0, asked.accelerator_sliced_cores_percentage or 0)
        if max(shares):
            per_pod *= Fraction(max(shares), _PERCENT)
    return per_pod * role.size * role.replicas


@dataclass
class Ledger:
    """Cards by deployment; an entry is replaced when its resource is seen again."""

    entries: dict[str, tuple[str, Fraction]] = field(default_factory=dict[str, tuple[str, Fraction]])
    """Namespace and cards by resource address."""

    def enter(self, deployment: Deployment) -> None:
        """Write down what the deployment declares."""
        document, bindings = deployment.document, deployment.judgement.bindings
        if document is None:
            return
        cards = Fraction(0)
        for role in document.spec.roles:
            found = bindings.instance_type(role.instance_type) if bindings else None
            cards += cards_of(role, accelerated=found is None or found.spec.acceleratable)
        self.entries[deployment.urn] = (deployment.request.namespace, cards)

    def total(self, namespace: str | None = None) -> Fraction:
        """Cards of a namespace, or of the whole stack."""
        return sum((cards for where, cards in self.entries.values() if namespace in (None, where)), Fraction(0))


def limit_for(namespace: str, limits: Mapping[str, float]) -> float | None:
    """The budget of a namespace: its own, else that of `*`, else none."""
    return limits.get(namespace, limits.get("*"))


def amount(cards: Fraction) -> str:
    """Cards for a sentence: a whole number, or one decimal."""
    return str(cards.numerator) if cards.denominator == 1 else f"{float(cards):.1f}"
