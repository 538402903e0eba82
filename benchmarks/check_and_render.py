"""Check and render of a very large deployment, against writing the same objects as JSON."""

import gc
import json
import sys
from pathlib import Path

from benchmarks.row import Bench, Row, fastest, python
from gpustack_components.cluster.port import Json

ROLES, REPLICAS, SIZE = 10, 1024, 2
WHAT = f"check + render, {ROLES} roles x {REPLICAS:,} replicas x size {SIZE}"
AGAINST = "`json.dumps` of the same objects"


def measure(bench: Bench) -> list[Row]:
    """Time in one process; memory as the peak of a process of its own for each side."""
    from benchmarks.inputs import bindings, resolved, ten_roles
    from gpustack_components.bindings.settings import Settings
    from gpustack_components.render.objects import render_all

    document, known, settings = ten_roles(REPLICAS, SIZE), bindings(), Settings()
    objects = list(render_all(resolved(document, known, settings)))

    def product() -> None:
        list(render_all(resolved(document, known, settings)))

    def baseline_side(objects: list[Json] = objects) -> None:
        json.dumps(objects)

    gc.collect()
    ours, baseline = fastest(bench.rounds, product, baseline_side)
    stored = bench.folder / "objects.json"
    stored.write_text(json.dumps(objects))
    count = len(objects)
    del objects
    peaks = [
        int(python("-m", "benchmarks.check_and_render", side, str(stored))) for side in ("ours", "baseline", "none")
    ]
    our_peak, base_peak = (peak - peaks[2] for peak in peaks[:2])
    return [
        Row(f"{WHAT}: time", AGAINST, ours / baseline, 3, detail=f"{ours:.2f} s : {baseline:.2f} s, {count:,} objects"),
        Row(
            f"{WHAT}: memory",
            f"{AGAINST}, read and written",
            our_peak / base_peak,
            2,
            detail=f"{our_peak / 1024:.0f} MiB : {base_peak / 1024:.0f} MiB",
        ),
    ]


def _peak(side: str, stored: Path) -> int:
    """The largest resident size of this process in KiB after doing one side's work."""
    from benchmarks.inputs import bindings, resolved, ten_roles
    from gpustack_components.bindings.settings import Settings
    from gpustack_components.render.objects import render_all

    small = list(render_all(resolved(ten_roles(1, 1), bindings(), Settings())))
    kept: object = small
    if side == "ours":
        kept = list(render_all(resolved(ten_roles(REPLICAS, SIZE), bindings(), Settings())))
    elif side == "baseline":
        objects = json.loads(stored.read_text())
        kept = objects, json.dumps(objects)
    assert kept
    return peak_kib()


def peak_kib() -> int:
    """The largest resident size this program has had; `getrusage` would include its parent's before the exec."""
    status = Path("/proc/self/status")
    if not status.exists():
        raise OSError("memory is measured on Linux only")
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM:"))


if __name__ == "__main__":
    print(_peak(sys.argv[1], Path(sys.argv[2])))
