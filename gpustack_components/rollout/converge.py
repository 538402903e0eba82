"""The two doors of the rollout: `converge` brings a deployment to what is wanted, `teardown` removes it.

Both resume where an earlier run ended, whatever ended it: everything that must survive is in the record in the cluster.
"""

from gpustack_components.cluster.port import Cluster, Stop
from gpustack_components.rollout.contract import (
    Clock,
    Outcome,
    Phase,
    Progress,
    RolloutRefused,
    Timeouts,
    Wanted,
)

__all__ = ["Clock", "Outcome", "Phase", "Progress", "RolloutRefused", "Timeouts", "Wanted", "converge", "teardown"]


def _silent(line: str) -> None:
    del line


def converge(
    cluster: Cluster,
    wanted: Wanted,
    *,
    timeouts: Timeouts | None = None,
    progress: Progress = _silent,
    stop: Stop | None = None,
    clock: Clock | None = None,
) -> Outcome:
    """Bring the deployment to `wanted`, one replica of a role at a time, and wait until all of it is admitted (and ready, if asked).

    Raises `RolloutRefused` and `ClusterError` only before its first side effect; afterwards every end is an `Outcome`. Takes no write when
    nothing has to change. Ends within a second of `stop`.
    """
    raise NotImplementedError


def teardown(
    cluster: Cluster,
    namespace: str,
    name: str,
    *,
    owner: str,
    holder: str,
    timeouts: Timeouts | None = None,
    progress: Progress = _silent,
    stop: Stop | None = None,
    clock: Clock | None = None,
) -> Outcome:
    """Remove Pods, Workloads, instance Services, record and Lease, and wait until they are gone.

    Raises `RolloutRefused` when the record belongs to another owner and `ClusterError` before its first side effect. A run that could not finish
    returns `Incomplete` with what hangs; running it again resumes. A deployment that is not there is `Deleted`.
    """
    raise NotImplementedError
