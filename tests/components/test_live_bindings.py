"""A program that declares no binding objects where the operator keeps them: the provider reads those it refers to."""

from random import Random
from typing import Any

import pytest

from gpustack_components.api.encode import encode
from gpustack_components.cluster.binding_objects import OPERATOR_CRD
from gpustack_components.cluster.port import Forbidden, Json, Kind
from gpustack_components.components.preview import prepare, preview, recheck
from gpustack_components.components.request import Request
from gpustack_components.rollout.contract import RolloutRefused, Timeouts, Wanted
from gpustack_components.rollout.converge import converge
from tests.render import build
from tests.rollout.simulation.clock import SimulatedClock
from tests.rollout.simulation.cluster import SimulatedCluster
from tests.rollout.simulation.view import SimulatedView

OWNER = "stack of this test"
DOCUMENT = build.deployment(roles=[{"replicas": 2}], kvCache={"poolRef": {"name": "cache"}})


def asked(*declared: Any, **changes: Any) -> Request:
    return Request(build.merged(encode(DOCUMENT), changes), tuple(map(encode, declared)), owner=OWNER)


class Operated(SimulatedCluster):
    """A simulated cluster with the operator's objects."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        super().__init__(self.clock, 100)
        self.forbidden: set[str] = set()
        self.objects["CustomResourceDefinition", OPERATOR_CRD] = {
            "kind": "CustomResourceDefinition",
            "metadata": {"name": OPERATOR_CRD},
        }
        ready = {"phase": "Ready", "conditions": [{"type": "QuotaGranted", "status": "True"}]}
        types = build.instance_type(status={"entrance": "queue-of-the-operator"})
        for one in (types, *build.store(binding_status=ready)):
            self.keep(encode(one))  # pyright: ignore[reportArgumentType]

    def keep(self, raw: Json, **status: Any) -> None:
        live = {"metadata": {"resourceVersion": "7", "uid": "u"}, "status": status}
        self.objects[raw["kind"], raw["metadata"]["name"]] = build.merged(raw, live)

    def get(self, kind: Kind, namespace: str | None, name: str) -> Json | None:
        if kind.kind in self.forbidden:
            raise Forbidden(f"403: these credentials may not get {kind.plural}.")
        return super().get(kind, namespace, name)

    def up(self, request: Request) -> None:
        judgement = prepare(request, self)
        assert judgement.resolved is not None and judgement.document is not None, judgement.sentences
        wanted = Wanted.of(judgement.resolved, encode(judgement.document), owner=OWNER, holder="test")
        view = SimulatedView(self, build.NAMESPACE, "qwen", Random(1))
        outcome = converge(self, wanted, timeouts=Timeouts(lease=0), clock=self.clock, view=view)
        assert outcome.phase == "Converged", outcome.reasons


@pytest.fixture
def cluster() -> Operated:
    return Operated()


def test_what_is_not_declared_is_read_and_named_in_what_the_plan_was_made_from(cluster: Operated):
    shown = preview(asked(), None, lambda: cluster)
    assert (shown.refused, shown.warnings, shown.unjudged, shown.blind) == ((), (), (), False)
    bound = shown.observed["bindings"]
    assert bound["InstanceType h20-8x"]["entrance"] == "queue-of-the-operator"
    assert bound["KVCachePool shared-dram"]["clientEndpoint"] == build.ENDPOINT
    cluster.up(asked())
    (queue,) = {pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] for pod in cluster.pods()}
    assert queue == "queue-of-the-operator"


def test_a_store_that_moved_is_a_change_without_any_edit(cluster: Operated):
    cluster.up(asked())
    settled = preview(asked(), asked(), lambda: cluster)
    assert (settled.observed["settled"], recheck(asked(), cluster)) == (True, ())
    cluster.keep(cluster.objects["KVCachePool", "shared-dram"], clientEndpoint="moved:1")
    moved = preview(asked(), asked(), lambda: cluster)
    assert moved.observed["settled"] is False and moved.plan
    assert moved.observed["bindings"]["KVCachePool shared-dram"]["clientEndpoint"] == "moved:1"
    assert recheck(asked(), cluster)


@pytest.mark.parametrize("kind", ["InstanceType", "KVCachePoolBinding", "KVCachePool", "KVCacheBackend"])
def test_a_state_that_moves_by_itself_changes_no_input(cluster: Operated, kind: str):
    cluster.up(asked())
    before = preview(asked(), asked(), lambda: cluster).observed
    (name,) = [name for of, name in cluster.objects if of == kind]
    cluster.keep(cluster.objects[kind, name], phase="Degraded", conditions=[{"type": "Odd", "status": "True"}])
    after = preview(asked(), asked(), lambda: cluster)
    assert (after.observed, after.plan) == (before, ())


def test_a_type_that_does_not_exist_is_refused(cluster: Operated):
    del cluster.objects["InstanceType", "h20-8x"]
    (first, *_) = preview(asked(), None, lambda: cluster).refused
    assert first.startswith('spec.roles[0].instanceType: there is no InstanceType "h20-8x"')


def test_a_declared_type_makes_up_for_one_that_is_not_there_yet(cluster: Operated):
    del cluster.objects["InstanceType", "h20-8x"]
    assert preview(asked(build.instance_type()), None, lambda: cluster).refused == ()


def test_a_declaration_that_contradicts_the_cluster_is_warned_of(cluster: Operated):
    declared = build.instance_type(spec={"unitResources": {"cpu": "8"}}, status=None)
    shown = preview(asked(declared), None, lambda: cluster)
    assert shown.refused == ()
    cluster.up(asked(declared))
    settled = preview(asked(declared), asked(declared), lambda: cluster)
    assert settled.plan == () and settled.warnings == shown.warnings
    (warning,) = settled.warnings
    assert "spec.unitResources.cpu 8, in the cluster 16" in warning


def test_what_may_not_be_read_is_said_and_static_rules_still_refuse(cluster: Operated):
    cluster.forbidden = {"InstanceType"}
    shown = preview(asked(), None, lambda: cluster)
    assert shown.blind and shown.refused == ()
    (line,) = shown.plan
    assert "InstanceType h20-8x could not be read: 403: these credentials may not get instancetypes." in line
    assert any("InstanceType h20-8x is not known" in sentence for sentence in shown.unjudged)
    wrong = preview(asked(metadata={"name": "Q"}), None, lambda: cluster)
    assert any(sentence.startswith("metadata.name") for sentence in wrong.refused)


def test_an_update_that_may_not_read_is_not_begun_and_says_why(cluster: Operated):
    cluster.forbidden = {"InstanceType"}
    judgement = prepare(asked(), cluster)
    assert judgement.resolved is None
    assert "may not get instancetypes" in " ".join(judgement.sentences)


@pytest.mark.parametrize("kind", ["KVCachePoolBinding", "KVCachePool", "KVCacheBackend", "ModelArtifact"])
def test_no_pod_is_planned_or_made_without_a_store_or_weights_that_may_be_there(cluster: Operated, kind: str):
    request = asked(spec={"model": {"artifactRef": {"name": "weights"}}})
    cluster.keep(encode(build.artifact()))
    assert not preview(request, None, lambda: cluster).blind
    cluster.forbidden = {kind}
    shown = preview(request, None, lambda: cluster)
    assert (shown.refused, shown.blind) == ((), True)
    assert f"{kind} " in shown.plan[0] and "403" in shown.plan[0]
    judgement = prepare(request, cluster)
    assert judgement.blind and "403" in judgement.sentences[0]


def test_a_store_that_is_declared_needs_no_right_to_read(cluster: Operated):
    cluster.forbidden = {"KVCachePoolBinding", "KVCachePool", "KVCacheBackend"}
    shown = preview(asked(*build.store()), None, lambda: cluster)
    assert (shown.refused, shown.blind) == ((), False)
    assert not prepare(asked(*build.store()), cluster).blind


def test_a_refresh_that_may_not_read_changes_nothing(cluster: Operated):
    cluster.up(asked())
    cluster.forbidden = {"InstanceType"}
    with pytest.raises(RolloutRefused, match="may not get instancetypes"):
        recheck(asked(), cluster)


def test_what_is_declared_needs_no_right_to_read_and_is_said_to_be_unconfirmed(cluster: Operated):
    cluster.forbidden = {"InstanceType"}
    shown = preview(asked(build.instance_type()), None, lambda: cluster)
    assert shown.refused == () and not shown.blind and shown.plan
    assert any("may not get instancetypes" in sentence for sentence in shown.unjudged)


def test_without_the_operator_nothing_is_looked_for(cluster: Operated):
    del cluster.objects["CustomResourceDefinition", OPERATOR_CRD]
    shown = preview(asked(), None, lambda: cluster)
    assert any("InstanceType h20-8x is not known" in sentence for sentence in shown.refused)
    assert "bindings" not in shown.observed


def test_a_deployment_that_the_operator_drives_is_neither_adopted_nor_touched(cluster: Operated):
    theirs = {"kind": "ModelDeployment", "metadata": {"name": "qwen", "uid": "theirs"}}
    cluster.objects["ModelDeployment", "qwen"] = theirs
    (sentence,) = preview(asked(), None, lambda: cluster).refused
    place = f"{build.NAMESPACE}/qwen is a ModelDeployment of the GPUStack operator, which drives its Pods."
    assert sentence.startswith(place) and "neither the object nor its Pods can be adopted" in sentence
    assert f"`kubectl -n {build.NAMESPACE} delete modeldeployment qwen`" in sentence

    cluster.forbidden.add("ModelDeployment")
    assert preview(asked(), None, lambda: cluster).refused == ()
    cluster.up(asked())
    for pod in cluster.pods():
        pod["metadata"]["ownerReferences"] = [{"kind": "ModelDeployment", "name": "qwen", "uid": "theirs"}]
    assert preview(asked(), asked(), lambda: cluster).refused == (sentence,), "its Pods give it away"
