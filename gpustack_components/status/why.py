"""What keeps a deployment as a whole from where it should be: holds, the router, a retirement, and who drives it.

What holds a single replica is said by `holds`. One cause, one sentence, and the command that helps.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpustack_components.api.model_deployment import ModelDeployment
from gpustack_components.api.names import record_name, router_name
from gpustack_components.status.document import Condition, StatusDocument
from gpustack_components.status.facts import RouterFound
from gpustack_components.status.holds import Hold
from gpustack_components.status.missing import COMMAND, RELEASE, unreached
from gpustack_components.status.retirement import retired_place, retirement_hold
from gpustack_components.status.text import Row

_BENIGN = {
    ("EndpointEligibility", "NotObserved"),
    ("ReplicasUpToDate", "RolloutNotObserved"),
    ("CacheAttached", "NoObservationAvailable"),
    ("CacheAttached", "Unmanaged"),
    ("KVEventsPublishing", "PublisherDisabled"),
    ("KVEventsPublishing", "RoleUnmanaged"),
}
"""Conditions that are not True, say something about the kind of deployment, and need nobody's attention."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Something that keeps a deployment from being converged."""

    subject: str
    """What it is about: `server/2`, `router`, `run`."""
    hold: Hold
    """What holds it, since when, what would release it, and the command."""


@dataclass(frozen=True, slots=True)
class Run:
    """How the last run ended, or that one is under way."""

    phase: str
    """Its phase as the record has it."""
    reasons: Sequence[str] = ()
    """Why it is Incomplete."""
    updated: str = ""
    """When the record was last written, RFC 3339."""
    driver: str = ""
    """Who drives the deployment right now; empty when nobody does."""
    since: str = ""
    """Since when, RFC 3339."""


def unfine(status: StatusDocument) -> tuple[Condition, ...]:
    """The conditions that somebody should see."""
    return tuple(one for one in status.conditions if one.status != "True" and (one.type, one.reason) not in _BENIGN)


def causes(
    deployment: ModelDeployment,
    status: StatusDocument,
    rows: Sequence[Row],
    run: Run,
    absent: Sequence[str] = (),
    router: RouterFound | None = None,
) -> tuple[Cause, ...]:
    """Everything that holds it, the deployment's own causes first, then each replica's. `absent` are Services of it
    that do not exist, `router` is what was found of its router."""
    return (
        *(Cause("services", Hold(unreached(name), "", RELEASE, COMMAND)) for name in absent),
        *_of_deployment(deployment, status, rows, run, router),
        *(Cause(row.name, row.hold) for row in rows if row.hold is not None),
    )


def _of_deployment(
    deployment: ModelDeployment, status: StatusDocument, rows: Sequence[Row], run: Run, found: RouterFound | None
) -> Iterator[Cause]:
    name, space = deployment.metadata.name, f"kubectl -n {deployment.metadata.namespace or 'default'}"
    weights = status.condition("WeightsReady")
    reference = deployment.spec.model.artifact_ref
    if weights is not None and weights.status == "False" and reference is not None:
        command = f"{space} describe modelartifact {reference.name}"
        release = "the weights are there; until then nothing is created that lacks them"
        yield Cause("weights", Hold(weights.message, weights.since, release, command))
    domain = status.condition("DomainRegistered")
    cache = deployment.spec.kv_cache
    if domain is not None and domain.status == "False" and cache is not None:
        command = f"{space} describe kvcachepoolbinding {cache.pool_ref.name}"
        release = "the Binding is Ready and has its quota; replicas run on meanwhile"
        yield Cause("kv cache", Hold(domain.message or domain.reason, domain.since, release, command))
    up_to_date = status.condition("ReplicasUpToDate")
    if up_to_date is not None and up_to_date.reason in ("RolloutHeldByCache", "RolloutHeldByWeights"):
        what = "the cache" if up_to_date.reason == "RolloutHeldByCache" else "the weights"
        yield Cause("rollout", Hold(up_to_date.message, up_to_date.since, f"{what} can be had again", "pulumi up"))
    router = status.condition("RouterReady")
    if router is not None and router.status != "True":
        release, command = "a Pod of the router is Ready", f"{space} describe deployment {router_name(name)}"
        if router.reason == "NotDeployed" and found is not None:
            release, command = RELEASE, COMMAND
        yield Cause("router", Hold(router.message, router.since, release, command))
    retirement = dict(status.sections).get("retirement")
    if (place := retired_place(retirement)) and not any(row.name == place and row.retiring for row in rows):
        yield Cause(place, retirement_hold(deployment, retirement))
    yield from _run(run, rows, space, name)


def _run(run: Run, rows: Sequence[Row], space: str, name: str) -> Iterator[Cause]:
    if run.driver:
        what = f"{run.driver} drives it, and the Lease keeps others away"
        command = f"{space} describe lease {record_name(name)}"
        yield Cause("run", Hold(what, run.since, "that run ends", command))
    elif run.phase == "Incomplete":
        what = (
            f"the last run stopped before it was done: {run.reasons[0]}" if run.reasons else "the last run did not end"
        )
        yield Cause("run", Hold(what, run.updated, "a run goes on where it stopped", "pulumi up"))
    elif run.phase in ("Progressing", "Deleting"):
        what = "a run was at work and is not any more: it was killed, or lost its connection"
        command = "pulumi destroy" if run.phase == "Deleting" else "pulumi up"
        yield Cause("run", Hold(what, run.updated, "a run goes on where it stopped", command))
    elif any(row.current is False for row in rows):
        what = "replicas run an earlier configuration than the files declare"
        yield Cause("run", Hold(what, "", "a run turns them over", "pulumi up"))
