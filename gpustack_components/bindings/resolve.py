"""From a ModelDeployment and the objects it depends on to plain values: all that rendering needs, with nothing left
to look up.

`resolve` is where a render can fail; what it returns renders without failing (rendering sheets 1 and 18).
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from gpustack_components.api.command_line.parallelism import Parallelism
from gpustack_components.bindings.artifact import Artifact, deliver
from gpustack_components.bindings.catalog import DEFAULT_NAMESPACE, Bindings
from gpustack_components.bindings.failure import Hold, RenderFailure
from gpustack_components.bindings.kv_cache import Store, connect
from gpustack_components.bindings.resolved import Resolution, ResolvedDeployment, ResolvedRole
from gpustack_components.bindings.role import Surroundings
from gpustack_components.bindings.router import ResolvedRouter, resolve_router
from gpustack_components.bindings.settings import Settings

if TYPE_CHECKING:
    from gpustack_components.api.model_deployment import ModelDeployment

__all__ = ["Resolution", "ResolvedDeployment", "ResolvedRole", "resolve"]

_RENDERED_ENGINES = ("vLLM", "SGLang")
_NATIVE_SIDECARS = (1, 29)
_IMAGE_VOLUMES = (1, 35)
_SLEEP_ACTIONS = (1, 30)


def resolve(
    deployment: "ModelDeployment",
    bindings: Bindings,
    settings: Settings,
    *,
    runtime_classes: Iterable[str] = frozenset(),
    kubernetes: tuple[int, int] = (1, 35),
    remembered: Store | None = None,
    operator_present: bool = True,
) -> Resolution:
    """Follow every reference of an admitted deployment.

    `runtime_classes` are the names the cluster has; `kubernetes` its version. `remembered` is the store of the last
    resolve: it is rendered on while the Binding is not usable, so that a store restart rolls nothing (bindings
    sheet 3.4). Without the operator's Pod webhook (`operator_present` False), slices and partitions state the
    `.units` they are charged for (bindings sheet 1.6).
    """
    spec = deployment.spec
    if spec.engine.name not in _RENDERED_ENGINES:
        message = f"engine {spec.engine.name} has no rendering; choose vLLM or SGLang"
        return Resolution(None, (RenderFailure("", message),))
    connection = connect(deployment, bindings)
    store = connection.store
    if store is None and spec.kv_cache is not None and remembered is not None:
        store = remembered if remembered.binding == spec.kv_cache.pool_ref.name else None
    delivered = deliver(deployment, bindings, settings)
    world = Surroundings(
        deployment,
        bindings,
        settings,
        frozenset(runtime_classes),
        store,
        delivered if isinstance(delivered, Artifact) else None,
    )
    outcomes = [world.resolve_role(index, role) for index, role in enumerate(spec.roles)]
    failures = [failure for outcome in outcomes if isinstance(outcome, tuple) for failure in outcome]
    if not spec.model.name:
        failures.insert(0, RenderFailure("", "spec.model.name is empty; name the model to serve"))
    roles = tuple(outcome for outcome in outcomes if isinstance(outcome, ResolvedRole))
    parallel = {role.kind: role.parallelism for role in roles if role.kind in ("Prefill", "Decode")}
    failures.extend(_ascend_width(roles, parallel))
    failures.extend(_image_volume(world.artifact, kubernetes))
    router = resolve_router(spec.router, roles, settings) if spec.router and not failures else None
    if isinstance(router, RenderFailure):
        failures.append(router)
    if failures:
        return Resolution(None, tuple(failures))
    resolved = ResolvedDeployment(
        declared=deployment,
        namespace=deployment.metadata.namespace or DEFAULT_NAMESPACE,
        name=deployment.metadata.name,
        engine=spec.engine.name,
        roles=roles,
        connection=connection,
        store=store,
        artifact=world.artifact,
        holds=(delivered,) if isinstance(delivered, Hold) else (),
        settings=settings,
        native_sidecars=kubernetes >= _NATIVE_SIDECARS,
        write_units=not operator_present,
        router=router if isinstance(router, ResolvedRouter) else None,
        sleep_actions=kubernetes >= _SLEEP_ACTIONS,
        parallel=MappingProxyType(parallel),
    )
    return Resolution(resolved, ())


def _image_volume(artifact: Artifact | None, kubernetes: tuple[int, int]) -> Iterable[RenderFailure]:
    """Older API servers drop the volume's source without a word (bindings sheet 5.1)."""
    if artifact is not None and artifact.delivery == "Image" and kubernetes < _IMAGE_VOLUMES:
        yield RenderFailure(
            "",
            f"ModelArtifact {artifact.name} is an image, which needs Kubernetes {_version(_IMAGE_VOLUMES)} or newer, "
            f"and the cluster has {_version(kubernetes)}; upgrade it, or deliver the weights from a hub or a claim",
        )


def _version(version: tuple[int, int]) -> str:
    return ".".join(str(part) for part in version)


def _ascend_width(roles: Iterable[ResolvedRole], parallel: Mapping[str, Parallelism]) -> Iterable[RenderFailure]:
    """An Ascend decoder may not be wider than the prefiller it pulls from (rendering sheet 4.1)."""
    prefill, decode = parallel.get("Prefill"), parallel.get("Decode")
    if prefill is None or decode is None or prefill.tensor >= decode.tensor:
        return
    for role in roles:
        if role.family == "vllm-ascend" and role.leg:
            yield RenderFailure(
                role.name,
                f"the prefill role's tensor-parallel degree {prefill.tensor} is below the decode role's "
                f"{decode.tensor}, which the Ascend transfer cannot serve; raise the first or lower the second",
            )
