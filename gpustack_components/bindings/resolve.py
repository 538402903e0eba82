"""From a ModelDeployment and the objects it depends on to plain values: all that rendering needs, with nothing left to look up.

`resolve` is where a render can fail; what it returns renders without failing (rendering sheets 1 and 18).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from gpustack_components.api.command_line.parallelism import Parallelism, read_parallelism
from gpustack_components.api.names import entrance
from gpustack_components.bindings import shape
from gpustack_components.bindings.artifact import Artifact, deliver
from gpustack_components.bindings.catalog import DEFAULT_NAMESPACE, Bindings
from gpustack_components.bindings.failure import Hold, RenderFailure
from gpustack_components.bindings.kv_cache import Connection, Store, connect
from gpustack_components.bindings.listen import (
    KV_EVENTS,
    KV_REPLAY,
    SGLANG_BOOTSTRAP,
    VLLM_BOOTSTRAP,
    Listening,
    Port,
    listen,
    role_tokens,
)
from gpustack_components.bindings.manufacturers import Manufacturer, manufacturer
from gpustack_components.bindings.resources import PodResources, size_pod
from gpustack_components.bindings.settings import Settings
from gpustack_components.bindings.transport import REQUIRED, Family, interface_key, offers, spelling, taken_offer

if TYPE_CHECKING:
    from gpustack_components.api.instance_type import InstanceType
    from gpustack_components.api.model_deployment import ModelDeployment, Role

_RENDERED_ENGINES = ("vLLM", "SGLang")
_KEY_SEPARATORS = {"vllm": "@_", "sglang": ":"}


@dataclass(frozen=True, slots=True, eq=False)
class ResolvedRole:
    """One role with everything other objects decide for it. Compared by identity."""

    declared: "Role"
    """The role as declared, defaults filled in."""
    index: int
    """Position in `spec.roles`, for field paths."""
    kind: str
    """Effective kind: `Server`, `Prefill`, `Decode` or `Encode`."""
    family: Family
    """The engine as connectors see it."""
    manufacturer: str
    """Accelerator manufacturer of the role's type; empty on a CPU type without one."""
    accelerated: bool
    """Whether the role's type has accelerators."""
    entrance: str
    """LocalQueue name, as the role's type publishes it."""
    runtime_class: str
    """RuntimeClass to run under; empty for none."""
    image: str
    """Image of `main`."""
    take_over: bool
    """Whether the role owns its command line: then nothing is synthesized onto it."""
    store: Store | None
    """The store this role's client connects to; None also on a take-over or Encode role."""
    store_protocol: str
    """The offer the role's engine takes; empty without a store."""
    leg: bool
    """Whether a direct transfer leg is rendered."""
    split: bool
    """Whether SGLang's disaggregation arguments are rendered."""
    proxy: bool
    """Whether the routing proxy fronts the engine."""
    publish: bool
    """Whether the role publishes KV events."""
    connected: bool
    """Whether any connector is rendered at all."""
    direct_protocol: str
    """Protocol of the leg in Mooncake's spelling; `tcp` where `kvTransfer` does not count."""
    listening: Listening
    """Ports, schemes and the probe target."""
    parallelism: Parallelism
    """Degrees the role's own command line declares."""
    resources: PodResources
    """Accelerator keys and derived host resources of one Pod."""
    interface: tuple[str, int]
    """Key and count of fabric interfaces; empty key and 0 for none."""
    cache_prefix: str
    """Identity of the weights in the store's keys; empty where none is rendered."""

    @property
    def name(self) -> str:
        """The role's name."""
        return self.declared.name

    @property
    def replicas(self) -> int:
        """How many replicas the role declares."""
        return self.declared.replicas

    @property
    def size(self) -> int:
        """How many Pods one replica has."""
        return self.declared.size


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ResolvedDeployment:
    """A deployment that can be rendered. Compared by identity; its templates are kept beside it."""

    declared: "ModelDeployment"
    """The deployment as declared, defaults filled in."""
    namespace: str
    name: str
    engine: str
    """`vLLM` or `SGLang`."""
    roles: tuple[ResolvedRole, ...]
    """In spec order."""
    connection: Connection
    """Where `spec.kvCache` leads now; `status` reports it."""
    store: Store | None
    """The store that is rendered: the one connected now, or the remembered one while the Binding is away."""
    artifact: Artifact | None
    """The weights `spec.model.artifactRef` names, once resolved."""
    holds: tuple[Hold, ...]
    """Why no Pod may be created yet. While there is one, Services are rendered and Pods are not."""
    settings: Settings
    native_sidecars: bool
    """Whether the cluster keeps `initContainers[].restartPolicy` (Kubernetes 1.29 and newer)."""
    write_units: bool
    """Whether slices and partitions state their `.units` key."""
    parallel: Mapping[str, Parallelism] = field(default_factory=lambda: MappingProxyType({}))
    """Declared degrees of the Prefill and Decode role, by kind; what the Ascend leg writes into both."""

    def role(self, name: str) -> ResolvedRole:
        """The role of that name. Raises `KeyError` when the deployment has none."""
        for role in self.roles:
            if role.declared.name == name:
                return role
        raise KeyError(name)

    @property
    def min_render_version(self) -> str | None:
        """The annotation that asks for a render-version floor, as written."""
        annotations = self.declared.metadata.annotations or {}
        return annotations.get("modeldeployment.gpustack.ai/min-render-version")


@dataclass(frozen=True, slots=True)
class Resolution:
    """What `resolve` found."""

    resolved: ResolvedDeployment | None
    """None exactly when there are failures."""
    failures: tuple[RenderFailure, ...]
    """Everything that keeps the deployment from being rendered, role by role."""


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

    `runtime_classes` are the names the cluster has; `kubernetes` its version. `remembered` is the store of the last resolve: it is
    rendered on while the Binding is not usable, so that a store restart rolls nothing (bindings sheet 3.4). Without the operator's
    Pod webhook (`operator_present` False), slices and partitions state the `.units` they are charged for (bindings sheet 1.6).
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
    world = _World(
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
        native_sidecars=kubernetes >= (1, 29),
        write_units=not operator_present,
        parallel=MappingProxyType(parallel),
    )
    return Resolution(resolved, ())


@dataclass(frozen=True, slots=True)
class _World:
    """What every role of one resolve shares."""

    deployment: "ModelDeployment"
    bindings: Bindings
    settings: Settings
    runtime_classes: frozenset[str]
    store: Store | None
    artifact: Artifact | None

    def resolve_role(self, index: int, role: "Role") -> "ResolvedRole | tuple[RenderFailure, ...]":
        """The role resolved, or everything that keeps it from being rendered."""
        instance_type = self.bindings.instance_type(role.instance_type)
        if instance_type is None:
            message = f"InstanceType {role.instance_type} is not known; create it, or declare it beside the deployment"
            return (RenderFailure(role.name, message, retryable=True),)
        if role.elastic_ep is not None:
            message = "elasticEp is not rendered yet by this version; remove it, or run the role with a fixed width"
            return (RenderFailure(role.name, message),)
        found = _Found(self, role, instance_type)
        found.run()
        return tuple(found.failures) if found.failures else found.resolved(index)


class _Found:
    """One role while it is resolved: collects every failure before giving up."""

    def __init__(self, world: _World, role: "Role", instance_type: "InstanceType") -> None:
        self.world, self.role, self.type = world, role, instance_type
        self.failures: list[RenderFailure] = []
        spec = world.deployment.spec
        detail = instance_type.status.detail if instance_type.status else None
        self.manufacturer = (detail.manufacturer if detail else None) or ""
        self.maker: Manufacturer | None = manufacturer(self.manufacturer, world.settings)
        self.kind = shape.kind(role)
        self.family = shape.family(spec.engine.name, self.manufacturer)
        self.take_over = shape.takes_over(role)
        self.store = None if self.take_over or self.kind == "Encode" else world.store
        self.leg = not self.take_over and shape.has_leg(spec, role, self.manufacturer)
        self.proxy = shape.has_proxy(spec, role)
        self.publish = shape.publishes(spec, role, self.manufacturer)
        self.connected = self.store is not None or self.leg or self.publish
        self.split = self.connected and not self.take_over and shape.is_split(spec, role)
        self.store_protocol = ""
        self.listening: Listening | None = None
        self.pod: PodResources | None = None
        self.interface = ("", 0)

    def run(self) -> None:
        """Decide everything that can fail."""
        spec = self.world.deployment.spec
        if not self.entrance:
            self._fail(
                f"InstanceType {self.type.metadata.name} publishes no entrance (status.entrance is empty)", retry=True
            )
        self._take_offer()
        sized = size_pod(self.role, self.type, self.maker)
        if isinstance(sized, RenderFailure):
            self.failures.append(sized)
        else:
            self.pod = sized
        laid = listen(spec.engine.name, self.role, proxied=self.proxy, connectors=self._connector_ports())
        if isinstance(laid, RenderFailure):
            self.failures.append(laid)
        else:
            self.listening = laid
        self._ask_interface()
        self._check_prefix()

    @property
    def entrance(self) -> str:
        stated = self.type.status.entrance if self.type.status else None
        return entrance(self.type.metadata.name) if stated is None else stated

    @property
    def cache_prefix(self) -> str:
        """The prefix to render: beside a store, on native vLLM, and on SGLang only where the setting allows it."""
        artifact = self.world.artifact
        if artifact is None or self.store is None or self.family == "vllm-ascend":
            return ""
        if self.family == "sglang" and not self.world.settings.model_artifact_sglang_cache_prefix:
            return ""
        return artifact.prefix

    def _fail(self, message: str, *, retry: bool = False) -> None:
        self.failures.append(RenderFailure(self.role.name, message, retryable=retry))

    def _take_offer(self) -> None:
        if self.store is None:
            return
        offer = taken_offer(self.family, self.store.offers)
        if offer is not None:
            self.store_protocol = offer
            return
        offered = ", ".join(o or "an unknown protocol" for o in self.store.offers)
        required = REQUIRED.get(self.family)
        if required is None:
            self._fail(
                f"KVCachePool {self.store.pool} publishes an endpoint but no protocol its clients know ({offered})",
                retry=True,
            )
            return
        self._fail(
            f"vLLM on Ascend accepts only the {required} transport in its store, and KVCachePool {self.store.pool} offers "
            f"{offered}; set a group's transport.protocol to CANN"
        )

    def _connector_ports(self) -> tuple[Port, ...]:
        ports: list[Port] = []
        if self.kind == "Prefill" and self.family == "sglang" and self.split:
            ports.append(SGLANG_BOOTSTRAP)
        if self.kind == "Prefill" and self.family != "sglang" and self.leg:
            ports.append(VLLM_BOOTSTRAP)
        if self.publish:
            ports += (KV_EVENTS, KV_REPLAY)
        return tuple(ports)

    def _ask_interface(self) -> None:
        wanted = self.role.resources.interface if self.role.resources else None
        if wanted is None or wanted <= 0:
            return
        spec = self.world.deployment.spec
        direct = shape.direct_protocol(spec, self.role, self.manufacturer)
        offered = self._interface_offers()
        if offered is None:
            self._fail(
                f"resources.interface asks for {wanted}, and the KVCachePoolBinding's pool or backend is not known, so no fabric can "
                "be chosen; create the missing object, or drop the interface request",
                retry=True,
            )
            return
        verdict = interface_key(offered, direct, wanted.floor())
        if verdict.problem:
            self._fail(f"resources.interface asks for {wanted}: {verdict.problem}")
        self.interface = (verdict.key, wanted.floor())

    def _interface_offers(self) -> tuple[str, ...] | None:
        """The backend's offers, published endpoint or not; None when the chain to it is broken (bindings sheet 4.5)."""
        cache = self.world.deployment.spec.kv_cache
        if cache is None or self.take_over or self.kind == "Encode":
            return ()
        backend = self.world.bindings.backend_behind(self.world.deployment.metadata.namespace, cache.pool_ref.name)
        if backend is not None:
            return offers(backend)
        return self.store.offers if self.store else None

    def _check_prefix(self) -> None:
        artifact = self.world.artifact
        if artifact is None or self.store is None or self.take_over:
            return
        prefix = self.cache_prefix
        separators = [c for c in _KEY_SEPARATORS.get(self.family, "") if c in prefix]
        if separators:
            self._fail(f"the artifact's key prefix {prefix} holds {separators[0]}, which separates the store's keys")
        if not artifact.prefix and self.family == "vllm":
            self._fail(
                f"ModelArtifact {artifact.name} states no metadata.uid, which names its weights in the store's keys; read it live, "
                "or declare the uid",
                retry=True,
            )

    def resolved(self, index: int) -> ResolvedRole:
        """The role, once nothing failed."""
        assert self.listening is not None and self.pod is not None
        spec = self.world.deployment.spec
        runtime = self.maker.runtime_class if self.maker and self.type.spec.acceleratable else ""
        transfer = spec.kv_transfer.protocol if spec.kv_transfer else None
        joined = spec.router is not None and shape.is_pair(spec) and self.kind in ("Prefill", "Decode")
        return ResolvedRole(
            declared=self.role,
            index=index,
            kind=self.kind,
            family=self.family,
            manufacturer=self.manufacturer,
            accelerated=self.type.spec.acceleratable,
            entrance=self.entrance,
            runtime_class=runtime if runtime in self.world.runtime_classes else "",
            image=self.role.image or spec.engine.image,
            take_over=self.take_over,
            store=self.store,
            store_protocol=self.store_protocol,
            leg=self.leg,
            split=self.split,
            proxy=self.proxy,
            publish=self.publish,
            connected=self.connected,
            direct_protocol=spelling(transfer) if joined else spelling(None),
            listening=self.listening,
            parallelism=read_parallelism(spec.engine.name, role_tokens(self.role), self.role.env or ()),
            resources=self.pod,
            interface=self.interface,
            cache_prefix=self.cache_prefix,
        )


def _ascend_width(roles: Iterable[ResolvedRole], parallel: Mapping[str, Parallelism]) -> Iterable[RenderFailure]:
    """An Ascend decoder may not be wider than the prefiller it pulls from (rendering sheet 4.1)."""
    prefill, decode = parallel.get("Prefill"), parallel.get("Decode")
    if prefill is None or decode is None or prefill.tensor >= decode.tensor:
        return
    for role in roles:
        if role.family == "vllm-ascend" and role.leg:
            yield RenderFailure(
                role.name,
                f"the prefill role's tensor-parallel degree {prefill.tensor} is below the decode role's {decode.tensor}, which the "
                "Ascend transfer cannot serve; raise the first or lower the second",
            )
