"""What the status is told rather than reads off Pods.

What the current spec would render, and what other parts observed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpustack_components.cluster.port import Json
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
    router: RouterFound = field(default_factory=RouterFound)
    """The router as it stands."""
    weights: Condition | None = None
    """WeightsReady, as the artifact's resolution judges it."""
    eligibility: Condition | None = None
    """EndpointEligibility, once replicas are qualified."""
    elastic: Condition | None = None
    """ElasticResize, with an elastic role."""
    sections: tuple[tuple[str, Json], ...] = ()
    """Further parts of the document: `kvCache`, `router`, `model`, `retirement`."""
