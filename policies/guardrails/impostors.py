"""Objects outside a ModelDeployment that would take part in one: Pods that pretend to belong to it, queues on a
protected ClusterQueue.
"""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, cast

from gpustack_components.cluster import keys

KUBERNETES = "kubernetes:"
LOCAL_QUEUE = ":LocalQueue"

_OURS = "modeldeployment.gpustack.ai/"
_GROUP_PREFIX = "gpustack-fnv64-"


def pod_metadata(properties: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Field path and metadata of every Pod that a resource is or makes: its own, and that of its Pod templates."""
    yield "metadata", _mapping(properties.get("metadata"))
    spec = _mapping(properties.get("spec"))
    template = _mapping(spec.get("template"))
    if template:
        yield "spec.template.metadata", _mapping(template.get("metadata"))
    job = _mapping(_mapping(spec.get("jobTemplate")).get("spec"))
    if job:
        yield "spec.jobTemplate.spec.template.metadata", _mapping(_mapping(job.get("template")).get("metadata"))


def pretence(metadata: Mapping[str, Any]) -> str:
    """The label or annotation by which a Pod pretends to belong to a deployment; empty when it does not."""
    labels, annotations = _mapping(metadata.get("labels")), _mapping(metadata.get("annotations"))
    if labels.get(keys.APP_NAME) == keys.APP_NAME_VALUE and labels.get(keys.APP_INSTANCE):
        return f"label {keys.APP_NAME}: {keys.APP_NAME_VALUE}"
    if str(labels.get(keys.GROUP_NAME) or "").startswith(_GROUP_PREFIX):
        return f"label {keys.GROUP_NAME}: {labels[keys.GROUP_NAME]}"
    mark = next((key for key in (*labels, *annotations) if key.startswith(_OURS) and key != keys.OWNER), "")
    return mark and f"key {mark}"


def protected_queue(properties: Mapping[str, Any], protected: Sequence[str], urn: str) -> str:
    """The protected ClusterQueue that a LocalQueue was made for by hand; empty when it is not protected, or a
    component made it.
    """
    queue = str(_mapping(properties.get("spec")).get("clusterQueue") or "")
    if not any(fnmatchcase(queue, pattern) for pattern in protected):
        return ""
    mark = str(_mapping(_mapping(properties.get("metadata")).get("annotations")).get(keys.OWNER) or "")
    head, _, rest = urn.partition("::")
    ours = f"/{rest.partition('::')[0]}/{head.removeprefix('urn:pulumi:')}"
    return "" if mark.endswith(ours) else queue


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
