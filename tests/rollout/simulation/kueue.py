"""What Kueue 0.17 does with groups of plain serving Pods: webhook, group reconciler, Workload reconciler, scheduler.

Follows kueue-facts.md sections 0 to 5 and the order of Kueue's own reconcilers; `tests/rollout/test_like_kueue.py`
compares it with the real one.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import WORKLOAD, Json
from gpustack_components.cluster.readings import condition, gated, holds, name, terminal, terminating, uid
from tests.rollout.simulation.api_server import ApiServer, age, reserved

PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
_UNDISTURBED = 0.9
"""Chance that Kueue goes on with a list of Pods it has; else a request of it failed and it begins anew."""


class Kueue:
    """Kueue's controllers over one ClusterQueue; every step does at most one write, or reports that none is due."""

    def __init__(self, server: ApiServer, quota: int) -> None:
        self._server = server
        self.quota = quota
        """Pods that may hold quota at once."""
        self.priorities: Mapping[str, int] = {}
        """Value of each WorkloadPriorityClass; 0 for any other."""
        self.excess = 0
        """Pods deleted as excess so far."""
        self._aside: set[str] = set()
        self._listed: dict[str, dict[str, frozenset[str]]] = {}

    def take_in(self, pod: Json) -> Json:
        """The webhook: a new Pod with gate, finalizer and label, if it names a queue."""
        metadata = pod["metadata"]
        if keys.QUEUE_NAME not in metadata.get("labels", {}):
            return {**pod, "status": {"phase": "Pending"}}
        labels = {**metadata.get("labels", {}), keys.MANAGED: "true"}
        metadata = {**metadata, "labels": labels, "finalizers": [*metadata.get("finalizers", ()), keys.MANAGED]}
        spec = {**pod["spec"], "schedulingGates": [{"name": keys.ADMISSION_GATE}]}
        return {**pod, "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}

    def reconcile_group(self, group: str, chance: Random) -> bool:
        """One write of the group reconciler. Pods created within one second have no order."""
        pods, workload = self._server.pods(group), self._server.objects.get(("Workload", group))
        chance.shuffle(pods)
        if not pods:
            return workload is not None and self._let_go(workload)
        if workload is None:
            return (not _suspended(pods) and self._stop(pods)) or self._compose(group, pods)
        if workload["spec"]["podSets"][0]["name"] not in map(_role, pods):
            return self._make_fit(workload, pods)
        everybody = pods
        if terminating(workload):
            if chance.random() > _UNDISTURBED:
                self._listed.pop(uid(workload), None)
            pods = self._as_listed("stop", workload, pods)
        active = [pod for pod in pods if _active(pod)]
        inactive = [pod for pod in pods if not _active(pod)]
        count = workload["spec"]["podSets"][0]["count"]
        replaced = sorted(inactive, key=lambda pod: (not _managed(pod), _created(pod)))
        replaced = replaced[len(replaced) - max(min(len(inactive), len(pods) - count), 0) :]
        active.sort(key=_kept_first)
        kept = [pod for pod in pods if pod not in replaced and pod not in active[count:]]
        if (
            self._own(workload, kept)
            or self._remove_excess(active[count:])
            or any(self._finalize(pod) for pod in replaced)
        ):
            return True
        if terminating(workload):
            return self._delete_all(workload, pods, everybody)
        if holds(workload, "Evicted"):
            return self._evict(workload, pods)
        if _suspended(kept):
            return holds(workload, "Admitted") and self._start(kept)
        return not holds(workload, "Admitted") and self._stop(kept)

    def _make_fit(self, workload: Json, pods: list[Json]) -> bool:
        """A Workload stands on the group's name that knows none of its roles (kueue-facts 4)."""
        if not _suspended(pods) and self._stop(pods):
            return True
        if terminating(workload):
            return self._let_go(workload)
        present = [pod for pod in pods if _active(pod)]
        if _suspended(pods) and not reserved(workload):
            if len(present) < _total(pods[0]):
                return False
            active = workload["spec"].get("active", True)
            self._server.store({**workload, "spec": {**self._spec(present), "active": active}})
        else:
            self._let_go(workload)
            self._server.ask_deletion(self._server.current(workload) or workload)
        return True

    def _spec(self, present: list[Json]) -> Json:
        """The Workload's spec for these Pods; the oldest is its template."""
        first = min(present, key=age)
        labels, pod_set = first["metadata"]["labels"], {"name": _role(first), "count": _total(first)}
        return {
            "queueName": labels.get(keys.QUEUE_NAME),
            "active": True,
            "priority": self.priorities.get(labels.get(PRIORITY_CLASS, ""), 0),
            "podSets": [{**pod_set, "template": {"spec": first["spec"]}}],
        }

    def _let_go(self, workload: Json) -> bool:
        if keys.WORKLOAD_FINALIZER not in workload["metadata"].get("finalizers", ()):
            return False
        self._server.release(workload, keys.WORKLOAD_FINALIZER)
        return True

    def _own(self, workload: Json, pods: list[Json]) -> bool:
        owners: list[Json] = workload["metadata"].get("ownerReferences", [])
        known = {owner["uid"] for owner in owners}
        new = [_owner(pod) for pod in pods if uid(pod) not in known]
        if not new:
            return False
        self._server.update(workload, metadata={"ownerReferences": [*owners, *new]})
        return True

    def _remove_excess(self, pods: list[Json]) -> bool:
        for pod in pods:
            if self._finalize(pod):
                standing = self._server.current(pod)
                if standing is not None and not terminating(standing):
                    self.excess += 1
                    self._server.ask_deletion(standing)
                return True
            if not terminating(pod):
                self.excess += 1
                self._server.ask_deletion(pod)
                return True
        return False

    def _finalize(self, pod: Json) -> bool:
        if not _managed(pod):
            return False
        self._server.release(pod, keys.MANAGED)
        return True

    def _delete_all(self, workload: Json, pods: list[Json], everybody: list[Json]) -> bool:
        """The Workload is deleted: stop the Pods, let everybody go, then the Workload itself.

        Kueue lists the Pods once to stop them and again to let them go: one that comes in between is let go only,
        and one that comes after both is left alone.
        """
        for pod in pods:
            if not terminating(pod):
                self._server.ask_deletion(pod)
                return True
        return any(map(self._finalize, self._as_listed("let go", workload, everybody))) or self._let_go(workload)

    def _as_listed(self, purpose: str, workload: Json, pods: list[Json]) -> list[Json]:
        """Those of the Pods that stood when they were first listed for that purpose."""
        listed = self._listed.setdefault(uid(workload), {}).setdefault(purpose, frozenset(map(uid, pods)))
        return [pod for pod in pods if uid(pod) in listed]

    def _stop(self, pods: list[Json]) -> bool:
        """Delete what runs; what is gated or has ended stays."""
        for pod in pods:
            if not terminating(pod) and not gated(pod) and not terminal(pod):
                self._server.ask_deletion(pod)
                return True
        return False

    def _evict(self, workload: Json, pods: list[Json]) -> bool:
        if self._stop(pods):
            return True
        if not reserved(workload) or self._any_runs(pods):
            return False
        evicted = condition(workload, "Evicted")
        assert evicted is not None
        requeued = "True" if evicted.reason == "Preempted" else "False"
        workload = self._server.set_condition(workload, "Requeued", requeued, evicted.reason, evicted.message)
        workload = self._server.set_condition(workload, "QuotaReserved", "False", "Pending", evicted.message)
        self._server.set_condition(workload, "Admitted", "False", "NoReservation", "The workload has no reservation")
        return True

    def _any_runs(self, pods: list[Json]) -> bool:
        """Whether a Pod runs that is not past twice its grace (kueue-facts 5.6)."""
        now = self._server.clock.now()
        return any(pod["status"]["phase"] == "Running" and now <= _given_up_at(pod) for pod in pods)

    def _start(self, pods: list[Json]) -> bool:
        for pod in pods:
            if gated(pod):
                self._server.update(pod, spec={"schedulingGates": []})
                return True
        return False

    def _compose(self, group: str, pods: list[Json]) -> bool:
        """Make a Workload of a group that has none (kueue-facts 0, rule 4)."""
        if self._any_runs(pods):
            return False
        if any(self._finalize(pod) for pod in pods if not _active(pod)):
            return True
        active = sorted((pod for pod in pods if _active(pod)), key=_kept_first)
        totals = {_total(pod) for pod in pods if pod["status"]["phase"] != "Failed"}
        queues = {pod["metadata"]["labels"].get(keys.QUEUE_NAME) for pod in pods if pod["status"]["phase"] != "Failed"}
        if not active or len(totals) != 1 or len(queues) != 1 or len(active) < (total := totals.pop()):
            return False
        if self._remove_excess(active[total:]):
            return True
        kept = pods if len(active) == total else active[:total]
        self._server.create(
            {
                "apiVersion": WORKLOAD.api_version,
                "kind": "Workload",
                "metadata": {
                    "name": group,
                    "finalizers": [keys.WORKLOAD_FINALIZER],
                    "ownerReferences": [_owner(pod) for pod in kept],
                },
                "spec": self._spec(active[:total]),
                "status": {"conditions": []},
            }
        )
        return True

    def reconcile_workload(self, workload: Json) -> bool:
        """One write of the Workload reconciler: activation, and what nobody owns any more."""
        if terminating(workload):
            return not workload["metadata"].get("ownerReferences") and self._let_go(workload)
        requeued = condition(workload, "Requeued")
        if workload["spec"].get("active") is False:
            if holds(workload, "Evicted"):
                return False
            self._server.set_condition(workload, "Evicted", "True", "Deactivated", "The workload is deactivated")
            return True
        if requeued is not None and (requeued.status, requeued.reason) == ("False", "Deactivated"):
            self._server.set_condition(workload, "Requeued", "True", "Reactivated", "The workload was reactivated")
            return True
        return False

    def schedule(self, chance: Random) -> bool:
        """One write of the scheduler: reserve for one Workload, preempt for one, or say why one waits.

        The highest priority goes first, among equals any. What does not fit waits aside until `look_again`.
        """
        workloads = self._server.workloads()
        used = sum(w["spec"]["podSets"][0]["count"] for w in workloads if reserved(w))
        waiting = [w for w in workloads if _admissible(w) and uid(w) not in self._aside]
        chance.shuffle(waiting)
        waiting.sort(key=_priority, reverse=True)
        for workload in waiting:
            count = workload["spec"]["podSets"][0]["count"]
            if used + count <= self.quota:
                self._reserve(workload)
                return True
            short = used + count - self.quota
            if self._preempt(workload, short, workloads):
                return True
            self._aside.add(uid(workload))
            message = f"couldn't assign flavors to pod set main: insufficient unused quota, {short} more needed"
            if count > self.quota:
                message += f", current podset request ({count}) > maximum capacity ({self.quota})"
            if self._server.set_condition(workload, "QuotaReserved", "False", "Pending", message) is not workload:
                return True
        return False

    def look_again(self) -> bool:
        """Take back what waits aside, as Kueue does about a second after quota has changed hands (kueue-facts 1)."""
        were, self._aside = self._aside, set()
        return bool(were)

    def _reserve(self, workload: Json) -> None:
        conditions: list[Json] = []
        for one in workload["status"].get("conditions", []):
            if one["type"] in ("Evicted", "Preempted") and one["status"] == "True":
                one = {**one, "status": "False", "message": f"Previously: {one['message']}"}
            if one["type"] not in ("QuotaReserved", "Admitted"):
                conditions.append(one)
        conditions += [
            {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "Quota reserved"},
            {"type": "Admitted", "status": "True", "reason": "Admitted", "message": "The workload is admitted"},
        ]
        self._server.update(workload, status={"conditions": conditions})

    def _preempt(self, workload: Json, short: int, workloads: list[Json]) -> bool:
        """Evict Workloads of lower priority, the lowest and newest first, when that makes room."""
        lower = [w for w in workloads if reserved(w) and _priority(w) < _priority(workload)]
        lower.sort(key=lambda w: (not holds(w, "Evicted"), _priority(w), -age(w)))
        chosen: list[Json] = []
        for one in lower:
            if short <= 0:
                break
            chosen.append(one)
            short -= one["spec"]["podSets"][0]["count"]
        if short > 0:
            return False
        for one in reversed(chosen[:-1]):
            if short + one["spec"]["podSets"][0]["count"] <= 0:
                short += one["spec"]["podSets"][0]["count"]
                chosen.remove(one)
        for one in chosen:
            if not holds(one, "Evicted"):
                self.evict(one, "Preempted")
                return True
        return False

    def evict(self, workload: Json, reason: str) -> None:
        """Evict a Workload: `Preempted` by a more important one, or `ClusterQueueStopped`."""
        message = "Preempted to accommodate a workload" if reason == "Preempted" else "The ClusterQueue is stopped"
        workload = self._server.set_condition(workload, "Evicted", "True", reason, message)
        if reason == "Preempted":
            self._server.set_condition(workload, "Preempted", "True", "InClusterQueue", message)


def _managed(pod: Json) -> bool:
    return keys.MANAGED in pod["metadata"].get("finalizers", ())


def _active(pod: Json) -> bool:
    """Whether Kueue counts it as present (kueue-facts 0, rule 1)."""
    if pod["metadata"].get("deletionTimestamp") and not pod["spec"].get("nodeName"):
        return False
    return bool(pod["status"]["phase"] != "Failed")


def _suspended(pods: list[Json]) -> bool:
    return any(gated(pod) or terminal(pod) for pod in pods)


def _created(obj: Json) -> str:
    """When it was created, to the second."""
    return str(obj["metadata"]["creationTimestamp"])


def _kept_first(pod: Json) -> tuple[bool, bool, str]:
    """Sorts present Pods so that what is excess comes last (kueue-facts 0, rule 2)."""
    return (not _managed(pod), gated(pod), _created(pod))


def _total(pod: Json) -> int:
    return int(pod["metadata"]["annotations"].get(keys.GROUP_TOTAL, 0))


def _role(pod: Json) -> str:
    return str(pod["metadata"]["annotations"].get(keys.ROLE_HASH, ""))


def _owner(pod: Json) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "name": name(pod), "uid": uid(pod)}


def _priority(workload: Json) -> Any:
    return workload["spec"].get("priority", 0)


def _admissible(workload: Json) -> bool:
    if reserved(workload) or terminating(workload) or workload["spec"].get("active") is False:
        return False
    requeued = condition(workload, "Requeued")
    return requeued is None or requeued.status != "False"


def _given_up_at(pod: Json) -> datetime:
    """When Kueue no longer counts on this Pod to exit."""
    deadline = pod["metadata"].get("deletionTimestamp")
    if deadline is None:
        return datetime.max.replace(tzinfo=UTC)
    return datetime.fromisoformat(deadline) + timedelta(seconds=pod["metadata"]["deletionGracePeriodSeconds"])
