"""The Service callers use, and how many of its Pods an eviction may take at once (router sheet 4)."""

from gpustack_components.api.names import ROUTER_SERVICE_PORT
from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.cluster.port import Json
from gpustack_components.render.router.identity import HTTP_PORT, labels, metadata


def service(resolved: ResolvedDeployment) -> Json:
    """The router's Service."""
    port = {"name": "http", "port": ROUTER_SERVICE_PORT, "targetPort": HTTP_PORT, "protocol": "TCP"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(resolved),
        "spec": {"type": "ClusterIP", "selector": labels(resolved), "ports": [port]},
    }


def disruption_budget(resolved: ResolvedDeployment) -> Json:
    """One copy at a time may be evicted; copies that are not ready stand in no eviction's way."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(resolved),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": labels(resolved)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
