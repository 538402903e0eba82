"""Turns what the executor does and sees into progress lines, one per state change."""

from collections.abc import Iterable
from math import inf

from gpustack_components.rollout.actions import CreateReplica, DeletePods, Select, Wait
from gpustack_components.rollout.contract import Progress, Timeouts
from gpustack_components.rollout.observe import Observed
from gpustack_components.rollout.retirement.operation import Operation
from gpustack_components.rollout.wording import count, deletion, place, span

Seat = tuple[str, int]
_PATIENCE = 5.0


class Narrator:
    """Says each change of each replica once."""

    def __init__(self, deployment: str, timeouts: Timeouts, progress: Progress) -> None:
        self._deployment = deployment
        self._timeouts = timeouts
        self._progress = progress
        self._deleted: dict[tuple[str, int | None], float] = {}
        self._created: dict[Seat, float] = {}
        self._waiting: dict[Seat, float] = {}
        self._unready: dict[Seat, float] = {}
        self._said: dict[object, str] = {}

    def say(self, text: str) -> None:
        """A line about the deployment as a whole."""
        self._progress(f"{self._deployment}  {text}")

    def waits_for_router(self, closed: str) -> None:
        """All replicas are ready, and the router does not answer yet."""
        if self._said.get("router") != closed:
            self._said["router"] = closed
            self._progress(f"{self._deployment} router  waits: {closed}")

    def deleted(self, action: DeletePods, now: float) -> None:
        """Pods were deleted."""
        self._deleted.setdefault((action.role, action.ordinal), now)
        self._line(action.role, action.ordinal, deletion(action.why, len(action.pods), self._timeouts.drain))

    def created(self, action: CreateReplica, now: float) -> None:
        """A replica was created."""
        gone = self._deleted.pop((action.role, action.ordinal), None)
        before = f"gone after {span(now - gone)}; " if gone is not None else ""
        self._created[action.role, action.ordinal] = now
        self._waiting[action.role, action.ordinal] = now
        self._line(
            action.role, action.ordinal, f"{before}{count(len(action.members), 'Pod')} created, waiting for admission"
        )

    def retiring(self, before: Operation | None, after: Operation | None) -> None:
        """A retirement moved on, or its reason changed."""
        if after is not None and (before is None or (before.state, before.reason) != (after.state, after.reason)):
            self._line(after.role, after.ordinal, f"retirement {after.state}: {after.reason.partition(': ')[2]}")
        elif after is None and before is not None and before.state != "Aborted":
            self._line(before.role, before.ordinal, "retirement Completed")
        elif after is None and before is not None and before.left_by_itself:
            self._line(before.role, before.ordinal, "retirement over: somebody else removed it")
        elif after is None and before is not None:
            self._line(before.role, before.ordinal, "kept after all; its retirement is over")

    def selects(self, action: Select) -> None:
        """A Service in front of a role has another selector."""
        how = "what each replica's own shape answers, while they differ" if action.mixed else "what it declares"
        self._progress(f"{self._deployment} {action.role}  Service {action.name} selects {how}")

    def looked(self, observed: Observed, waits: Iterable[Wait], now: float) -> None:
        """A pass saw this and waits for that."""
        waits = list(waits)
        admission = {(wait.role, wait.ordinal): wait for wait in waits if wait.kind == "admission"}
        for seat in admission:
            if seat[1] is not None:
                self._waiting.setdefault((seat[0], seat[1]), now)
        for seat, since in list(self._waiting.items()):
            members = observed.at(*seat)
            if seat not in admission and members and all(one.live and not one.gated for one in members):
                del self._waiting[seat]
                self._said.pop(("admission", *seat), None)
                self._unready.setdefault(seat, self._created.get(seat, since))
                self._line(*seat, f"admitted after {span(now - since)}")
        for seat, since in list(self._unready.items()):
            members = observed.at(*seat)
            if members and all(one.live and one.ready for one in members):
                del self._unready[seat]
                self._line(*seat, f"ready after {span(now - since)}")
        for place_, since in list(self._deleted.items()):
            if not observed.at(*place_) and place_ not in {(wait.role, wait.ordinal) for wait in waits}:
                del self._deleted[place_]
                self._line(*place_, f"gone after {span(now - since)}")
        for wait in waits:
            if self._tells(wait, now) and self._said.get(wait.key) != wait.message:
                self._said[wait.key] = wait.message
                if wait.kind == "held" and wait.ordinal is None:
                    self._progress(f"{self._deployment} {wait.role}  waits: {wait.message}")
                else:
                    self._line(wait.role, wait.ordinal, f"waits: {wait.message}")

    def silence_ends(self, now: float) -> float:
        """Seconds until a wait of which nothing has been said is worth a line; infinite when there is none."""
        silent = [since for seat, since in self._waiting.items() if ("admission", *seat) not in self._said]
        return min((max(since + _PATIENCE - now, 0.0) for since in silent if since + _PATIENCE > now), default=inf)

    def _tells(self, wait: Wait, now: float) -> bool:
        """Whether it is worth a line: what Kueue says, what a person must see to, and what takes unusually long."""
        if wait.kind != "admission":
            return wait.kind in ("foreign", "unreadable", "held")
        since = now if wait.ordinal is None else self._waiting.get((wait.role, wait.ordinal), now)
        return wait.quoted or now - since >= _PATIENCE

    def _line(self, role: str, ordinal: int | None, text: str) -> None:
        self._progress(f"{self._deployment} {place(role, ordinal)}  {text}")
