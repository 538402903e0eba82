"""The base of the six kinds: what is true of every document."""

from typing import Literal

from gpustack_components.api.metadata import ObjectMeta
from gpustack_components.api.part import Part

API_VERSION = "worker.gpustack.ai/v1"
"""Group and version of every kind of this product."""


class Document(Part, frozen=True):
    """A whole object of `worker.gpustack.ai/v1`."""

    api_version: Literal["worker.gpustack.ai/v1"] = API_VERSION
    """Group and version; the only one there is."""
    kind: str
    """Name of the kind."""
    metadata: ObjectMeta
    """Name, namespace, labels, annotations, and what the API server adds."""
