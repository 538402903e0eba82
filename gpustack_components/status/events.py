"""Warnings about Pods that leave or restart, read off the Pods themselves (rollout sheet 10)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from gpustack_components.cluster import readings
from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import at
from gpustack_components.status.deployed import Observation

LEASE_SECONDS = 30
"""How long the store keeps a silent replica's blocks."""

Reason = Literal["ReplicaEvicted", "ReplicaLeaving", "ReplicaRestarted", "RenderFailed"]
"""Why a deployment is warned about."""


@dataclass(frozen=True, slots=True)
class DeploymentWarning:
    """One event of type Warning on the deployment."""

    reason: Reason
    """Why, in one word."""
    message: str
    """Why, in a sentence."""
    pod: str = ""
    """The Pod it is about; empty when it is about none."""
    uid: str = ""
    """The Pod's uid: Pods of larger replicas bear the names of their predecessors."""
    count: int = 1
    """How often it happened."""


def events(observation: Observation, render_failures: Iterable[str] = ()) -> tuple[DeploymentWarning, ...]:
    """At most one warning per Pod, the first that applies; then one per reason why something cannot be rendered."""
    found = (_warning(pod, replica.label) for replica in observation.replicas() for pod in replica.members)
    failed = (DeploymentWarning("RenderFailed", message) for message in render_failures)
    return (*(warning for warning in found if warning is not None), *failed)


def _warning(pod: Json, label: str) -> DeploymentWarning | None:
    name, uid = readings.name(pod), readings.uid(pod)
    window = f"the blocks it cached are lost to the others unless it is back within {LEASE_SECONDS} s"
    if at(pod, "status", "reason") == "Evicted":
        message = f"The node evicted Pod {name} of replica {label}; {window}."
        return DeploymentWarning("ReplicaEvicted", message, name, uid)
    if readings.terminating(pod):
        return DeploymentWarning("ReplicaLeaving", f"Pod {name} of replica {label} is leaving; {window}.", name, uid)
    count = readings.restarts(pod)
    if count:
        times = "once" if count == 1 else f"{count} times"
        return DeploymentWarning(
            "ReplicaRestarted", f"Pod {name} of replica {label} restarted {times}; {window}.", name, uid, count
        )
    return None
