"""How the rollout speaks to people: durations, progress lines and reasons that say what to do."""

from gpustack_components.cluster import keys
from gpustack_components.rollout.actions import Wait, Why
from gpustack_components.rollout.contract import Timeouts
from gpustack_components.rollout.observe import Member
from gpustack_components.status.fit import never_fits_until


def span(seconds: float) -> str:
    """A duration as people write it: `1.2 s`, `48 s`, `3m10s`, `1h5m`."""
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m" if minutes else f"{hours}h"


def about(seconds: float) -> str:
    """A duration that is only estimated: `3 s`, `40 s`, `9 min`, `1 h 10 min`."""
    if seconds < 10:
        return f"{max(round(seconds), 1)} s"
    if seconds < 90:
        return f"{5 * round(seconds / 5)} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(5 * round(minutes / 5), 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def place(role: str, ordinal: int | None) -> str:
    """A replica as lines name it: `server/2`."""
    return f"{role or '(no role)'}/{'?' if ordinal is None else ordinal}"


def count(number: int, noun: str) -> str:
    """`1 Pod`, `2 Pods`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def deletion(why: Why, pods: int, drain: float) -> str:
    """What a deletion means: the second half of its progress line."""
    wait = f"{count(pods, 'Pod')} deleted, waiting for {'it' if pods == 1 else 'them'} to exit (drain {span(drain)})"
    match why:
        case "outdated":
            return f"turning over: {wait}"
        case "broken":
            return f"lost a member, rebuilding it whole: {wait}"
        case "superseded":
            return f"a newer edit replaces the queued replacement: {wait}"
        case "scaled-down":
            return f"scaled down: {wait}"
        case "surplus":
            return f"a seat was filled twice: {wait}"
        case "orphan":
            return f"names no ordinal: {wait}"
        case "role-removed":
            return f"removing: {wait}"
        case "retired":
            return f"withdrawn and drained: {wait}"
        case "finished":
            return f"ended by itself: {count(pods, 'Pod')} deleted, to be created again"


def reason(namespace: str, deployment: str, wait: Wait, waited: float, timeouts: Timeouts) -> str:
    """Why a run that gives up is Incomplete, for one wait, and what to do about it."""
    where = f"{deployment} {place(wait.role, wait.ordinal)}"
    describe = f"`kubectl -n {namespace} describe workload {wait.workload}` shows more" if wait.workload else ""
    match wait.kind:
        case "admission":
            text = (
                f"{where}: not admitted after {span(waited)} (timeouts.admission {span(timeouts.admission)}): "
                f"{wait.message}. {_way_out(wait.message)}"
            )
            if text.endswith("?"):
                return f"{text} {describe}." if describe else text
            return f"{text}; {describe}." if describe else f"{text}."
        case "exit":
            return (
                f"{where}: after {span(waited)} it still waits for {wait.message} (timeouts.drain "
                f"{span(timeouts.drain)}). It is never deleted by force, for two processes could then hold one "
                "accelerator. If its node is lost, `kubectl delete node NODE` releases it; if it only drains slowly, "
                f"run again, or raise timeouts.drain. `kubectl -n {namespace} get pods -o wide -l "
                f"app.kubernetes.io/instance={deployment}` shows where it stands."
            )
        case "release":
            hint = describe or "look at the Pod's finalizers"
            return (
                f"{where}: after {span(waited)} it still waits for {wait.message}. "
                f"Is Kueue's controller running? {hint}."
            )
        case "foreign":
            return (
                f"{where}: waits for {wait.message}. It is neither adopted nor deleted: remove it or rename it, "
                "then run again."
            )
        case "unreadable":
            return (
                f"{where}: {wait.message}, so nothing is done to it. Delete its Pods "
                f"(`kubectl -n {namespace} delete pod -l app.kubernetes.io/instance={deployment},"
                f"modeldeployment.gpustack.ai/pod-ordinal={wait.ordinal}`) and run again to have it rebuilt."
            )
        case "retirement":
            return f"{where}: its retirement has not ended after {span(waited)}: {wait.message}. Run again to go on."
        case "retained":
            return (
                f"{where}: its retirement was aborted and it keeps running with its quota: {wait.message}. Remove what "
                f"hindered it and set the annotation {keys.RETIREMENT_RETRY}: '{wait.role}:{wait.ordinal}:<new token>' "
                "on the ModelDeployment to try again, raise replicas again to keep it, or switch the setting "
                "model-deployment-endpoint-qualification off to have it deleted without the protocol."
            )
        case "held":
            held = f"{deployment} {wait.role if wait.ordinal is None else place(wait.role, wait.ordinal)}"
            long = f"held for {span(waited)} (timeouts.weights {span(timeouts.weights)}): "
            return f"{held}: {long if waited >= timeouts.weights else ''}{wait.message}"
        case _:
            return f"{where}: still to be replaced: {wait.message}"


def _way_out(message: str) -> str:
    if "maximum capacity" in message:
        return f"It never fits until {never_fits_until('its queue')}"
    if "insufficient" in message:
        return "Free or raise the queue's quota, or lower replicas, then run again"
    if "inactive" in message or "doesn't exist" in message or "does not exist" in message:
        return "Create or start that queue, then run again"
    if "deactivated" in message:
        return "Set the Workload's spec.active to true, or delete it with its Pods, then run again"
    if "no Workload" in message:
        return "Is Kueue's controller running, and is its Pod integration on?"
    return "Run again once that has changed"


def not_ready(namespace: str, deployment: str, members: list[Member], waited: float, timeouts: Timeouts) -> list[str]:
    """Why a run whose replicas are all admitted is Incomplete: one sentence per replica that is not ready."""
    by_place: dict[tuple[str, int | None], list[Member]] = {}
    for member in members:
        by_place.setdefault((member.role, member.ordinal), []).append(member)
    return [
        f"{deployment} {place(role, ordinal)}: admitted, not ready after {span(waited)} (timeouts.ready "
        f"{span(timeouts.ready)}): "
        + ", ".join(f"Pod {member.name} ({member.trouble or _standing(member)})" for member in of)
        + f". `kubectl -n {namespace} logs {of[0].name}` and `kubectl -n {namespace} describe pod {of[0].name}` show "
        "why; if it only loads slowly, run again, or raise timeouts.ready."
        for (role, ordinal), of in sorted(by_place.items(), key=lambda entry: (entry[0][0], entry[0][1] or 0))
    ]


def no_answer(
    namespace: str, deployment: str, closed: str, waited: float, timeouts: Timeouts, *, deployed: bool
) -> str:
    """Why a run whose replicas are all ready is Incomplete: its router does not answer. `deployed` says whether it has
    Pods to look at."""
    text = f"{deployment} router: not ready after {span(waited)} (timeouts.ready {span(timeouts.ready)}): {closed}."
    if not deployed:
        return text
    pods = f"app.kubernetes.io/instance={deployment},{keys.ROUTER}"
    return f"{text} `kubectl -n {namespace} describe pod -l {pods}` shows why."


def _standing(member: Member) -> str:
    return f"{member.phase}{f' on {member.node}' if member.node else ', not scheduled'}"
