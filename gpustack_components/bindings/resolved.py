"""A deployment with nothing left to look up: the plain values that rendering reads (rendering sheet 1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from gpustack_components.api.command_line.parallelism import Parallelism
from gpustack_components.bindings.artifact import Artifact
from gpustack_components.bindings.failure import Hold, RenderFailure
from gpustack_components.bindings.kv_cache import Connection, Store
from gpustack_components.bindings.listen import Listening
from gpustack_components.bindings.resources import PodResources
from gpustack_components.bindings.router import ResolvedRouter
from gpustack_components.bindings.settings import Settings
from gpustack_components.bindings.transport import Family
from gpustack_components.cluster.keys import MIN_RENDER_VERSION

if TYPE_CHECKING:
    from gpustack_components.api.model_deployment import ModelDeployment, Role


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
    """Namespace of every object; `default` when the document names none."""
    name: str
    """Name of the deployment."""
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
    """Settings the deployment is rendered with."""
    native_sidecars: bool
    """Whether the cluster keeps `initContainers[].restartPolicy` (Kubernetes 1.29 and newer)."""
    write_units: bool
    """Whether slices and partitions state their `.units` key."""
    router: ResolvedRouter | None = None
    """The router in front of the roles; None without one."""
    sleep_actions: bool = True
    """Whether the cluster knows `lifecycle.preStop.sleep` (Kubernetes 1.30 and newer)."""
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
        return self.declared.metadata.annotations.get(MIN_RENDER_VERSION)


@dataclass(frozen=True, slots=True)
class Resolution:
    """What `resolve` found."""

    resolved: ResolvedDeployment | None
    """None exactly when there are failures."""
    failures: tuple[RenderFailure, ...]
    """Everything that keeps the deployment from being rendered, role by role."""
