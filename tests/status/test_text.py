"""What a person reads of each replica: where it stands, what holds it, and what would release it."""

import re
from datetime import UTC, datetime

import pytest

from gpustack_components.status.events import events
from gpustack_components.status.holds import Around
from gpustack_components.status.text import duration, rows
from gpustack_components.status.timeline import Timelines, timeline
from tests.status.objects import LATER, deployment, expected, observation

NOW = datetime(2026, 1, 1, 0, 10, 0, tzinfo=UTC)
SHORT = (
    "couldn't assign flavors to pod set server: insufficient unused quota for nvidia.com/gpu in flavor gpu, "
    "2 more needed"
)
NEVER = (
    "couldn't assign flavors to pod set server: insufficient quota for nvidia.com/gpu in flavor gpu, previously "
    "considered podsets requests (0) + current podset request (9) > maximum capacity (8)"
)


@pytest.mark.parametrize(
    ("replica", "state", "what", "release"),
    [
        ("server/0 ready A", "serving", None, None),
        ("server/0 A", "starting", "not Ready yet", "answers its probe"),
        ("server/0 A unbound", "starting", "not scheduled yet", ""),
        ("server/0 A crash", "failing", "container main: CrashLoopBackOff, back-off 10s",
         "log complains of is corrected; kubectl logs qwen-server-r0-m0 -c main --previous"),
        ("server/0 A pull", "failing", "ImagePullBackOff, not found",
         "the image, or the secret .* corrected; kubectl describe pod"),
        ("server/0 A nofit", "failing", "no node fits: 0/3 nodes", "quota alone is not enough"),
        (f"server/0 q message: {SHORT}", "waiting", re.escape(SHORT),
         "other work in queue gpustack-h20 ends, or the quota of h20 grows; kubectl describe workload group-server-0"),
        (f"server/0 q message: {NEVER}", "never fits", "maximum capacity",
         "^the quota of h20 is raised or the replica asks for less; waiting does not help; kubectl describe clusterq"),
        ("server/0 q message: LocalQueue nope doesn't exist", "waiting", "LocalQueue nope", "LocalQueue .* is created"),
        ("server/0 q message: LocalQueue nope is inactive", "waiting", "inactive", "stopPolicy is None"),
        ("server/0 q message: ClusterQueue st is inactive", "waiting", "ClusterQueue st", "condition Active says what"),
        ("server/0 q message: flavor h200 doesn't match node affinity", "waiting", "h200",
         "a flavor of the queue matches"),
        ("server/0 q message: Workload namespace doesn't match ClusterQueue selector", "waiting", "",
         "namespaceSelector"),
        ("server/0 q message: resource memory unavailable in ClusterQueue", "waiting", "", "covers that resource"),
        ("server/0 r", "waiting", "holds quota and is not admitted", "admission checks pass"),
        ("server/0", "waiting", "has not made a Workload", "Kueue's controller runs"),
        ("server/0 outside", "outside quota", "outside any quota", "managedJobsNamespaceSelector"),
        ("server/0 preempted message: Preempted to accommodate", "evicted", "Preempted to accommodate", "queues again"),
        ("server/0 off evicted message: The workload is deactivated", "evicted", "deactivated",
         "spec.active .* true; kubectl patch"),
        ("server/0 A T young", "leaving", "1 of its Pods are leaving", "when their grace ends"),
        ("server/0 A T", "leaving", "r0-m0 is past its grace period", "never deleted by force, .*; kubectl"),
        ("server/0 T held", "leaving", "past its grace .* .finalizer kueue.x-k8s.io/managed", "kubelet reports"),
        ("server/0 T held failed", "leaving", "has exited and is held by finalizer", "Kueue takes it off"),
        ("server/0 A unbound gated", "starting", "behind scheduling gate example.com/wait", "whoever set it takes it"),
        ("server/0 A T failed", "leaving", "Kueue's Workload holds them", "Workload group-server-0 is deleted"),
        ("server/0 1of2 A", "incomplete", "1 of 2 Pods exist", "rebuilds it whole"),
        ("other/0 ready A", "missing", "does not exist", "creates it"),
    ],
)  # fmt: skip
def test_a_replica_says_what_holds_it_and_what_releases_it(
    replica: str, state: str, what: str | None, release: str | None
) -> None:
    row = rows(deployment([{"replicas": 1}]), observation([replica]), NOW)[0]
    assert row.state == state
    if what is None:
        assert row.hold is None
        return
    assert row.hold is not None
    assert re.search(what, row.hold.what), row.hold.what
    assert release is not None
    told = f"{row.hold.release}; {row.hold.command}"
    assert re.search(release, told), told


def test_nodes_and_queues_add_what_pods_and_workloads_do_not_say() -> None:
    lost = {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting", "lastTransitionTime": LATER}
    around = Around(
        nodes={"gpu-0": {"status": {"conditions": [lost]}}},
        queues={"gpustack-h20": "pool"},
        quotas={"gpustack-h20": "pool has 0 free of 4 x nvidia.com/gpu"},
    )
    found = observation(["server/0 A", "server/1 A T", f"server/2 q message: {NEVER}", f"server/3 q message: {SHORT}"])
    holds = [row.hold for row in rows(deployment([{"replicas": 4}]), found, NOW, None, around)]
    assert [(hold.what, hold.since, hold.command) for hold in holds if hold] == [
        ("its node gpu-0 is not Ready: Kubelet stopped posting", LATER, "kubectl describe node gpu-0"),
        (
            "Pod qwen-server-r1-m0 cannot exit: its node gpu-0 is not Ready: Kubelet stopped posting",
            "2026-01-01T00:00:00Z",
            "kubectl describe node gpu-0",
        ),
        (f"{NEVER} (pool has 0 free of 4 x nvidia.com/gpu)", LATER, "kubectl describe clusterqueue pool"),
        (f"{SHORT} (pool has 0 free of 4 x nvidia.com/gpu)", LATER, "kubectl describe workload group-server-3"),
    ]
    assert holds[2] is not None
    assert holds[2].release == "the quota of pool is raised or the replica asks for less; waiting does not help"


def test_every_declared_replica_has_a_row_and_so_has_everything_else_that_reads() -> None:
    document = deployment([{"name": "a", "replicas": 2}, {"name": "b"}])
    found = rows(document, observation(["a/1 ready A", "a/5 A", "a/? A", "gone/0 A"]), NOW, expected(document))
    assert [(row.name, row.state) for row in found] == [
        ("a/0", "missing"),
        ("a/1", "serving"),
        ("a/5", "starting"),
        ("a/?", "starting"),
        ("b/0", "missing"),
        ("gone/0", "starting"),
    ]


@pytest.mark.parametrize(
    ("replica", "uid", "state", "what"),
    [
        ("server/1 ready A", "qwen-server-r1-m0-1", "leaving", "it is being retired .Draining, Busy: 2 requests run."),
        ("server/1 A T young", "qwen-server-r1-m0-1", "leaving", "1 of its Pods are leaving"),
        ("server/1 ready A", "of an earlier Pod", "serving", None),
    ],
)
def test_a_replica_that_is_being_retired_is_leaving(replica: str, uid: str, state: str, what: str | None) -> None:
    record = {"roleName": "server", "replicaOrdinal": 1, "state": "Draining", "reason": "Busy: 2 requests run"}
    document, found = deployment([{}]), observation(["server/0 ready A", replica])
    kept, row = rows(document, found, NOW, expected(document), None, record | {"targetMemberUIDs": [uid]})
    assert (kept.state, kept.hold, row.state) == ("serving", None, state)
    assert re.search(what, row.hold.what) if what is not None and row.hold is not None else row.hold is what
    assert row.current is (None if state == "leaving" else False)


def test_a_row_counts_members_age_and_whether_it_is_current() -> None:
    document = deployment([{"replicas": 2, "size": 2}])
    new, old = rows(document, observation(["server/0 2of2 ready A", "server/1 old 2of2 q"]), NOW, expected(document))
    assert (new.ready, new.age, new.admitted, new.current) == ((2, 2), 600.0, True, True)
    assert (old.ready, old.admitted, old.current) == ((0, 2), False, False)


def test_a_wait_says_since_when() -> None:
    row = rows(deployment([{}]), observation([f"server/0 q message: {SHORT}"]), NOW)[0]
    assert row.hold is not None
    assert row.hold.since == "2026-01-01T00:00:30Z"


def test_the_timeline_is_in_order_and_dates_a_departure_from_its_request() -> None:
    moments = timeline(observation(["server/0 ready A T"]))
    assert [(moment.time, moment.subject, moment.words) for moment in moments] == [
        ("2026-01-01T00:00:00Z", "qwen-server-r0-m0", "created"),
        ("2026-01-01T00:00:00Z", "qwen-server-r0-m0", "asked to leave"),
        ("2026-01-01T00:00:30Z", "server/0", "got quota"),
        ("2026-01-01T00:00:30Z", "server/0", "admitted"),
        ("2026-01-01T00:00:30Z", "qwen-server-r0-m0", "Ready"),
    ]


def test_a_live_view_remembers_what_happened_to_pods_that_have_gone() -> None:
    lines = Timelines(longest=6)
    lines.look(observation(["server/0 A", "server/1 ready A"]), "2026-01-01T00:01:00Z")
    lines.look(observation(["other/0", "server/1 ready A"]), "2026-01-01T00:02:00Z")
    lines.look(observation(["other/0", "server/1 ready A"]), "2026-01-01T00:03:00Z")
    assert lines.replicas == ("other/0", "server/0", "server/1")
    assert [(moment.time[14:19], moment.words) for moment in lines.of("server/0")] == [
        ("00:00", "created"),
        ("00:30", "got quota"),
        ("00:30", "admitted"),
        ("00:30", "not Ready"),
        ("02:00", "gone"),
    ]
    assert "gone" not in [moment.words for moment in lines.of("server/1")]
    replaced = Timelines()
    replaced.look(observation(["server/0 ready A"]), "2025-12-31T23:00:00Z")
    replaced.look(observation(["other/0", "server/0 A"]), "2026-01-01T00:09:00Z")
    (gone,) = (moment for moment in replaced.of("server/0") if moment.words == "gone")
    assert gone.time == "2026-01-01T00:00:00Z"
    for minute in range(10, 40):
        lines.look(observation([] if minute % 2 else ["server/0"]), f"2026-01-01T00:{minute}:00Z")
    assert len(lines.of("server/0")) == 6


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0.0 s"), (1.234, "1.2 s"), (45.2, "45 s"), (59.6, "1m"), (190, "3m10s"), (7500, "2h5m"), (273600, "3d4h")],
)
def test_a_duration_is_written_in_at_most_two_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_one_warning_per_pod_the_first_that_applies() -> None:
    found = events(observation(["server/0 A T crash", "server/1 A crash", "server/2 ready A"]), ["no InstanceType h20"])
    assert [(warning.reason, warning.pod) for warning in found] == [
        ("ReplicaLeaving", "qwen-server-r0-m0"),
        ("ReplicaRestarted", "qwen-server-r1-m0"),
        ("RenderFailed", ""),
    ]
    assert found[1].message == (
        "Pod qwen-server-r1-m0 of replica server/1 restarted 3 times; the blocks it cached are lost to the others "
        "unless it is back within 30 s."
    )
    evicted = observation(["server/0 T"])
    evicted.pods[0]["status"]["reason"] = "Evicted"
    assert [warning.reason for warning in events(evicted)] == ["ReplicaEvicted"]
