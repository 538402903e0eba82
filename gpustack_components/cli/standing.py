"""One deployment as it stands in a cluster: its record, Pods, Workloads and router, and the report made of them."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gpustack_components.cli.around import look_around
from gpustack_components.cli.guard import CommandError, ExitCode

if TYPE_CHECKING:
    from gpustack_components.api.model_deployment import ModelDeployment
    from gpustack_components.bindings.catalog import Bindings
    from gpustack_components.bindings.kv_cache import Store
    from gpustack_components.bindings.settings import Settings
    from gpustack_components.cluster.port import Cluster
    from gpustack_components.rollout.record import Record
    from gpustack_components.status.deployed import Observation
    from gpustack_components.status.document import StatusDocument
    from gpustack_components.status.events import DeploymentWarning
    from gpustack_components.status.facts import Facts
    from gpustack_components.status.holds import Around, Hold
    from gpustack_components.status.text import Row
    from gpustack_components.status.why import Cause

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Standing:
    """What was read of one deployment."""

    record: "Record"
    """What the last run wrote down."""
    deployment: "ModelDeployment"
    """The document the last run accepted."""
    observation: "Observation"
    """Its own Pods and the namespace's Workloads."""
    strangers: tuple[str, ...]
    """Names of Pods that carry its labels and belong to something else."""
    driver: str
    """Who drives it right now; empty when nobody does."""
    driving_since: str
    """Since when, RFC 3339."""
    facts: "Facts"
    """What is known beside Pods and Workloads: the router, and what the accepted document renders, if files say so."""
    previous: Json
    """The status document before this look: the record's, or the one shown last."""
    around: "Around | None" = None
    """The nodes and queues behind what waits; None when they were not read."""
    absent: tuple[str, ...] = ()
    """Names of its Services that do not exist."""


@dataclass(frozen=True, slots=True)
class Known:
    """What has to be known to render a deployment."""

    bindings: "Bindings"
    """The objects it depends on."""
    settings: "Settings"
    """The settings."""
    runtime_classes: frozenset[str]
    """RuntimeClasses of the cluster."""
    kubernetes: tuple[int, int]
    """Version of the cluster."""
    operator_present: bool
    """Whether the cluster has the GPUStack operator."""


def find(
    cluster: "Cluster",
    namespace: str,
    name: str,
    pods: Sequence[Json] | None = None,
    workloads: Sequence[Json] | None = None,
    known: "Known | None" = None,
    *,
    closely: bool = False,
) -> Standing:
    """Read a deployment; Pods and Workloads are listed unless they are given. With `known`, replicas are compared;
    `closely` reads the nodes and queues behind what waits.

    Raises `CommandError` with exit code 1 when there is no such deployment, and `ClusterError`.
    """
    from gpustack_components.api.decode import decode
    from gpustack_components.api.model_deployment import ModelDeployment
    from gpustack_components.cluster.keys import engine_selector
    from gpustack_components.cluster.port import CONFIG_MAP, LEASE, POD
    from gpustack_components.cluster.readings import at
    from gpustack_components.rollout.record import Record, is_record, record_name
    from gpustack_components.status.deployed import Observation

    stored = cluster.get(CONFIG_MAP, namespace, record_name(name))
    if stored is None or not is_record(stored):
        from gpustack_components.cli.absent import why_absent

        raise CommandError(why_absent(cluster, namespace, name, stored), code=ExitCode.REFUSED)
    record = Record.from_object(stored)
    decoded = decode(record.document, stored=True)
    if not isinstance(decoded.document, ModelDeployment):
        raise CommandError(
            f"the record, ConfigMap {namespace}/{record_name(name)}, holds no readable deployment "
            f"({decoded.refusals[0] if decoded.refusals else 'another kind'}); the next `pulumi up` writes it anew",
            code=ExitCode.REFUSED,
        )
    own, strangers = _divided(
        record, cluster.list(POD, namespace, engine_selector(name)).items if pods is None else pods
    )
    standing = _workloads(cluster, namespace) if workloads is None else tuple(workloads)
    lease = cluster.get(LEASE, namespace, record_name(name))
    driver, since = (str(at(lease, "spec", key) or "") for key in ("holderIdentity", "acquireTime"))
    observation = Observation(own, standing)
    return Standing(
        record,
        decoded.document,
        observation,
        strangers,
        driver,
        since,
        _qualified(_facts(cluster, decoded.document, record, known), record, decoded.document, observation),
        record.status,
        look_around(cluster, namespace, observation) if closely else None,
        _absent(cluster, decoded.document, record),
    )


def _absent(cluster: "Cluster", deployment: "ModelDeployment", record: "Record") -> tuple[str, ...]:
    """The Services it should be reached through and is not; none where they may not be read."""
    from gpustack_components.cluster import keys, readings
    from gpustack_components.cluster.port import SERVICE, Forbidden

    try:
        listed = cluster.list(SERVICE, record.namespace, keys.selector(record.name)).items
    except Forbidden:
        return ()
    standing = {readings.name(service) for service in listed}
    return tuple(name for name in services(deployment) if name not in standing)


def services(deployment: "ModelDeployment") -> tuple[str, ...]:
    """Names of the Services that it is reached through."""
    from gpustack_components.api.names import role_service, router_name

    name = deployment.metadata.name
    router = (router_name(name),) if deployment.spec.router is not None else ()
    return (name, *(role_service(name, role.name) for role in deployment.spec.roles), *router)


def _qualified(facts: "Facts", record: "Record", deployment: "ModelDeployment", observation: "Observation") -> "Facts":
    """The facts with what the record and the labels of the Pods say of qualification and retirement."""
    from gpustack_components.cluster.readings import each
    from gpustack_components.rollout.observe import observe
    from gpustack_components.rollout.reporting import qualified

    observed = observe(observation.pods, observation.workloads, record.uid)
    activated = any(
        one.get("type") == "EndpointEligibility" and one.get("reason") in ("EndpointsQualified", "ObservationHeld")
        for one in each(record.status, "conditions")
    )
    facts = replace(facts, qualifies=facts.qualifies or activated)
    return qualified(facts, [role.name for role in deployment.spec.roles], observed, record)


def renewed(
    cluster: "Cluster",
    before: Standing,
    pods: Sequence[Json],
    workloads: Sequence[Json],
    known: "Known | None",
    *,
    anew: bool,
    closely: bool,
) -> Standing | None:
    """The deployment after its Pods or Workloads changed; `anew` reads the rest of it again. None when it is gone."""
    from gpustack_components.cluster.port import CONFIG_MAP
    from gpustack_components.rollout.record import record_name
    from gpustack_components.status.deployed import Observation

    namespace, name = before.record.namespace, before.record.name
    if anew:
        if cluster.get(CONFIG_MAP, namespace, record_name(name)) is None:
            return None
        return find(cluster, namespace, name, pods, workloads, known, closely=closely)
    shown = document(before).to_json()
    own, strangers = _divided(before.record, pods)
    observation = Observation(own, tuple(workloads))
    if _same(own, before.observation.pods) and _same(workloads, before.observation.workloads):
        return replace(before, previous=shown)
    return replace(
        before,
        observation=observation,
        strangers=strangers,
        previous=shown,
        facts=_qualified(before.facts, before.record, before.deployment, observation),
        around=look_around(cluster, namespace, observation) if closely else None,
    )


def _same(some: Sequence[Json], others: Sequence[Json]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))


def _divided(record: "Record", pods: Sequence[Json]) -> tuple[tuple[Json, ...], tuple[str, ...]]:
    """The Pods that belong to the record, and the names of those that merely carry its labels."""
    from gpustack_components.cluster.readings import name, owner_uids

    own = tuple(pod for pod in pods if record.uid in owner_uids(pod, "ConfigMap"))
    others = tuple(sorted(name(pod) for pod in pods if record.uid not in owner_uids(pod, "ConfigMap")))
    return own, others


def _facts(cluster: "Cluster", deployment: "ModelDeployment", record: "Record", known: Known | None) -> "Facts":
    from gpustack_components.api.names import router_name
    from gpustack_components.cluster.port import DEPLOYMENT, Forbidden
    from gpustack_components.status.facts import Facts, RouterFound

    facts = facts_of(deployment, known, record.store) if known is not None else Facts()
    found = replace(facts, deleting=record.phase == "Deleting")
    if deployment.spec.router is None:
        return found
    try:
        router = cluster.get(DEPLOYMENT, record.namespace, router_name(record.name))
    except Forbidden:
        return found
    return replace(found, router=RouterFound.of(router))


def facts_of(deployment: "ModelDeployment", known: Known, remembered: "Store | None" = None) -> "Facts":
    """What the document renders beside the objects it depends on; raises `CommandError` when it cannot be rendered.

    `remembered` is the KV cache store of the last run, which is rendered on while its Binding is away.
    """
    from gpustack_components.bindings.resolve import resolve
    from gpustack_components.rollout.reporting import facts

    answer = resolve(
        deployment,
        known.bindings,
        known.settings,
        runtime_classes=known.runtime_classes,
        kubernetes=known.kubernetes,
        operator_present=known.operator_present,
        remembered=remembered,
    )
    if answer.resolved is None:
        raise CommandError(
            *(f"replicas cannot be compared with what was accepted: {failure}" for failure in answer.failures),
            code=ExitCode.RENDER_FAILED,
        )
    return facts(answer.resolved)


def rows(standing: Standing, now: datetime) -> "tuple[Row, ...]":
    """Its replicas, one row each."""
    from gpustack_components.status import text

    facts = standing.facts
    return text.rows(standing.deployment, standing.observation, now, facts.expected, standing.around, facts.retirement)


def document(standing: Standing) -> "StatusDocument":
    """Its status document (rollout sheet 8); what was not looked at is as the last run left it.

    A condition that has changed since is undated: when that was, nobody saw.
    """
    from gpustack_components.status.report import report

    return report(
        standing.deployment,
        standing.observation,
        standing.facts,
        namespace=standing.record.namespace,
        previous=standing.previous,
    )


def warnings(standing: Standing) -> "tuple[DeploymentWarning, ...]":
    """What its Pods warn of (rollout sheet 10)."""
    from gpustack_components.status.events import events

    return events(standing.observation)


def causes(standing: Standing, now: datetime) -> "tuple[Cause, ...]":
    """What keeps it from being converged."""
    from gpustack_components.status.why import Run
    from gpustack_components.status.why import causes as find_causes

    record = standing.record
    run = Run(record.phase, record.reasons, record.updated, standing.driver, standing.driving_since)
    told, router = rows(standing, now), standing.facts.router
    return find_causes(standing.deployment, document(standing), told, run, standing.absent, router)


def as_json(standing: Standing, calls: Sequence[str], now: datetime, *, aged: bool = True) -> Json:
    """The whole report as other tools read it; ages are left out where each line is to differ only by a change."""
    from gpustack_components.rollout.slots import slots_to_json
    from gpustack_components.rollout.turnovers import turnovers_to_json

    record = standing.record
    why = {}
    if standing.around is not None:
        why["why"] = [{"subject": one.subject, **_hold_json(one.hold)} for one in causes(standing, now)]
    return {
        "namespace": record.namespace,
        "name": record.name,
        **document(standing).to_json(),
        "replicas": [_row_json(row, aged=aged) for row in rows(standing, now)],
        "events": [
            {"reason": one.reason, "message": one.message, "pod": one.pod, "count": one.count}
            for one in warnings(standing)
        ],
        "run": {
            "phase": record.phase,
            "reasons": list(record.reasons),
            "generation": record.generation,
            "owner": record.owner,
            "driver": standing.driver,
            "updated": record.updated,
            "slots": slots_to_json(record.slots),
            "turnovers": turnovers_to_json(record.turnovers),
        },
        **why,
        "strangers": list(standing.strangers),
        "absentServices": list(standing.absent),
        "call": list(calls),
    }


def call_lines(standing: Standing, kubeconfig: str | None = None, context: str | None = None) -> list[str]:
    """Two commands that reach the endpoint from here; none while there is no endpoint, or no Service behind it."""
    namespace, endpoint = standing.record.namespace, urlsplit(document(standing).endpoint)
    if not endpoint.hostname or not endpoint.port:
        return []
    cluster = [*(["--kubeconfig", kubeconfig] if kubeconfig else []), *(["--context", context] if context else [])]
    service = endpoint.hostname.partition(".")[0]
    if service in standing.absent:
        return []
    forward = ["kubectl", *cluster, "-n", namespace, "port-forward", f"service/{service}", f"8000:{endpoint.port}"]
    question = {
        "model": standing.deployment.spec.model.name,
        "messages": [{"role": "user", "content": "Hello"}],
    }
    call = ["curl", *(["--insecure"] if endpoint.scheme == "https" else [])]
    call += [f"{endpoint.scheme}://localhost:8000/v1/chat/completions", "-H", "Content-Type: application/json"]
    call += ["-d", json.dumps(question, ensure_ascii=False)]
    return [shlex.join(forward), shlex.join(call)]


def _hold_json(hold: "Hold") -> Json:
    return {
        "what": hold.what,
        "since": hold.since or None,
        "release": hold.release,
        "command": hold.command or None,
    }


def _row_json(row: "Row", *, aged: bool) -> Json:
    return {
        "role": row.role,
        "ordinal": row.ordinal,
        "state": row.state,
        "admitted": row.admitted,
        "current": row.current,
        "readyMembers": row.ready[0],
        "members": row.ready[1],
        **({"ageSeconds": None if row.age is None else round(row.age)} if aged else {}),
        "hold": None if row.hold is None else _hold_json(row.hold),
    }


def _workloads(cluster: "Cluster", namespace: str) -> tuple[Json, ...]:
    from gpustack_components.cli.guard import complain
    from gpustack_components.cluster.port import WORKLOAD, NotServed

    try:
        return cluster.list(WORKLOAD, namespace).items
    except NotServed:
        complain("the cluster serves no Kueue Workloads, so nothing is admitted: install Kueue, or look at its CRDs")
        return ()
