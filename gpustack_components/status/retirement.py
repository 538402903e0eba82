"""The replica that is being retired, by the section `retirement` of the status document (rollout sheet 7.2)."""

from typing import Any

from gpustack_components.api.model_deployment import ModelDeployment
from gpustack_components.api.names import record_name
from gpustack_components.cluster import readings
from gpustack_components.cluster.keys import RETIREMENT_RETRY
from gpustack_components.cluster.readings import at
from gpustack_components.status.deployed import Replica
from gpustack_components.status.holds import Hold


def retires(record: Any, replica: Replica) -> bool:
    """Whether that replica is the one: the same place, and Pods that the retirement began with."""
    if at(record, "roleName") != replica.role or at(record, "replicaOrdinal") != replica.ordinal:
        return False
    meant = at(record, "targetMemberUIDs") or ()
    return any(readings.uid(pod) in meant for pod in replica.members)


def retired_place(record: Any) -> str:
    """The replica as sentences name it, `server/2`; empty when none is being retired."""
    return f"{at(record, 'roleName')}/{at(record, 'replicaOrdinal')}" if isinstance(record, dict) else ""


def retirement_hold(deployment: ModelDeployment, record: Any) -> Hold:
    """How far it is, and what ends it."""
    state, reason = at(record, "state"), at(record, "reason")
    told = f"{state}{f', {reason}' if reason else ''}"
    since = str(at(record, "phaseStartedAt") or at(record, "startedAt") or "")
    if state == "Aborted":
        retry = f"{at(record, 'roleName')}:{at(record, 'replicaOrdinal')}:<new token>"
        release = (
            f"its ordinal is declared again, the deployment's annotation {RETIREMENT_RETRY}: '{retry}' asks once more, "
            "or the setting model-deployment-endpoint-qualification is switched off, which has it deleted at once"
        )
        return Hold(f"its retirement has stopped ({told})", since, release, "pulumi up")
    until = at(record, "deadline")
    release = f"it has drained{f', at the latest at {until}' if until else ''}; another removal waits until then"
    space = deployment.metadata.namespace or "default"
    command = f"kubectl -n {space} get configmap {record_name(deployment.metadata.name)} -o yaml"
    return Hold(f"it is being retired ({told})", since, release, command)
