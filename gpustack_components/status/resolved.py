"""What a resolved deployment tells the status: what is expected to run, the store, the weights, and the contract that
its router was rendered from.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpustack_components.api.names import role_service, router_url, service_host
from gpustack_components.bindings.listen import KV_EVENTS, KV_REPLAY
from gpustack_components.cluster.port import Json
from gpustack_components.render.documents import EVENTS_TOPIC
from gpustack_components.render.router.discovery import role_labels
from gpustack_components.render.router.picker_document import METRICS
from gpustack_components.render.services import role_address
from gpustack_components.render.version import CURRENT
from gpustack_components.status.facts import Domain, Expected, Facts, Weights

if TYPE_CHECKING:
    from gpustack_components.bindings.artifact import Artifact
    from gpustack_components.bindings.kv_cache import Connection, Store
    from gpustack_components.bindings.resolve import ResolvedDeployment, ResolvedRole


_DOMAINS: Mapping[str, Domain] = {
    "Registered": "Registered",
    "PoolNotFound": "Registered",
    "EndpointNotPublished": "Registered",
    "BackendNotFound": "Registered",
    "BindingNotFound": "BindingNotFound",
    "BindingNotReady": "BindingNotReady",
    "BindingDeleting": "BindingDeleting",
}
"""DomainRegistered speaks of the Binding alone; what is missing behind it is said in its message (bindings sheet
3.4)."""


def facts_of(
    resolved: "ResolvedDeployment", hashes: Mapping[str, tuple[tuple[str, ...], ...]], floor: int = 0
) -> Facts:
    """All facts that do not change while a resolved deployment is driven.

    `hashes` are the fingerprints by role, ordinal and member, `floor` the oldest render version that may go on running.
    """
    held = next(iter(resolved.holds), None)
    artifact = resolved.artifact
    weights: Weights | None = None
    if held is not None:
        weights = Weights("", hold=held.reason, message=f"{held.message}.")
    elif artifact is not None:
        weights = Weights(artifact.delivery, artifact.name)
    return Facts(
        expected=Expected(
            hashes=hashes,
            floor=floor,
            current=CURRENT,
            weights_hold="; ".join(hold.message for hold in resolved.holds),
            publishes={role.name: role.publish for role in resolved.roles},
        ),
        domain=_DOMAINS.get(resolved.connection.reason),
        domain_message=_domain_message(resolved.connection),
        weights=weights,
        kv_cache=kv_cache(resolved.store) if resolved.store is not None else None,
        contract=router(resolved) if resolved.declared.spec.router is not None else None,
        model=model(artifact) if artifact is not None else None,
        qualifies=resolved.settings.model_deployment_endpoint_qualification,
    )


def kv_cache(store: "Store") -> Json:
    """The section `kvCache`: the Binding's whole domain, so that a wrong block size or dtype can be seen (8)."""
    domain = {"name": store.domain.name, "blockSize": store.domain.block_size, "dtype": store.domain.dtype}
    return {"binding": store.binding, "pool": store.pool, "domain": domain}


def model(artifact: "Artifact") -> Json:
    """The section `model`; a claim or an image has no revision and no digest (bindings sheet 5.2)."""
    known = {"revision": artifact.revision, "manifestDigest": artifact.digest}
    told = {key: value for key, value in known.items() if value}
    return {"artifact": artifact.name, **told, "delivery": artifact.delivery}


def router(resolved: "ResolvedDeployment") -> Json:
    """The section `router`: the contract that the router was rendered from (router sheet 14)."""
    declared = resolved.declared.spec.router
    if declared is None:
        raise ValueError(f"{resolved.namespace}/{resolved.name} declares no router")
    section: Json = {
        "name": declared.name,
        "endpoint": router_url(resolved.name, resolved.namespace),
    }
    if resolved.store is not None:
        section["poolEndpoint"] = resolved.store.endpoint
    if declared.name == "llm-d-router":
        metrics = METRICS[resolved.engine]
        section["metrics"] = {
            "port": resolved.roles[0].listening.serving.number,
            "queuedRequests": metrics["queuedRequestsSpec"],
            "runningRequests": metrics["runningRequestsSpec"],
            "kvCacheUtilization": metrics["kvUsageSpec"],
        }
    section["roles"] = [_routed(resolved, role) for role in resolved.roles]
    return section


def _routed(resolved: "ResolvedDeployment", role: "ResolvedRole") -> Json:
    host = service_host(role_service(resolved.name, role.name), resolved.namespace)
    entry: Json = {
        "name": role.name,
        "kind": role.kind,
        "selector": dict(role_labels(resolved, role)),
        "endpoint": role_address(resolved, role),
    }
    if role.publish:
        entry["kvEvents"] = {
            "endpoint": f"tcp://{host}:{KV_EVENTS.number}",
            "replayEndpoint": f"tcp://{host}:{KV_REPLAY.number}",
            "topic": EVENTS_TOPIC,
        }
    return entry


def _domain_message(connection: "Connection") -> str:
    return f"{connection.message}." if connection.message else ""
