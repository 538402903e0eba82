"""What every object of a router shares: its name, its labels, and the ports it answers on (router sheet 4)."""

from typing import Any

from gpustack_components.api.names import router_name
from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.bindings.router import ResolvedRouter
from gpustack_components.cluster import keys

HTTP_PORT = 8081
"""Port of the router's own listener."""
METRICS_PORT = 9090
"""Port of the router's metrics."""
GRPC_PORT = 9002
"""Where the picker answers the proxy in its Pod."""
GRPC_HEALTH_PORT = 9003
"""Where the picker answers gRPC health checks."""


def router_of(resolved: ResolvedDeployment) -> ResolvedRouter:
    """The deployment's router. Raises `ValueError` without one, which no caller may ask for."""
    if resolved.router is None:
        raise ValueError(f"{resolved.namespace}/{resolved.name} has no router")
    return resolved.router


def labels(resolved: ResolvedDeployment) -> dict[str, str]:
    """Labels of every router object and Pod, and the whole of every selector of router Pods. No `component`, so that
    no Service of a role finds a router."""
    return {
        keys.APP_NAME: keys.APP_NAME_VALUE,
        keys.APP_INSTANCE: resolved.name,
        keys.ROUTER: router_of(resolved).name,
    }


def metadata(resolved: ResolvedDeployment) -> dict[str, Any]:
    """Name, namespace and labels of every router object."""
    return {"name": router_name(resolved.name), "namespace": resolved.namespace, "labels": labels(resolved)}
