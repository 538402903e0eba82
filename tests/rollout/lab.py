"""A deployment on a real cluster: its queues, its Pods, and an eye on every request and every moment."""

import contextlib
import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpustack_components.api import names
from gpustack_components.api.encode import encode
from gpustack_components.api.model_deployment import ModelDeployment
from gpustack_components.cluster import keys
from gpustack_components.cluster.client import Client, connect
from gpustack_components.cluster.port import (
    CLUSTER_QUEUE,
    CONFIG_MAP,
    LEASE,
    LOCAL_QUEUE,
    POD,
    RESOURCE_FLAVOR,
    WORKLOAD,
    Json,
)
from gpustack_components.cluster.readings import admitted, annotation, at, label, name, ordinal, owner_uids, terminating
from gpustack_components.cluster.requests import Request
from gpustack_components.rollout.contract import Clock, Outcome, Timeouts, Wanted
from gpustack_components.rollout.converge import converge, teardown
from gpustack_components.rollout.desired import Desired, DesiredRole
from gpustack_components.rollout.record import record_name
from gpustack_components.rollout.reporting import Reporter
from gpustack_components.status.facts import Expected, Facts

NAME = "qwen"
QUEUE = "queue"
OWNER = "stack of this test"
GPU = "nvidia.com/gpu"
OWN_NODES = {"topology.kubernetes.io/region": "sandbox"}
"""On the nodes that last as long as the sandbox, and not on those that a test adds and removes."""
EXIT_AFTER, EXIT_CODE = "sandbox.gpustack.ai/exit-after", "sandbox.gpustack.ai/exit-code"
READY_AFTER, HANG = "sandbox.gpustack.ai/ready-after", "sandbox.gpustack.ai/hang"


def seconds_waited(reason: str) -> float:
    """How long a run says it has waited before it gave up: a busy machine lets it wait longer than it was to."""
    found = re.search(r" after ([0-9.]+) s\b", reason)
    assert found is not None, reason
    return float(found[1])


@dataclass(frozen=True)
class Rendered:
    """One replica's manifests."""

    members: tuple[Json, ...]
    service: Json | None


@dataclass
class Role:
    """What a test wants of one role."""

    config: str = "v1"
    replicas: int = 1
    size: int = 1
    cards: int = 1
    annotations: Mapping[str, str] = field(default_factory=dict)
    queue: str = QUEUE
    resource: str = GPU
    """What a card is counted in; there are far more CPUs than GPUs in the sandbox."""


def wanted(namespace: str, roles: Mapping[str, Role], *, owner: str = OWNER) -> Wanted:
    """The deployment `qwen` with these roles."""
    desired = Desired(
        namespace,
        NAME,
        tuple(
            DesiredRole(
                role,
                of.replicas,
                of.size,
                QUEUE,
                tuple(tuple(_hash(role, of, o, m) for m in range(of.size)) for o in range(of.replicas)),
            )
            for role, of in roles.items()
        ),
    )

    def render(role: str, replica: int) -> Rendered:
        of = roles[role]
        service = None
        if of.size > 1:
            service = {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {
                    "name": names.instance_service(NAME, role, replica),
                    "namespace": namespace,
                    "labels": {keys.APP_NAME: keys.APP_NAME_VALUE, keys.APP_INSTANCE: NAME},
                },
                "spec": {"clusterIP": "None", "selector": {keys.POD_ORDINAL: str(replica)}},
            }
        return Rendered(tuple(_pod(namespace, role, of, replica, member) for member in range(of.size)), service)

    declared = ModelDeployment.model_validate(
        {
            "metadata": {"name": NAME, "namespace": namespace},
            "spec": {
                "model": {"name": "m"},
                "engine": {"name": "vLLM", "image": "i"},
                "roles": [
                    {
                        "name": role,
                        "instanceType": of.queue or "none",
                        "replicas": of.replicas,
                        "size": of.size,
                        "image": of.config,
                    }
                    for role, of in roles.items()
                ],
            },
        }
    )
    reporter = Reporter(declared, Facts(expected=Expected({role.name: role.hashes for role in desired.roles})))
    return Wanted(desired, render, encode(declared), owner, "a test", reporter=reporter)


def _hash(role: str, of: Role, replica: int, member: int) -> str:
    return f"{of.config}-{of.size}-{role}-{replica}-{member}"


def _pod(namespace: str, role: str, of: Role, replica: int, member: int) -> Json:
    fixed = (
        {"name": names.member_pod(NAME, role, replica, member)} if of.size > 1 else {"generateName": f"{NAME}-{role}-"}
    )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **fixed,
            "namespace": namespace,
            "labels": {
                keys.APP_NAME: keys.APP_NAME_VALUE,
                keys.APP_INSTANCE: NAME,
                keys.APP_COMPONENT: role,
                keys.POD_ORDINAL: str(replica),
                keys.MEMBER_INDEX: str(member),
                **({keys.QUEUE_NAME: of.queue} if of.queue else {}),
                keys.GROUP_NAME: names.group_name(namespace, NAME, role, replica),
            },
            "annotations": {
                keys.GROUP_TOTAL: str(of.size),
                keys.GROUP_SERVING: "true",
                keys.ROLE_HASH: role,
                keys.POD_SPEC_HASH: _hash(role, of, replica, member),
                keys.RENDER_VERSION: "1",
                **of.annotations,
            },
        },
        "spec": {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 5,
            "nodeSelector": OWN_NODES,
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {
                    "name": keys.MAIN_CONTAINER,
                    "image": of.config,
                    "resources": {
                        "requests": {of.resource: str(of.cards)},
                        "limits": {of.resource: str(of.cards)},
                    },
                }
            ],
        },
    }


class Lab:
    """One namespace with a queue of its own."""

    def __init__(self, kubeconfig: Path, namespace: str, *, resource: str = GPU) -> None:
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self.resource = resource
        self.requests: list[Request] = []
        self.cluster: Client = connect(str(kubeconfig), on_request=self.requests.append)
        self.unseen = connect(str(kubeconfig))
        self.queue = f"rollout-{uuid.uuid4().hex[:8]}"
        self.lines: list[str] = []

    def open_queue(self, cards: int) -> None:
        """Make the flavor, the ClusterQueue with that quota and the LocalQueue."""
        kueue = "kueue.x-k8s.io/v1beta2"
        self.unseen.create(
            {"apiVersion": kueue, "kind": "ResourceFlavor", "metadata": {"name": self.queue}, "spec": {}}
        )
        self.set_quota(cards)
        self.unseen.create(
            {
                "apiVersion": kueue,
                "kind": "LocalQueue",
                "metadata": {"name": QUEUE, "namespace": self.namespace},
                "spec": {"clusterQueue": self.queue},
            }
        )

    def set_quota(self, cards: int, **spec: Any) -> None:
        """Create or change the ClusterQueue."""
        self.unseen.apply(
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "ClusterQueue",
                "metadata": {"name": self.queue},
                "spec": {
                    "namespaceSelector": {},
                    "resourceGroups": [
                        {
                            "coveredResources": [self.resource],
                            "flavors": [
                                {"name": self.queue, "resources": [{"name": self.resource, "nominalQuota": cards}]}
                            ],
                        }
                    ],
                    **spec,
                },
            },
            force=True,
        )

    def close(self) -> None:
        """Remove all of it."""
        with contextlib.suppress(Exception):
            self.down(timeouts=Timeouts(drain=20))
        for workload in self.unseen.list(WORKLOAD, self.namespace).items:
            self.unseen.delete(WORKLOAD, self.namespace, name(workload))
        self.unseen.delete(LOCAL_QUEUE, self.namespace, QUEUE)
        self.unseen.delete(CLUSTER_QUEUE, None, self.queue)
        self.unseen.delete(RESOURCE_FLAVOR, None, self.queue)

    def up(
        self,
        timeouts: Timeouts | None = None,
        cluster: Any = None,
        stop: Any = None,
        clock: Clock | None = None,
        **roles: Role,
    ) -> Outcome:
        """Converge to these roles."""
        return converge(
            cluster or self.cluster,
            wanted(self.namespace, roles),
            timeouts=timeouts or Timeouts(admission=20, drain=20, ready=20, lease=3),
            progress=self.lines.append,
            stop=stop,
            clock=clock,
        )

    def down(self, timeouts: Timeouts | None = None, cluster: Any = None) -> Outcome:
        """Tear it down."""
        return teardown(
            cluster or self.cluster,
            self.namespace,
            NAME,
            owner=OWNER,
            holder="a test",
            timeouts=timeouts or Timeouts(drain=20, lease=3),
            progress=self.lines.append,
        )

    def close_lease(self) -> None:
        """What a person does after a driver died elsewhere: remove its Lease."""
        self.unseen.delete(LEASE, self.namespace, record_name(NAME))

    def scribble(self, **state: Any) -> None:
        """Write into the record as another driver would."""
        stored = self.unseen.get(CONFIG_MAP, self.namespace, record_name(NAME))
        assert stored is not None
        self.unseen.replace({**stored, "data": {**stored["data"], "state": json.dumps(state)}})

    def annotate_record(self) -> None:
        """Change the record's version and nothing of what it says."""
        stored = self.unseen.get(CONFIG_MAP, self.namespace, record_name(NAME))
        assert stored is not None
        stored["metadata"]["annotations"]["somebody"] = "was here"
        self.unseen.replace(stored)

    def until(self, condition: Callable[[], Any], seconds: float = 60) -> None:
        """Wait for something to come about."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "it did not come about"
            time.sleep(0.05)

    def pods(self, role: str = "server") -> list[Json]:
        """The role's Pods, terminating ones included."""
        return [pod for pod in self.unseen.list(POD, self.namespace).items if label(pod, keys.APP_COMPONENT) == role]

    def workloads(self) -> list[Json]:
        """The namespace's Workloads."""
        return list(self.unseen.list(WORKLOAD, self.namespace).items)

    def configs(self, role: str = "server") -> dict[int | None, list[str]]:
        """The configuration of each ordinal's Pods that are not being deleted."""
        found: dict[int | None, list[str]] = {}
        for pod in self.pods(role):
            if not terminating(pod):
                config = (annotation(pod, keys.POD_SPEC_HASH) or "").partition("-")[0]
                found.setdefault(ordinal(pod), []).append(config)
        return dict(sorted(found.items(), key=lambda entry: entry[0] or 0))

    def admitted_uids(self) -> int:
        """How many replicas hold an admitted Workload with a live Pod."""
        live = {at(pod, "metadata", "uid") for pod in self.pods() if not terminating(pod)}
        return sum(1 for one in self.workloads() if admitted(one) and owner_uids(one) & live)

    @contextlib.contextmanager
    def watching(self, measure: Callable[[], Any], every: float = 0.05) -> Iterator[list[Any]]:
        """Collect a measurement again and again while the block runs."""
        seen: list[Any] = []
        done = threading.Event()

        def look() -> None:
            while not done.wait(every):
                seen.append(measure())

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield seen
        finally:
            done.set()
            thread.join(5)

    def writes(self) -> Sequence[str]:
        """The writes among the requests so far."""
        return [f"{one.verb} {one.subject}" for one in self.requests if one.verb not in ("get", "list", "watch")]
