"""The router in front of the replicas, as a run waits for it: it begins beside the engines and gates no turnover, but a
run is over only when it answers (router sheet, sections 14 and 15).
"""

from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import at, condition, name
from gpustack_components.status.facts import RouterFound
from gpustack_components.status.missing import unrouted


def router_of(deployments: tuple[Json, ...], wanted: str) -> Json | None:
    """The router's Deployment among these, or None."""
    return next((one for one in deployments if name(one) == wanted), None)


def answers(router: Json | None) -> bool:
    """Whether a router replica is ready, so that the endpoint is published."""
    return RouterFound.of(router).ready > 0


def missing(router: Json | None, wanted: str) -> str:
    """What the router still lacks, as a clause; empty once every replica runs the current template and is available."""
    if router is None:
        return unrouted(wanted)
    asked = _number(router, "spec", "replicas", otherwise=1)
    if _number(router, "status", "observedGeneration") < _number(router, "metadata", "generation"):
        return f"Deployment {wanted} has not been looked at by its controller yet"
    total, updated = _number(router, "status", "replicas"), _number(router, "status", "updatedReplicas")
    outdated = max(total - updated, 0)
    current = max(_number(router, "status", "availableReplicas") - outdated, 0)
    if current >= asked and not outdated:
        return ""
    return f"{current} of {asked} Pods of Deployment {wanted} are up to date and ready{_why(router)}"


def _why(router: Json) -> str:
    """What its controller says of a roll-out that gets nowhere."""
    for kind in ("ReplicaFailure", "Progressing"):
        found = condition(router, kind)
        stuck = found is not None and (found.status == "True" if kind == "ReplicaFailure" else found.status == "False")
        if found is not None and stuck:
            return f": {found.message or found.reason}"
    return ""


def _number(obj: Json, *path: str, otherwise: int = 0) -> int:
    found = at(obj, *path)
    return found if isinstance(found, int) else otherwise
