"""One deployment as it stands in a cluster: its record, Pods and Workloads, and the report made of them."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

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
    from gpustack_components.status.facts import Expected
    from gpustack_components.status.text import Row

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
    expected: "Expected | None" = None
    """What the accepted document renders, to tell outdated replicas from current ones; None when it is not known."""


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
) -> Standing:
    """Read a deployment; Pods and Workloads are listed unless they are given. With `known`, replicas are compared.

    Raises `CommandError` with exit code 1 when there is no such deployment, and `ClusterError`.
    """
    from gpustack_components.api.decode import decode
    from gpustack_components.api.model_deployment import ModelDeployment
    from gpustack_components.cluster.port import CONFIG_MAP, LEASE, POD
    from gpustack_components.cluster.readings import at, owner_uids
    from gpustack_components.cluster.readings import name as name_of
    from gpustack_components.rollout.record import Record, is_record, record_name
    from gpustack_components.rollout.view import selector
    from gpustack_components.status.deployed import Observation

    stored = cluster.get(CONFIG_MAP, namespace, record_name(name))
    if stored is None or not is_record(stored):
        raise CommandError(_absent(cluster, namespace, name), code=ExitCode.REFUSED)
    record = Record.from_object(stored)
    decoded = decode(record.document, stored=True)
    if not isinstance(decoded.document, ModelDeployment):
        raise CommandError(
            f"the record, ConfigMap {namespace}/{record_name(name)}, holds no readable deployment "
            f"({decoded.refusals[0] if decoded.refusals else 'another kind'}); the next `pulumi up` writes it anew",
            code=ExitCode.REFUSED,
        )
    listed = cluster.list(POD, namespace, selector(name)).items if pods is None else pods
    own = tuple(pod for pod in listed if record.uid in owner_uids(pod, "ConfigMap"))
    strangers = tuple(sorted(name_of(pod) for pod in listed if record.uid not in owner_uids(pod, "ConfigMap")))
    standing = _workloads(cluster, namespace) if workloads is None else tuple(workloads)
    lease = cluster.get(LEASE, namespace, record_name(name))
    driver = str(at(lease, "spec", "holderIdentity") or "") if lease is not None else ""
    expected = expected_of(decoded.document, known, record.store) if known is not None else None
    return Standing(record, decoded.document, Observation(own, standing), strangers, driver, expected)


def expected_of(deployment: "ModelDeployment", known: Known, remembered: "Store | None" = None) -> "Expected":
    """What the document renders beside the objects it depends on; raises `CommandError` when it cannot be rendered.

    `remembered` is the KV cache store of the last run, which is rendered on while its Binding is away.
    """
    from gpustack_components.bindings.resolve import resolve
    from gpustack_components.render.version import CURRENT
    from gpustack_components.rollout.desired import Desired
    from gpustack_components.status.facts import Expected

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
    desired = Desired.of(answer.resolved)
    return Expected(
        hashes={role.name: role.hashes for role in desired.roles},
        floor=desired.floor,
        current=CURRENT,
        weights_hold="; ".join(hold.message for hold in desired.holds if hold.kind == "weights"),
        publishes={role.name: role.publish for role in answer.resolved.roles},
    )


def rows(standing: Standing, now: datetime) -> "tuple[Row, ...]":
    """Its replicas, one row each."""
    from gpustack_components.status import text

    return text.rows(standing.deployment, standing.observation, now, standing.expected)


def document(standing: Standing) -> "StatusDocument":
    """Its status document (rollout sheet 8)."""
    from gpustack_components.status.facts import Facts
    from gpustack_components.status.report import report

    return report(
        standing.deployment,
        standing.observation,
        Facts(expected=standing.expected),
        namespace=standing.record.namespace,
    )


def as_json(standing: Standing, calls: Sequence[str], now: datetime | None) -> Json:
    """The whole report as other tools read it; without `now`, ages are left out."""
    from datetime import UTC

    from gpustack_components.rollout.slots import slots_to_json

    record = standing.record
    return {
        "namespace": record.namespace,
        "name": record.name,
        **document(standing).to_json(),
        "replicas": [_row_json(row, aged=now is not None) for row in rows(standing, now or datetime.now(UTC))],
        "run": {
            "phase": record.phase,
            "reasons": list(record.reasons),
            "generation": record.generation,
            "owner": record.owner,
            "driver": standing.driver,
            "updated": record.updated,
            "slots": slots_to_json(record.slots),
        },
        "strangers": list(standing.strangers),
        "call": list(calls),
    }


def call_lines(standing: Standing, kubeconfig: str | None = None, context: str | None = None) -> list[str]:
    """Two commands that reach the endpoint from here; none while there is no endpoint."""
    namespace, endpoint = standing.record.namespace, urlsplit(document(standing).endpoint)
    if not endpoint.hostname or not endpoint.port:
        return []
    cluster = [*(["--kubeconfig", kubeconfig] if kubeconfig else []), *(["--context", context] if context else [])]
    service = endpoint.hostname.partition(".")[0]
    forward = ["kubectl", *cluster, "-n", namespace, "port-forward", f"service/{service}", f"8000:{endpoint.port}"]
    question = {
        "model": standing.deployment.spec.model.name,
        "messages": [{"role": "user", "content": "Hello"}],
    }
    call = ["curl", *(["--insecure"] if endpoint.scheme == "https" else [])]
    call += [f"{endpoint.scheme}://localhost:8000/v1/chat/completions", "-H", "Content-Type: application/json"]
    call += ["-d", json.dumps(question, ensure_ascii=False)]
    return [shlex.join(forward), shlex.join(call)]


def _row_json(row: "Row", *, aged: bool) -> Json:
    hold = row.hold
    return {
        "role": row.role,
        "ordinal": row.ordinal,
        "state": row.state,
        "admitted": row.admitted,
        "current": row.current,
        "readyMembers": row.ready[0],
        "members": row.ready[1],
        **({"ageSeconds": None if row.age is None else round(row.age)} if aged else {}),
        "hold": None if hold is None else {"what": hold.what, "since": hold.since or None, "release": hold.release},
    }


def _workloads(cluster: "Cluster", namespace: str) -> tuple[Json, ...]:
    from gpustack_components.cli.guard import complain
    from gpustack_components.cluster.port import WORKLOAD, NotServed

    try:
        return cluster.list(WORKLOAD, namespace).items
    except NotServed:
        complain("the cluster serves no Kueue Workloads, so nothing is admitted: install Kueue, or look at its CRDs")
        return ()


def _absent(cluster: "Cluster", namespace: str, name: str) -> str:
    """Why there is nothing to show, with the names that are there."""
    from gpustack_components.cluster import keys
    from gpustack_components.cluster.port import CONFIG_MAP, POD
    from gpustack_components.rollout.record import Record, is_record

    left = cluster.list(POD, namespace, f"{keys.APP_NAME}={keys.APP_NAME_VALUE},{keys.APP_INSTANCE}={name}").items
    if left:
        return (
            f"the record of deployment {name} in namespace {namespace} is gone, and so its Pods end: {len(left)} are "
            "still there; `pulumi up` of the program that declares it clears them away and creates new ones"
        )
    listed = cluster.list(CONFIG_MAP, None, f"{keys.MANAGED_BY}={keys.FIELD_MANAGER}").items
    known = sorted((one.namespace, one.name) for one in map(Record.from_object, filter(is_record, listed)))
    here = [other for space, other in known if space == namespace]
    elsewhere = [space for space, other in known if other == name]
    if elsewhere:
        hint = f"there is one in {' and '.join(elsewhere)}: add -n {elsewhere[0]}"
    elif here:
        near = get_close_matches(name, here, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there {'is' if len(here) == 1 else 'are'} {', '.join(here)}"
    else:
        hint = "`pulumi up` of a program that declares it creates it"
    return f"there is no deployment {name} in namespace {namespace}; {hint}"
