"""A simulated cluster, a deployment on it, and the drivers that bring it about, under the eyes of the judge."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import (
    admitted,
    fingerprint,
    gated,
    label,
    member_index,
    ordinal,
    owner_uids,
    render_version,
    role,
    shape,
    terminal,
    terminating,
    uid,
)
from gpustack_components.rollout.contract import Outcome, Timeouts, Wanted
from gpustack_components.rollout.converge import converge, teardown
from gpustack_components.rollout.desired import Desired, Protocol
from gpustack_components.rollout.record import Record
from tests.rollout.judge import LEASE, NAME, RECORD, Judge
from tests.rollout.lab import OWNER, Role, wanted
from tests.rollout.simulation.clock import SimulatedClock
from tests.rollout.simulation.process import Connection, Process, ProcessView
from tests.rollout.simulation.serving import ServingCluster

NAMESPACE = "team-a"
TIMEOUTS = Timeouts(admission=60, drain=60, ready=60, lease=0)
PLENTY = 100
DEAD_PROCESS = "4194999"
_MANY = 1000
_SEATS = 6
"""How many replicas there can be at most, of which each may have to be retired again."""


class World:
    """Everything of one run of a test."""

    def __init__(self, quota: int = PLENTY, seed: int = 0) -> None:
        self.clock = SimulatedClock()
        self.cluster = ServingCluster(self.clock, quota, NAME)
        self.story: list[str] = []
        """What happened, line by line."""
        self.judge = Judge(self.cluster, self.story.append)
        self.chance = Random(seed)
        self.roles: dict[str, Role] = {}
        """What is wanted by whoever starts the next driver."""
        self.version = 1
        """The render version of the product that the next driver runs."""
        self.floor = 1
        """The oldest render version that may go on running."""
        self.protocol: Protocol | None = None
        """How replicas that serve leave for good: withdrawn and drained, or at once."""
        self.drivers: list[Process] = []
        """Drivers that have not ended."""

    def want(self, **roles: Role) -> None:
        """Edit the deployment."""
        self.roles = roles

    def asked(self) -> Wanted:
        """What the next driver is to bring about."""
        stamp = {keys.RENDER_VERSION: str(self.version), keys.PROMETHEUS_PORT: "8000"}
        asked = wanted(NAMESPACE, {name: replace(of, annotations=stamp) for name, of in self.roles.items()})
        return replace(asked, desired=replace(asked.desired, floor=self.floor, engine="vLLM", protocol=self.protocol))

    def start(self, timeouts: Timeouts = TIMEOUTS) -> Process:
        """A driver begins to bring about what is wanted now."""
        asked = self.asked()

        def run(process: Process) -> Outcome:
            connection = Connection(self.cluster, process, self.judge.judging(asked.desired))
            view = ProcessView(connection, NAMESPACE, NAME)
            return converge(
                connection,
                asked,
                timeouts=timeouts,
                stop=process,
                clock=process,
                view=view,
                progress=lambda line: self.story.append(f"        says: {line}"),
            )

        return self._begin(run)

    def start_teardown(self, timeouts: Timeouts = TIMEOUTS) -> Process:
        """A driver begins to remove the deployment."""

        def run(process: Process) -> Outcome:
            connection = Connection(self.cluster, process, self.judge.judging(Desired(NAMESPACE, NAME, ())))
            view = ProcessView(connection, NAMESPACE, NAME)
            return teardown(
                connection,
                NAMESPACE,
                NAME,
                owner=OWNER,
                holder="a test",
                timeouts=timeouts,
                stop=process,
                clock=process,
                view=view,
            )

        return self._begin(run)

    def _begin(self, run: Callable[[Process], Outcome]) -> Process:
        process = Process(run, self.clock)
        self.drivers.append(process)
        return process

    def go(self, driver: Process, moments: int) -> None:
        """Let a driver run for a while."""
        driver.go(moments)
        if driver.ended:
            self.drivers.remove(driver)
            reasons = driver.outcome.reasons if driver.outcome is not None else ()
            if defects := [reason for reason in reasons if reason.startswith("a defect of")]:
                self.judge.broken += defects

    def kill(self, driver: Process, *, elsewhere: bool = False) -> None:
        """A driver dies; on this machine, where that can be proved, or elsewhere, where its Lease has to expire."""
        driver.kill()
        self.drivers.remove(driver)
        lease = self.cluster.objects.get(LEASE)
        if lease is not None and uid(lease) in driver.leases:
            dead = {"driver-machine": "elsewhere"} if elsewhere else {"driver-process": DEAD_PROCESS}
            annotations = {f"modeldeployment.gpustack.ai/{key}": value for key, value in dead.items()}
            self.cluster.update(lease, metadata={"annotations": {**lease["metadata"]["annotations"], **annotations}})

    def finish(self, driver: Process) -> Outcome:
        """Let a driver and the cluster run until the driver ends, nothing else happening."""
        for _ in range(_MANY):
            self.go(driver, 40)
            self.check()
            if driver.ended:
                assert driver.outcome is not None, f"the driver was refused: {driver.refused}\n{self.tell()}"
                return driver.outcome
            moved = [self.cluster.tick(self.chance) for _ in range(self.chance.randrange(1, 12))]
            if not moved[-1] and driver.blocked:
                self.clock.sleep(2)
        raise AssertionError(f"the driver comes to no end\n{self.tell()}")

    def up(self) -> Outcome:
        """Bring about what is wanted, undisturbed."""
        return self.finish(self.start())

    def foreigners_leave(self) -> None:
        """Everything that belongs to somebody else goes away."""
        for obj in [*self.cluster.pods(), *self.cluster.workloads()]:
            if obj["metadata"]["name"].startswith("foreign-") or not obj["metadata"].get("ownerReferences"):
                gone = {key: value for key, value in obj["metadata"].items() if key != "finalizers"}
                self.cluster.store({**obj, "metadata": {**gone, "deletionTimestamp": "now"}})

    def calm(self) -> None:
        """The weather turns, and one more driver has to bring about what is wanted, from what the cluster holds."""
        for driver in list(self.drivers):
            self.kill(driver)
        self.story.append("calm")
        self.cluster.set_quota(PLENTY)
        self.cluster.kubelets.hanging.clear()
        self.cluster.busy.clear()
        self.cluster.silent.clear()
        self.foreigners_leave()
        for workload in self.cluster.workloads():
            self.cluster.update(workload, spec={"active": True})
        self.clock.sleep(2000)
        self.cluster.stir()
        before = self.serving()
        outcome = self.up()
        self.check()
        for turn in range(_SEATS):
            if not self._try_the_retirement_again(f"turn-{turn}"):
                break
            outcome = self.up()
            self.check()
        assert outcome.phase == "Converged", f"{outcome.reasons}\n{self.tell()}"
        after = self.serving()
        moved = [place for place, uids in before.items() if after.get(place) != uids]
        assert not moved, f"{moved} served as they should, and are others now\n{self.tell()}"
        self.check_done()

    def _try_the_retirement_again(self, token: str) -> bool:
        """What a person does of whom a retirement that was aborted asks it; whether one does."""
        record = self.cluster.objects.get(RECORD)
        operation = Record.from_object(record).retirement if record is not None else None
        if operation is None or operation.state != "Aborted" or self.protocol is None:
            return False
        if self.asked().desired.declares(operation.role, operation.ordinal):
            return False
        self.story.append(f"* the retirement of {operation.role}/{operation.ordinal} is to be tried again")
        self.protocol = replace(self.protocol, retry=f"{operation.role}:{operation.ordinal}:{token}")
        return True

    def tell(self) -> str:
        """The story so far."""
        return "\n".join(self.story[-400:])

    def check(self) -> None:
        """Nothing has happened that must not."""
        assert not self.judge.broken, "\n".join([*self.judge.broken, *self.story[-400:]])

    # What stands.

    def live(self, of: str, number: int) -> list[Json]:
        """Pods of one replica that neither leave nor have ended."""
        record = uid(self.cluster.objects.get(RECORD, {}))
        return [
            pod
            for pod in self.cluster.pods()
            if (role(pod), ordinal(pod)) == (of, number)
            and not terminating(pod)
            and not terminal(pod)
            and record in owner_uids(pod)
        ]

    def serves(self, of: str, number: int) -> bool:
        """Whether that replica is whole and admitted."""
        pods = self.live(of, number)
        if shape(pods).state != "complete" or any(map(gated, pods)):
            return False
        owners = [owner_uids(w, "Pod") for w in self.cluster.workloads() if admitted(w) and not terminating(w)]
        return any(uid(pods[0]) in of for of in owners)

    def current(self, of: str, number: int, desired: Desired) -> bool:
        """Whether that replica is as it is wanted."""
        declared = desired.role(of)
        return declared is not None and all(
            fingerprint(pod) == declared.seat(number, member_index(pod) or 0) and render_version(pod) >= self.floor
            for pod in self.live(of, number)
        )

    def serving(self) -> dict[tuple[str, int], frozenset[str]]:
        """Uids of the Pods of each replica that serves as it is wanted."""
        desired = self.asked().desired
        return {
            (of, number): frozenset(map(uid, self.live(of, number)))
            for of, declared in self.roles.items()
            for number in range(declared.replicas)
            if self.serves(of, number) and self.current(of, number, desired)
        }

    def check_done(self) -> None:
        """Everything declared serves as it is wanted, nothing else is left, and there is nothing more to write."""
        self.cluster.settle(self.chance)
        declared = {(of, number) for of, wanted in self.roles.items() for number in range(wanted.replicas)}
        assert set(self.serving()) == declared, f"not all serve: {sorted(self.serving())}\n{self.tell()}"
        ours = [obj for obj in self.cluster.pods() if label(obj, keys.APP_INSTANCE) == NAME]
        expected = sum(of.replicas * of.size for of in self.roles.values())
        assert (len(ours), len(self.cluster.workloads())) == (expected, len(declared)), self.tell()
        before = self.cluster.version
        again = self.up()
        assert again.phase == "Converged" and not again.wrote, f"{again}\n{self.tell()}"
        assert self.cluster.version == before, f"a run without an edit wrote something\n{self.tell()}"
        self.check()
