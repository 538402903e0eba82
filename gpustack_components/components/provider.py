"""The dynamic provider behind the Rollout resource: admission and plan in `check`, turnover in `create` and `update`,
removal in `delete`.

The module path and the class name are part of every stack's state: the provider is pickled by reference. It keeps
nothing between calls, since the engine starts a new process for every phase; what must survive is in the record in
the cluster.
"""

import getpass
import sys
import threading
import traceback
from collections.abc import Callable
from functools import cache, partial, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pulumi.dynamic import (
    CheckFailure,
    CheckResult,
    ConfigureRequest,
    CreateResult,
    DiffResult,
    ReadResult,
    ResourceProvider,
    UpdateResult,
)
from pulumi.output import Unknown
from pulumi.runtime.rpc import contains_unknowns

from gpustack_components.cluster.port import ClusterError, Forbidden
from gpustack_components.cluster.readings import at
from gpustack_components.components import engine_link, interruption
from gpustack_components.components import request as keys
from gpustack_components.components.plain import Json, paths_of, plain
from gpustack_components.components.request import CONVERGED, INCOMPLETE, Request, kept
from gpustack_components.rollout.contract import Outcome, RolloutRefused, Wanted

if TYPE_CHECKING:
    from gpustack_components.cluster.port import Cluster
    from gpustack_components.components.judgement import Judgement
    from gpustack_components.components.preview import Shown

P = ParamSpec("P")
R = TypeVar("R")

MOST_REASONS = 20
"""Reasons kept in state; what waits beyond them is counted."""

_connecting = threading.Lock()
"""A login command of a kubeconfig runs once, not once for each of the provider's threads."""


class RolloutError(Exception):
    """A call that must fail: the sentences a person reads, without traceback or module path.

    The SDK formats the traceback of whatever a provider raises; this limit is the only way to leave it out.
    """

    __module__ = "builtins"

    def __init__(self, sentences: str) -> None:
        super().__init__(sentences)
        sys.tracebacklimit = 0


def _spoken(call: Callable[P, R]) -> Callable[P, R]:
    """A call of the provider whose defects are said in one sentence."""

    @wraps(call)
    def spoken(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except RolloutError:
            raise
        except Exception as defect:
            raise RolloutError(_defect(defect)) from None

    return spoken


def _defect(defect: Exception) -> str:
    where = traceback.extract_tb(defect.__traceback__)[-1:]
    place = "".join(f" at {frame.filename}:{frame.lineno}" for frame in where)
    return f"a defect of gpustack_components, please report it: {defect!r}{place}"


def is_unknown(value: Any) -> bool:
    """Whether a value is not known before the update."""
    return isinstance(value, Unknown)


class RolloutProvider(ResourceProvider):
    """Turns the replicas of one ModelDeployment over, one of a role at a time."""

    serialize_as_secret_always = False
    _configured: tuple[str | None, str | None] = (None, None)

    def configure(self, req: ConfigureRequest) -> None:
        """Take the cluster of the stack's configuration, and start to listen for the end of the run."""
        _load()
        self._configured = (req.config.get("kubernetes:kubeconfig"), req.config.get("kubernetes:context"))
        interruption.attend()

    @_spoken
    def check(self, _olds: Json, news: Json) -> CheckResult:
        """Refuse what admission refuses; add the plan, and what it was made from, to the inputs."""
        from gpustack_components.components.preview import preview

        asked = Request.of(news, is_unknown)
        before = Request.of(_olds, is_unknown) if _olds.get(keys.METADATA) else None
        shown = preview(asked, before, partial(self._connect, asked, hasty=True))
        inputs = {**news, keys.PLAN: list(shown.plan), keys.OBSERVED: shown.observed}
        if not shown.refused:
            _say_plan(asked, shown)
        return CheckResult(inputs, [CheckFailure("", sentence) for sentence in shown.refused])

    @_spoken
    def diff(self, _id: str, _olds: Json, _news: Json) -> DiffResult:
        """Whether there is anything to do: an edit, a run that did not end well, or a cluster that disagrees with the
        state.
        """
        before, after = Request.of(_olds, is_unknown), Request.of(_news, is_unknown)
        if not after.unknown and _olds.get(keys.METADATA) and before.label != after.label:
            return DiffResult(changes=True, replaces=[keys.METADATA], delete_before_replace=True)
        unsettled = at(_news, keys.OBSERVED, "settled") is False
        edited = contains_unknowns({key: _news.get(key) for key in keys.KEPT}) or any(
            plain(_olds.get(key)) != plain(_news.get(key)) for key in keys.KEPT
        )
        return DiffResult(changes=edited or unsettled or _olds.get(keys.PHASE) != CONVERGED)

    @_spoken
    def create(self, props: Json) -> CreateResult:
        """Bring the deployment about; a rollout that does not end well is `Incomplete`, and kept."""
        asked = Request.of(props, is_unknown)
        return CreateResult(asked.label, self._converge(asked, props))

    @_spoken
    def update(self, _id: str, _olds: Json, _news: Json) -> UpdateResult:
        """Bring the edit about, from wherever the last run stopped."""
        return UpdateResult(self._converge(Request.of(_news, is_unknown), _news))

    @_spoken
    def read(self, id_: str, props: Json) -> ReadResult:
        """What a refresh finds: nothing any more, or whether the cluster still agrees with the state."""
        from gpustack_components.components.preview import recheck

        asked = Request.of(props, is_unknown)
        try:
            found = recheck(asked, self._connect(asked, hasty=True))
        except (RolloutRefused, ClusterError) as failure:
            raise RolloutError(f"{asked.label} cannot be refreshed: {failure}") from None
        if found is None:
            return ReadResult(None, {})
        if not found:
            return ReadResult(id_, dict(props))
        text = "\n  ".join((f"{INCOMPLETE}, the next update repairs it:", *found))
        engine_link.say(asked.resource_urn, text, level="warning", lasting=True)
        return ReadResult(id_, {**props, keys.PHASE: INCOMPLETE, keys.REASONS: list(found), keys.READY: False})

    @_spoken
    def delete(self, _id: str, _props: Json) -> None:
        """Remove everything of the deployment and wait until it is gone; raises while anything is left, so that it
        stays in state.
        """
        from gpustack_components.components.judgement import read_timeouts

        _load_driver()
        from gpustack_components.rollout.converge import teardown

        asked = Request.of(_props, is_unknown)
        with interruption.operation() as stop:
            try:
                outcome = teardown(
                    self._connect(asked),
                    asked.namespace,
                    asked.name,
                    owner=asked.owner,
                    holder=_holder(asked),
                    timeouts=read_timeouts(asked)[0],
                    progress=partial(engine_link.say, asked.resource_urn),
                    stop=stop,
                )
            except RolloutRefused as refused:
                hint = (
                    "Once it is not this stack's any more, `pulumi state delete` forgets it here and touches nothing."
                )
                raise RolloutError(f"{asked.label} cannot be removed: {refused}\n{hint}") from None
            except ClusterError as failure:
                raise RolloutError(f"{asked.label} cannot be removed: {failure}") from None
        if outcome.phase != "Deleted":
            reasons = _reasons(outcome) or ("not everything is gone",)
            raise RolloutError(
                "\n".join((f"{asked.label} is not removed yet; run the same command again to go on", *reasons))
            )

    def _connect(self, asked: Request, *, hasty: bool = False) -> "Cluster":
        """The cluster of the request: its own arguments, else the stack's configuration, else the ambient one."""
        given = asked.kubeconfig is not None or asked.context is not None
        kubeconfig, context = (asked.kubeconfig, asked.context) if given else self._configured
        with _connecting:
            return _connection(kubeconfig, context, hasty)

    def _converge(self, asked: Request, props: Json) -> Json:
        from gpustack_components.components.judgement import read_timeouts
        from gpustack_components.components.observation import endpoint_of
        from gpustack_components.components.preview import prepare

        _load_driver()
        from gpustack_components.rollout.converge import converge
        from gpustack_components.status.missing import unreached

        hidden = [path for path, _ in paths_of(props, is_unknown)]
        if hidden:
            raise RolloutError(f"{asked.label}: not known although the update runs: {', '.join(hidden)}")
        try:
            cluster = self._connect(asked)
            judgement = _allowed(asked, cluster, partial(prepare, asked, cluster))
        except (RolloutRefused, ClusterError) as failure:
            raise RolloutError(f"{asked.label} was not begun: {failure}") from None
        if judgement.resolved is None or judgement.document is None or judgement.blind:
            raise RolloutError("\n".join((f"{asked.label} cannot be brought about:", *judgement.sentences)))
        wanted = _wanted(asked, judgement, cluster)
        timeouts = read_timeouts(asked)[0]
        with interruption.operation() as stop:
            try:
                outcome = converge(
                    cluster,
                    wanted,
                    timeouts=timeouts,
                    progress=partial(engine_link.say, asked.resource_urn),
                    stop=stop,
                )
            except (RolloutRefused, ClusterError) as failure:
                raise RolloutError(f"{asked.label} was not begun: {failure}") from None
            except Exception as defect:
                outcome = Outcome(INCOMPLETE, (_defect(defect),))
        endpoint = endpoint_of(judgement.resolved, outcome.answers)
        for service in outcome.absent:
            text = f"{unreached(service)}: `pulumi refresh`, then `pulumi up`"
            engine_link.say(asked.resource_urn, text, level="warning", lasting=True)
        if outcome.phase == CONVERGED and timeouts.ready > 0 and not outcome.absent:
            engine_link.say(asked.resource_urn, f"{asked.name}  answers at {endpoint}")
        return {
            **kept(props),
            keys.PHASE: CONVERGED if outcome.phase == CONVERGED else INCOMPLETE,
            keys.REASONS: list(_reasons(outcome)),
            keys.READY: outcome.phase == CONVERGED and timeouts.ready > 0,
            keys.ENDPOINT: endpoint,
        }


def _wanted(asked: Request, judgement: "Judgement", cluster: "Cluster") -> Wanted:
    """What a judgement asks a run to bring about; while weights hold it back, the run judges the request again. Raises
    `RolloutRefused` when the request cannot be brought about."""
    from gpustack_components.components.judgement import encode
    from gpustack_components.components.preview import prepare

    if judgement.resolved is None or judgement.document is None or judgement.blind:
        raise RolloutRefused(*judgement.sentences)
    return Wanted.of(
        judgement.resolved,
        encode(judgement.document),
        owner=asked.owner,
        holder=_holder(asked),
        adopt=frozenset(asked.adopt),
        again=lambda: _wanted(asked, prepare(asked, cluster), cluster),
    )


def _allowed(asked: Request, cluster: "Cluster", read: "Callable[[], Judgement]") -> "Judgement":
    """What `read` reads; where it is forbidden, every right that a rollout lacks is said. Raises `RolloutRefused` and
    `ClusterError`."""
    from gpustack_components.rollout.preflight import rights_missing

    try:
        return read()
    except Forbidden as refused:
        raise rights_missing(cluster, asked.namespace, refused) from None


def _load_driver() -> None:
    """Import what drives rollouts, which previews do without, before four threads do so at once."""
    with _connecting:
        import_module("gpustack_components.rollout.converge")


def _load() -> None:
    """Import what a preview needs, and build the document models, before four threads do so at once."""
    for module in ("components.preview", "components.quota", "rollout.forecast", "cluster.client"):
        import_module(f"gpustack_components.{module}")
    from gpustack_components.api.decode import KINDS

    for kind in KINDS.values():
        kind.model_rebuild()


@cache
def _connection(kubeconfig: str | None, context: str | None, hasty: bool) -> "Cluster":
    """One connection for all deployments of a phase; the engine starts a new process for the next phase."""
    from gpustack_components.cluster.client import connect
    from gpustack_components.components.interruption import stopped
    from gpustack_components.components.observation import HASTE

    return connect(kubeconfig, context, patience=HASTE) if hasty else connect(kubeconfig, context, stop=stopped)


def _reasons(outcome: "Outcome") -> tuple[str, ...]:
    why = interruption.interrupted()
    reasons = outcome.reasons
    if outcome.interrupted and why:
        reasons = (why, *(reason for reason in reasons if not reason.startswith("interrupted")))
    more = len(reasons) - MOST_REASONS
    return reasons if more <= 0 else (*reasons[:MOST_REASONS], f"and {more} more")


def _holder(asked: Request) -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "somebody"
    return f"{user} ({asked.owner})" if asked.owner else user


def _say_plan(asked: Request, shown: "Shown") -> None:
    if shown.plan:
        level = "warning" if shown.blind else "info"
        engine_link.say(asked.resource_urn, "\n".join(shown.plan), level=level, lasting=True)
    for sentence in shown.unjudged:
        engine_link.say(asked.resource_urn, sentence, lasting=True)
    for warning in shown.warnings:
        engine_link.say(asked.resource_urn, warning, level="warning", lasting=True)
