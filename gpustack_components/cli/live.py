"""Reading a cluster for a command: binding objects, and errors turned into sentences with exit code 4."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpustack_components.cli.guard import CommandError, ExitCode, complain
from gpustack_components.cluster.binding_objects import API_VERSION, Reading, read_all

if TYPE_CHECKING:
    from gpustack_components.bindings.resolve import ResolvedDeployment
    from gpustack_components.cluster.port import Cluster


@contextmanager
def reaching(kubeconfig: str | None, context: str | None) -> "Generator[Cluster]":
    """A cluster to read; any failure to do so ends the command with a sentence and exit code 4."""
    from gpustack_components.cluster.client import connect
    from gpustack_components.cluster.port import ClusterError

    try:
        yield connect(kubeconfig, context)
    except ClusterError as failure:
        raise CommandError(str(failure), code=ExitCode.CLUSTER) from None


def bindings_of(kubeconfig: str | None, context: str | None) -> Reading:
    """The binding objects of the cluster that kubeconfig and context name."""
    with reaching(kubeconfig, context) as cluster:
        return read_bindings(cluster)


def read_bindings(cluster: "Cluster") -> Reading:
    """The binding objects of all kinds the cluster serves; says what may not be read, and when it serves none of the
    operator's."""
    reading = read_all(cluster)
    for sentence in reading.unread:
        complain(f"--live: {sentence}")
    if not reading.kinds and not reading.unread:
        complain(f"--live: the cluster serves no kind of {API_VERSION}, so only what the files declare is known")
    return reading


def with_weights(cluster: "Cluster", resolved: "ResolvedDeployment") -> "ResolvedDeployment":
    """The deployment with what holds its Pods back because their weights cannot reach them in this cluster; says what
    may not be read."""
    from gpustack_components.rollout.weights import look

    found, unread = look(cluster, resolved)
    for sentence in unread:
        complain(f"--live: {sentence}")
    return found
