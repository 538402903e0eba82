"""The status document of a deployment, made anew from what was observed (rollout sheet 8)."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from gpustack_components.api.command_line import names_flag, read_parallelism
from gpustack_components.api.command_line.parallelism import Parallelism
from gpustack_components.api.model_deployment import ModelDeployment, Role
from gpustack_components.api.names import router_url, service_host
from gpustack_components.bindings.listen import DEFAULT_PORT, role_tokens
from gpustack_components.cluster import readings
from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import at
from gpustack_components.status.conditions import Judged, conditions
from gpustack_components.status.deployed import Observation, spans
from gpustack_components.status.document import Condition, Phase, RoleStatus, StatusDocument, conditions_of, dated
from gpustack_components.status.facts import Facts, RoleEndpoints

_LETTERS = {"Server": "S", "Encode": "E", "Prefill": "P", "Decode": "D"}
_HOST_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


def report(
    deployment: ModelDeployment,
    observation: Observation,
    facts: Facts | None = None,
    *,
    namespace: str = "",
    previous: Mapping[str, Any] | None = None,
    now: str = "",
) -> StatusDocument:
    """The status of a deployment.

    `previous` is the document stored before, as JSON: conditions that could not be judged this time keep their value,
    and those whose status is the same keep their time. `now` (RFC 3339) dates the others; empty leaves them undated.
    `namespace` is used where the document names none.
    """
    facts = facts or Facts()
    before = conditions_of(previous)
    roles = tuple(
        role_status(deployment, role, observation, facts.endpoints.get(role.name)) for role in deployment.spec.roles
    )
    judged = Judged(deployment, observation, facts, roles, before)
    found = dated(conditions(judged), before, now)
    phase, message = _phase(judged, found)
    return StatusDocument(
        phase=phase,
        phase_message=message,
        role_summary=_summary(deployment, roles, facts),
        roles=roles,
        conditions=found,
        endpoint=_endpoint(deployment, facts, namespace),
        sections=_sections(deployment, facts, previous or {}),
    )


def role_status(
    deployment: ModelDeployment, role: Role, observation: Observation, endpoints: RoleEndpoints | None = None
) -> RoleStatus:
    """One role as it stands (8.1)."""
    replicas = observation.live(role.name)
    modes = {replica.mode for replica in replicas}
    return RoleStatus(
        name=role.name,
        kind=role.kind,
        desired=role.replicas,
        ready=sum(replica.ready for replica in replicas),
        quota_reserved=sum(replica.quota_reserved for replica in replicas),
        unmanaged="takeover" in modes if replicas else bool(role.command),
        assigned_flavors=_flavors(role, observation),
        parallelism=_parallelism(deployment.spec.engine.name, role),
        endpoints=endpoints.to_json() if endpoints is not None else None,
    )


def _phase(judged: Judged, found: Sequence[Condition]) -> tuple[Phase, str]:
    by_type = {condition.type: condition for condition in found}
    if judged.facts.deleting:
        pods, workloads = len(judged.observation.pods), _own_workloads(judged.observation)
        return "Deleting", f"Being removed: {pods} Pods and {workloads} Workloads are left."
    desired = sum(role.desired for role in judged.roles)
    ready = sum(min(role.ready, role.desired) for role in judged.roles)
    router = by_type["RouterReady"]
    if ready == desired and router.status != "True":
        phase, message = "Degraded", router.message
    elif ready == desired:
        return "Ready", ""
    elif ready:
        phase, message = "Degraded", f"{ready} of {desired} replicas are ready."
    else:
        phase, message = "Starting", by_type["QuotaReserved"].message
    weights = by_type.get("WeightsReady")
    if weights is not None and weights.status == "False" and not judged.observation.pods:
        return phase, weights.message
    evicted = [replica for replica in judged.observation.replicas() if replica.evicted]
    if evicted:
        why = next((c.message for r in evicted if r.workload and (c := readings.condition(r.workload, "Evicted"))), "")
        message = f"{message} Evicted by Kueue: {spans(evicted)}{f' ({why})' if why else ''}."
    return phase, message


def _own_workloads(observation: Observation) -> int:
    return len({readings.uid(replica.workload) for replica in observation.replicas() if replica.workload is not None})


def _summary(deployment: ModelDeployment, roles: Sequence[RoleStatus], facts: Facts) -> str:
    ready = facts.router.ready if facts.router is not None else 0
    parts = [f"{ready}R"] if deployment.spec.router is not None else []
    for kind, letter in _LETTERS.items():
        of_kind = [role.ready for role in roles if role.kind == kind]
        if of_kind:
            parts.append(f"{sum(of_kind)}{letter}")
    return "".join(parts)


def _endpoint(deployment: ModelDeployment, facts: Facts, namespace: str) -> str:
    name, first = deployment.metadata.name, deployment.spec.roles[0]
    space = deployment.metadata.namespace or namespace
    port = first.ports[0].port if first.ports else DEFAULT_PORT
    if deployment.spec.router is not None:
        return router_url(name, space) if facts.router is not None and facts.router.ready else ""
    engine, tokens = deployment.spec.engine.name, role_tokens(first)
    secured = any(names_flag(engine, tokens, flag) for flag in ("--ssl-certfile", "--ssl-keyfile"))
    return f"{'https' if secured else 'http'}://{service_host(name, space)}:{port}"


def _sections(deployment: ModelDeployment, facts: Facts, previous: Mapping[str, Any]) -> tuple[tuple[str, Json], ...]:
    """The parts that are absent while there is nothing to say; what the cache or router was last known as stays."""
    spec = deployment.spec
    found = (
        ("kvCache", _kept(facts.kv_cache, previous, "kvCache") if spec.kv_cache is not None else None),
        ("router", _kept(facts.contract, previous, "router") if spec.router is not None else None),
        ("model", _model(facts, previous) if spec.model.artifact_ref is not None else None),
        ("retirement", facts.retirement),
    )
    return tuple((name, section) for name, section in found if section is not None)


def _model(facts: Facts, previous: Mapping[str, Any]) -> Json | None:
    """Absent while the artifact is known not to be resolved; as before when it was not looked at."""
    return _kept(facts.model, previous, "model") if facts.weights is None else facts.model


def _kept(section: Json | None, previous: Mapping[str, Any], name: str) -> Json | None:
    before = at(previous, name)
    return section if section is not None else cast("Json", before) if isinstance(before, dict) else None


def _flavors(role: Role, observation: Observation) -> tuple[str, ...]:
    found: set[str] = set()
    for replica in observation.replicas(role.name):
        if replica.workload is not None:
            assigned = readings.pod_set_flavors(replica.workload, role.name)
            found |= {flavor for resource, flavor in assigned.items() if resource not in _HOST_RESOURCES}
    return tuple(sorted(found))


def _parallelism(engine: str, role: Role) -> Json:
    """What the current spec's arguments declare; nothing is filled in (8.1)."""
    if role.command:
        source = {"kind": "UnmanagedCommand", "complete": False, "unreadableReason": "Unmanaged"}
        return {"loadBalance": "Unknown", "source": source}
    read = read_parallelism(engine, role_tokens(role), role.env)
    source: Json = {"kind": "ExtraArgs", "complete": not read.errors}
    if read.errors:
        source["unreadableReason"] = f"{read.errors[0].spelling} {read.errors[0].reason}"
    declared = _declared(read)
    return {
        **({"declared": declared} if declared else {}),
        **({"modes": dict.fromkeys(sorted(read.modes), True)} if read.modes else {}),
        "loadBalance": read.balance().shape,
        "source": source,
    }


_DEGREES = {
    "tensorParallel": ("--tensor-parallel-size", "--tp-size"),
    "pipelineParallel": ("--pipeline-parallel-size", "--pp-size"),
    "dataParallel": ("--data-parallel-size", "--dp-size"),
    "dataParallelLocal": ("--data-parallel-size-local",),
    "prefillContextParallel": ("--prefill-context-parallel-size",),
    "decodeContextParallel": ("--decode-context-parallel-size", "--dcp-size"),
    "expertParallel": ("--ep-size",),
    "attentionContextParallel": ("--attn-cp-size",),
    "moeDpSize": ("--moe-dp-size",),
    "dwdpSize": ("--dwdp-size",),
}


def _declared(read: Parallelism) -> dict[str, int]:
    stated = (
        (field, next((read.degrees[f] for f in flags if f in read.degrees), None)) for field, flags in _DEGREES.items()
    )
    return {field: degree for field, degree in stated if degree is not None}
