"""The smallest manifest there is, and changes to it."""

import copy
import re
from typing import Any

SMALLEST: dict[str, Any] = {
    "apiVersion": "worker.gpustack.ai/v1",
    "kind": "ModelDeployment",
    "metadata": {"name": "qwen"},
    "spec": {
        "model": {"name": "m"},
        "engine": {"name": "vLLM", "image": "i"},
        "roles": [{"name": "server", "instanceType": "t"}],
    },
}
"""The least a ModelDeployment states."""


def changed(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A copy with the value at each path replaced, or removed when it is None."""
    document = copy.deepcopy(document)
    for path, value in changes.items():
        *parents, last = [int(step) if step.isdecimal() else step for step in re.findall(r"[^.\[\]]+", path)]
        place: Any = document
        for step in parents:
            place = place[step]
        if value is None:
            del place[last]
        else:
            place[last] = value
    return document
