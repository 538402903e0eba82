"""What is said of a replica that a queue can never hold, however long one waits: one sentence for forecasts and status
alike."""

from typing import Literal

Lessening = Literal["the replica asks for less", "replicas is lowered"]
"""What would help beside more quota: the first when one replica alone is too large, the second when all of them are."""


def never_fits_until(queue: str, lessening: Lessening = "the replica asks for less") -> str:
    """What would release it, as a clause."""
    return f"the quota of {queue} is raised or {lessening}; waiting does not help"
