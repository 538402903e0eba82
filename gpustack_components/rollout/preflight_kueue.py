"""Whether Kueue is there and takes Pods in: asked by a dry run of the very Pod a run is about to create.

A dry run passes everything a create passes, webhooks included, and stores nothing. What an answer leaves unclear is
looked up in Kueue's own configuration, where that may be read.
"""

from collections.abc import Callable, Iterator
from typing import Any, cast

from gpustack_components.cluster.port import (
    CONFIG_MAP,
    NAMESPACE,
    WORKLOAD,
    AlreadyExists,
    Cluster,
    ClusterError,
    Json,
    Kind,
    NotSeenYet,
    NotServed,
)
from gpustack_components.cluster.readings import at, each, managed_by_kueue
from gpustack_components.rollout.contract import RolloutRefused

NEEDED = "Kueue 0.17 or newer with its Pod integration on"
"""What a cluster needs, as sentences say it."""

SETTLING = (0.5, 1.0, 2.0)
"""Seconds after which something is looked at again that Kueue may not have taken notice of yet, as one just made."""

_EARLIER = Kind("kueue.x-k8s.io/v1beta1", WORKLOAD.kind, WORKLOAD.plural)
WEBHOOKS = Kind(
    "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", namespaced=False
)
"""What registers webhooks that may change what is created."""
_POD_PATH = "/mutate--v1-pod"
_HOME, _CONFIG_MAP, _FILE = "kueue-system", "kueue-manager-config", "controller_manager_config.yaml"

_PASSES_LATER = ("exceeded quota", "does not support dry run")
"""Refusals of a dry run that say nothing about the create: quota that the Pod to be replaced still holds, and a
webhook that only judges real creates."""


def missing(cluster: Cluster, namespace: str, error: NotServed) -> RolloutRefused:
    """The refusal for a cluster that does not serve the Workloads this product drives."""
    try:
        cluster.list(_EARLIER, namespace, field_selector="metadata.name=none")
    except NotServed:
        return RolloutRefused(f"Kueue is not installed in this cluster: {error} Install {NEEDED}.")
    except ClusterError:
        return RolloutRefused(
            f"Kueue is not installed in this cluster, or too old: {error} It takes {NEEDED}, which serves "
            f"{WORKLOAD.api_version}."
        )
    return RolloutRefused(
        f"Kueue in this cluster is too old: it serves {_EARLIER.api_version} and not {WORKLOAD.api_version}. "
        f"Upgrade to {NEEDED}."
    )


def not_taken_in(
    cluster: Cluster, namespace: str, role: str, pod: Json, pause: Callable[[float], None] | None = None
) -> Iterator[str]:
    """Why a Pod of this role would not be created, or would run past Kueue; nothing when it would be taken in.

    A webhook that has not seen the namespace yet is asked again after `pause`; without one, that is passed over.
    """
    metadata = {key: value for key, value in pod["metadata"].items() if key != "generateName"}
    probe = {**pod, "metadata": {**metadata, "name": f"{role}-preflight"}}
    try:
        taken = _asked(cluster, probe, pause)
    except AlreadyExists:
        return
    except ClusterError as error:
        text = str(error)
        if any(words in text for words in _PASSES_LATER) or ("serviceaccount" in text and "not found" in text):
            return
        if pause is None and isinstance(error, NotSeenYet):
            return
        if error.retryable:
            yield f"role {role}: a Pod could not be created now: {text} Is Kueue's controller running and ready?"
        else:
            yield f"role {role}: its Pods are refused by the API server: {text}"
        return
    if not managed_by_kueue(taken):
        yield _why_not_managed(cluster, namespace)


def _asked(cluster: Cluster, probe: Json, pause: Callable[[float], None] | None) -> Json:
    for seconds in SETTLING:
        try:
            return cluster.create(probe, dry_run=True)
        except NotSeenYet:
            if pause is None:
                raise
            pause(seconds)
    return cluster.create(probe, dry_run=True)


def _why_not_managed(cluster: Cluster, namespace: str) -> str:
    """The reason as exactly as these credentials can find it out."""
    outside = f"Kueue does not take in Pods of namespace {namespace}, so they would run outside any quota: "
    unclear = (
        f"{outside}either its Pod integration is off (integrations.frameworks in Kueue's configuration must list pod), "
        "or the namespace is not matched by its managedJobsNamespaceSelector."
    )
    try:
        labels: Json = at(cluster.get(NAMESPACE, None, namespace), "metadata", "labels") or {}
        webhooks = [hook for one in cluster.list(WEBHOOKS, None).items for hook in each(one, "webhooks")]
        hook = next((hook for hook in webhooks if _path(hook).endswith(_POD_PATH)), None)
        if hook is None:
            return f"{outside}no webhook of Kueue for Pods is registered in this cluster. It takes {NEEDED}."
        if not matches(at(hook, "namespaceSelector"), labels):
            return (
                f"{outside}its labels do not match the namespaceSelector of webhook {hook.get('name')}. Use another "
                "namespace, or widen that selector."
            )
        home = str(at(hook, "clientConfig", "service", "namespace") or _HOME)
        stated = _configuration(cluster, home)
    except ClusterError:
        return unclear
    frameworks: Any = at(stated, "integrations", "frameworks")
    where = f"ConfigMap {home}/{_CONFIG_MAP}"
    if isinstance(frameworks, list) and "pod" not in frameworks:
        listed = ", ".join(map(str, cast("list[Any]", frameworks))) or "nothing"
        return (
            f"{outside}its Pod integration is off (integrations.frameworks in {where} lists {listed}). Add pod to it "
            "and restart Kueue's controller."
        )
    if not matches(at(stated, "managedJobsNamespaceSelector"), labels):
        return (
            f"{outside}its labels do not match managedJobsNamespaceSelector in {where}. Use another namespace, or "
            "widen that selector and restart Kueue's controller."
        )
    return unclear


def matches(selector: Any, labels: Json) -> bool:
    """Whether a label selector, as Kubernetes writes one, selects an object with these labels; an absent one does."""
    wanted: Json = at(selector, "matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_holds(requirement, labels) for requirement in each(selector, "matchExpressions"))


def _holds(requirement: Json, labels: Json) -> bool:
    key, values = str(requirement.get("key")), requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


def _path(hook: Json) -> str:
    client = at(hook, "clientConfig")
    return str(at(client, "service", "path") or at(client, "url") or "")


def _configuration(cluster: Cluster, home: str) -> Any:
    """Kueue's configuration as its own installation keeps it; None when it does not."""
    import yaml

    text = at(cluster.get(CONFIG_MAP, home, _CONFIG_MAP), "data", _FILE)
    try:
        return yaml.safe_load(text) if isinstance(text, str) else None
    except yaml.YAMLError:
        return None
