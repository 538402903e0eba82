"""Why a replica cannot be rendered, as values (rendering sheet 18)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RenderFailure:
    """One reason why a role's Pods cannot be rendered: the event `RenderFailed` carries its message."""

    role: str
    """Name of the role; empty when the whole deployment is meant."""
    message: str
    """One sentence: what was found and the way out."""
    retryable: bool = False
    """True when the same documents may render later, once another object is observed."""

    def __str__(self) -> str:
        return f"role {self.role}: {self.message}" if self.role else self.message


@dataclass(frozen=True, slots=True)
class Hold:
    """Why no Pod may be created yet although nothing is wrong: running Pods stay, rollouts wait (bindings sheet
    5.6)."""

    reason: str
    """Reason of the condition `WeightsReady`, e.g. `ArtifactNotResolved`."""
    message: str
    """One sentence: what is waited for and the way out."""

    def __str__(self) -> str:
        return f"{self.message} ({self.reason})"
