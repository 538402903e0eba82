"""What a caller hands to `converge` and `teardown` and what it gets back: the types of the two doors."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from gpustack_components.cluster.port import Json

if TYPE_CHECKING:
    from gpustack_components.bindings.artifact import Artifact
    from gpustack_components.bindings.kv_cache import Store
    from gpustack_components.cluster.weight_objects import Named
    from gpustack_components.rollout.desired import Desired
    from gpustack_components.rollout.record import Record
    from gpustack_components.rollout.reporting import Reporter

Progress = Callable[[str], None]
"""Receives one finished line per state change, e.g. `qwen server/2  admitted after 1.2 s`. Never carries a secret."""

Phase = Literal["Converged", "Progressing", "Incomplete", "Deleting", "Deleted"]
"""Where a deployment stands: everything declared runs admitted; a driver is at work; a driver gave up; being removed;
removed."""


class RolloutRefused(Exception):  # noqa: N818 (as admission and Kubernetes say it)
    """Nothing was begun and nothing was written; `sentences` says why and what to do.

    Raised only before the first side effect: another owner's record, another driver's Lease, a failed preflight.
    """

    def __init__(self, *sentences: str) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = sentences
        """One sentence per reason, each complete by itself."""


class Clock(Protocol):
    """Time as the executor sees it."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        ...

    def now(self) -> datetime:
        """The date and time, in UTC."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let that many seconds pass."""
        ...


class SystemClock:
    """The machine's own time."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start."""
        return time.monotonic()

    def now(self) -> datetime:
        """The date and time, in UTC."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Let that many seconds pass."""
        time.sleep(seconds)


class RenderedReplica(Protocol):
    """What a renderer returns for one replica: `render.replica.Replica`."""

    @property
    def members(self) -> tuple[Json, ...]:
        """The Pods by member index, without owner reference."""
        ...

    @property
    def service(self) -> Json | None:
        """The headless Service of a replica of more than one Pod."""
        ...


_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(duration: str | float) -> float:
    """Seconds of a duration: a number, or text such as `90s`, `30m`, `1h30m`. Raises `ValueError` with a sentence."""
    if isinstance(duration, bool):
        raise ValueError(f"{duration!r} is no duration; write for example 90s, 30m or 1h30m")
    if not isinstance(duration, str) or re.fullmatch(r"\d+(\.\d+)?", duration.strip()):
        value = float(duration)
    elif _PART.sub("", text := duration.strip()) == "" and text:
        value = sum(float(amount) * _SECONDS[unit] for amount, unit in _PART.findall(text))
    else:
        raise ValueError(f"{duration!r} is no duration; write for example 90s, 30m or 1h30m")
    if not 0 <= value < float("inf"):
        raise ValueError(f"{duration!r} is no duration; it must not be negative, and must end")
    return value


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a run waits, in seconds, for one replica to pass each phase.

    When it has passed, the run ends Incomplete with everything kept as it is; the next run goes on.
    """

    admission: float = 1800.0
    """For Kueue to admit a replica that waits; 30 minutes."""
    ready: float = 1200.0
    """For the last replica to become Ready once all are admitted; 20 minutes. 0 does not wait: readiness never gates
    the rollout itself."""
    drain: float = 300.0
    """For deleted Pods to exit and be released; 5 minutes. A replica's termination grace period is added to it."""
    weights: float = 1800.0
    """For what holds a deployment's weights back to be put right, such as an artifact that is not resolved yet; 30
    minutes."""
    lease: float = 20.0
    """For another driver that is just ending to release the Lease; 20 seconds."""

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Self:
        """From a person's `{"admission": "30m", "ready": "20m", "drain": 300}`; absent ones keep their default.

        Raises `ValueError` whose text has one line per wrong entry, each beginning with its path `timeouts.<name>`.
        """
        wrong: list[str] = []
        read: dict[str, float] = {}
        for name, value in values.items():
            if name not in cls.__slots__:
                wrong.append(f"timeouts.{name}: there is no such timeout; the timeouts are {', '.join(cls.__slots__)}")
                continue
            if value is None:
                continue
            try:
                read[name] = seconds(value)
            except (TypeError, ValueError) as error:
                wrong.append(f"timeouts.{name}: {error}")
        if wrong:
            raise ValueError("\n".join(wrong))
        return cls(**read)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a driver brings about: the desired state, how to render a replica of it, and in whose name."""

    desired: "Desired"
    """What the planner compares with."""
    render: Callable[[str, int], RenderedReplica]
    """The Pods and Service of one replica, by role and ordinal."""
    document: Json
    """The accepted, defaulted ModelDeployment as JSON; kept in the record, never with a secret in it."""
    owner: str
    """Who the deployment belongs to, e.g. `pulumi stack acme/llm/prod`; kept in the record, checked before every
    write."""
    holder: str
    """Who drives right now, in words, e.g. `ada (pulumi stack acme/llm/prod)`; host and process are added to it."""
    adopt: frozenset[str] = field(default_factory=frozenset[str])
    """Owners whose record may be taken over, e.g. the stack's former name. A record without an owner is free."""
    store: "Store | None" = None
    """The KV cache store it renders; kept in the record, so that a Binding that is away for a while rolls nothing."""
    reporter: "Reporter | None" = None
    """Makes its status document, which is kept in the record; None leaves the record without one."""
    artifact: "Artifact | None" = None
    """The weights its Pods are given; they decide which nodes suit a Pod that is created."""
    awaits: "tuple[Named, ...]" = ()
    """The objects whose change may end what holds it back."""
    again: "Callable[[], Wanted] | None" = None
    """What is wanted now, read anew once one of `awaits` has changed; None: a run that is held ends at once. Raises
    `ClusterError`, and `RolloutRefused` when it cannot be brought about any more."""

    @classmethod
    def of(
        cls,
        resolved: Any,
        document: Json,
        *,
        owner: str,
        holder: str,
        adopt: frozenset[str] = frozenset(),
        again: "Callable[[], Wanted] | None" = None,
    ) -> Self:
        """From a `bindings.resolve.ResolvedDeployment` and the document it was resolved from."""
        from gpustack_components.render.replica import render_replica
        from gpustack_components.rollout.desired import Desired
        from gpustack_components.rollout.reporting import Reporter
        from gpustack_components.rollout.weights import awaited

        desired = Desired.of(resolved)

        def render(role: str, ordinal: int) -> RenderedReplica:
            return render_replica(resolved, role, ordinal)

        return cls(
            desired,
            render,
            document,
            owner,
            holder,
            adopt,
            resolved.store,
            Reporter.of(resolved, desired),
            artifact=resolved.artifact,
            awaits=awaited(resolved),
            again=again,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. `Incomplete` is a result, not an exception: everything is kept, and the next run resumes."""

    phase: Phase
    """`Converged` or `Incomplete` from `converge`; `Deleted` or `Incomplete` from `teardown`."""
    reasons: tuple[str, ...] = ()
    """Why it is Incomplete: each names the replica, what it waits for in Kueue's own words, and what to do."""
    record: "Record | None" = None
    """The record as last written; None when there is none (any more)."""
    interrupted: bool = False
    """True when `stop` ended the run."""
    wrote: bool = False
    """True when the run changed anything in the cluster; a second run without an edit must not."""
    answers: bool = False
    """Whether a router replica was ready at the end; False without a router."""
    absent: tuple[str, ...] = ()
    """Services in front of roles that were not there."""
