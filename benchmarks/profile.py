"""Where the time of check and render goes: `python -m benchmarks.profile --write` replaces `benchmarks/profile.md`.

A profiler slows small calls down more than large ones: shares are of profiled time, the seconds of a run without it.
"""

import argparse
import cProfile
import gc
import pstats
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from benchmarks.check_and_render import REPLICAS, ROLES, SIZE

PAGE = Path(__file__).parent / "profile.md"
LISTED = 12
"""Functions listed."""


def run() -> None:
    """Check and render the benchmark's deployment."""
    from benchmarks.inputs import bindings, resolved, ten_roles
    from gpustack_components.bindings.settings import Settings
    from gpustack_components.render.objects import render_all

    for _ in render_all(resolved(ten_roles(REPLICAS, SIZE), bindings(), Settings())):
        pass


def page() -> str:
    """The page: shares by module, then the dearest functions."""
    run()
    gc.collect()
    start = time.perf_counter()
    run()
    plain = time.perf_counter() - start
    profiler = cProfile.Profile()
    profiler.runcall(run)
    functions = _functions(pstats.Stats(profiler))
    total = sum(own for _, _, own, _ in functions)
    modules: Counter[str] = Counter()
    for module, _, own, _ in functions:
        modules[module] += own  # pyright: ignore[reportArgumentType]
    return "\n".join(
        [
            "# Where the time of check and render goes",
            "",
            f"{ROLES} roles x {REPLICAS:,} replicas x size {SIZE}: {plain:.2f} s without a profiler. "
            "Made by `python -m benchmarks.profile --write`.",
            "",
            "| module | share of the time |",
            "|---|---|",
            *(f"| {name} | {100 * own / total:.0f} % |" for name, own in modules.most_common(8)),
            "",
            "| function | calls | own share |",
            "|---|---|---|",
            *(
                f"| {module}: `{name}` | {calls:,} | {100 * own / total:.0f} % |"
                for module, name, own, calls in sorted(functions, key=lambda one: -one[2])[:LISTED]
            ),
            "",
        ]
    )


def _functions(stats: pstats.Stats) -> list[tuple[str, str, float, int]]:
    """Module, function, own seconds and calls of everything that ran."""
    return list(_rows(cast("dict[tuple[str, int, str], tuple[int, int, float, float, object]]", vars(stats)["stats"])))


def _rows(
    stats: dict[tuple[str, int, str], tuple[int, int, float, float, object]],
) -> Iterator[tuple[str, str, float, int]]:
    for (file, _, name), (_, calls, own, _, _) in stats.items():
        path = Path(file)
        inside = "gpustack_components" in path.parts
        module = ".".join(path.parts[path.parts.index("gpustack_components") + 1 :]) if inside else path.name
        yield ("built in" if file == "~" else module.removesuffix(".py")), name, own, calls


def main() -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write benchmarks/profile.md")
    text = page()
    if parser.parse_args().write:
        PAGE.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
