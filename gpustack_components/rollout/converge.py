"""The two doors of the rollout: `converge` brings a deployment to what is wanted, `teardown` removes it.

Both resume where an earlier run ended, whatever ended it: everything that must survive is in the record in the cluster.
"""

from dataclasses import replace
from threading import Event

from gpustack_components.cluster.port import CONFIG_MAP, LEASE, WORKLOAD, Cluster, Forbidden, NotServed, Stop
from gpustack_components.render.version import CURRENT
from gpustack_components.rollout import groups
from gpustack_components.rollout import record as records
from gpustack_components.rollout.acting import Actor
from gpustack_components.rollout.contract import (
    Clock,
    Outcome,
    Phase,
    Progress,
    RenderedReplica,
    RolloutRefused,
    SystemClock,
    Timeouts,
    Wanted,
)
from gpustack_components.rollout.desired import Desired
from gpustack_components.rollout.driver import Driver
from gpustack_components.rollout.lease import DriverLease
from gpustack_components.rollout.liveness import Holder
from gpustack_components.rollout.narrator import Narrator
from gpustack_components.rollout.observe import Workload, observe
from gpustack_components.rollout.preflight import rights_missing
from gpustack_components.rollout.preflight_kueue import missing
from gpustack_components.rollout.record import Record
from gpustack_components.rollout.reporting import Reporter
from gpustack_components.rollout.view import LiveView, View
from gpustack_components.rollout.weights import Awaited, Placement

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
    view: View | None = None,
) -> Outcome:
    """Bring the deployment to `wanted`, one replica of a role at a time, until all is admitted, and ready if asked.

    Raises `RolloutRefused` and `ClusterError` only before its first side effect; afterwards every end is an `Outcome`.
    Takes no write when nothing has to change. Ends within a second of `stop`. `view` replaces how the cluster is
    watched.
    """
    records.check_size(wanted.document)
    desired, timeouts, clock = wanted.desired, timeouts or Timeouts(), clock or SystemClock()
    stop = stop or Event()

    def claim(stored: Record | None) -> Record:
        if stored is None:
            return Record(
                desired.namespace,
                desired.name,
                wanted.owner,
                wanted.document,
                render_version=CURRENT,
                store=wanted.store,
            )
        records.check_owner(stored, wanted.owner, wanted.adopt)
        edited = stored.document != wanted.document
        return replace(
            stored,
            owner=wanted.owner,
            document=wanted.document,
            generation=stored.generation + edited,
            render_version=CURRENT if edited else stored.render_version,
            store=wanted.store,
        )

    narrator = Narrator(desired.name, timeouts, progress)
    looking = view or LiveView(cluster, desired.namespace, desired.name, stop, router=bool(desired.router))
    placement = Placement(cluster, desired.namespace, wanted.artifact, lambda: looking.snapshot().pods)
    driver = Driver(
        cluster=cluster,
        desired=desired,
        actor=Actor(cluster, desired.namespace, desired.name, wanted.render, narrator, clock, placement=placement),
        claim=claim,
        finished=Driver.wait_until_settled,
        view=looking,
        awaited=Awaited(wanted, looking),
        lease=_lease(cluster, desired.namespace, desired.name, wanted.holder, clock),
        timeouts=timeouts,
        narrator=narrator,
        stop=stop,
        clock=clock,
        reporter_of=lambda record: wanted.reporter,
    )
    try:
        return driver.run()
    except NotServed as error:
        raise missing(cluster, desired.namespace, error) from None
    except Forbidden as refused:
        raise rights_missing(cluster, desired.namespace, refused, desired) from None


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
    view: View | None = None,
) -> Outcome:
    """Remove Pods, Workloads, headless Services, record and Lease, and wait until they are gone.

    Raises `RolloutRefused` when the record belongs to another owner, and `ClusterError` before its first side effect.
    A run that could not finish returns `Incomplete` with what hangs; running it again resumes. A deployment that is
    not there is `Deleted`.
    """
    timeouts, clock, stop = timeouts or Timeouts(), clock or SystemClock(), stop or Event()
    desired = Desired(namespace, name, ())
    view = view or LiveView(cluster, namespace, name, stop, without_kueue=True)
    try:
        if _nothing_there(cluster, desired, view):
            view.close()
            return Outcome("Deleted")
    except Forbidden as refused:
        raise rights_missing(cluster, namespace, refused, desired) from None

    def claim(stored: Record | None) -> Record:
        if stored is None:
            return Record(namespace, name, owner, {}, phase="Deleting")
        records.check_owner(stored, owner)
        return replace(stored, phase="Deleting", reasons=(), retirement=None)

    def finished(driver: Driver) -> list[str] | None:
        return _remove_the_rest(driver, cluster)

    narrator = Narrator(name, timeouts, progress)
    driver = Driver(
        cluster=cluster,
        desired=desired,
        actor=Actor(cluster, namespace, name, _renders_nothing, narrator, clock),
        claim=claim,
        finished=finished,
        view=view,
        lease=_lease(cluster, namespace, name, holder, clock),
        timeouts=timeouts,
        narrator=narrator,
        stop=stop,
        clock=clock,
        reporter_of=lambda record: Reporter.of_removal(record.document),
        busy="Deleting",
        goal="Deleted",
    )
    try:
        return driver.run()
    except Forbidden as refused:
        raise rights_missing(cluster, namespace, refused, desired) from None


def _lease(cluster: Cluster, namespace: str, name: str, holder: str, clock: Clock) -> DriverLease:
    return DriverLease(cluster, namespace, records.record_name(name), Holder.here(holder), clock)


def _renders_nothing(role: str, ordinal: int) -> RenderedReplica:
    raise AssertionError(f"a teardown creates nothing, and not {role}/{ordinal}")


def _nothing_there(cluster: Cluster, desired: Desired, view: View) -> bool:
    """Whether neither record nor Lease nor a Pod of this or a former record reads."""
    record_name = records.record_name(desired.name)
    if records.load(cluster, desired.namespace, desired.name) is not None:
        return False
    if cluster.get(LEASE, desired.namespace, record_name) is not None:
        return False
    return not observe(view.fresh().pods, (), "", record_name=record_name).members


def _remove_the_rest(driver: Driver, cluster: Cluster) -> list[str] | None:
    """No Pod is left: wait for the Workloads to go, then remove the record."""
    left = [workload for workload in driver.observed.workloads if _is_left(workload, driver)]
    if left:
        for workload in left:
            if workload.uid in driver.groups and not workload.terminating:
                cluster.delete(WORKLOAD, driver.desired.namespace, workload.name, uid=workload.uid)
        return driver.wait_for_workloads(workload.name for workload in left)
    if driver.stored is not None:
        namespace, record_name = driver.desired.namespace, records.record_name(driver.desired.name)
        cluster.delete(CONFIG_MAP, namespace, record_name, uid=driver.stored.uid)
        driver.stored = None
        driver.narrator.say("removed")
    return []


def _is_left(workload: Workload, driver: Driver) -> bool:
    """Whether it is the Workload of one of the Pods that were removed."""
    if workload.uid in driver.groups:
        return True
    return bool(workload.owners) and workload.name in groups.declared(driver.record)
