"""Engines that answer, behind Services that select by the label: what the retirement of a replica asks about."""

from __future__ import annotations

import re

from gpustack_components.api.names import role_service
from gpustack_components.cluster import keys
from gpustack_components.cluster.port import ENDPOINT_SLICE, SERVICE, Json, Kind, Listing, Unreachable
from gpustack_components.cluster.readings import label, name, ready, role, uid
from tests.rollout.simulation.clock import SimulatedClock
from tests.rollout.simulation.cluster import SimulatedCluster

IDLE = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"
BUSY = "vllm:num_requests_running 2\nvllm:num_requests_waiting 0\n"


class ServingCluster(SimulatedCluster):
    """A simulated cluster whose engines are idle unless told otherwise."""

    def __init__(self, clock: SimulatedClock, quota: int, deployment: str) -> None:
        super().__init__(clock, quota)
        self._deployment = deployment
        self.busy: set[str] = set()
        """Names of Pods whose engine has requests."""
        self.silent: set[str] = set()
        """Names of Pods whose engine does not answer."""

    def read_pod(self, namespace: str, name: str, port: int, path: str, *, scheme: str = "http") -> str:
        if name in self.silent or ("Pod", name) not in self.objects:
            raise Unreachable("no answer")
        return BUSY if name in self.busy else IDLE

    def get(self, kind: Kind, namespace: str | None, name: str) -> Json | None:
        if kind is SERVICE and not re.search(r"-r\d+$", name):
            return {"metadata": {"name": name}, "spec": {"selector": {keys.ENDPOINT_ELIGIBLE: "true"}}}
        return super().get(kind, namespace, name)

    def list(self, kind: Kind, namespace: str | None, selector: str = "", *, field_selector: str = "") -> Listing:
        if kind is not ENDPOINT_SLICE:
            return super().list(kind, namespace, selector)
        slices = tuple(
            {
                "metadata": {
                    "name": name(pod),
                    "labels": {"kubernetes.io/service-name": role_service(self._deployment, role(pod) or "")},
                },
                "endpoints": [{"targetRef": {"uid": uid(pod)}, "conditions": {"ready": True}}],
            }
            for pod in self.pods()
            if label(pod, keys.ENDPOINT_ELIGIBLE) and ready(pod)
        )
        return Listing(slices, str(self.version))
