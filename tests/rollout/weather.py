"""Bad weather on a cluster that works: nodes, clocks, networks, rivals and namespaces that fail in mid-rollout."""

import contextlib
import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from gpustack_components.cluster.client import connect
from gpustack_components.cluster.port import CONFIG_MAP, LEASE, NAMESPACE, NODE, POD, Json, Kind
from gpustack_components.cluster.readings import at, name, ordinal, terminating, uid
from gpustack_components.rollout.contract import Outcome, RolloutRefused, SystemClock, Timeouts
from gpustack_components.rollout.record import record_name
from tests.e2e.timeline import Timeline
from tests.faults.proxy import FaultProxy
from tests.rollout.kueue_facts import Scene, rival, rival_leaves
from tests.rollout.lab import EXIT_AFTER, HANG, NAME, OWN_NODES, Lab, Role, seconds_waited
from tests.rollout.side_by_side import CPU, eventually

PATIENT = Timeouts(admission=90, drain=120, ready=90, lease=5)
SILENT = "sandbox.gpustack.ai/kubelet"
RECORD = record_name(NAME)


@dataclass
class Running:
    """A run in a thread of its own."""

    lab: Lab
    role: Role
    options: Json = field(default_factory=dict[str, object])
    outcomes: list[Outcome] = field(default_factory=list[Outcome])

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.outcomes.append(self.lab.up(server=self.role, **{"timeouts": PATIENT, **self.options}))

    def says(self, text: str, seconds: float = 120) -> None:
        """Wait until a progress line holds that text."""
        self.lab.until(lambda: any(text in line for line in self.lab.lines), seconds)

    def end(self, seconds: float = 150) -> Outcome:
        """How it ended."""
        self._thread.join(seconds)
        assert self.outcomes, "the run did not end"
        return self.outcomes[0]


class Nodes:
    """Nodes with room for one Pod of this lab each, and for nobody else's."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        lab.resource = f"test.gpustack.ai/{lab.queue}"
        self.names: list[str] = []

    def add(self) -> None:
        """One more."""
        node = f"{self._lab.queue}-{len(self.names)}"
        self.names.append(node)
        resources = {"cpu": "0", "memory": "1Gi", "pods": "4", self._lab.resource: "1"}
        labels = {"kubernetes.io/hostname": node, "kubernetes.io/os": "linux", **OWN_NODES}
        taint = {"key": "test.gpustack.ai/only", "effect": "NoSchedule"}
        manifest = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": node, "labels": labels},
            "spec": {"taints": [taint]},
            "status": {"allocatable": resources, "capacity": resources},
        }
        self._lab.unseen.create(manifest)

    def __enter__(self) -> "Nodes":
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.names:
            self._lab.unseen.delete(NODE, None, node)


def _fall_silent(lab: Lab, node: str) -> None:
    """The kubelet stops; the node controller says of its node and Pods after 50 s what is said of them here at once."""
    path = f"/metadata/labels/{SILENT.replace('/', '~1')}"
    lab.unseen.patch(NODE, None, node, [{"op": "add", "path": path, "value": "silent"}])
    _set_ready(lab, NODE, None, node, "Unknown")
    for pod in lab.pods():
        if at(pod, "spec", "nodeName") == node:
            _set_ready(lab, POD, lab.namespace, name(pod), "False")


def _set_ready(lab: Lab, kind: Kind, namespace: str | None, of: str, status: str) -> None:
    found = lab.unseen.get(kind, namespace, of)
    index = next(i for i, one in enumerate(at(found, "status", "conditions")) if one["type"] == "Ready")
    change = [{"op": "replace", "path": f"/status/conditions/{index}/status", "value": status}]
    lab.unseen.patch(kind, namespace, of, change, subresource="status")


def a_lost_node_is_waited_for_and_its_pod_replaced_once_the_node_object_is_gone(lab: Lab) -> None:
    with Nodes(lab) as nodes:
        nodes.add()
        nodes.add()
        lab.open_queue(2)
        old = Role("v1", replicas=2, resource=lab.resource)
        assert lab.up(server=old, timeouts=PATIENT).phase == "Converged"
        before = {uid(pod) for pod in lab.pods()}
        lost = next(pod for pod in lab.pods() if ordinal(pod) == 1)
        node = at(lost, "spec", "nodeName")
        assert node in nodes.names
        _fall_silent(lab, node)
        unready = lab.up(server=old, timeouts=Timeouts(ready=1, lease=1))
        assert unready.phase == "Incomplete"
        assert "server/1: admitted, not ready after " in unready.reasons[0]
        assert seconds_waited(unready.reasons[0]) >= 1
        assert name(lost) in unready.reasons[0] and node in unready.reasons[0]
        assert {uid(pod) for pod in lab.pods()} == before

        new = Role("v2", replicas=2, resource=lab.resource)
        stuck = lab.up(server=new, timeouts=Timeouts(drain=0, ready=5, lease=1))
        assert stuck.phase == "Incomplete"
        assert f"Pod {name(lost)} on {node} to exit" in stuck.reasons[0]
        assert "If its node is lost, `kubectl delete node NODE` releases it" in stuck.reasons[0]
        assert {uid(pod) for pod in lab.pods()} == before, "neither replaced nor deleted by force"

        running = Running(lab, new)
        lab.unseen.delete(NODE, None, node)
        nodes.add()
        outcome = running.end()
        assert outcome.phase == "Converged", outcome.reasons
        assert lab.configs() == {0: ["v2"], 1: ["v2"]}
        assert not before & {uid(pod) for pod in lab.pods()}
        assert lab.down(timeouts=PATIENT).phase == "Deleted"


class SkewedClock(SystemClock):
    """The machine's time as somebody sets it."""

    def __init__(self, **skew: float) -> None:
        self.skew = timedelta(**skew)
        self.slept = 0.0

    def now(self) -> datetime:
        return super().now() + self.skew

    def monotonic(self) -> float:
        return super().monotonic() + self.slept


def a_lease_left_behind_elsewhere_expires_by_the_clock_of_the_api_server(lab: Lab) -> None:
    """A driver died on another machine; this machine's clock is a day late, so that it would never expire by it."""
    lab.open_queue(1)
    lab.up(server=Role("v1", resource=CPU), timeouts=PATIENT)
    far_future = "2099-01-01T00:00:00.000000Z"
    lab.unseen.create(
        {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": RECORD, "namespace": lab.namespace},
            "spec": {"holderIdentity": "ada on a laptop", "leaseDurationSeconds": 1, "renewTime": far_future},
        }
    )
    late = SkewedClock(days=-1)
    with pytest.raises(RolloutRefused, match="is being driven by ada on a laptop") as refused:
        lab.up(server=Role("v2", resource=CPU), timeouts=Timeouts(lease=1), clock=late)
    assert "its Lease expires in" in str(refused.value) and "kubectl -n" in str(refused.value)
    assert lab.configs() == {0: ["v1"]}
    outcome = lab.up(
        server=Role("v2", resource=CPU), timeouts=Timeouts(admission=90, drain=90, ready=90, lease=120), clock=late
    )
    assert outcome.phase == "Converged", outcome.reasons
    assert lab.configs() == {0: ["v2"]}


def a_watch_that_the_network_forgot_is_not_taken_for_a_replica_that_hangs(lab: Lab) -> None:
    lab.open_queue(2)
    slow = {EXIT_AFTER: "1.5"}
    lab.up(server=Role("v1", replicas=2, annotations=slow, resource=CPU), timeouts=PATIENT)
    with FaultProxy(lab.kubeconfig) as proxy:
        options = {
            "cluster": connect(proxy.kubeconfig),
            "timeouts": Timeouts(admission=15, drain=10, ready=15, lease=5),
        }
        running = Running(lab, Role("v2", replicas=2, annotations=slow, resource=CPU), options)
        running.says("turning over")
        lab.until(lambda: proxy.open_streams() >= 2)
        assert proxy.mute_streams() >= 2
        outcome = running.end()
    assert outcome.phase == "Converged", outcome.reasons
    assert lab.configs() == {0: ["v2"], 1: ["v2"]}


def a_clock_that_is_set_forth_and_back_disturbs_no_rollout(lab: Lab) -> None:
    lab.open_queue(3)
    slow = {EXIT_AFTER: "1"}
    lab.up(server=Role("v1", replicas=3, annotations=slow, resource=CPU), timeouts=PATIENT)
    clock = SkewedClock()
    with Timeline(lab.unseen, lab.namespace) as timeline:
        running = Running(lab, Role("v2", replicas=3, annotations=slow, resource=CPU), {"clock": clock})
        running.says("server/2  turning over")
        clock.skew = timedelta(hours=2)
        with pytest.raises(RolloutRefused, match="is being driven by a test"):
            lab.up(server=Role("v3", replicas=3, resource=CPU), timeouts=Timeouts(lease=0))
        running.says("server/1  turning over")
        clock.skew = timedelta(days=-30)
        outcome = running.end()
    assert outcome.phase == "Converged", outcome.reasons
    assert lab.configs() == {number: ["v2"] for number in range(3)}
    assert timeline.fewest_admitted("server", after=3) >= 2 and timeline.most_on_one_seat() == 1
    assert not lab.up(server=Role("v2", replicas=3, annotations=slow, resource=CPU), clock=SkewedClock(days=9)).wrote


def a_run_that_slept_past_its_lease_leaves_the_deployment_to_the_other_one(lab: Lab) -> None:
    lab.open_queue(2)
    slow = {EXIT_AFTER: "4"}
    lab.up(server=Role("v1", replicas=2, annotations=slow, resource=CPU), timeouts=PATIENT)
    clock = SkewedClock()
    running = Running(lab, Role("v2", replicas=2, annotations=slow, resource=CPU), {"clock": clock})
    running.says("server/1  turning over")
    taken = lab.unseen.get(LEASE, lab.namespace, RECORD)
    assert taken is not None
    lab.unseen.delete(LEASE, lab.namespace, RECORD, uid=uid(taken))
    mine = {"name": RECORD, "namespace": lab.namespace}
    spec = {"holderIdentity": "bob on a build server", "leaseDurationSeconds": 900}
    lab.unseen.create({"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": mine, "spec": spec})
    clock.skew = timedelta(hours=1)
    outcome = running.end()
    assert outcome.phase == "Incomplete"
    assert "was taken over by bob on a build server; run again once the other one is done" in outcome.reasons[0]
    standing = lab.unseen.get(LEASE, lab.namespace, RECORD)
    assert at(standing, "spec", "holderIdentity") == "bob on a build server"
    lab.close_lease()
    assert lab.up(server=Role("v2", replicas=2, resource=CPU), timeouts=PATIENT).phase == "Converged"


def a_preemption_in_the_middle_of_a_rollout_is_waited_out(lab: Lab) -> None:
    """The rival takes two of four while replica 3 is being turned over."""
    lab.open_queue(4)
    slow = {EXIT_AFTER: "1"}
    lab.up(server=Role("v1", replicas=4, annotations=slow, resource=CPU), timeouts=PATIENT)
    scene = Scene(lab)
    new = Role("v2", replicas=4, annotations=slow, resource=CPU)
    with Timeline(lab.unseen, lab.namespace) as timeline:
        running = Running(lab, new, {"timeouts": Timeouts(admission=20, drain=60, ready=60, lease=5)})
        running.says("server/3  turning over")
        rival(100)(scene)
        outcome = running.end()
        assert outcome.phase == "Incomplete"
        assert any("insufficient unused quota" in reason for reason in outcome.reasons), outcome.reasons
        assert "Free or raise the queue's quota, or lower replicas, then run again" in outcome.reasons[0]
        kept = {uid(pod) for pod in lab.pods() if not terminating(pod)}
        assert lab.admitted_uids() == 2
        rival_leaves(scene)
        last = lab.up(server=new, timeouts=PATIENT)
    assert last.phase == "Converged", last.reasons
    assert lab.configs() == {number: ["v2"] for number in range(4)}
    assert timeline.most_on_one_seat() == 1
    assert timeline.fewest_admitted("server", after=4) >= 1
    queued = {uid(pod) for pod in lab.pods()} & kept
    assert queued, "what was queued under the new configuration is not made anew"


def a_teardown_waits_for_a_pod_that_hangs_and_the_next_one_completes(lab: Lab) -> None:
    lab.open_queue(2)
    lab.up(server=Role("v1", replicas=2, resource=CPU), timeouts=PATIENT)
    hanging = next(pod for pod in lab.pods() if ordinal(pod) == 1)
    path = f"/metadata/annotations/{HANG.replace('/', '~1')}"
    lab.unseen.patch(POD, lab.namespace, name(hanging), [{"op": "add", "path": path, "value": "true"}])
    stuck = lab.down(timeouts=Timeouts(drain=0, lease=1))
    assert stuck.phase == "Incomplete"
    (reason,) = (reason for reason in stuck.reasons if "server/1" in reason)
    assert "server/1: after " in reason
    assert seconds_waited(reason) >= 5, "its own grace of 5 s, though no role is wanted any more"
    assert f"Pod {name(hanging)} on " in reason and "never deleted by force" in reason
    assert uid(hanging) in {uid(pod) for pod in lab.pods()}
    assert lab.unseen.get(CONFIG_MAP, lab.namespace, RECORD) is not None
    lab.unseen.patch(POD, lab.namespace, name(hanging), [{"op": "remove", "path": path}])
    gone = lab.down(timeouts=PATIENT)
    assert gone.phase == "Deleted", gone.reasons
    assert lab.pods() == [] and lab.workloads() == []
    assert lab.unseen.get(CONFIG_MAP, lab.namespace, RECORD) is None


def a_namespace_that_is_deleted_in_the_middle_of_a_rollout_ends_it_with_that_reason(lab: Lab) -> None:
    lab.open_queue(2)
    lab.up(server=Role("v1", replicas=2, annotations={EXIT_AFTER: "2"}, resource=CPU), timeouts=PATIENT)
    running = Running(lab, Role("v2", replicas=2, resource=CPU))
    running.says("turning over")
    lab.unseen.delete(NAMESPACE, None, lab.namespace)
    outcome = running.end()
    assert outcome.phase == "Incomplete"
    assert any("is being terminated" in reason or "is being deleted" in reason for reason in outcome.reasons)
    with contextlib.suppress(RolloutRefused):
        lab.down(timeouts=PATIENT)
    assert eventually(lambda: lab.unseen.get(NAMESPACE, None, lab.namespace) is None, 60)
    assert lab.down().phase == "Deleted"


def a_teardown_in_a_namespace_that_is_being_deleted_ends_when_all_is_gone(lab: Lab) -> None:
    lab.open_queue(2)
    lab.up(server=Role("v1", replicas=2, annotations={EXIT_AFTER: "2"}, resource=CPU), timeouts=PATIENT)
    lab.unseen.delete(NAMESPACE, None, lab.namespace)
    with pytest.raises(RolloutRefused, match=f"namespace {lab.namespace} is being deleted"):
        lab.up(server=Role("v2", replicas=2, resource=CPU))
    gone = lab.down(timeouts=PATIENT)
    assert gone.phase == "Deleted", gone.reasons
    assert eventually(lambda: lab.unseen.get(NAMESPACE, None, lab.namespace) is None, 60)
