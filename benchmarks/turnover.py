"""Turning one replica over on an idle Kueue, against the shortest script that does the same without any care."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.row import Bench, Row, alternate
from gpustack_components.cluster.client import Client, connect
from gpustack_components.cluster.port import NAMESPACE, POD, WORKLOAD, Json
from gpustack_components.cluster.readings import admitted, gated, name, owner_uids, terminal, terminating, uid
from gpustack_components.rollout.contract import Timeouts
from tests.rollout.lab import Lab, Role

SIZES = (1, 2, 4)
FEW = 4
SELECTOR = "app.kubernetes.io/instance=qwen"
PATIENT = Timeouts(admission=60, ready=0, drain=60, lease=5)


def measure(bench: Bench) -> list[Row]:
    """What each further replica of a run costs, in time and in calls: the run's own start and end left out."""
    with laboratory(bench, cards=FEW) as lab:
        edits = iter(range(1, 10_000))
        few, one = alternate(bench.rounds, _run(lab, FEW, edits), _run(lab, 1, edits))
        lab.set_quota(2 * max(SIZES))
        calls = [_calls(lab, 2, size, edits) - _calls(lab, 1, size, edits) for size in SIZES]
        lab.set_quota(FEW)
        lab.down()
        (scripted,) = alternate(bench.rounds * 2, _script(lab))
    ours = (few - one) / (FEW - 1)
    what = "one replica turned over, Kueue idle"
    against = "a bare script that deletes and creates the same group"
    detail = f"{ours:.2f} s : {scripted:.2f} s; a whole run of one {one:.2f} s"
    return [
        Row(what, against, ours / scripted, 1.2, detail=detail),
        *(
            Row(f"{what}, size {size}: API calls", "-", asked, 12 + 4 * size, "calls", "each further replica of a run")
            for size, asked in zip(SIZES, calls, strict=True)
        ),
    ]


@contextmanager
def laboratory(bench: Bench, cards: int) -> Iterator[Lab]:
    """A namespace with a queue of its own in the sandbox; removed afterwards."""
    kubeconfig = bench.sandbox().kubeconfig
    cluster = connect(str(kubeconfig))
    namespace = f"bench-{uuid.uuid4().hex[:8]}"
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}}
    while cluster.apply(account, force=True) is None:
        time.sleep(0.1)
    lab = Lab(kubeconfig, namespace)
    lab.open_queue(cards)
    try:
        yield lab
    finally:
        lab.close()
        cluster.delete(NAMESPACE, None, namespace)


def _run(lab: Lab, replicas: int, edits: Iterator[int]) -> Callable[[], float]:
    """A run that turns all of these replicas over."""

    def turn_over() -> float:
        lab.up(PATIENT, server=Role(config=f"v{next(edits)}", replicas=replicas))
        started = time.monotonic()
        outcome = lab.up(PATIENT, server=Role(config=f"v{next(edits)}", replicas=replicas))
        assert outcome.phase == "Converged", outcome.reasons
        return time.monotonic() - started

    return turn_over


def _calls(lab: Lab, replicas: int, size: int, edits: Iterator[int]) -> int:
    """Requests of a run that turns all of these replicas over."""
    lab.up(PATIENT, server=Role(config=f"v{next(edits)}", replicas=replicas, size=size))
    before = len(lab.requests)
    outcome = lab.up(PATIENT, server=Role(config=f"v{next(edits)}", replicas=replicas, size=size))
    assert outcome.phase == "Converged", outcome.reasons
    return len(lab.requests) - before


def _script(lab: Lab) -> Callable[[], float]:
    """Deletes the Pod, then its Workload, waits until both are gone, creates the Pod, waits until it is admitted."""
    from tests.rollout.lab import wanted

    cluster, space = lab.unseen, lab.namespace
    manifest = dict(wanted(space, {"server": Role()}).render("server", 0).members[0])
    owner = cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": space}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid(owner)}
    manifest["metadata"] = {**manifest["metadata"], "ownerReferences": [reference]}

    def create() -> None:
        made = cluster.create(manifest)
        _until(lambda: _runs(cluster, space, uid(made)))

    def turn_over() -> float:
        started = time.monotonic()
        for pod in cluster.list(POD, space, SELECTOR).items:
            cluster.delete(POD, space, name(pod), uid=uid(pod))
        _until(lambda: all(terminal(pod) for pod in cluster.list(POD, space, SELECTOR).items))
        for workload in cluster.list(WORKLOAD, space).items:
            cluster.delete(WORKLOAD, space, name(workload), uid=uid(workload))
        _until(lambda: not cluster.list(POD, space, SELECTOR).items and not cluster.list(WORKLOAD, space).items)
        create()
        return time.monotonic() - started

    create()
    return turn_over


def _runs(cluster: Client, namespace: str, pod_uid: str) -> bool:
    pods: list[Json] = [pod for pod in cluster.list(POD, namespace, SELECTOR).items if uid(pod) == pod_uid]
    groups = cluster.list(WORKLOAD, namespace).items
    ready = any(admitted(group) and pod_uid in owner_uids(group) for group in groups)
    return ready and all(not gated(pod) and not terminating(pod) for pod in pods)


def _until(condition: Callable[[], bool], every: float = 0.01) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the script's turnover did not end within a minute"
        time.sleep(every)
