"""What a ClusterQueue still has to give, as far as one object says: for a forecast, never for a decision."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Self

from gpustack_components.api.quantity import Quantity
from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import at, each, name

Amounts = Mapping[str, Fraction]
"""Amounts by resource name."""


@dataclass(slots=True)
class Queue:
    """One ClusterQueue's quota; `take` and `give` follow a forecast."""

    name: str
    nominal: dict[str, Fraction] = field(default_factory=dict[str, Fraction])
    """What it owns, over all its flavors."""
    free: dict[str, Fraction] = field(default_factory=dict[str, Fraction])
    """What nobody has reserved; may be negative when it borrows."""
    cohort: str = ""
    """The cohort it may borrow from; empty for none."""

    @classmethod
    def of(cls, obj: Json) -> Self:
        """Read the object."""
        queue = cls(name(obj), cohort=str(at(obj, "spec", "cohortName") or at(obj, "spec", "cohort") or ""))
        for group in each(obj, "spec", "resourceGroups"):
            for flavor in each(group, "flavors"):
                for resource in each(flavor, "resources"):
                    key = str(resource.get("name"))
                    quota = Quantity(resource.get("nominalQuota") or 0).value
                    queue.nominal[key] = queue.nominal.get(key, Fraction(0)) + quota
        queue.free = dict(queue.nominal)
        used = each(obj, "status", "flavorsReservation") or each(obj, "status", "flavorsUsage")
        for flavor in used:
            for resource in each(flavor, "resources"):
                key = str(resource.get("name"))
                if key in queue.free:
                    queue.free[key] -= Quantity(resource.get("total") or 0).value
        return queue

    def uncovered(self, asked: Amounts) -> list[str]:
        """Resources it has no quota for at all; Kueue admits nothing that asks for one."""
        return sorted(key for key, amount in asked.items() if amount and key not in self.nominal)

    def short(self, asked: Amounts) -> dict[str, Fraction]:
        """What is missing right now, by resource; empty when it fits."""
        return {
            key: amount - self.free[key]
            for key, amount in asked.items()
            if key in self.free and amount > self.free[key]
        }

    def take(self, asked: Amounts) -> None:
        """Reserve it."""
        for key, amount in asked.items():
            if key in self.free:
                self.free[key] -= amount

    def give(self, returned: Amounts) -> None:
        """Return it."""
        self.take({key: -amount for key, amount in returned.items()})


def in_use(queue: Json, workload: Json) -> str:
    """How much of what a waiting Workload asks for is left in its ClusterQueue, as a clause; empty when it asks for
    nothing."""
    asked: dict[str, Fraction] = {}
    for pod_set in each(workload, "spec", "podSets"):
        for key, amount in requests_of(at(pod_set, "template") or {}).items():
            asked[key] = asked.get(key, Fraction(0)) + amount * int(pod_set.get("count") or 1)
    found, key = Queue.of(queue), telling(asked)
    if not key or key not in found.nominal:
        return f"{found.name} has no quota for {key}" if key else ""
    free = max(found.free[key], Fraction(0))
    return (
        f"asks for {worded(asked[key])}; {found.name} has {worded(free)} free of {worded(found.nominal[key])} x {key}"
    )


def times(amounts: Mapping[str, Quantity], factor: int) -> dict[str, Fraction]:
    """What `factor` Pods ask for together."""
    return {key: amount.value * factor for key, amount in amounts.items()}


def requests_of(pod: Json) -> dict[str, Fraction]:
    """What a Pod's containers ask for together."""
    found: dict[str, Fraction] = {}
    for container in each(pod, "spec", "containers"):
        requests: Mapping[str, str] = at(container, "resources", "requests") or {}
        for key, amount in requests.items():
            found[key] = found.get(key, Fraction(0)) + Quantity(amount).value
    return found


def telling(amounts: Amounts) -> str:
    """The resource to speak about: the accelerator when there is one, else the first."""
    extended = [key for key in amounts if "/" in key and amounts[key]]
    return min(extended or amounts, default="")


def worded(amount: Fraction) -> str:
    """An amount as people write it."""
    return Quantity(amount).canonical()
