"""From ModelArtifact to what a Pod is given: model argument, delivery, revision, cache size, key prefix (bindings
sheet 5)."""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gpustack_components.bindings.catalog import DEFAULT_NAMESPACE, Bindings
from gpustack_components.bindings.failure import Hold
from gpustack_components.bindings.settings import Settings

if TYPE_CHECKING:
    from gpustack_components.api.model_artifact import ModelArtifact
    from gpustack_components.api.model_deployment import ModelDeployment

MODEL_PATH = "/var/lib/gpustack/model"
"""Where a claim, image or node-delivered artifact is mounted."""
MODEL_CACHE_PATH = "/var/lib/gpustack/model-cache"
"""Where an engine-delivered artifact is downloaded to."""
MODEL_CSI_DRIVER = "model.csi.gpustack.ai"
"""The node plugin that mounts a node-delivered artifact."""

Delivery = Literal["PVC", "Image", "Node", "Engine"]
"""How weights reach a Pod: claim, image volume, node plugin, or the engine's own download (bindings sheet 5.2)."""
Hub = Literal["", "HuggingFace", "ModelScope"]
"""The hub an artifact comes from; empty for a claim or an image."""

_GIB = 1 << 30
_PREFIX_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Artifact:
    """A resolved ModelArtifact as one deployment uses it."""

    name: str
    """Name of the ModelArtifact."""
    uid: str
    """Its UID; empty when a declared document states none."""
    delivery: Delivery
    """How the weights reach the Pod."""
    hub: Hub = ""
    """The hub it comes from; empty for a claim or an image."""
    repository: str = ""
    """Hub repository; the model argument under Engine delivery."""
    revision: str = ""
    """Resolved commit."""
    digest: str = ""
    """Resolved manifest digest, `sha256:...`; empty for a claim or an image."""
    secret: str = ""
    """Secret holding the hub token under `token`; empty for none."""
    claim: str = ""
    """PersistentVolumeClaim to mount."""
    path: str = ""
    """Path inside the claim; empty for its root."""
    image: str = ""
    """Image reference to mount, pinned by digest."""
    cache_bytes: int = 0
    """Size of the download volume under Engine delivery, in bytes."""
    prefix: str = ""
    """Identity of the weights in KV keys, `m-` and 32 hex digits; empty when neither digest nor UID is known
    (bindings sheet 5.7)."""

    @property
    def model(self) -> str:
        """The engine's model argument."""
        return self.repository if self.delivery == "Engine" else MODEL_PATH


def cache_size(size_bytes: int) -> int:
    """Bytes of the download volume: the artifact and a tenth of it, at least 1 GiB more."""
    return size_bytes + max(size_bytes // 10, _GIB)


def key_prefix(digest: str, uid: str) -> str:
    """The artifact's identity in KV keys; empty when neither the digest nor the UID is known."""
    if digest:
        return "m-" + digest.removeprefix("sha256:")[:_PREFIX_DIGITS]
    return "m-" + hashlib.sha256(uid.encode()).hexdigest()[:_PREFIX_DIGITS] if uid else ""


def deliver(deployment: "ModelDeployment", bindings: Bindings, settings: Settings) -> Artifact | Hold | None:
    """The deployment's artifact; a `Hold` while it may not be used yet; None when the deployment names none."""
    reference = deployment.spec.model.artifact_ref
    if reference is None:
        return None
    namespace = deployment.metadata.namespace or DEFAULT_NAMESPACE
    artifact = bindings.artifact(namespace, reference.name)
    if artifact is None:
        return Hold(
            "ArtifactNotFound",
            f"ModelArtifact {reference.name} is not known in namespace {namespace}; "
            "create it, or declare it beside the deployment",
        )
    resolved = any(c.type == "Resolved" and c.status == "True" for c in _conditions(artifact))
    if not resolved:
        return Hold(
            "ArtifactNotResolved",
            f"ModelArtifact {reference.name} is not resolved yet (condition Resolved is not True)",
        )
    return _delivered(artifact, settings)


def _conditions(artifact: "ModelArtifact"):
    return (artifact.status.conditions if artifact.status else None) or ()


def _delivered(artifact: "ModelArtifact", settings: Settings) -> Artifact | Hold:
    name, uid = artifact.metadata.name, artifact.metadata.uid or ""
    source = artifact.spec.source
    if source.persistent_volume_claim is not None:
        claim = source.persistent_volume_claim
        return Artifact(name, uid, "PVC", claim=claim.claim_name, path=claim.path or "", prefix=key_prefix("", uid))
    if source.image is not None:
        return Artifact(name, uid, "Image", image=source.image.reference, prefix=key_prefix("", uid))
    hub = source.hugging_face or source.model_scope
    if hub is None:
        return Hold("ArtifactNotResolved", f"ModelArtifact {name} names no source")
    found = artifact.status.resolved if artifact.status else None
    if found is None or not found.revision or not found.manifest_digest:
        return Hold("ArtifactNotResolved", f"ModelArtifact {name} states no resolved revision and digest")
    delivery: Delivery = settings.model_artifact_delivery_mode
    if delivery == "Engine" and found.size_bytes is None:
        return Hold(
            "ArtifactNotResolved",
            f"ModelArtifact {name} states no resolved sizeBytes, so its download volume cannot be sized",
        )
    if delivery == "Node" and not uid:
        return Hold("ArtifactNotResolved", f"ModelArtifact {name} states no metadata.uid, by which nodes deliver it")
    if delivery == "Engine":
        if artifact.spec.allow_patterns or artifact.spec.ignore_patterns:
            return Hold(
                "FilterNeedsNodeDelivery",
                f"ModelArtifact {name} filters files, which only Node delivery can do; "
                "set model-artifact-delivery-mode to Node",
            )
        if artifact.spec.expected_digest:
            return Hold(
                "AnchorNeedsNodeDelivery",
                f"ModelArtifact {name} pins a digest, which only Node delivery can check; "
                "set model-artifact-delivery-mode to Node",
            )
    return Artifact(
        name,
        uid,
        delivery,
        hub="HuggingFace" if source.hugging_face is not None else "ModelScope",
        repository=hub.repository,
        revision=found.revision,
        digest=found.manifest_digest,
        secret=hub.secret_ref.name if hub.secret_ref else "",
        cache_bytes=cache_size(found.size_bytes or 0) if delivery == "Engine" else 0,
        prefix=key_prefix(found.manifest_digest, uid),
    )
