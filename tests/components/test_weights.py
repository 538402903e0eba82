"""Weights that cannot reach Pods yet: what preview says, and how a run waits for them and goes on by itself (bindings
sheet 5.6)."""

from collections.abc import Callable
from random import Random
from typing import Any

from gpustack_components.api.encode import encode
from gpustack_components.bindings.artifact import MODEL_CSI_DRIVER
from gpustack_components.cluster.port import Json, Kind
from gpustack_components.cluster.weight_objects import Named
from gpustack_components.components.preview import prepare, preview
from gpustack_components.components.provider import _wanted as wanted_of  # pyright: ignore[reportPrivateUsage]
from gpustack_components.components.request import Request
from gpustack_components.rollout.contract import Outcome, Timeouts
from gpustack_components.rollout.converge import converge
from tests.components.test_live_bindings import OWNER, Operated
from tests.render import build
from tests.rollout.simulation.view import SimulatedView

CLAIM = {"persistentVolumeClaim": {"claimName": "pvc"}}
ZONE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
REFERRING = {"spec": {"model": {"artifactRef": {"name": "weights"}}}}
NODE = {"model-artifact-delivery-mode": "Node"}


def asked(settings: Json | None = None, **changes: Any) -> Request:
    document = build.merged(encode(build.deployment(roles=[{"replicas": 2}])), REFERRING)
    return Request(build.merged(document, changes), (), settings or {}, owner=OWNER)


class Stored(Operated):
    """A simulated cluster that holds weights in a claim, and whose watches deliver what a test says happens."""

    def __init__(self, *, phase: str = "Pending", modes: tuple[str, ...] = ("ReadOnlyMany",)) -> None:
        super().__init__()
        self.reads: list[str] = []
        self.watched = True
        """Whether single objects may be watched."""
        self.keep(encode(build.artifact(CLAIM)))  # pyright: ignore[reportArgumentType]
        self.claim(phase, modes)
        self.put("StorageClass", "fast", provisioner="csi.example.com", volumeBindingMode="Immediate")
        self.put("PersistentVolume", "pv", spec={"nodeAffinity": {"required": ZONE}})

    def put(self, kind: str, name: str, **parts: Any) -> None:
        self.version += 1
        self.objects[kind, name] = {"kind": kind, "metadata": {"name": name, "uid": f"{kind}-{name}"}, **parts}

    def claim(self, phase: str, modes: tuple[str, ...] = ("ReadOnlyMany",)) -> None:
        spec = {"accessModes": list(modes), "storageClassName": "fast", "volumeName": "pv"}
        self.put("PersistentVolumeClaim", "pvc", spec=spec, status={"phase": phase, "accessModes": list(modes)})

    def resolve(self, status: str) -> None:
        self.version += 1
        self.keep(encode(build.artifact(CLAIM)), conditions=[{"type": "Resolved", "status": status}])  # pyright: ignore[reportArgumentType]

    def get(self, kind: Kind, namespace: str | None, name: str) -> Json | None:
        self.reads.append(kind.kind)
        return super().get(kind, namespace, name)

    def run(
        self, request: Request, *meanwhile: Callable[[], None], timeouts: Timeouts | None = None
    ) -> tuple[Outcome, list[str]]:
        """Converge; at each wait in which the run is held the next thing happens."""
        lines: list[str] = []
        ahead = list(meanwhile)

        class View(SimulatedView):
            def attend(view, objects: tuple[Named, ...]) -> tuple[Named, ...]:  # noqa: N805
                return super().attend(objects) if self.watched else ()

            def wait(view, seconds: float) -> None:  # noqa: N805
                if ahead and lines and "waits: " in lines[-1] and not self.pods():
                    ahead.pop(0)()
                    lines.append("")
                super().wait(seconds)

        view = View(self, build.NAMESPACE, "qwen", Random(1))
        wanted = wanted_of(request, prepare(request, self), self)
        bounds = timeouts or Timeouts(lease=0)
        return converge(self, wanted, timeouts=bounds, progress=lines.append, clock=self.clock, view=view), lines

    def affinities(self) -> list[Json]:
        return [pod["spec"].get("affinity", {}).get("nodeAffinity", {}) for pod in self.pods()]


def test_a_preview_says_what_holds_the_pods() -> None:
    shown = preview(asked(), None, lambda: Stored())
    assert shown.refused == ()
    (line,) = shown.plan
    assert "nothing is created or replaced" in line and "team-a/pvc" in line and "is Pending (class fast)" in line
    bound = preview(asked(), None, lambda: Stored(phase="Bound"))
    assert not any("nothing is created" in line for line in bound.plan)


def test_a_run_waits_for_the_artifact_and_its_claim_and_goes_on_by_itself() -> None:
    cluster = Stored()
    cluster.resolve("False")
    outcome, lines = cluster.run(asked(), lambda: cluster.resolve("True"), lambda: cluster.claim("Bound"))
    assert outcome.phase == "Converged", outcome.reasons
    waits = [line for line in lines if "waits: " in line][:2]
    assert waits[0].startswith("qwen server  waits: ")
    assert "is not resolved yet" in waits[0] and "is Pending" in waits[1]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": ZONE}
    assert cluster.affinities() == [required, required]


def test_a_run_that_waits_in_vain_ends_with_what_held_it_and_asked_nothing_meanwhile() -> None:
    cluster = Stored()
    outcome, lines = cluster.run(asked(), timeouts=Timeouts(lease=0, weights=3600))
    assert outcome.phase == "Incomplete" and cluster.pods() == []
    (reason,) = outcome.reasons
    assert "held for 1h (timeouts.weights 1h)" in reason and "is Pending" in reason
    assert sum("waits: " in line for line in lines) == 1
    assert cluster.reads.count("PersistentVolumeClaim") == 2


def test_a_conflict_of_access_modes_keeps_what_runs_and_adds_nothing() -> None:
    cluster = Stored(phase="Bound", modes=("ReadWriteOnce",))
    one = asked(spec={"roles": [{**encode(build.deployment())["spec"]["roles"][0], "replicas": 1}]})
    assert cluster.run(one)[0].phase == "Converged"
    (before,) = cluster.pods()
    outcome, _ = cluster.run(asked(), timeouts=Timeouts(lease=0, weights=5))
    assert outcome.phase == "Incomplete" and "ReadWriteOnce" in outcome.reasons[0]
    assert [pod["metadata"]["uid"] for pod in cluster.pods()] == [before["metadata"]["uid"]]


def test_weights_that_nodes_deliver_wait_for_the_plugin_and_prefer_nodes_that_have_them() -> None:
    cluster = Stored()
    cluster.keep(encode(build.artifact()))  # pyright: ignore[reportArgumentType]
    outcome, lines = cluster.run(asked(NODE), lambda: cluster.put("CSIDriver", MODEL_CSI_DRIVER))
    assert outcome.phase == "Converged", outcome.reasons
    assert any("no CSIDriver model.csi.gpustack.ai" in line for line in lines)
    assert cluster.affinities() == [{}, {}]
    nodes = {pod["spec"]["nodeName"] for pod in cluster.pods()}
    role = {**encode(build.deployment())["spec"]["roles"][0], "replicas": 3}
    assert cluster.run(asked(NODE, spec={"roles": [role]}))[0].phase == "Converged"
    (added,) = [one for one in cluster.affinities() if one]
    (term,) = added["preferredDuringSchedulingIgnoredDuringExecution"]
    assert set(term["preference"]["matchExpressions"][0]["values"]) == nodes


def test_what_may_not_be_read_is_said_and_holds_nothing() -> None:
    cluster = Stored()
    cluster.forbidden = {"PersistentVolumeClaim"}
    shown = preview(asked(), None, lambda: cluster)
    assert any("PersistentVolumeClaim pvc could not be read: 403" in sentence for sentence in shown.unjudged)
    assert not any("nothing is created" in line for line in shown.plan)
    assert cluster.run(asked())[0].phase == "Converged"
    cluster = Stored()
    cluster.forbidden = {"StorageClass"}
    shown = preview(asked(), None, lambda: cluster)
    assert any("StorageClass fast could not be read" in sentence for sentence in shown.unjudged)


def test_a_deployment_that_became_undeliverable_while_held_ends_with_the_reason() -> None:
    cluster = Stored()

    def lose_the_type() -> None:
        del cluster.objects["InstanceType", "h20-8x"]
        cluster.claim("Bound")

    outcome, _ = cluster.run(asked(), lose_the_type)
    assert outcome.phase == "Incomplete" and cluster.pods() == []
    assert any("there is no InstanceType" in reason for reason in outcome.reasons)


def test_weights_without_an_artifact_ask_nothing_more() -> None:
    cluster = Stored()
    plain = Request(encode(build.deployment(roles=[{"replicas": 2}])), owner=OWNER)
    assert cluster.run(plain)[0].phase == "Converged"
    assert {"PersistentVolumeClaim", "CSIDriver", "StorageClass", "PersistentVolume"}.isdisjoint(cluster.reads)


def test_what_cannot_be_watched_is_not_waited_for() -> None:
    cluster = Stored()
    cluster.watched = False
    outcome, _ = cluster.run(asked())
    assert outcome.phase == "Incomplete" and "is Pending" in outcome.reasons[0]
    assert "timeouts.weights" not in outcome.reasons[0]
