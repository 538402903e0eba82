"""What the status is told rather than reads off Pods.

What the current spec would render, and what other parts observed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import at
from gpustack_components.status.document import Condition


@dataclass(frozen=True, slots=True)
class Expected:
    """What the current spec and bindings render, to compare what stands with (rollout sheet 2)."""

    hashes: Mapping[str, tuple[tuple[str, ...], ...]]
    """Fingerprints by role, ordinal and member index."""
    floor: int = 0
    """Oldest render version that may go on running."""
    current: int = 0
    """Render version of a Pod created now."""
    created: frozenset[tuple[str, int]] = frozenset()
    """Role and ordinal of the replicas created since the observation; they count as current."""
    cache_hold: str = ""
    """Why replacing is withheld for want of the KV cache; empty when it is not."""
    weights_hold: str = ""
    """Why replacing and creating are withheld for want of the weights; empty when they are not."""
    publishes: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Whether a role's render carries a KV event publisher, by role."""


Domain = Literal["Registered", "BindingNotFound", "BindingNotReady", "BindingDeleting"]
"""What reading the KVCachePoolBinding gave."""


@dataclass(frozen=True, slots=True)
class Weights:
    """What resolving `spec.model.artifactRef` gave (bindings sheet 5)."""

    delivery: str
    """How the weights reach a Pod: `PVC`, `Image`, `Node` or `Engine`; empty while they are held."""
    artifact: str = ""
    """The ModelArtifact's name."""
    hold: str = ""
    """Why no Pod may be created, one word: the reason of WeightsReady; empty when nothing holds."""
    message: str = ""
    """The same in a sentence."""


@dataclass(frozen=True, slots=True)
class CacheTraffic:
    """What ready replicas and the pool say of the KV cache (8.2, CacheAttached)."""

    reported: bool = False
    """Whether some ready replica reports store operations."""
    succeeded: bool = False
    """Whether some of them succeeded."""
    holds_data: bool = False
    """Whether the domain holds blocks, or usage that is not zero."""


@dataclass(frozen=True, slots=True)
class RouterFound:
    """The router as it stands."""

    failure: str = ""
    """Why it cannot be rendered; empty when it can."""
    deployed: bool = False
    """Whether its Deployment exists."""
    ready: int = 0
    """Its ready Pods."""

    @classmethod
    def of(cls, deployment: Json | None) -> Self:
        """What its Deployment says; None stands for one that does not exist."""
        ready = at(deployment, "status", "readyReplicas")
        return cls(deployed=deployment is not None, ready=ready if isinstance(ready, int) else 0)


@dataclass(frozen=True, slots=True)
class RoleEndpoints:
    """What qualification found of a role (8.1, 9)."""

    eligible: int | None = None
    """Qualified replicas; None while one of them is inconclusive. 0 is an observation."""
    serving: Literal["Confirmed", "NotConverged", "Unknown", "NotConfigured"] = "NotConfigured"
    """Whether the routers' own view of what they serve was confirmed."""
    value: int | None = None
    """Replicas they serve; only when confirmed."""

    def to_json(self) -> Json:
        """In camelCase, without absent fields."""
        confirmed = {"value": self.value} if self.serving == "Confirmed" and self.value is not None else {}
        eligible = {"eligible": self.eligible} if self.eligible is not None else {}
        return {**eligible, "serving": {"state": self.serving, **confirmed}}


@dataclass(frozen=True, slots=True)
class Facts:
    """All of it; what is None was not looked at, and the condition that needs it keeps its earlier value."""

    expected: Expected | None = None
    """What the current spec renders."""
    deleting: bool = False
    """Whether the deployment is being removed."""
    domain: Domain | None = None
    """What reading the pool binding gave."""
    domain_message: str = ""
    """What reading the pool binding said."""
    cache: CacheTraffic | None = None
    """What is known of cache traffic."""
    router: RouterFound | None = None
    """The router as it stands."""
    weights: Weights | None = None
    """What resolving the artifact gave; None also without one."""
    endpoints: Mapping[str, RoleEndpoints] = field(default_factory=dict[str, RoleEndpoints])
    """What qualification found, by role; a role it did not look at has no entry."""
    qualifies: bool = False
    """Whether Services and routers select by qualification (the setting `model-deployment-endpoint-qualification`)."""
    elastic: Condition | None = None
    """ElasticResize, with an elastic role."""
    kv_cache: Json | None = None
    """The section `kvCache`: the domain last resolved."""
    contract: Json | None = None
    """The section `router`: what it was rendered from."""
    model: Json | None = None
    """The section `model`: the resolved artifact."""
    retirement: Json | None = None
    """The section `retirement`: the record of the operation under way."""
