"""Whether the weights reached the Pods: the condition WeightsReady of a deployment that names an artifact (bindings
sheet 5.6)."""

from gpustack_components.cluster import keys, readings
from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import at, each
from gpustack_components.status.deployed import Observation
from gpustack_components.status.document import Condition, Truth
from gpustack_components.status.facts import Weights


def weights_condition(weights: Weights | None, observation: Observation) -> Condition | None:
    """The condition; None while neither the artifact was looked at nor a Pod is bound to a node."""

    def says(status: Truth, reason: str, message: str) -> Condition:
        return Condition("WeightsReady", status, reason, message)

    if weights is None:
        return None
    if weights.hold:
        return says("False", weights.hold, weights.message)
    bound = [pod for replica in observation.replicas() for pod in replica.live if at(pod, "spec", "nodeName")]
    if not bound:
        return None
    if weights.delivery == "Engine":
        loading = [pod for pod in bound if not readings.ready(pod)]
        if len(loading) == len(bound):
            return says("False", "Downloading", f"{_pods(loading)} of {len(bound)} still download or load the weights.")
        return says("True", "Downloaded", f"ModelArtifact {weights.artifact} was downloaded.")
    without = [pod for pod in bound if not _started(pod)]
    if without:
        reason = "Materializing" if weights.delivery == "Node" else "WeightsNotMounted"
        return says("False", reason, f"{_pods(without)} of {len(bound)} wait for ModelArtifact {weights.artifact}.")
    return says("True", "Mounted", f"ModelArtifact {weights.artifact} is mounted in {_pods(bound)}.")


def _started(pod: Json) -> bool:
    """Whether the engine's container ever ran, which it does only with its volumes mounted."""
    main = next(
        (one for one in each(pod, "status", "containerStatuses") if one.get("name") == keys.MAIN_CONTAINER), None
    )
    if main is None:
        return False
    return bool(main.get("started") or main.get("restartCount") or at(main, "state", "waiting") is None)


def _pods(pods: list[Json]) -> str:
    return "1 Pod" if len(pods) == 1 else f"{len(pods)} Pods"
