"""The status document as a driver keeps it in the record: made by `status.report` from what a pass saw (sheet 8)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Self

from gpustack_components.api.decode import decode
from gpustack_components.api.model_deployment import ModelDeployment
from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import timestamp
from gpustack_components.rollout.actions import CreateReplica, Decision
from gpustack_components.rollout.desired import Desired
from gpustack_components.rollout.observe import Observed
from gpustack_components.rollout.qualification import eligible
from gpustack_components.rollout.record import Record
from gpustack_components.status.deployed import Observation
from gpustack_components.status.facts import Facts, RoleEndpoints, RouterFound
from gpustack_components.status.report import report
from gpustack_components.status.resolved import facts_of

if TYPE_CHECKING:
    from gpustack_components.bindings.resolve import ResolvedDeployment


def facts(resolved: "ResolvedDeployment", desired: Desired | None = None) -> Facts:
    """What a resolved deployment tells its status."""
    desired = desired or Desired.of(resolved)
    return facts_of(resolved, {role.name: role.hashes for role in desired.roles}, desired.floor)


def observation(observed: Observed) -> Observation:
    """What a pass saw, as the status reads it: the deployment's own Pods and the Workloads."""
    pods = tuple(member.pod for member in observed.members if member.belonging == "ours")
    return Observation(pods, tuple(workload.workload for workload in observed.workloads))


def qualified(facts: Facts, roles: Iterable[str], observed: Observed, record: Record) -> Facts:
    """The facts with the retirement under way, and what qualification finds in a pass."""
    found = eligible(roles, observed, record.slots, record.retirement)
    serving = "Unknown" if facts.qualifies else "NotConfigured"
    return replace(
        facts,
        endpoints={role: RoleEndpoints(number, serving) for role, number in found.items()},
        retirement=record.retirement.to_json() if record.retirement is not None else None,
    )


@dataclass(frozen=True, slots=True)
class Reporter:
    """Makes the status documents of one run."""

    deployment: ModelDeployment
    """The document that is being driven."""
    facts: Facts
    """What does not change during the run."""

    @classmethod
    def of(cls, resolved: "ResolvedDeployment", desired: Desired) -> Self:
        """For a run that brings a resolved deployment about."""
        return cls(resolved.declared, facts(resolved, desired))

    @classmethod
    def of_removal(cls, document: Json) -> Self | None:
        """For a run that removes what a record declares; None when that cannot be read."""
        decoded = decode(document, stored=True).document
        return cls(decoded, Facts(deleting=True)) if isinstance(decoded, ModelDeployment) else None

    def status(
        self, observed: Observed, decision: Decision, record: Record, router: Json | None, now: datetime
    ) -> Json:
        """The document after a pass; `record` holds the one before. `router` is the router's Deployment, if any."""
        created = {(one.role, one.ordinal) for one in decision.actions if isinstance(one, CreateReplica)}
        expected = self.facts.expected
        found = replace(
            self.facts,
            expected=replace(expected, created=frozenset(created)) if expected is not None else None,
            router=RouterFound.of(router) if not self.facts.deleting else None,
        )
        seen = report(
            self.deployment,
            observation(observed),
            qualified(found, [role.name for role in self.deployment.spec.roles], observed, record),
            namespace=record.namespace,
            previous=record.status,
            now=timestamp(now),
        )
        return seen.to_json()
