"""Fixtures for tests on a live cluster.

All tests of a run share one sandbox: a fresh one, or the one in the folder that `GPUSTACK_SANDBOX` names. Tests keep
apart by namespace. A test that stops or breaks parts of the cluster asks for `private_sandbox` instead.
"""

import contextlib
import fcntl
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from sandbox.cluster import Sandbox, sweep
from sandbox.processes import identify, wait_until

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background jobs ignore Ctrl-C, and so would every process that a test starts and interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run and no limit of time, wherever the tests run; `long` looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", derandomize=False, deadline=None, max_examples=100_000)
settings.load_profile("repeatable")

INSTANCES = Path(__file__).parent.parent / ".sandbox" / "tests"
"""Where test runs keep their instances, so that the next run can stop those of a run that was killed."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what needs nothing first, then what needs a cluster, then what needs the engine too."""

    def weight(item: pytest.Item) -> int:
        return 2 if item.get_closest_marker("engine") else 1 if item.get_closest_marker("cluster") else 0

    items.sort(key=weight)


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """The cluster shared by the whole run, all workers of pytest-xdist included."""
    given = os.environ.get("GPUSTACK_SANDBOX")
    if given:
        yield Sandbox.attach(Path(given))
        return
    sweep(INSTANCES)
    directory = INSTANCES / os.environ.get("PYTEST_XDIST_TESTRUNUID", uuid.uuid4().hex)[:12]
    # Workers come and go one by one; the process that started them is there until the last has ended.
    owner = identify(os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid())
    with _one_of_several(directory) as is_last:
        shared = Sandbox.start(directory, owner=owner)
        yield shared
        if is_last():
            shared.stop()


@pytest.fixture
def private_sandbox() -> Iterator[Sandbox]:
    """A cluster of the test's own, to be broken at will."""
    own = Sandbox.start(INSTANCES / f"private-{uuid.uuid4().hex[:8]}", owner=identify(os.getpid()))
    yield own
    own.stop()


@pytest.fixture(scope="module")
def breakable_sandbox() -> Iterator[Sandbox]:
    """A cluster that the tests of one file break one after the other; each leaves it whole."""
    own = Sandbox.start(INSTANCES / f"private-{uuid.uuid4().hex[:8]}", owner=identify(os.getpid()))
    yield own
    own.stop()


@pytest.fixture
def kubeconfig(sandbox: Sandbox) -> Path:
    """Kubeconfig of the shared cluster's administrator."""
    return sandbox.kubeconfig


@pytest.fixture
def core(kubeconfig: Path) -> Iterator[Any]:
    """`kubernetes.client.CoreV1Api` of the shared cluster."""
    from kubernetes import client, config

    with config.new_client_from_config(str(kubeconfig)) as connection:
        yield client.CoreV1Api(connection)


@pytest.fixture
def namespace(core: Any) -> Iterator[str]:
    """A namespace of the test's own, usable at once; deleted afterwards with its Pods, whatever holds them."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    core.create_namespace({"metadata": {"name": name}})

    def has_service_account() -> bool:
        return any(account.metadata.name == "default" for account in core.list_namespaced_service_account(name).items)

    assert wait_until(has_service_account, seconds=30), "the namespace did not get its default service account"
    yield name
    core.delete_namespace(name)
    for pod in core.list_namespaced_pod(name).items:
        with contextlib.suppress(Exception):
            core.patch_namespaced_pod(pod.metadata.name, name, {"metadata": {"finalizers": None}})
            core.delete_namespaced_pod(pod.metadata.name, name, grace_period_seconds=0)


@contextlib.contextmanager
def _one_of_several(directory: Path) -> Iterator[Callable[[], bool]]:
    """Count the workers that use an instance; the function given says, at the end, whether this is the last."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    counter = directory.with_suffix(".users")

    def add(change: int) -> int:
        with counter.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            count = int(file.read() or 0) + change
            file.truncate(0)
            file.write(str(count))
            return count

    add(1)
    left = False

    def is_last() -> bool:
        nonlocal left
        left = True
        return add(-1) == 0

    try:
        yield is_last
    finally:
        if not left:
            add(-1)
