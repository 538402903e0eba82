"""Every object of a deployment in the order to apply them: queues, Services, router, then replica by replica."""

from collections.abc import Iterator

from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.cluster.port import Json
from gpustack_components.render.queues import local_queue_manifest
from gpustack_components.render.replica import render_replica
from gpustack_components.render.router import router_objects
from gpustack_components.render.services import front_services


def local_queues(resolved: ResolvedDeployment) -> tuple[Json, ...]:
    """One LocalQueue per entrance the roles use, in role order."""
    behind = {role.entrance: role.declared.instance_type for role in resolved.roles}
    return tuple(local_queue_manifest(queue, name, resolved.namespace) for name, queue in behind.items())


def render_all(resolved: ResolvedDeployment) -> Iterator[Json]:
    """LocalQueues, front Services, the router's objects, then per role and replica its headless Service and its Pods.

    Lazy, so that thousands of Pods need not be held at once. While `resolved.holds` is not empty, Pods and headless
    Services are left out. Manifests share structure and must not be changed in place.
    """
    yield from local_queues(resolved)
    yield from front_services(resolved)
    yield from router_objects(resolved)
    if resolved.holds:
        return
    for role in resolved.roles:
        for ordinal in range(role.replicas):
            replica = render_replica(resolved, role, ordinal)
            if replica.service is not None:
                yield replica.service
            yield from replica.members
