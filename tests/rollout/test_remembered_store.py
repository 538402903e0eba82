"""A KV cache Binding that comes and goes: the record remembers the store, so no replica is turned over for it."""

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from gpustack_components.bindings.catalog import Bindings
from gpustack_components.bindings.kv_cache import Domain, Store
from gpustack_components.bindings.settings import Settings
from gpustack_components.cli.standing import Known, facts_of
from gpustack_components.cluster.readings import fingerprint
from gpustack_components.components.judgement import encode
from gpustack_components.components.preview import prepare, preview, recheck
from gpustack_components.components.request import Request
from gpustack_components.rollout.contract import Outcome, Timeouts, Wanted
from gpustack_components.rollout.converge import converge
from gpustack_components.rollout.record import Record
from tests.render import build
from tests.rollout.simulation.clock import SimulatedClock
from tests.rollout.simulation.cluster import SimulatedCluster
from tests.rollout.simulation.view import SimulatedView

Json = dict[str, Any]

OWNER = "stack of this test"
DOCUMENT = build.deployment(roles=[{"replicas": 2}], kvCache={"poolRef": {"name": "cache"}})
STORE = Store("cache", "shared-dram", "store:1", ("tcp",), "t", Domain("t", 64, "bfloat16"))


def asked(*bound: object) -> Request:
    """The deployment beside these objects."""
    return Request(encode(DOCUMENT), tuple(encode(one) for one in (build.instance_type(), *bound)), owner=OWNER)  # pyright: ignore[reportArgumentType]


WITH_STORE = asked(*build.store())
OTHER_ENDPOINT = asked(*build.store(endpoint="elsewhere:1"))
AWAY = {
    "the Binding is gone": asked(*build.store()[1:]),
    "the Binding is not ready": asked(*build.store(binding_status={"phase": "Pending"})),
    "the pool publishes no endpoint": asked(*build.store(endpoint="")),
    "the backend is gone": asked(*build.store()[:2]),
}


class World:
    """A simulated cluster with the deployment on it, driven through the provider's own steps."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.cluster = SimulatedCluster(self.clock, 100)

    def up(self, request: Request) -> Outcome:
        judgement = prepare(request, self.cluster)
        assert judgement.resolved is not None and judgement.document is not None, judgement.sentences
        wanted = Wanted.of(judgement.resolved, encode(judgement.document), owner=OWNER, holder="test")
        view = SimulatedView(self.cluster, build.NAMESPACE, "qwen", Random(1))
        return converge(self.cluster, wanted, timeouts=Timeouts(lease=0), clock=self.clock, view=view)

    @property
    def uids(self) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self.cluster.pods()}

    @property
    def record(self) -> Record:
        return Record.from_object(self.cluster.objects["ConfigMap", "qwen-modeldeployment"])


@pytest.fixture
def world() -> World:
    """A world where the deployment runs with its store."""
    made = World()
    assert made.up(WITH_STORE).phase == "Converged"
    return made


@pytest.mark.parametrize("why", AWAY)
def test_a_binding_that_is_away_and_back_rolls_nothing(world: World, why: str) -> None:
    before = world.uids
    for request in (AWAY[why], WITH_STORE, AWAY[why]):
        shown = preview(request, WITH_STORE, lambda: world.cluster)
        assert (shown.refused, shown.plan, shown.observed["settled"]) == ((), (), True)
        assert recheck(request, world.cluster) == ()
        outcome = world.up(request)
        assert (outcome.phase, outcome.wrote) == ("Converged", False)
    assert world.uids == before


def test_a_replica_created_while_the_binding_is_away_has_the_store_too(world: World) -> None:
    lost = world.cluster.pods()[0]
    world.cluster.lose(lost)
    assert world.up(AWAY["the Binding is gone"]).phase == "Converged"
    commands = {json.dumps(pod["spec"]["containers"][0]["command"]) for pod in world.cluster.pods()}
    assert len(commands) == 1 and "MooncakeStoreConnector" in commands.pop()


def test_another_store_rolls_every_replica_and_is_remembered_from_then_on(world: World) -> None:
    before = world.uids
    assert world.up(OTHER_ENDPOINT).phase == "Converged"
    assert not world.uids & before
    assert world.record.store is not None and world.record.store.endpoint == "elsewhere:1"


def test_status_compares_with_the_store_that_is_remembered(world: World) -> None:
    away = Bindings.of([build.instance_type()])
    known = Known(away, Settings(), frozenset(), (1, 35), operator_present=False)
    ours = {fingerprint(pod) for pod in world.cluster.pods()}
    told = [facts_of(DOCUMENT, known, store).expected for store in (world.record.store, None)]
    seats = [{seat[0] for seat in expected.hashes["server"]} for expected in told if expected is not None]
    assert seats[0] == ours
    assert seats[1].isdisjoint(ours)


def test_a_deployment_that_never_had_its_store_runs_without_one() -> None:
    world = World()
    assert world.up(AWAY["the Binding is gone"]).phase == "Converged"
    assert world.record.store is None
    assert preview(WITH_STORE, None, lambda: world.cluster).plan


def test_the_record_keeps_the_store_as_it_was() -> None:
    record = Record("team-a", "qwen", OWNER, {}, store=STORE)
    assert Record.from_object(record.to_object()).store == STORE
    assert not record.says_the_same(replace(record, store=None))


@pytest.mark.parametrize("value", [None, {}, [], "cache", 7, {**STORE.to_json(), "domain": {"name": "t"}}])
def test_a_remembered_store_that_cannot_be_read_is_none(value: Any) -> None:
    obj = Record("team-a", "qwen", OWNER, {}, phase="Converged", store=STORE).to_object()
    state = json.loads(obj["data"]["state"]) | {"store": value}
    read = Record.from_object({**obj, "data": {**obj["data"], "state": json.dumps(state)}})
    assert (read.store, read.phase) == (None, "Converged")


def test_a_record_of_an_earlier_release_remembers_none() -> None:
    obj = Record("team-a", "qwen", OWNER, {}, store=STORE).to_object()
    state = json.loads(obj["data"]["state"])
    del state["store"]
    assert Record.from_object({**obj, "data": {**obj["data"], "state": json.dumps(state)}}).store is None
