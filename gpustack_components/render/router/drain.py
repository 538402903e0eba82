"""How a router Pod leaves: it answers what it has begun, and is told to stop once nobody sends it anything new.

The proxy exits at once when it is told to stop, and the image it comes in has no shell. So its stop, and the picker's
it depends on, is put off; the argv routers drain by themselves and are only told after their Pod has left the Service.
"""

from typing import Any, Literal

from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.render.router.identity import router_of

SETTLE = 5
"""Seconds until nobody counts a leaving Pod among the Service's endpoints any more."""
_MARGIN = 5
_PICKER_STAYS = 1

Container = Literal["envoy", "epp", "router"]
"""Containers of router Pods."""


def drain_seconds(resolved: ResolvedDeployment) -> int:
    """How long requests may go on: as long as the setting says, and no longer than a request may take at all."""
    longest = resolved.settings.model_deployment_router_drain_seconds
    timeout = router_of(resolved).declared.request_timeout_seconds
    return longest if timeout is None else min(longest, timeout)


def grace_seconds(resolved: ResolvedDeployment) -> int:
    """`terminationGracePeriodSeconds` of a router Pod."""
    return SETTLE + drain_seconds(resolved) + _MARGIN


def linger(resolved: ResolvedDeployment, container: Container) -> dict[str, Any]:
    """`lifecycle` of a container; empty before Kubernetes 1.30, which cannot put a stop off without a program."""
    if not resolved.sleep_actions:
        return {}
    seconds = SETTLE
    if container != "router":
        seconds += drain_seconds(resolved) + (_PICKER_STAYS if container == "epp" else 0)
    return {"lifecycle": {"preStop": {"sleep": {"seconds": seconds}}}}
