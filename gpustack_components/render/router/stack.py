"""Every object of a deployment's router, in the order to apply them (router sheet 4)."""

from collections.abc import Iterator
from weakref import WeakKeyDictionary

from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.cluster.port import Json
from gpustack_components.render.router.access import role, role_binding, service_account
from gpustack_components.render.router.config_map import config_hash, config_map, data
from gpustack_components.render.router.deployment import deployment
from gpustack_components.render.router.service import disruption_budget, service

_made: "WeakKeyDictionary[ResolvedDeployment, tuple[Json, ...]]" = WeakKeyDictionary()


def router_objects(resolved: ResolvedDeployment) -> tuple[Json, ...]:
    """ServiceAccount, Role, RoleBinding, ConfigMap (llm-d-router only), Service, Deployment, and with several copies a
    PodDisruptionBudget; nothing without `spec.router`.

    Made once for each resolved deployment, and not to be changed in place.
    """
    found = _made.get(resolved)
    if found is None:
        found = _made[resolved] = tuple(_objects(resolved))
    return found


def _objects(resolved: ResolvedDeployment) -> Iterator[Json]:
    router = resolved.router
    if router is None:
        return
    yield service_account(resolved)
    yield role(resolved)
    yield role_binding(resolved)
    contents = data(resolved) if router.picks else {}
    if contents:
        yield config_map(resolved, contents)
    yield service(resolved)
    yield deployment(resolved, config_hash(contents) if contents else "")
    if router.replicas > 1:
        yield disruption_budget(resolved)
