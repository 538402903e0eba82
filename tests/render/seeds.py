"""The manifests of the seed pages, resolved in a world that has what they name."""

from pathlib import Path
from typing import Any

import yaml

from gpustack_components.admission.review import review
from gpustack_components.api.encode import encode
from gpustack_components.api.kv_cache import KVCachePoolBinding
from gpustack_components.api.model_artifact import ModelArtifact
from gpustack_components.api.model_deployment import ModelDeployment
from gpustack_components.bindings.catalog import Bindings
from gpustack_components.bindings.resolve import Resolution
from gpustack_components.bindings.settings import Settings
from tests.render import build

Json = dict[str, Any]


def _deployments() -> dict[str, ModelDeployment]:
    found: dict[str, ModelDeployment] = {}
    for path in sorted((Path(__file__).parent.parent / "data/seeds").glob("*.yaml")):
        for raw in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if raw and raw.get("kind") == "ModelDeployment":
                found[path.stem] = ModelDeployment.model_validate(raw)
    return found


SEEDS = _deployments()
"""Every ModelDeployment of the seed pages, by file."""


def world(document: ModelDeployment) -> list[object]:
    """What the deployment names: types of NVIDIA cards, a TCP store, a resolved hub artifact."""
    known: list[object] = [build.instance_type(name) for name in sorted({r.instance_type for r in document.spec.roles})]
    namespace = document.metadata.namespace
    if document.spec.kv_cache is not None:
        binding, pool, backend = build.store()
        assert isinstance(binding, KVCachePoolBinding)
        renamed = binding.metadata.model_copy(
            update={"name": document.spec.kv_cache.pool_ref.name, "namespace": namespace}
        )
        known += [binding.model_copy(update={"metadata": renamed}), pool, backend]
    if document.spec.model.artifact_ref is not None:
        artifact = build.artifact()
        assert isinstance(artifact, ModelArtifact)
        renamed = artifact.metadata.model_copy(
            update={"name": document.spec.model.artifact_ref.name, "namespace": namespace}
        )
        known.append(artifact.model_copy(update={"metadata": renamed}))
    return known


def admitted(name: str) -> ModelDeployment:
    """A seed's deployment as admission stores it, with the card its type gives it by default."""
    known = Bindings.of(world(SEEDS[name]), complete=True)
    verdict = review(encode(SEEDS[name]), bindings=known, settings=Settings())
    assert isinstance(verdict.document, ModelDeployment) and verdict.accepted, verdict.refusals
    return verdict.document


def resolution(name: str, **options: Any) -> Resolution:
    """What resolving a seed's admitted deployment gives."""
    document = admitted(name)
    return build.resolution(document, world(document), **options)
