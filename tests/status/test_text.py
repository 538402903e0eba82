"""What a person reads of each replica: where it stands, what holds it, and what would release it."""

import re
from datetime import UTC, datetime

import pytest

from gpustack_components.status.events import events
from gpustack_components.status.text import duration, rows, timeline
from tests.status.objects import deployment, expected, observation

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
        ("server/0 A crash", "failing", "container main: CrashLoopBackOff, back-off 10s", "kubectl logs .* --previous"),
        ("server/0 A pull", "failing", "ImagePullBackOff, not found", "correct the image"),
        ("server/0 A nofit", "failing", "no node fits: 0/3 nodes", "quota alone is not enough"),
        (f"server/0 q message: {SHORT}", "waiting", re.escape(SHORT),
         "other work in queue gpustack-h20 ends, or the quota of h20"),
        (f"server/0 q message: {NEVER}", "never fits", "maximum capacity", "waiting does not help"),
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
        ("server/0 off evicted message: The workload is deactivated", "evicted", "deactivated", "spec.active .* true"),
        ("server/0 A T", "leaving", "1 of its Pods are leaving", "when their grace ends"),
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
    assert re.search(release, row.hold.release), row.hold.release


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
        ("2026-01-01T00:00:00Z", "qwen-server-r0-m0", "asked to leave"),
        ("2026-01-01T00:00:00Z", "qwen-server-r0-m0", "created"),
        ("2026-01-01T00:00:30Z", "qwen-server-r0-m0", "Ready"),
        ("2026-01-01T00:00:30Z", "server/0", "admitted"),
        ("2026-01-01T00:00:30Z", "server/0", "got quota"),
    ]


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
