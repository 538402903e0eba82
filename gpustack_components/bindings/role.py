"""One role of a deployment, resolved: every decision that can fail, with all failures collected (rendering sheets 1
and 18)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack_components.api.command_line.parallelism import read_parallelism
from gpustack_components.api.names import entrance
from gpustack_components.bindings import shape
from gpustack_components.bindings.artifact import Artifact
from gpustack_components.bindings.catalog import Bindings
from gpustack_components.bindings.failure import RenderFailure
from gpustack_components.bindings.kv_cache import Store
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
from gpustack_components.bindings.resolved import ResolvedRole
from gpustack_components.bindings.resources import PodResources, size_pod
from gpustack_components.bindings.settings import Settings
from gpustack_components.bindings.transport import REQUIRED, Family, interface_key, offers, spelling, taken_offer

if TYPE_CHECKING:
    from gpustack_components.api.instance_type import InstanceType
    from gpustack_components.api.model_deployment import ModelDeployment, Role

_KEY_SEPARATORS = {"vllm": "@_", "sglang": ":"}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every role of one resolve shares."""

    deployment: "ModelDeployment"
    """The deployment the role belongs to."""
    bindings: Bindings
    """The objects it may depend on."""
    settings: Settings
    """Settings of this resolve."""
    runtime_classes: frozenset[str]
    """RuntimeClasses the cluster has."""
    store: Store | None
    """The store to render; None for none."""
    artifact: Artifact | None
    """The weights; None when none are named or they are held."""

    def resolve_role(self, index: int, role: "Role") -> "ResolvedRole | tuple[RenderFailure, ...]":
        """The role resolved, or everything that keeps it from being rendered."""
        instance_type = self.bindings.instance_type(role.instance_type)
        if instance_type is None:
            message = (
                f"InstanceType {role.instance_type} is not known; create it, or declare it beside the deployment, in a "
                "program by bindings"
            )
            return (RenderFailure(role.name, message, retryable=True),)
        if role.elastic_ep is not None:
            message = "elasticEp is not rendered yet by this version; remove it, or run the role with a fixed width"
            return (RenderFailure(role.name, message),)
        found = _Found(self, role, instance_type)
        found.run()
        return tuple(found.failures) if found.failures else found.resolved(index)


class _Found:
    """One role while it is resolved: collects every failure before giving up."""

    def __init__(self, world: Surroundings, role: "Role", instance_type: "InstanceType") -> None:
        self.world, self.role, self.type = world, role, instance_type
        self.failures: list[RenderFailure] = []
        spec = world.deployment.spec
        detail = instance_type.status.detail if instance_type.status else None
        self.manufacturer = (detail.manufacturer if detail else None) or ""
        self.maker: Manufacturer | None = manufacturer(self.manufacturer, world.settings)
        self.kind = shape.kind(role)
        self.family: Family = shape.family(spec.engine.name, self.manufacturer)
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
                f"InstanceType {self.type.metadata.name} publishes no entrance (status.entrance is empty), "
                "so there is no queue to name; wait until it does, or leave the field out to have it derived",
                retry=True,
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
            f"vLLM on Ascend accepts only the {required} transport in its store, "
            f"and KVCachePool {self.store.pool} offers {offered}; set a group's transport.protocol to CANN"
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
                f"resources.interface asks for {wanted}, and the KVCachePoolBinding, its pool or backend is not known, "
                "so no fabric can be chosen; create the missing object, or drop the interface request",
                retry=True,
            )
            return
        verdict = interface_key(offered, direct, wanted.floor())
        if verdict.problem:
            self._fail(f"resources.interface asks for {wanted}: {verdict.problem}")
        self.interface = (verdict.key, wanted.floor())

    def _interface_offers(self) -> tuple[str, ...] | None:
        """The backend's offers, published endpoint or not; None when the chain to it is broken (bindings sheet
        4.5)."""
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
                f"ModelArtifact {artifact.name} states no metadata.uid, which names its weights in the store's keys; "
                "read it live, or declare the uid",
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
