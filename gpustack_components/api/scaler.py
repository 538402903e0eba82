"""ModelDeploymentScaler: plans, and in Active mode writes, the replica counts of a ModelDeployment (scaler sheet 1)."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, Strict

from gpustack_components.api.document import Document
from gpustack_components.api.part import Bool, Opaque, Part, PositiveQuantity, Text
from gpustack_components.api.quantity import Quantity

DOWNWARD_WINDOW_SECONDS = 300
"""What an unset or zero downward stabilization window is stored as."""


def _stored_window(seconds: int) -> int:
    return seconds or DOWNWARD_WINDOW_SECONDS


class TargetRef(Part, frozen=True):
    """The ModelDeployment that is scaled; frozen."""

    name: Text
    """Name of a ModelDeployment in the same namespace."""


class Sampling(Part, frozen=True):
    """How often engines are read."""

    interval_seconds: Annotated[int, Strict(), Field(ge=5, le=300)] = 15
    """Seconds between two readings, 5 to 300."""
    pending_timeout_seconds: Annotated[int, Strict(), Field(ge=60, le=1200)] = 300
    """Seconds new replicas may stay unadmitted before growth is called exhausted, 60 to 1200."""


class RoleBounds(Part, frozen=True):
    """The range one role of the target may be scaled in."""

    name: Text
    """Name of a role of the target; unique."""
    min_replicas: Annotated[int, Strict(), Field(ge=1, le=1024)] = 1
    """Fewest replicas, 1 to 1024."""
    max_replicas: Annotated[int, Strict(), Field(ge=1, le=1024)]
    """Most replicas, 1 to 1024, at least `minReplicas`."""


class Ratio(Part, frozen=True):
    """How many replicas of one role go with one of another."""

    numerator_role: Text
    """Role counted above."""
    denominator_role: Text
    """Role counted below."""
    target: PositiveQuantity | None = None
    """Preferred quotient; a preference only."""
    min: PositiveQuantity | None = None
    """Smallest quotient allowed."""
    max: PositiveQuantity | None = None
    """Largest quotient allowed."""


class RoleTarget(Part, frozen=True):
    """What one replica of a role should carry."""

    name: Text
    """Name of a role in `roles`; unique."""
    target: PositiveQuantity
    """Requests per replica."""


class Proportional(Part, frozen=True):
    """Replicas in proportion to a gauge."""

    metric: Literal["RunningRequests", "QueueDepth"]
    """Running requests, or running and waiting ones."""
    tolerance: Annotated[Quantity, Field(gt=0, le=1)] = Quantity("0.1")
    """Relative distance from the target that changes nothing, above 0 and at most 1."""
    role_targets: Annotated[tuple[RoleTarget, ...], Field(min_length=1)]
    """Targets per role; a role without one follows ratios."""


class TokenThroughput(Part, frozen=True):
    """Replicas in proportion to tokens per second."""

    prefill_target_tokens_per_second: PositiveQuantity | None = None
    """Prompt tokens per second one replica should take; needed for Prefill and Server roles."""
    decode_target_tokens_per_second: PositiveQuantity | None = None
    """Generated tokens per second one replica should give; needed for Decode and Server roles."""


class Predictive(Part, frozen=True):
    """Replicas for the token rate expected a little later."""

    horizon_seconds: Annotated[int, Strict(), Field(ge=1, le=3600)] = 60
    """Seconds to look ahead, 1 to 3600."""
    min_points: Annotated[int, Strict(), Field(ge=2, le=1000)] = 5
    """Readings before a forecast counts, 2 to 1000."""
    q_level: PositiveQuantity = Quantity("1")
    """How much the level is believed to wander."""
    q_trend: PositiveQuantity = Quantity("0.1")
    """How much the trend is believed to wander."""
    prefill_token_capacity_per_replica: PositiveQuantity | None = None
    """Prompt tokens per second one replica takes."""
    decode_token_capacity_per_replica: PositiveQuantity | None = None
    """Generated tokens per second one replica gives."""
    token_throughput: TokenThroughput | None = None
    """What decides while there is no forecast; absent: the counts are held."""


class Algorithm(Part, frozen=True):
    """How a signal becomes a count: the block that `type` names and no other."""

    type: Literal["Proportional", "TokenThroughput", "Predictive"]
    """Which algorithm."""
    proportional: Proportional | None = None
    """Parameters of `Proportional`."""
    token_throughput: TokenThroughput | None = None
    """Parameters of `TokenThroughput`."""
    predictive: Predictive | None = None
    """Parameters of `Predictive`."""


class ScaleUp(Part, frozen=True):
    """How fast counts may grow."""

    stabilization_window_seconds: Annotated[int, Strict(), Field(ge=0, le=3600)] = 0
    """Seconds a higher recommendation must last, 0 to 3600."""
    max_step_replicas: Annotated[int, Strict(), Field(ge=0, le=1024)] = 0
    """Most replicas added at once, 0 to 1024; 0: no limit."""


class ScaleDown(Part, frozen=True):
    """How fast counts may shrink."""

    stabilization_window_seconds: Annotated[int, Strict(), Field(ge=0, le=3600), AfterValidator(_stored_window)] = (
        DOWNWARD_WINDOW_SECONDS
    )
    """Seconds a lower recommendation must last, up to 3600; 0 is stored as 300."""
    decode_grace_seconds: Annotated[int, Strict(), Field(ge=0, le=600)] = 60
    """Seconds a decode replica is spared after its prefill peer shrank, 0 to 600."""
    abort_cooldown_seconds: Annotated[int, Strict(), Field(ge=60, le=3600)] = 300
    """Seconds without another attempt after an aborted retirement, 60 to 3600."""


class Behavior(Part, frozen=True):
    """How fast counts may move."""

    scale_up: ScaleUp = Field(default_factory=ScaleUp)
    """Growing."""
    scale_down: ScaleDown = Field(default_factory=ScaleDown)
    """Shrinking."""


class ModelDeploymentScalerSpec(Part, frozen=True):
    """The scaling policy of one target."""

    target_ref: TargetRef
    """What is scaled; frozen."""
    mode: Literal["Shadow", "Active"] = "Shadow"
    """`Shadow` only recommends, `Active` writes."""
    suspend: Bool = False
    """True stops planning and releases the target."""
    sampling: Sampling = Field(default_factory=Sampling)
    """How often engines are read."""
    roles: Annotated[tuple[RoleBounds, ...], Field(min_length=1)]
    """A range for every role of the target."""
    ratios: tuple[Ratio, ...] = ()
    """How roles move together."""
    algorithm: Algorithm
    """How a signal becomes a count."""
    behavior: Behavior = Field(default_factory=Behavior)
    """How fast counts may move."""


class ModelDeploymentScaler(Document, frozen=True):
    """Plans, and in Active mode writes, the replica counts of one ModelDeployment."""

    kind: Literal["ModelDeploymentScaler"] = "ModelDeploymentScaler"
    """Name of the kind."""
    spec: ModelDeploymentScalerSpec
    """The policy."""
    status: Opaque | None = None
    """What was observed, as raw JSON."""
