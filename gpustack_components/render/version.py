"""The render version new Pods are stamped with, and the floor below which a replica is outdated (rollout sheet
2.2)."""

CURRENT = 1
"""Baseline of this release: raised when what is synthesized changes in a way worth telling apart."""
MIN_SUPPORTED = 1
"""Oldest baseline that may keep running; raised only by a release that must roll every replica."""
_LONGEST = 19


def floor(requested: str | None, *, current: int = CURRENT, min_supported: int = MIN_SUPPORTED) -> int:
    """The floor a deployment's `min-render-version` annotation gives: clamped, and the minimum when absent or
    unreadable."""
    wanted = read(requested)
    return min_supported if wanted is None else min(max(wanted, min_supported), current)


def read(text: str | None) -> int | None:
    """The version an annotation states; None when absent or not a decimal number of 64 bits' length."""
    if text is None or len(text) > _LONGEST or not (text.isascii() and text.isdecimal()):
        return None
    return int(text)


def outdated(stamped: str | None, floor_version: int) -> bool:
    """Whether a Pod of that `render-version` annotation is under the floor; one without or with an unreadable one
    reads as 0."""
    return (read(stamped) or 0) < floor_version
