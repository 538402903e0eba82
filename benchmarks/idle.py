"""What a run asks of the API server while it waits, for quota or for a Pod to exit, and nothing changes."""

import threading
import time
from dataclasses import replace

from benchmarks.row import Bench, Row
from benchmarks.turnover import laboratory
from gpustack_components.cluster.port import POD
from gpustack_components.cluster.readings import name
from gpustack_components.rollout.contract import Timeouts
from tests.rollout.lab import HANG, Lab, Role

SETTLED, WINDOW = 6.0, 20.0
PATIENT = Timeouts(admission=600, ready=0, drain=600, lease=5)


def measure(bench: Bench) -> list[Row]:
    """Requests within a window in which a replica waits for quota, and in one in which a Pod takes long to exit."""
    with laboratory(bench, cards=1) as lab:
        admission = _watched("waiting for admission", lab, Role(replicas=2))
        lab.up(replace(PATIENT, ready=60), server=Role())
        (hanging,) = lab.pods()
        path = f"/metadata/annotations/{HANG.replace('/', '~1')}"
        lab.unseen.patch(POD, lab.namespace, name(hanging), [{"op": "add", "path": path, "value": "true"}])
        drain = _watched("waiting for a Pod to exit", lab, Role("v2"))
        lab.unseen.patch(POD, lab.namespace, name(hanging), [{"op": "remove", "path": path}])
    return [admission, drain]


def _watched(what: str, lab: Lab, role: Role) -> Row:
    """A run that waits, looked at for a while and then stopped."""
    what, stop = f"{what}, {WINDOW:g} s", threading.Event()
    waiting = threading.Thread(target=lambda: lab.up(PATIENT, stop=stop, server=role), daemon=True)
    waiting.start()
    time.sleep(SETTLED)
    before = len(lab.requests)
    time.sleep(WINDOW)
    asked = lab.requests[before:]
    ended_early = not waiting.is_alive()
    stop.set()
    waiting.join(10)
    if ended_early:
        return Row(what, "-", None, 0, "requests", f"the run ended instead of waiting: {lab.lines[-1:]}")
    return Row(what, "-", len(asked), 0, "requests", ", ".join(f"{one.verb} {one.subject}" for one in asked[:3]))
