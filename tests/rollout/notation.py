"""A short notation for the state of replicas, as the worked sequences of the rollout sheet (5.4) write them.

One replica: `<configuration>[<total>]:<members>/<workload>`, for example `old/A`, `new[2]:0,1/q`, `old~run/A`.

- `<members>`: seats that are filled, all of them when absent; `0!` is a member that is being deleted.
- after the configuration: `~run` deleted and still running, `~out` deleted and exited, `~done` ended by itself; else
  running under an admitted Workload, and behind the gate under any other.
- `<workload>`: `A` admitted, `q` waiting for its first admission, `p` preempted, `T` being deleted, `-` none,
  `F` foreign.
"""

import re
from collections.abc import Mapping
from typing import Any

from gpustack_components.api import names
from gpustack_components.cluster import keys
from gpustack_components.cluster.port import Json
from gpustack_components.rollout.actions import Action, CreateReplica, DeletePods, DeleteWorkload, ReleaseFinalizer
from gpustack_components.rollout.desired import Desired, DesiredRole, Hold
from gpustack_components.rollout.observe import Observed, observe
from gpustack_components.rollout.slots import Slot

NAMESPACE, NAME, OWNER = "team-a", "qwen", "record-uid"

_REPLICA = re.compile(
    r"(?P<config>\w+)(\[(?P<total>\d+)\])?(~(?P<life>run|out|done))?(:(?P<members>[\d,!]*))?/(?P<workload>[AqpTF-])"
)


def fingerprint(config: str, ordinal: int, member: int) -> str:
    """The fingerprint of a seat under a configuration."""
    return f"{config}-o{ordinal}-m{member}"


def pod_uid(config: str, role: str, ordinal: int | None, member: int) -> str:
    """The uid the notation gives to a Pod."""
    return f"{role}-o{ordinal}-m{member}-{config}"


def workload_uid(config: str, role: str, ordinal: int | None) -> str:
    """The uid the notation gives to a Workload."""
    return f"{role}-o{ordinal}-wl-{config}"


def desired(config: str = "new", roles: Mapping[str, Mapping[str, Any]] | None = None, **one: Any) -> Desired:
    """What is wanted: one role `server`, or several with their replicas and size."""
    holds = tuple(Hold(kind, f"no {kind}") for kind in one.pop("holds", ()))
    floor = one.pop("floor", 0)
    declared = roles if roles is not None else {"server": one}
    return Desired(
        NAMESPACE,
        NAME,
        tuple(
            DesiredRole(
                name=name,
                replicas=int(role.get("replicas", 1)),
                size=int(role.get("size", 1)),
                queue="queue",
                hashes=tuple(
                    tuple(fingerprint(role.get("config", config), o, m) for m in range(int(role.get("size", 1))))
                    for o in range(int(role.get("replicas", 1)))
                ),
            )
            for name, role in declared.items()
        ),
        floor=floor,
        holds=holds,
    )


def container(config: str) -> Json:
    """The main container of a configuration; it asks for one card."""
    return {"name": keys.MAIN_CONTAINER, "image": config, "resources": {"requests": {"nvidia.com/gpu": "1"}}}


def pod(
    config: str,
    ordinal: int | None,
    *,
    role: str = "server",
    member: int = 0,
    total: int = 1,
    life: str = "gate",
    owner: str = OWNER,
    uid: str | None = None,
    name: str | None = None,
    **labels: str,
) -> Json:
    """A raw Pod; `life` is gate, running, run, out or done."""
    fixed = f"{NAME}-{role}-r{ordinal}-m{member}" if total > 1 else f"{NAME}-{role}-{ordinal}-{config}"
    raw: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name or fixed,
            "namespace": NAMESPACE,
            "uid": uid or pod_uid(config, role, ordinal, member),
            "labels": {
                keys.APP_NAME: keys.APP_NAME_VALUE,
                keys.APP_INSTANCE: NAME,
                keys.APP_COMPONENT: role,
                keys.MEMBER_INDEX: str(member),
                keys.QUEUE_NAME: "queue",
                **({} if ordinal is None else {keys.POD_ORDINAL: str(ordinal)}),
                keys.GROUP_NAME: names.group_name(NAMESPACE, NAME, role, ordinal or 0),
                **labels,
            },
            "annotations": {
                keys.GROUP_TOTAL: str(total),
                keys.POD_SPEC_HASH: fingerprint(config, ordinal or 0, member),
                keys.RENDER_VERSION: "1",
            },
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "qwen-modeldeployment", "uid": owner}
            ],
            "finalizers": [keys.MANAGED],
        },
        "spec": {"containers": [container(config)]},
        "status": {"phase": "Pending"},
    }
    if life == "gate":
        raw["spec"]["schedulingGates"] = [{"name": keys.ADMISSION_GATE}]
    else:
        raw["spec"]["nodeName"] = "node-a"
        raw["status"] = {"phase": "Running", "containerStatuses": [{"name": keys.MAIN_CONTAINER}]}
    if life in ("run", "out"):
        raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if life in ("out", "done"):
        raw["status"]["phase"] = "Succeeded"
    return raw


def workload(
    config: str,
    ordinal: int,
    owners: list[str],
    state: str,
    *,
    role: str = "server",
    uid: str | None = None,
    **status: Any,
) -> Json:
    """A raw Workload in one of the states of the notation."""
    conditions = {
        "A": [("QuotaReserved", "True"), ("Admitted", "True")],
        "q": [("QuotaReserved", "False")],
        "p": [("QuotaReserved", "False"), ("Admitted", "False"), ("Preempted", "True"), ("Requeued", "True")],
        "T": [("QuotaReserved", "True"), ("Admitted", "True")],
        "F": [("QuotaReserved", "True"), ("Admitted", "True")],
    }[state]
    raw: Json = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": names.group_name(NAMESPACE, NAME, role, ordinal),
            "namespace": NAMESPACE,
            "uid": uid or workload_uid(config, role, ordinal),
            "finalizers": [keys.WORKLOAD_FINALIZER],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner} for owner in owners],
        },
        "spec": {
            "queueName": "queue",
            "active": True,
            "podSets": [
                {
                    "name": role,
                    "count": len(owners) or 1,
                    "template": {"spec": {"containers": [container(config)]}},
                }
            ],
        },
        "status": {
            "conditions": [
                {"type": kind, "status": value, "reason": "Because", "message": f"{kind} says so"}
                for kind, value in conditions
            ],
            **status,
        },
    }
    if state == "T":
        raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return raw


def replica(text: str, ordinal: int | None, role: str = "server") -> tuple[list[Json], list[Json]]:
    """The Pods and Workloads of one replica in the notation."""
    if text.strip() in ("", "none"):
        return [], []
    match = _REPLICA.fullmatch(text.strip())
    assert match is not None, text
    config, state, total = match["config"], match["workload"], int(match["total"] or 1)
    life = match["life"] or ("running" if state in "AT" else "gate")
    if match["members"] is None:
        seats = [(seat, life) for seat in range(total)]
    else:
        listed = [entry for entry in match["members"].split(",") if entry]
        seats = [(int(entry.rstrip("!")), "run" if entry.endswith("!") else life) for entry in listed]
    pods = [pod(config, ordinal, role=role, member=seat, total=total, life=of) for seat, of in seats]
    if state == "-":
        return pods, []
    owners = [] if state == "F" else [item["metadata"]["uid"] for item in pods]
    if not owners and state != "F":
        owners = [pod_uid(config, role, ordinal, seat) for seat in range(total)]
    group = workload(config, ordinal or 0, owners, state, role=role, uid="foreign" if state == "F" else None)
    group["spec"]["podSets"][0]["count"] = total
    if ordinal is None:
        group["metadata"]["name"] = f"orphan-{config}"
    return pods, [group]


def state(replicas: Mapping[Any, str], role: str = "server") -> tuple[list[Json], list[Json]]:
    """The Pods and Workloads of one role: ordinal (or `orphan-<name>`) to notation; several separated by blanks."""
    pods: list[Json] = []
    workloads: list[Json] = []
    for ordinal, texts in replicas.items():
        for text in texts.split():
            own = int(ordinal) if str(ordinal).isdigit() else None
            some_pods, some_workloads = replica(text, own, role)
            pods += some_pods
            workloads += some_workloads
    return pods, workloads


def observed(replicas: Mapping[Any, str], role: str = "server") -> Observed:
    """One role's state as the planner sees it."""
    pods, workloads = state(replicas, role)
    return observe(pods, workloads, OWNER, record_name="qwen-modeldeployment")


def slot(text: str, role: str = "server") -> Slot:
    """A slot: `2 Cleanup old`, `2 Cleanup old[2]`, `2 Waiting new`, `2 Waiting new[2] recorded`."""
    ordinal_text, phase, config_text, *more = text.split()
    ordinal = int(ordinal_text)
    config, _, total_text = config_text.partition("[")
    total = int(total_text.rstrip("]") or 1) if total_text else 1
    uids = tuple(sorted(pod_uid(config, role, ordinal, member) for member in range(total)))
    if phase == "Cleanup":
        return Slot(role, ordinal, "Cleanup", uids, workload_uid(config, role, ordinal))
    hashes = tuple(fingerprint(config, ordinal, member) for member in range(total))
    return Slot(
        role,
        ordinal,
        "WaitingForAdmission",
        member_hashes=hashes,
        current_member_uids=uids if "recorded" in more else (),
    )


def say(action: Action) -> str:
    """An action as the cases write it."""
    match action:
        case DeletePods():
            place = "orphan" if action.ordinal is None else str(action.ordinal)
            return f"delete {action.role}/{place} {' '.join(sorted(pod.uid for pod in action.pods))} ({action.why})"
        case DeleteWorkload():
            return f"delete workload {action.uid}"
        case ReleaseFinalizer():
            return f"release {action.pod.uid}"
        case CreateReplica():
            return f"create {action.role}/{action.ordinal} {','.join(map(str, action.members))}"
        case _:
            return type(action).__name__


def say_slot(held: Slot | None) -> str:
    """A slot as the cases expect it: `none`, `2 Cleanup <uids>` or `2 Waiting <hashes>`."""
    if held is None:
        return "none"
    if held.phase == "Cleanup":
        return f"{held.ordinal} Cleanup {' '.join(held.member_uids)}"
    return f"{held.ordinal} Waiting {' '.join(held.member_hashes)}"
