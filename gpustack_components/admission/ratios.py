"""Questions about ratios between roles: cycles, reach, and whether any counts satisfy them (scaler sheet 2)."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor

from gpustack_components.api.scaler import Ratio

Bounds = Mapping[str, tuple[int, int]]
"""Smallest and largest count per role."""


def ratio_cycle(ratios: Sequence[Ratio]) -> tuple[str, ...]:
    """The roles on a cycle that the ratios close, as edges without direction; empty when there is none."""
    neighbours = _neighbours(enumerate(ratios))
    seen: set[str] = set()
    for start in neighbours:
        if start in seen:
            continue
        parents: dict[str, tuple[str, int]] = {start: ("", -1)}
        waiting = [start]
        while waiting:
            role = waiting.pop()
            seen.add(role)
            for index, other in neighbours[role]:
                if index == parents[role][1]:
                    continue
                if other in parents:
                    return _loop(parents, role, other)
                parents[other] = (role, index)
                waiting.append(other)
    return ()


def _loop(parents: Mapping[str, tuple[str, int]], one: str, other: str) -> tuple[str, ...]:
    """The cycle that an edge between two nodes of one tree closes."""
    up, down = _ancestors(parents, one), _ancestors(parents, other)
    meeting = next(role for role in up if role in down)
    return (*up[: up.index(meeting) + 1], *reversed(down[: down.index(meeting)]))


def _ancestors(parents: Mapping[str, tuple[str, int]], role: str) -> list[str]:
    chain: list[str] = []
    while role:
        chain.append(role)
        role = parents[role][0]
    return chain


def reachable(signals: Iterable[str], ratios: Sequence[Ratio]) -> frozenset[str]:
    """Roles with a signal, and roles that a chain of ratios couples to one."""
    neighbours = _neighbours(enumerate(ratios))
    waiting = list(signals)
    found: set[str] = set()
    while waiting:
        role = waiting.pop()
        if role not in found:
            found.add(role)
            waiting.extend(other for _, other in neighbours.get(role, ()))
    return frozenset(found)


def infeasible_ratio(bounds: Bounds, ratios: Sequence[tuple[int, Ratio]]) -> int | None:
    """The index of a ratio that leaves no counts within the bounds, given the others; None when some satisfy all.

    The ratios form a forest, so each tree is settled from its leaves: of every role, the counts its subtree allows.
    """
    by_index = dict(ratios)
    neighbours = _neighbours(ratios)
    settled: set[str] = set()
    for root in bounds:
        if root in settled:
            continue
        tree: list[tuple[str, int, str]] = [(root, -1, "")]
        for role, through, _ in tree:
            tree.extend((other, index, role) for index, other in neighbours.get(role, ()) if index != through)
        counts = {role: list(range(bounds[role][0], bounds[role][1] + 1)) for role, _, _ in tree}
        settled.update(counts)
        for role, index, parent in reversed(tree[1:]):
            ratio, below = by_index[index], counts[role]
            counts[parent] = [count for count in counts[parent] if _any_fits(ratio, parent, count, below)]
            if not counts[parent]:
                return index
    return None


def _any_fits(ratio: Ratio, role: str, count: int, others: Sequence[int]) -> bool:
    """Whether one of the ascending counts of the other role satisfies the ratio's band beside this count."""
    least = ratio.min.value if ratio.min is not None else Fraction(0)
    most = ratio.max.value if ratio.max is not None else None
    if role == ratio.numerator_role:
        low = ceil(count / most) if most is not None else 0
        high = floor(count / least) if least else None
    else:
        low = ceil(least * count)
        high = floor(most * count) if most is not None else None
    position = bisect_left(others, low)
    return position < len(others) and (high is None or others[position] <= high)


def _neighbours(ratios: Iterable[tuple[int, Ratio]]) -> dict[str, list[tuple[int, str]]]:
    found: dict[str, list[tuple[int, str]]] = {}
    for index, ratio in ratios:
        found.setdefault(ratio.numerator_role, []).append((index, ratio.denominator_role))
        found.setdefault(ratio.denominator_role, []).append((index, ratio.numerator_role))
    return found
