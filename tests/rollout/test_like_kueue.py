"""The simulated Kueue is honest: whatever the real one shows of a random trace, the simulated one can show too.

`KUEUE_TRACES` says how many traces, `KUEUE_TRACES_FROM` where their seeds begin; by default 50 from 0.
"""

import os
import uuid
from collections.abc import Iterator

import pytest

from gpustack_components.cluster.client import connect
from gpustack_components.cluster.port import Kind
from sandbox.cluster import Sandbox
from tests.rollout.alike.real import Watcher, play
from tests.rollout.alike.traces import trace
from tests.rollout.side_by_side import SideBySide, chosen

pytestmark = pytest.mark.cluster

FROM = int(os.environ.get("KUEUE_TRACES_FROM", "0"))
SEEDS = range(FROM, FROM + int(os.environ.get("KUEUE_TRACES", "50")))
AT_ONCE = 25
PRIORITY_CLASSES = Kind("kueue.x-k8s.io/v1beta2", "WorkloadPriorityClass", "workloadpriorityclasses", namespaced=False)


@pytest.fixture(scope="module")
def played(sandbox: Sandbox, request: pytest.FixtureRequest) -> Iterator[SideBySide]:
    """The traces that this session asks for, many at a time."""
    cluster, watcher = connect(str(sandbox.kubeconfig)), Watcher(str(sandbox.kubeconfig))
    important = f"alike-{uuid.uuid4().hex[:8]}"
    kind = {"apiVersion": PRIORITY_CLASSES.api_version, "kind": PRIORITY_CLASSES.kind}
    cluster.create({**kind, "metadata": {"name": important}, "value": 100})
    traces = SideBySide(sandbox.kubeconfig, AT_ONCE)
    for (seed,) in chosen(request, "seed"):
        traces.begin(seed, lambda lab, seed=seed: play(lab, watcher.namespace(lab.namespace), trace(seed), important))
    yield traces
    traces.close()
    watcher.close()
    cluster.delete(PRIORITY_CLASSES, None, important)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_trace_on_the_real_kueue_goes_as_it_can_go_on_the_simulated_one(played: SideBySide, seed: int) -> None:
    differences = played.outcome(seed)
    assert not differences, "\n".join(differences)
