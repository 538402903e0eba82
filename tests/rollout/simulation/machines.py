"""What schedulers, kubelets and the garbage collector do."""

from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import annotation, gated, terminal, terminating, uid
from tests.rollout.simulation.api_server import ApiServer

EXIT_CODE = "sandbox.gpustack.ai/exit-code"


class Kubelets:
    """Binds and starts Pods, ends deleted ones, and has the last word on them. Exits as the Pod's annotation says."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self.exit_code = "0"
        """Of Pods whose annotation does not say."""
        self.hanging: set[str] = set()
        """Uids of Pods that do not exit for now."""

    def sync(self, pod: Json) -> bool:
        """One write about a Pod, if one is due."""
        bound, phase = bool(pod["spec"].get("nodeName")), pod["status"]["phase"]
        if terminating(pod) and bound and not terminal(pod):
            if uid(pod) in self.hanging:
                return False
            code = annotation(pod, EXIT_CODE) or self.exit_code
            ended: Json = {"phase": "Succeeded" if code == "0" else "Failed"}
            self._server.store({**pod, "status": {**ended, "containerStatuses": [{"name": "main"}]}})
            return True
        if terminating(pod) and pod["metadata"].get("deletionGracePeriodSeconds"):
            self._server.ask_deletion(pod, 0)
            return True
        if not terminating(pod) and phase == "Pending" and not gated(pod):
            if not bound:
                self._server.update(pod, spec={"nodeName": "node"})
                return True
            conditions = [{"type": "Ready", "status": "True"}]
            status: Json = {"name": "main", "state": {"running": {}}}
            running: Json = {"phase": "Running", "conditions": conditions, "containerStatuses": [status]}
            self._server.store({**pod, "status": running})
            return True
        return False


class GarbageCollector:
    """Deletes what nobody owns any more, and forgets owners that are gone."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    def collect(self) -> bool:
        """One write, if one is due."""
        standing = list(self._server.objects.values())
        alive = {uid(obj) for obj in standing}
        for obj in standing:
            owners: list[Json] = obj["metadata"].get("ownerReferences") or []
            left = [owner for owner in owners if owner["uid"] in alive]
            if owners and not left and not terminating(obj):
                self._server.ask_deletion(obj)
                return True
            if left and len(left) < len(owners):
                self._server.update(obj, metadata={"ownerReferences": left})
                return True
        return False
