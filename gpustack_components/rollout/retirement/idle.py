"""What an engine's metrics say about the requests in it: idle, or why that cannot be said (rollout sheet 7.1, 7.2)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

_SAMPLE = re.compile(
    r'(?P<name>[a-zA-Z_:][\w:]*)(?:\s*\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\})?\s+(?P<value>\S+)(?:\s+-?\d+)?\s*'
)
_NAME = re.compile(r"[a-zA-Z_:][\w:]*")


@dataclass(frozen=True, slots=True)
class Reading:
    """One member, read once."""

    pod: str
    """The Pod's name."""
    incarnation: str
    """Which start of its container answered."""
    trouble: str
    """Why it does not count as idle, a word and a clause; empty when it does."""


def trouble_in(metrics: str, gauges: Iterable[str]) -> str:
    """Why an engine that answered with these metrics does not count as idle; empty when every expected gauge is there
    and zero."""
    if not metrics.endswith("\n"):
        return "IncompleteMetrics: the answer of {pod} breaks off"
    found = _samples(metrics)
    for gauge in gauges:
        values = found.get(gauge)
        if not values:
            return f"MissingGauge: {{pod}} does not report {gauge}"
        for value in values:
            number = _number(value)
            if number is None or not isfinite(number) or number < 0:
                return f"UnreadableGauge: {{pod}} reports {value[:20]} for {gauge}"
            if number > 0:
                return f"Busy: {{pod}} still has requests ({gauge})"
    return ""


def verdict(round_: Sequence[Reading], before: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Why the members of one round do not count as idle twice in a row, empty when they do; and what the next round is
    compared with, which is nothing unless all of this one were idle.

    `before` holds the incarnation by Pod of the round before, when that was idle.
    """
    if not round_:
        return "UnreadableShape: which of its members answer requests cannot be told", {}
    for reading in round_:
        if reading.trouble:
            return reading.trouble, {}
    now = {reading.pod: reading.incarnation for reading in round_}
    if before and any(before.get(pod) != incarnation for pod, incarnation in now.items()):
        pod = next(pod for pod, incarnation in now.items() if before.get(pod) != incarnation)
        return f"Restarted: Pod {pod} was started again meanwhile", now
    return ("" if before else "IdleOnce: every answering member was idle, to be confirmed"), now


def _samples(metrics: str) -> dict[str, list[str]]:
    """The values of each metric, as written; a line that is no sample gives an unreadable value to the metric it
    begins with."""
    found: dict[str, list[str]] = {}
    for line in metrics.splitlines():
        name = _NAME.match(line)
        if name is None:
            continue
        sample = _SAMPLE.fullmatch(line)
        found.setdefault(name[0], []).append(sample["value"] if sample is not None else "nothing readable")
    return found


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
