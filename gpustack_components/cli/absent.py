"""Why a deployment that was asked for cannot be shown, in one sentence: another's, the operator's, its record gone, or
nowhere to be found."""

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpustack_components.cluster.port import Cluster

Json = dict[str, Any]


def why_absent(cluster: "Cluster", namespace: str, name: str, standing: Json | None) -> str:
    """Why there is nothing to show, with the names that are there; `standing` is what bears the record's name."""
    from gpustack_components.cluster import keys
    from gpustack_components.cluster.port import CONFIG_MAP, POD, Forbidden
    from gpustack_components.rollout.record import Record, is_record, record_name

    if standing is not None:
        return (
            f"ConfigMap {namespace}/{record_name(name)} stands where deployment {name} keeps its record, and is not "
            f"one: no deployment of that name was brought about by this package; `kubectl -n {namespace} describe "
            f"configmap {record_name(name)}` shows whose it is"
        )
    if _is_operators(cluster, namespace, name):
        return (
            f"deployment {name} in namespace {namespace} belongs to the GPUStack operator and not to this package: "
            f"`kubectl -n {namespace} get modeldeployment {name} -o yaml` shows its status"
        )
    left = cluster.list(POD, namespace, keys.engine_selector(name)).items
    if left:
        return (
            f"the record of deployment {name} in namespace {namespace} is gone, and so its Pods end: {len(left)} are "
            "still there; `pulumi up` of the program that declares it clears them away and creates new ones"
        )
    try:
        listed = cluster.list(CONFIG_MAP, None, f"{keys.MANAGED_BY}={keys.FIELD_MANAGER}").items
    except Forbidden:
        listed = cluster.list(CONFIG_MAP, namespace, f"{keys.MANAGED_BY}={keys.FIELD_MANAGER}").items
    known = sorted((one.namespace, one.name) for one in map(Record.from_object, filter(is_record, listed)))
    here = [other for space, other in known if space == namespace]
    elsewhere = [space for space, other in known if other == name]
    if elsewhere:
        hint = f"there is one in {' and '.join(elsewhere)}: add -n {elsewhere[0]}"
    elif here:
        near = get_close_matches(name, here, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there {'is' if len(here) == 1 else 'are'} {', '.join(here)}"
    else:
        hint = "`pulumi up` of a program that declares it creates it"
    return f"there is no deployment {name} in namespace {namespace}; {hint}"


def _is_operators(cluster: "Cluster", namespace: str, name: str) -> bool:
    """Whether the operator keeps a ModelDeployment of that name."""
    from gpustack_components.cluster.binding_objects import MODEL_DEPLOYMENT
    from gpustack_components.cluster.port import Forbidden, NotServed

    try:
        return cluster.get(MODEL_DEPLOYMENT, namespace, name) is not None
    except (Forbidden, NotServed):
        return False
