"""What a Pod is given at its creation and no other time, outside its fingerprint: the nodes that suit its weights
(bindings sheet 5.6)."""

from collections.abc import Mapping
from typing import Any

from gpustack_components.cluster.port import Json


def placed(pod: Json, node_affinity: Mapping[str, Any]) -> Json:
    """The Pod with this node affinity; the Pod itself where there is none to add."""
    if not node_affinity:
        return pod
    spec = pod["spec"]
    return {**pod, "spec": {**spec, "affinity": {**spec.get("affinity", {}), "nodeAffinity": dict(node_affinity)}}}
