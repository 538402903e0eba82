"""What a run asks of the API server while it waits for admission and nothing changes."""

import threading
import time

from benchmarks.row import Bench, Row
from benchmarks.turnover import laboratory
from gpustack_components.rollout.contract import Timeouts
from tests.rollout.lab import Role

SETTLED, WINDOW = 5.0, 20.0


def measure(bench: Bench) -> list[Row]:
    """Requests within a window in which a replica waits for quota."""
    what = f"waiting for admission, {WINDOW:g} s"
    with laboratory(bench, cards=1) as lab:
        stop = threading.Event()
        patient = Timeouts(admission=600, ready=0, drain=60, lease=5)
        roles = {"server": Role(replicas=2)}
        waiting = threading.Thread(target=lambda: lab.up(patient, stop=stop, **roles), daemon=True)
        waiting.start()
        time.sleep(SETTLED)
        before = len(lab.requests)
        time.sleep(WINDOW)
        asked = lab.requests[before:]
        ended_early = not waiting.is_alive()
        stop.set()
        waiting.join(10)
    if ended_early:
        return [Row(what, "-", None, 0, "requests", f"the run ended instead of waiting: {lab.lines[-1:]}")]
    return [Row(what, "-", len(asked), 0, "requests", ", ".join(f"{one.verb} {one.subject}" for one in asked[:3]))]
