"""Runs many scenarios of one file at the same time, each in a namespace of its own; each test then asks for its own.

A scenario spends its time waiting for Pods to exit and for Kueue, so a dozen of them take little longer than one.
"""

import contextlib
import time
import uuid
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gpustack_components.cluster.client import Client, connect
from gpustack_components.cluster.port import NAMESPACE, POD
from gpustack_components.cluster.readings import name
from tests.rollout.lab import Lab

CPU = "cpu"
"""The resource that scenarios are admitted by: the sandbox has hundreds, and sixteen GPUs."""


@contextlib.contextmanager
def open_lab(kubeconfig: Path) -> Iterator[Lab]:
    """A namespace with a deployment's lab in it; removed afterwards with its Pods, whatever holds them."""
    cluster = connect(str(kubeconfig))
    namespace = f"test-{uuid.uuid4().hex[:10]}"
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    cluster.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}},
        force=True,
    )
    lab = Lab(kubeconfig, namespace, resource=CPU)
    try:
        yield lab
    finally:
        lab.close()
        cluster.delete(NAMESPACE, None, namespace)
        _clear(cluster, namespace)


def _clear(cluster: Client, namespace: str) -> None:
    for pod in cluster.list(POD, namespace).items:
        with contextlib.suppress(Exception):
            if pod["metadata"].get("finalizers"):
                cluster.patch(POD, namespace, name(pod), [{"op": "remove", "path": "/metadata/finalizers"}])
            cluster.delete(POD, namespace, name(pod), grace_seconds=0)


class SideBySide:
    """Scenarios that were started; `outcome` waits for one of them and raises what it raised."""

    def __init__(self, kubeconfig: Path, width: int) -> None:
        self._kubeconfig = kubeconfig
        self._pool = ThreadPoolExecutor(width, thread_name_prefix="scenario")
        self._futures: dict[Hashable, Future[Any]] = {}

    def begin(self, key: Hashable, scenario: Callable[[Lab], Any]) -> None:
        """Run a scenario as soon as there is room."""

        def run() -> Any:
            with open_lab(self._kubeconfig) as lab:
                try:
                    return scenario(lab)
                except Exception as error:
                    error.add_note("\n".join(("what the runs said:", *lab.lines)))
                    raise

        self._futures[key] = self._pool.submit(run)

    def outcome(self, key: Hashable) -> Any:
        """What that scenario returned."""
        return self._futures[key].result()

    def close(self) -> None:
        """Begin none of those that still wait, and let the others end."""
        self._pool.shutdown(cancel_futures=True)


def chosen(request: pytest.FixtureRequest, *parameters: str) -> Iterator[tuple[Any, ...]]:
    """The values of those parameters in every test of the fixture's file that this session runs."""
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.module is request.module and hasattr(item, "callspec"):
            found = item.callspec.params
            if all(parameter in found for parameter in parameters):
                yield tuple(found[parameter] for parameter in parameters)


def eventually(condition: Callable[[], bool], seconds: float = 20) -> bool:
    """Whether it comes about in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True
