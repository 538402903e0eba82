"""What others do to a replica, by every row of Kueue's facts (sections 3 to 5), and what one run makes of it.

Each row strikes replica 1 of two, for servers that exit 0 and that exit 1. Afterwards a run converges: no Pod is held
by a finalizer, no Workload stands for Pods that are gone, the quota in use is that of the two replicas, Kueue deletes
no Pod of the driver's as excess, and the sibling was not touched.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import CLUSTER_QUEUE, CONFIG_MAP, EVENT, POD, WORKLOAD, Json, Kind
from gpustack_components.cluster.readings import (
    active,
    admitted,
    at,
    evicted,
    gated,
    name,
    ordinal,
    owner_uids,
    terminal,
    terminating,
    uid,
)
from gpustack_components.rollout.contract import Timeouts
from gpustack_components.rollout.record import Record, record_name
from tests.rollout.lab import EXIT_AFTER, EXIT_CODE, NAME, OWN_NODES, QUEUE, Lab, Role
from tests.rollout.side_by_side import CPU, eventually

REPLICAS, SIZE, STRUCK = 2, 2, 1
QUOTA = REPLICAS * SIZE
PATIENT = Timeouts(admission=60, drain=60, ready=60, lease=5)
BRIEF = Timeouts(admission=4, drain=60, ready=60, lease=5)
WAITING = Timeouts(admission=20, drain=60, ready=60, lease=5)
PRIORITY = Kind("kueue.x-k8s.io/v1beta2", "WorkloadPriorityClass", "workloadpriorityclasses", namespaced=False)
FINALIZERS = [{"op": "remove", "path": "/metadata/finalizers"}]


@dataclass
class Scene:
    """A deployment that others strike."""

    lab: Lab
    strangers: set[str] = field(default_factory=set[str])
    """Uids of Pods that others made."""

    def struck(self) -> list[Json]:
        """The Pods of the replica that is struck."""
        return [pod for pod in self.lab.pods() if ordinal(pod) == STRUCK]

    def group(self) -> Json:
        """Its Workload."""
        uids = {uid(pod) for pod in self.struck()}
        return next(one for one in self.lab.workloads() if owner_uids(one) & uids)

    def patch_workload(self, *operations: Json) -> None:
        """Change its Workload."""
        assert self.lab.unseen.patch(WORKLOAD, self.lab.namespace, name(self.group()), operations) is not None


Harm = Callable[[Scene], None]


def both(*harms: Harm) -> Harm:
    """One after the other."""

    def harm(scene: Scene) -> None:
        for one in harms:
            one(scene)

    return harm


def delete_pods(scene: Scene) -> None:
    for pod in scene.struck():
        scene.lab.unseen.delete(POD, scene.lab.namespace, name(pod))


def delete_one_pod(scene: Scene) -> None:
    scene.lab.unseen.delete(POD, scene.lab.namespace, name(scene.struck()[0]))


def delete_workload(scene: Scene) -> None:
    scene.lab.unseen.delete(WORKLOAD, scene.lab.namespace, name(scene.group()))


def exited(scene: Scene) -> None:
    scene.lab.until(lambda: all(terminal(pod) for pod in scene.struck()))


def gone(scene: Scene) -> None:
    scene.lab.until(lambda: not scene.struck() and len(scene.lab.workloads()) < REPLICAS)


def workload_gone(scene: Scene) -> None:
    uids = {uid(pod) for pod in scene.struck()}
    scene.lab.until(lambda: not any(owner_uids(one) & uids for one in scene.lab.workloads()))


def create_copies(scene: Scene) -> None:
    """As an impatient script would: the same Pods again, under names that are free."""
    for index, pod in enumerate(scene.struck()):
        kept = {key: pod["metadata"][key] for key in ("namespace", "ownerReferences")}
        labels = dict(pod["metadata"]["labels"])
        for added in (keys.MANAGED, "kueue.x-k8s.io/podset", "kueue.x-k8s.io/cluster-queue-name"):
            labels.pop(added, None)
        labels.pop("kueue.x-k8s.io/local-queue-name", None)
        annotations = {k: v for k, v in pod["metadata"]["annotations"].items() if k != "kueue.x-k8s.io/workload"}
        spec = {
            key: pod["spec"][key]
            for key in ("restartPolicy", "terminationGracePeriodSeconds", "nodeSelector", "tolerations")
        }
        main = {key: pod["spec"]["containers"][0][key] for key in ("name", "image", "resources")}
        copy = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**kept, "name": f"copy-{index}", "labels": labels, "annotations": annotations},
            "spec": {**spec, "containers": [main]},
        }
        scene.strangers.add(uid(scene.lab.unseen.create(copy)))


def ends_by_itself(phase: str, members: int) -> Harm:
    """The kubelet reports that the containers have ended, and nobody deleted anything."""

    def harm(scene: Scene) -> None:
        for pod in scene.struck()[:members]:
            change = [{"op": "replace", "path": "/status/phase", "value": phase}]
            scene.lab.unseen.patch(POD, scene.lab.namespace, name(pod), change, subresource="status")

    return harm


def deactivate(scene: Scene) -> None:
    scene.patch_workload({"op": "add", "path": "/spec/active", "value": False})
    scene.lab.until(lambda: not active(scene.group()) and evicted(scene.group()))


def deactivate_queued(scene: Scene) -> None:
    scene.patch_workload({"op": "add", "path": "/spec/active", "value": False})


def activate(scene: Scene) -> None:
    scene.patch_workload({"op": "add", "path": "/spec/active", "value": True})


def drain_the_queue(scene: Scene) -> None:
    scene.lab.set_quota(QUOTA, stopPolicy="HoldAndDrain")
    scene.lab.until(lambda: all(terminating(pod) for pod in scene.lab.pods()))


def restart_the_queue(scene: Scene) -> None:
    scene.lab.set_quota(QUOTA, stopPolicy="None")


def everything_exited(scene: Scene) -> None:
    scene.lab.until(lambda: all(terminal(pod) for pod in scene.lab.pods()))


def readmitted(scene: Scene) -> None:
    scene.lab.until(lambda: all(admitted(one) for one in scene.lab.workloads()))


def give_quota(scene: Scene) -> None:
    scene.lab.set_quota(QUOTA)


def rival(priority: int) -> Harm:
    """Another Pod asks for the quota of one replica."""

    def harm(scene: Scene) -> None:
        lab, labels = scene.lab, {keys.QUEUE_NAME: QUEUE}
        if priority:
            lab.set_quota(QUOTA, preemption={"withinClusterQueue": "LowerPriority"})
            kind = {"apiVersion": PRIORITY.api_version, "kind": PRIORITY.kind, "metadata": {"name": lab.queue}}
            lab.unseen.create({**kind, "value": priority, "description": "of a test"})
            labels["kueue.x-k8s.io/priority-class"] = lab.queue
        asked = {CPU: str(SIZE)}
        container = {"name": "main", "image": "theirs", "resources": {"requests": asked, "limits": asked}}
        metadata = {"name": "rival", "namespace": lab.namespace, "labels": labels}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 5, "nodeSelector": OWN_NODES}
        lab.unseen.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        if priority:
            lab.until(lambda: any(evicted(one) for one in lab.workloads()))

    return harm


def rival_runs(scene: Scene) -> None:
    lab = scene.lab
    lab.until(lambda: not gated(lab.unseen.get(POD, lab.namespace, "rival") or {}))


def rival_leaves(scene: Scene) -> None:
    lab = scene.lab
    lab.unseen.delete(POD, lab.namespace, "rival")
    lab.until(lambda: lab.unseen.get(POD, lab.namespace, "rival") is None)
    lab.unseen.delete(PRIORITY, None, lab.queue)


def release_pods(scene: Scene) -> None:
    """Somebody takes Kueue's finalizer off the Pods that are being deleted."""
    for pod in scene.lab.pods():
        if terminating(pod) and at(pod, "metadata", "finalizers"):
            scene.lab.unseen.patch(POD, scene.lab.namespace, name(pod), FINALIZERS)


def let_go(scene: Scene) -> None:
    """As Kueue does to Pods that come between its two looks at a group whose Workload is deleted."""
    for pod in scene.struck():
        scene.lab.unseen.patch(POD, scene.lab.namespace, name(pod), FINALIZERS)


def strip_workload(scene: Scene) -> None:
    scene.patch_workload(*FINALIZERS)


def give_workload_the_record(scene: Scene) -> None:
    """As a tool does that wants to keep the quota: the Workload outlives its Pods."""
    stored = scene.lab.unseen.get(CONFIG_MAP, scene.lab.namespace, record_name(NAME))
    assert stored is not None
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": name(stored), "uid": uid(stored)}
    scene.patch_workload({"op": "add", "path": "/metadata/ownerReferences/-", "value": owner})


def keep_quota_without_pods(scene: Scene) -> None:
    give_workload_the_record(scene)
    delete_pods(scene)
    release_pods(scene)
    scene.lab.until(lambda: not scene.struck())


def delete_kept_workload(scene: Scene) -> None:
    living = {uid(pod) for pod in scene.lab.pods()}
    for one in scene.lab.workloads():
        if not owner_uids(one) & living:
            scene.lab.unseen.delete(WORKLOAD, scene.lab.namespace, name(one))


def change_role_hash(scene: Scene) -> None:
    path = f"/metadata/annotations/{keys.ROLE_HASH.replace('/', '~1')}"
    change = [{"op": "replace", "path": path, "value": "another"}]
    for pod in scene.struck():
        scene.lab.unseen.patch(POD, scene.lab.namespace, name(pod), change)
    scene.lab.until(lambda: any(terminating(pod) for pod in scene.struck()))


def delete_record(scene: Scene) -> None:
    scene.lab.unseen.delete(CONFIG_MAP, scene.lab.namespace, record_name(NAME))


@dataclass(frozen=True)
class Row:
    """What befalls replica 1."""

    what: str
    harm: Harm
    edited: bool = False
    """Whether the run that follows also brings a new configuration."""
    waits: str = ""
    """What that run says it waits for when it ends before `relief`; empty when it converges."""
    patience: Timeouts = WAITING
    """How long it waits for that."""
    certain: bool = True
    """Whether it must wait: of two groups that are due for the same quota either may be the first."""
    relief: Harm | None = None
    quota: int = QUOTA
    """Less than the two replicas need: the struck one is still queued."""
    spares: int = 1
    """How many replicas keep their Pods."""


ROWS = (
    Row("its Pods were deleted", delete_pods),
    Row("its Pods were deleted and have exited", both(delete_pods, exited)),
    Row("its Workload was deleted", delete_workload),
    Row("its Workload was deleted and all is gone", both(delete_workload, gone)),
    Row("its Pods and then its Workload were deleted", both(delete_pods, delete_workload)),
    Row("its Workload and then its Pods were deleted", both(delete_workload, delete_pods)),
    Row("its Pods were deleted and, once exited, its Workload", both(delete_pods, exited, delete_workload, gone)),
    Row("one of its Pods was deleted", delete_one_pod),
    Row("its Pods were deleted and copies made at once", both(delete_pods, create_copies)),
    Row("its Pods were deleted and copies made after the exit", both(delete_pods, exited, create_copies)),
    Row(
        "its Pods and Workload were deleted and copies made while the Pods exit",
        both(delete_pods, delete_workload, workload_gone, create_copies),
    ),
    Row(
        "its Workload and its Pods were deleted and copies made at once",
        both(delete_workload, delete_pods, create_copies),
    ),
    Row("Kueue let go of its Pods", let_go, spares=REPLICAS),
    Row("Kueue let go of its Pods before an edit", let_go, edited=True),
    Row("Kueue let go of its Pods and they were deleted", both(let_go, delete_pods)),
    Row("Kueue let go of its Pods and its Workload was deleted", both(let_go, delete_workload)),
    Row("all of its Pods failed by themselves", ends_by_itself("Failed", SIZE)),
    Row("all of its Pods succeeded by themselves", ends_by_itself("Succeeded", SIZE)),
    Row("one of its Pods failed by itself", ends_by_itself("Failed", 1)),
    Row("one of its Pods succeeded by itself", ends_by_itself("Succeeded", 1)),
    Row("it was queued and its Pods were deleted", delete_pods, quota=SIZE, relief=give_quota),
    Row("it was queued and its Workload deleted", delete_workload, quota=SIZE, relief=give_quota),
    Row(
        "it was queued and its Pods and Workload were deleted",
        both(delete_pods, delete_workload),
        quota=SIZE,
        relief=give_quota,
    ),
    Row(
        "a rival waits for its quota",
        rival(0),
        edited=True,
        waits="insufficient unused quota",
        certain=False,
        relief=rival_leaves,
    ),
    Row(
        "a tool kept its Workload without Pods",
        keep_quota_without_pods,
        waits="which none of its Pods owns",
        patience=Timeouts(admission=20, drain=8, lease=5),
        relief=delete_kept_workload,
    ),
    Row("its Workload lost its finalizer and was deleted", both(strip_workload, delete_workload)),
    Row("its Workload lost its finalizer and was deleted long ago", both(strip_workload, delete_workload, exited)),
    Row("the role hash of its Pods was changed", change_role_hash),
    Row("it was preempted", rival(100), waits="insufficient unused quota", relief=rival_leaves),
    Row("it was preempted and the rival has gone again", both(rival(100), rival_runs, rival_leaves)),
    Row("it was deactivated", deactivate),
    Row("it was deactivated and has exited", both(deactivate, exited)),
    Row("it was deactivated, has exited, and was activated again", both(deactivate, exited, activate, readmitted)),
    Row(
        "it was queued and deactivated",
        deactivate_queued,
        quota=SIZE,
        waits="deactivated (spec.active is false)",
        relief=both(activate, give_quota),
    ),
    Row("its queue was drained and started again", both(drain_the_queue, restart_the_queue), spares=0),
    Row(
        "its queue was drained and gave its quota to the dead Pods again",
        both(drain_the_queue, everything_exited, restart_the_queue, readmitted),
        spares=0,
    ),
    Row(
        "its queue was drained and its Pods lost their finalizers",
        both(drain_the_queue, release_pods, restart_the_queue),
        spares=0,
    ),
    Row("the record was deleted", delete_record, spares=0),
)


def strike(lab: Lab, row: Row, code: str) -> None:
    """Let a row befall a deployment of servers that exit with that code, and hold the run that follows to it."""
    ends = {EXIT_CODE: code, EXIT_AFTER: "0.5"}
    config = "v2" if row.edited else "v1"

    def role(config: str) -> Role:
        return Role(config, replicas=REPLICAS, size=SIZE, annotations=ends, resource=CPU)

    lab.open_queue(row.quota)
    first = lab.up(server=role("v1"), timeouts=PATIENT if row.quota == QUOTA else BRIEF)
    assert first.phase == ("Converged" if row.quota == QUOTA else "Incomplete"), first.reasons
    lab.until(lambda: len(lab.workloads()) == REPLICAS)
    before = {uid(pod): ordinal(pod) for pod in lab.pods()}
    scene = Scene(lab)
    row.harm(scene)
    if row.waits:
        said = len(lab.lines)
        waiting = lab.up(server=role(config), timeouts=row.patience)
        assert waiting.phase == "Incomplete" or not row.certain
        assert all(row.waits in reason for reason in waiting.reasons), waiting.reasons
        held = [reason.partition(":")[0] for reason in waiting.reasons]
        assert not any(line.startswith(f"{one}  admitted") for one in held for line in lab.lines[said:])
    if row.relief is not None:
        row.relief(scene)
    outcome = lab.up(server=role(config), timeouts=PATIENT)
    assert outcome.phase == "Converged", outcome.reasons
    spared = REPLICAS if row.edited else row.spares
    _judge(lab, before, scene.strangers, 0 if row.edited else spared)
    assert not lab.up(server=role(config), timeouts=PATIENT).wrote
    removed = lab.down(timeouts=PATIENT)
    assert removed.phase == "Deleted", removed.reasons
    assert lab.pods() == [] and lab.workloads() == []


def _judge(lab: Lab, before: dict[str, int | None], strangers: set[str], spared: int) -> None:
    pods = lab.pods()
    assert sorted(ordinal(pod) or 0 for pod in pods) == sorted(list(range(REPLICAS)) * SIZE)
    assert not any(terminating(pod) or gated(pod) or terminal(pod) for pod in pods)
    groups = lab.workloads()
    owned = [owner_uids(group) for group in groups]
    assert sorted(map(sorted, owned)) == sorted(
        sorted(uid(pod) for pod in pods if ordinal(pod) == number) for number in range(REPLICAS)
    )
    assert all(admitted(group) and active(group) and not evicted(group) for group in groups)
    untouched = [
        number for number in range(REPLICAS) if {u for u, o in before.items() if o == number} <= {uid(p) for p in pods}
    ]
    assert len(untouched) >= spared, "a sibling was touched"
    assert eventually(lambda: _usage(lab) == QUOTA), f"{_usage(lab)} of the quota in use instead of {QUOTA}"
    excess = {
        event["involvedObject"]["uid"]
        for event in lab.unseen.list(EVENT, lab.namespace).items
        if event["reason"] == "ExcessPodDeleted"
    }
    assert not excess - strangers - before.keys(), "Kueue deleted Pods of this driver as excess"
    stored = lab.unseen.get(CONFIG_MAP, lab.namespace, record_name(NAME))
    assert stored is not None
    record = Record.from_object(stored)
    assert (record.phase, dict(record.slots)) == ("Converged", {})


def _usage(lab: Lab) -> int:
    queue = lab.unseen.get(CLUSTER_QUEUE, None, lab.queue)
    return sum(
        int(at(resource, "total") or 0)
        for flavor in at(queue, "status", "flavorsUsage") or ()
        for resource in flavor["resources"]
    )
