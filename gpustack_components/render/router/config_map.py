"""The ConfigMap of llm-d-router, and the hash that rolls its Pods when it changes (router sheet 4, 6.3)."""

import hashlib
import json

from gpustack_components.api.yaml_text import yaml_text
from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.cluster.port import Json
from gpustack_components.render.router.discovery import endpoint_selector
from gpustack_components.render.router.identity import metadata, router_of
from gpustack_components.render.router.picker_document import picker_document
from gpustack_components.render.router.proxy_document import proxy_document

ENDPOINT_SELECTOR = "endpoint-selector"
"""Key of the picker's label selector."""
ENDPOINT_TARGET_PORTS = "endpoint-target-ports"
"""Key of the port the picker's endpoints answer on."""


def config_map(resolved: ResolvedDeployment, contents: dict[str, str]) -> Json:
    """The ConfigMap that holds these contents."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(resolved), "data": contents}


def documents(resolved: ResolvedDeployment) -> dict[str, Json]:
    """The documents of both programs by their keys."""
    return {"epp.yaml": picker_document(resolved), "envoy.yaml": proxy_document(resolved)}


def data(resolved: ResolvedDeployment) -> dict[str, str]:
    """Both programs' documents and what else the picker reads.

    Nobody reads `extra-args.json`: it is there so that an edit of the arguments moves the hash.
    """
    router = router_of(resolved)
    return {
        **{key: yaml_text(document) for key, document in documents(resolved).items()},
        ENDPOINT_SELECTOR: endpoint_selector(resolved),
        ENDPOINT_TARGET_PORTS: str(router.serving_port),
        "extra-args.json": json.dumps(list(router.declared.extra_args) or None),
    }


def config_hash(contents: dict[str, str]) -> str:
    """SHA-256 of the ConfigMap's data, 64 hex digits."""
    return hashlib.sha256(json.dumps(contents, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
