"""The conditions of a deployment, each by the first row of its table that matches (rollout sheet 8.2)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpustack_components.api.command_line.owned import SGLANG
from gpustack_components.api.model_deployment import ModelDeployment, Role
from gpustack_components.api.names import router_name
from gpustack_components.cluster import keys, readings
from gpustack_components.cluster.readings import each
from gpustack_components.status.deployed import Observation, Replica, spans
from gpustack_components.status.document import Condition, ConditionType, RoleStatus, Truth
from gpustack_components.status.facts import Facts
from gpustack_components.status.missing import unrouted
from gpustack_components.status.rollout import up_to_date
from gpustack_components.status.weights import weights_condition

MOST_REASONS = 5
"""Kueue's sentences that one message quotes."""


@dataclass(frozen=True, slots=True)
class Judged:
    """All that a condition may depend on."""

    deployment: ModelDeployment
    """What is wanted."""
    observation: Observation
    """What stands."""
    facts: Facts
    """What other parts found."""
    roles: tuple[RoleStatus, ...]
    """The roles as they stand, in spec order."""
    previous: tuple[Condition, ...]
    """The conditions stored before."""

    def before(self, type_: ConditionType) -> Condition | None:
        """The condition stored before."""
        return next((condition for condition in self.previous if condition.type == type_), None)


def conditions(judged: Judged) -> tuple[Condition, ...]:
    """Every condition that can be judged, in a fixed order; one that needs what was not looked at keeps its value."""
    found = (judge(judged) for judge in _JUDGES)
    return tuple(condition for condition in found if condition is not None)


def domain_registered(judged: Judged) -> Condition | None:
    """Whether the deployment's KV cache domain is registered."""
    if judged.deployment.spec.kv_cache is None:
        return Condition("DomainRegistered", "True", "NotApplicable", "The deployment names no KV cache pool.")
    domain = judged.facts.domain
    if domain is None or judged.facts.deleting:
        return judged.before("DomainRegistered")
    return Condition("DomainRegistered", _truth(domain == "Registered"), domain, judged.facts.domain_message)


def quota_reserved(judged: Judged) -> Condition:
    """Whether every declared replica holds quota, and if not, who waits for what."""
    observation, roles = judged.observation, judged.deployment.spec.roles
    live = [replica for role in roles for replica in observation.live(role.name)]
    declared = sum(role.replicas for role in roles)

    def says(status: Truth, reason: str, message: str) -> Condition:
        return Condition("QuotaReserved", status, reason, message)

    for replica in observation.replicas():
        message = _park_message(replica)
        if message:
            return says("False", "Parked", f"{replica.label}: {message}")
    lost = [replica for replica in observation.replicas() if replica.preempted]
    kept = [replica for replica in live if replica.admitted]
    if lost and kept:
        return says("False", "PreemptedInPart", _preempted_in_part(judged, lost, kept, declared))
    all_lost = " All of them were preempted by other work." if lost and len(lost) >= len(live) else ""
    if not observation.pods:
        return says("Unknown", "NoReplicas", "No Pod of this deployment exists.")
    if not live:
        return says("Unknown", "AllReplicasTerminating", f"Every replica is being deleted.{all_lost}")
    for role in roles:
        have = sum(replica.whole for replica in observation.live(role.name))
        if have < role.replicas:
            message = (
                f"Role {role.name} has {have} of {role.replicas} whole replicas; Kueue admits a replica to cluster "
                f"queue {role.instance_type} only once all its Pods exist.{all_lost}"
            )
            return says("False", "PodGroupIncomplete", message)
    alone = [replica for replica in live if replica.workload is None]
    if alone:
        outside = [replica for replica in alone if not any(map(readings.managed_by_kueue, replica.live))]
        if outside:
            message = (
                f"Kueue does not manage {spans(outside)}: the namespace is reserved or not selected by its "
                "managedJobsNamespaceSelector, so these Pods run outside any quota. Deploy into another namespace."
            )
            return says("False", "NoQueueInReservedNamespace", message)
        return says("Unknown", "AdmissionInFlight", f"Kueue has not yet made a Workload for {spans(alone)}.{all_lost}")
    waiting = [replica for replica in live if not replica.quota_reserved]
    if waiting:
        return says("False", "Pending", _pending(roles, waiting, declared) + all_lost)
    return says("True", "Reserved", f"All {declared} replicas hold quota.")


def cache_attached(judged: Judged) -> Condition | None:
    """Whether the KV cache is really used; never True for a rendered flag alone."""
    deployment, traffic = judged.deployment, judged.facts.cache

    def says(status: Truth, reason: str, message: str) -> Condition:
        return Condition("CacheAttached", status, reason, message)

    if deployment.spec.kv_cache is None:
        return says("True", "NotApplicable", "The deployment names no KV cache pool.")
    unmanaged = [role.name for role in judged.roles if role.unmanaged]
    if unmanaged:
        return says("Unknown", "Unmanaged", f"Role {unmanaged[0]} runs a command line of its own.")
    if not any(role.ready for role in judged.roles):
        return says("Unknown", "NoReplicaReady", "No replica is ready.")
    if traffic is not None and traffic.succeeded:
        return says("True", "CacheActive", "Ready replicas complete store operations.")
    if traffic is not None and traffic.reported:
        return says("False", "CacheOperationsFailing", "Ready replicas report store operations, and none succeeds.")
    if traffic is not None and traffic.holds_data:
        return says("True", "CacheActive", "The domain holds data.")
    return says("Unknown", "NoObservationAvailable", "Neither the replicas nor the pool say whether the cache is used.")


def replicas_up_to_date(judged: Judged) -> Condition:
    """Whether every replica runs what the spec asks for now."""
    return up_to_date(judged.deployment, judged.observation, judged.facts, judged.before("ReplicasUpToDate"))


def role_kinds_ready(judged: Judged) -> Condition:
    """Whether each declared kind has a ready replica."""
    if not judged.roles:
        return Condition("RoleKindsReady", "Unknown", "NoRoleStatuses", "No role was observed.")
    kinds = list(dict.fromkeys(role.kind for role in judged.roles))
    absent = [kind for kind in kinds if not any(role.ready for role in judged.roles if role.kind == kind)]
    if absent:
        return Condition("RoleKindsReady", "False", "KindsNotReady", f"No ready replica of kind {', '.join(absent)}.")
    return Condition("RoleKindsReady", "True", "AllKindsReady", f"Ready: {', '.join(kinds)}.")


def kv_events_publishing(judged: Judged) -> Condition | None:
    """Whether the roles that produce KV blocks are configured to publish them; says nothing about traffic."""
    spec, expected = judged.deployment.spec, judged.facts.expected

    def says(status: Truth, reason: str, message: str) -> Condition:
        return Condition("KVEventsPublishing", status, reason, message)

    if spec.router is None:
        if any(role.kind != "Server" for role in spec.roles):
            return says("False", "NoRouter", "The roles split a request, and no router reads their events.")
        return says("True", "NotApplicable", "There is no router to read events.")
    if expected is None:
        return judged.before("KVEventsPublishing")
    unmanaged = {role.name for role in judged.roles if role.unmanaged}
    for role in spec.roles:
        if role.kind in ("Decode", "Encode"):
            continue
        if role.name in unmanaged or role.command:
            return says("Unknown", "RoleUnmanaged", f"Role {role.name} runs a command line of its own.")
        if not expected.publishes.get(role.name, False):
            return says("False", "PublisherDisabled", f"Role {role.name} publishes no KV events.")
    if spec.engine.name == SGLANG:
        return says("False", "PublisherDisabled", "SGLang roles publish no KV events.")
    return says("True", "Publishing", "Every role that produces KV blocks publishes its events.")


def router_ready(judged: Judged) -> Condition:
    """Whether the router has a ready replica."""
    router, before = judged.facts.router, judged.before("RouterReady")

    def says(status: Truth, reason: str, message: str) -> Condition:
        return Condition("RouterReady", status, reason, message)

    if judged.deployment.spec.router is None:
        return says("True", "NotApplicable", "The deployment has no router.")
    if router is None:
        known = before is not None and before.reason != "NotApplicable"
        return before if before and known else says("Unknown", "NotDeployed", "The router's Deployment was not read.")
    if router.failure:
        return says("False", "RenderFailed", router.failure)
    if not router.deployed:
        return says("Unknown", "NotDeployed", f"{unrouted(router_name(judged.deployment.metadata.name))}.")
    if router.ready == 0:
        return says("False", "NoReadyReplicas", "No replica of the router is ready.")
    several = "1 replica of the router is" if router.ready == 1 else f"{router.ready} replicas of the router are"
    return says("True", "Ready", f"{several} ready.")


def weights_ready(judged: Judged) -> Condition | None:
    """Whether the weights can be delivered, and have been."""
    if judged.deployment.spec.model.artifact_ref is None:
        return Condition("WeightsReady", "True", "NotApplicable", "The deployment names no ModelArtifact.")
    found = weights_condition(judged.facts.weights, judged.observation)
    return found if found is not None else judged.before("WeightsReady")


def endpoint_eligibility(judged: Judged) -> Condition:
    """Whether replicas were qualified for traffic beyond their readiness; once they were, not knowing holds that."""
    found = [judged.facts.endpoints.get(role.name) for role in judged.roles]
    counts = [one.eligible for one in found if one is not None and one.eligible is not None]
    before = judged.before("EndpointEligibility")
    off = judged.facts.expected is not None and not judged.facts.qualifies
    activated = not off and before is not None and before.reason in ("EndpointsQualified", "ObservationHeld")
    if judged.facts.qualifies and len(counts) == len(judged.roles) and (activated or sum(counts)):
        message = f"{sum(counts)} of {sum(role.desired for role in judged.roles)} replicas are qualified for requests."
        return Condition("EndpointEligibility", "True", "EndpointsQualified", message)
    if activated:
        message = "Whether the replicas are qualified could not be told this time; what was published stays."
        return Condition("EndpointEligibility", "Unknown", "ObservationHeld", message)
    return Condition("EndpointEligibility", "Unknown", "NotObserved", "Replicas are selected by readiness alone.")


def elastic_resize(judged: Judged) -> Condition | None:
    """Whether a width change was refused; only with an elastic role."""
    if not any(role.elastic_ep for role in judged.deployment.spec.roles):
        return None
    return judged.facts.elastic or judged.before("ElasticResize")


_JUDGES: Sequence[Callable[[Judged], Condition | None]] = (
    domain_registered,
    weights_ready,
    quota_reserved,
    role_kinds_ready,
    replicas_up_to_date,
    cache_attached,
    kv_events_publishing,
    router_ready,
    endpoint_eligibility,
    elastic_resize,
)


def _truth(value: bool) -> Truth:
    return "True" if value else "False"


def _park_message(replica: Replica) -> str:
    workload = replica.workload
    if workload is None or readings.active(workload):
        return ""
    for check in each(workload, "status", "admissionChecks"):
        message = str(check.get("message") or "")
        if check.get("name") == keys.JOINT_CHECK and keys.PARK_MARK in message.lower():
            return message
    return ""


def _preempted_in_part(judged: Judged, lost: Sequence[Replica], kept: Sequence[Replica], declared: int) -> str:
    kinds = {role.name: role.kind for role in judged.deployment.spec.roles}
    left = {kinds[replica.role] for replica in kept if replica.role in kinds}
    without = [kind for kind in dict.fromkeys(kinds.values()) if kind not in left]
    names = (", ".join(dict.fromkeys(replica.role for replica in group)) for group in (lost, kept))
    lost_roles, kept_roles = names
    message = (
        f"{len(lost)} of {declared} replicas lost their quota to other work (roles {lost_roles}); {len(kept)} still "
        f"hold it (roles {kept_roles})."
    )
    return f"{message} No admitted replica is left of kind {', '.join(without)}." if without else message


def _pending(roles: Sequence[Role], waiting: Sequence[Replica], declared: int) -> str:
    names = list(dict.fromkeys(replica.role for replica in waiting))
    if len(names) == 1:
        queue = next(role.instance_type for role in roles if role.name == names[0])
        place = f"in cluster queue {queue}"
    else:
        place = f"in roles {', '.join(names)}"
    by_reason: dict[str, list[Replica]] = {}
    for replica in waiting:
        reason = readings.waiting_reason(replica.workload) if replica.workload is not None else ""
        by_reason.setdefault(reason or "Kueue has not said why", []).append(replica)
    told = [f"{spans(group)}: {reason}" for reason, group in by_reason.items()]
    if len(told) > MOST_REASONS:
        told = [*told[:MOST_REASONS], f"and {len(told) - MOST_REASONS} more reasons"]
    return f"{len(waiting)} of {declared} replicas wait for quota {place}: {'; '.join(told)}."
