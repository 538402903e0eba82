"""A rollout under any order of edits, misfortunes, faults and deaths: every rule is one thing that can happen.

Between any two requests of a driver, and between any two steps of Kueue, kubelets and garbage collector, anything else
may happen. After each rule the judge must have nothing to object to. In the end the weather turns calm: the quota
suffices, nothing fails any more, and one more driver, which knows nothing but what the cluster holds, has to bring
everything about.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpustack_components.api import names
from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import admitted, at, name, terminal, terminating, uid
from gpustack_components.rollout.desired import Protocol
from tests.rollout.judge import LEASE, NAME, RECORD
from tests.rollout.lab import Role
from tests.rollout.simulation.process import Fault, Process
from tests.rollout.world import NAMESPACE, World

WHICH = st.integers(0, 11)
SEED = st.integers(0, 2**16)
CONFIG = st.sampled_from("abc")
COUNT = st.integers(1, 3)
SIZE = st.integers(1, 2)
CHANGE = st.one_of(
    st.fixed_dictionaries({"replicas": COUNT}),
    st.fixed_dictionaries({"config": CONFIG}),
    st.fixed_dictionaries({"config": CONFIG, "replicas": COUNT, "size": SIZE}),
)
FAULTS: st.SearchStrategy[Fault] = st.sampled_from(("unreachable", "answer lost", "busy", "conflict"))


def happens(method: Callable[..., None]) -> Callable[..., None]:
    """Writes into the story what happens, before it does."""
    words = method.__name__.replace("_", " ")

    @wraps(method)
    def told(self: "Rollout", **values: object) -> None:
        said = ", ".join(f"{key} {value}" for key, value in values.items() if key != "seed")
        self.world.story.append(f"* {words}{f' ({said})' if said else ''}")
        method(self, **values)

    return told


OFF = settings(deadline=None, suppress_health_check=list(HealthCheck))
"""Nothing here is judged by the time it takes."""


def looked_at(runs: int) -> settings:
    """How much of a machine is looked at: so many runs in CI, or as many as the profile `long` says."""
    runs = settings().max_examples if settings.get_current_profile_name() == "long" else runs
    return settings(OFF, max_examples=runs, stateful_step_count=25)


class Rollout(RuleBasedStateMachine):
    """One deployment, its drivers, its cluster, and everything that can happen to them."""

    ROLES: tuple[str, ...] = ("server",)

    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    @initialize(
        replicas=COUNT,
        size=SIZE,
        code=st.sampled_from("01"),
        quota=st.integers(1, 9),
        begun=st.booleans(),
        retires=st.booleans(),
    )
    @happens
    def begin(self, replicas: int, size: int, code: str, quota: int, begun: bool, retires: bool) -> None:
        world = self.world
        world.protocol = Protocol(handoff_seconds=3.0) if retires else None
        world.cluster.kubelets.exit_code = code
        world.want(**{of: Role("a", replicas, size) for of in self.ROLES})
        if begun:
            assert world.up().phase == "Converged", world.tell()
        world.cluster.set_quota(quota)

    # The people who own it.

    @rule(which=WHICH, config=CONFIG)
    @happens
    def edit(self, which: int, config: str) -> None:
        self._want(which, config=config)

    @rule(which=WHICH, replicas=COUNT)
    @happens
    def scale(self, which: int, replicas: int) -> None:
        self._want(which, replicas=replicas)

    @rule(which=WHICH, size=SIZE)
    @happens
    def resize(self, which: int, size: int) -> None:
        self._want(which, size=size)

    @rule()
    @happens
    def upgrade_the_product(self) -> None:
        self.world.version = 2

    @precondition(lambda self: self.world.version > self.world.floor)
    @rule()
    @happens
    def raise_the_floor(self) -> None:
        self.world.floor = self.world.version

    @precondition(lambda self: not self.world.drivers)
    @rule(which=WHICH, change=CHANGE, rounds=st.integers(1, 12), seed=SEED)
    @happens
    def an_update_is_under_way(self, which: int, change: dict[str, object], rounds: int, seed: int) -> None:
        self._want(which, **change)
        self.world.start()
        self._all_go_on(rounds, Random(seed))

    @precondition(lambda self: len(self.world.drivers) < 2)
    @rule(moments=st.integers(1, 60))
    @happens
    def start_a_driver(self, moments: int) -> None:
        self.world.go(self.world.start(), moments)

    @precondition(lambda self: not self.world.drivers)
    @rule(moments=st.integers(1, 60))
    @happens
    def start_a_teardown(self, moments: int) -> None:
        self.world.go(self.world.start_teardown(), moments)

    @precondition(lambda self: self.world.drivers)
    @rule(which=WHICH, moments=st.integers(1, 60))
    @happens
    def a_driver_goes_on(self, which: int, moments: int) -> None:
        self.world.go(self._driver(which), moments)

    @precondition(lambda self: self.world.drivers)
    @rule(which=WHICH)
    @happens
    def interrupt_a_driver(self, which: int) -> None:
        self._driver(which).stop()

    @precondition(lambda self: self.world.drivers)
    @rule(which=WHICH, elsewhere=st.booleans())
    @happens
    def a_driver_dies(self, which: int, elsewhere: bool) -> None:
        self.world.kill(self._driver(which), elsewhere=elsewhere)

    @precondition(lambda self: self.world.drivers)
    @rule(which=WHICH, faults=st.lists(FAULTS, min_size=1, max_size=3))
    @happens
    def requests_fail(self, which: int, faults: list[Fault]) -> None:
        self._driver(which).faults.extend(faults)

    @precondition(lambda self: self.world.drivers)
    @rule(which=WHICH, kinds=st.sets(st.sampled_from(("Pod", "Workload"))))
    @happens
    def watches_lag(self, which: int, kinds: set[str]) -> None:
        self._driver(which).late = kinds

    # The cluster.

    @rule(steps=st.integers(1, 24), seed=SEED)
    @happens
    def the_cluster_moves(self, steps: int, seed: int) -> None:
        chance = Random(seed)
        for _ in range(steps):
            if not self.world.cluster.tick(chance):
                break

    @rule(rounds=st.integers(1, 12), seed=SEED)
    @happens
    def all_go_on(self, rounds: int, seed: int) -> None:
        self._all_go_on(rounds, Random(seed))

    @rule(seconds=st.sampled_from((0.5, 6.0, 40.0, 200.0, 1100.0)))
    @happens
    def time_passes(self, seconds: float) -> None:
        self.world.clock.sleep(seconds)
        self.world.cluster.stir()

    @rule(quota=st.integers(0, 9))
    @happens
    def the_quota_changes(self, quota: int) -> None:
        self.world.cluster.set_quota(quota)

    @rule(which=WHICH)
    @happens
    def a_workload_is_preempted(self, which: int) -> None:
        if workload := _pick([w for w in self.world.cluster.workloads() if admitted(w) and not terminating(w)], which):
            self.world.cluster.preempt(workload)

    @rule(which=WHICH)
    @happens
    def a_workload_is_deactivated(self, which: int) -> None:
        if workload := _pick([w for w in self.world.cluster.workloads() if at(w, "spec", "podSets")], which):
            self.world.cluster.update(workload, spec={"active": False})

    @rule()
    @happens
    def all_workloads_are_activated(self) -> None:
        for workload in self.world.cluster.workloads():
            self.world.cluster.update(workload, spec={"active": True})

    @rule(which=WHICH)
    @happens
    def somebody_deletes_a_pod(self, which: int) -> None:
        if pod := _pick([pod for pod in self.world.cluster.pods() if not terminating(pod)], which):
            self.world.cluster.lose(pod)

    @rule(which=WHICH)
    @happens
    def somebody_deletes_a_workload(self, which: int) -> None:
        if workload := _pick([w for w in self.world.cluster.workloads() if not terminating(w)], which):
            self.world.cluster.ask_deletion(workload)

    @rule(which=WHICH, phase=st.sampled_from(("Failed", "Succeeded")))
    @happens
    def a_pod_ends_by_itself(self, which: int, phase: str) -> None:
        pods = [pod for pod in self.world.cluster.pods() if at(pod, "spec", "nodeName") and not terminal(pod)]
        if pod := _pick(pods, which):
            self.world.cluster.fail(pod, phase)

    @rule(which=WHICH)
    @happens
    def a_kubelet_hangs(self, which: int) -> None:
        if pod := _pick(self.world.cluster.pods(), which):
            self.world.cluster.kubelets.hanging.add(uid(pod))

    @rule()
    @happens
    def kubelets_recover(self) -> None:
        self.world.cluster.kubelets.hanging.clear()
        self.world.cluster.stir()

    @rule(which=WHICH, mood=st.sampled_from(("idle", "busy", "silent")))
    @happens
    def an_engine_is(self, which: int, mood: str) -> None:
        cluster = self.world.cluster
        if pod := _pick(cluster.pods(), which):
            cluster.busy.discard(name(pod))
            cluster.silent.discard(name(pod))
            if mood != "idle":
                (cluster.busy if mood == "busy" else cluster.silent).add(name(pod))

    # Other people.

    @rule(which=WHICH, ordinal=st.integers(0, 2))
    @happens
    def a_foreign_pod_takes_a_place(self, which: int, ordinal: int) -> None:
        of = sorted(self.world.roles)[which % len(self.world.roles)]
        manifest = self.world.asked().render(of, 0).members[0]
        labels = {**manifest["metadata"]["labels"], "modeldeployment.gpustack.ai/pod-ordinal": str(ordinal)}
        labels["kueue.x-k8s.io/pod-group-name"] = f"foreign-{of}-{ordinal}"
        foreign: Json = {"name": f"foreign-{of}-{ordinal}", "labels": labels, "annotations": {}}
        if ("Pod", foreign["name"]) not in self.world.cluster.objects:
            self.world.cluster.create({**manifest, "metadata": foreign})

    @rule(which=WHICH, ordinal=st.integers(0, 2))
    @happens
    def a_foreign_workload_takes_a_name(self, which: int, ordinal: int) -> None:
        of = sorted(self.world.roles)[which % len(self.world.roles)]
        group = names.group_name(NAMESPACE, NAME, of, ordinal)
        if ("Workload", group) not in self.world.cluster.objects:
            spec = {"active": False, "podSets": [{"name": "x", "count": 1, "template": {"spec": {}}}]}
            self.world.cluster.create({"kind": "Workload", "metadata": {"name": group}, "spec": spec, "status": {}})

    @rule()
    @happens
    def foreigners_leave(self) -> None:
        self.world.foreigners_leave()

    @precondition(lambda self: RECORD in self.world.cluster.objects)
    @rule()
    @happens
    def somebody_annotates_the_record(self) -> None:
        record = self.world.cluster.objects[RECORD]
        annotations = {**record["metadata"]["annotations"], "somebody": str(self.world.cluster.version)}
        self.world.cluster.update(record, metadata={"annotations": annotations})

    @precondition(lambda self: RECORD in self.world.cluster.objects)
    @rule()
    @happens
    def somebody_deletes_the_record(self) -> None:
        self.world.cluster.ask_deletion(self.world.cluster.objects[RECORD])
        self.world.judge.forget()

    @precondition(lambda self: LEASE in self.world.cluster.objects and not self._at_work())
    @rule()
    @happens
    def somebody_frees_the_lease_of_the_dead(self) -> None:
        self.world.cluster.ask_deletion(self.world.cluster.objects[LEASE])

    @invariant()
    def nothing_forbidden_has_happened(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        if self.world.roles:
            self.world.calm()
        super().teardown()

    def _want(self, which: int, **changes: object) -> None:
        of = sorted(self.world.roles)[which % len(self.world.roles)]
        self.world.roles = {**self.world.roles, of: replace(self.world.roles[of], **changes)}

    def _at_work(self) -> bool:
        """Whether the driver that made the Lease is alive."""
        return any(uid(self.world.cluster.objects[LEASE]) in driver.leases for driver in self.world.drivers)

    def _all_go_on(self, rounds: int, chance: Random) -> None:
        for _ in range(rounds):
            for driver in list(self.world.drivers):
                self.world.go(driver, chance.randint(1, 40))
            for _ in range(chance.randint(0, 12)):
                self.world.cluster.tick(chance)

    def _driver(self, which: int) -> Process:
        return self.world.drivers[which % len(self.world.drivers)]


class PairRollout(Rollout):
    """The same with two roles, which must not wait for each other."""

    ROLES = ("prefill", "decode")


def _pick(objects: list[Json], which: int) -> Json | None:
    """One of them, in the order of their names."""
    return sorted(objects, key=name)[which % len(objects)] if objects else None
