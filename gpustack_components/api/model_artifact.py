"""ModelArtifact: where the weights of a model come from, pinned (bindings sheet 5.1). The whole spec is frozen."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from gpustack_components.api.document import Document
from gpustack_components.api.part import Condition, Int, LocalRef, Observed, Part, Text

_Repository: TypeAlias = Annotated[
    str, Field(max_length=256, pattern=r"^[^-/\s:][^/\s:]{0,95}(/[^-/\s:][^/\s:]{0,95})?$")
]
_Revision: TypeAlias = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^\s\x00-\x1f\x7f]+$")]
_Patterns: TypeAlias = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=256)], ...], Field(max_length=32)]


class HuggingFaceSource(Part, frozen=True):
    """A repository on the Hugging Face hub."""

    repository: _Repository
    """`owner/name` or a bare name; each part at most 96 characters."""
    revision: _Revision = "main"
    """Branch, tag or commit."""
    secret_ref: LocalRef | None = None
    """Secret whose key `token` reads the repository; absent: a public one."""


class ModelScopeSource(Part, frozen=True):
    """A repository on the ModelScope hub."""

    repository: _Repository
    """`owner/name` or a bare name; each part at most 96 characters."""
    revision: _Revision = "master"
    """Branch, tag or commit."""
    secret_ref: LocalRef | None = None
    """Secret whose key `token` reads the repository; absent: a public one."""


class ClaimSource(Part, frozen=True):
    """A directory of a PersistentVolumeClaim."""

    claim_name: Text
    """Claim in the same namespace."""
    path: Annotated[str, Field(pattern=r"^([^/].*)?$")] = ""
    """Directory inside the volume, relative; empty: its root."""


class ImageSource(Part, frozen=True):
    """An OCI image that holds the weights; needs an API server of 1.35 or newer."""

    reference: Annotated[str, Field(pattern=r"@sha256:[0-9a-f]{64}$")]
    """Image pinned by digest; a tag alone is refused."""


class Source(Part, frozen=True):
    """Where the weights come from: exactly one of the four."""

    hugging_face: HuggingFaceSource | None = None
    """A repository on the Hugging Face hub."""
    model_scope: ModelScopeSource | None = None
    """A repository on the ModelScope hub."""
    persistent_volume_claim: ClaimSource | None = None
    """A directory of a claim."""
    image: ImageSource | None = None
    """An OCI image."""


class ModelArtifactSpec(Part, frozen=True):
    """Which files of which source."""

    source: Source
    """Where the weights come from."""
    allow_patterns: _Patterns = ()
    """Files to take, as shell patterns; hub sources only, at most 32. Empty: all."""
    ignore_patterns: _Patterns = ()
    """Files to leave out; wins over `allowPatterns`."""
    expected_digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None
    """Digest the resolved manifest must have; hub sources only. Absent: not checked."""


class Resolved(Observed, frozen=True):
    """What the source pointed to when it was read."""

    revision: str = ""
    """Commit of a hub source, 40 hexadecimal digits; empty for the others."""
    manifest_digest: str = ""
    """Digest over the files, `sha256:...`; empty for claim and image."""
    digest_source: str = ""
    """`Hub` or `Expected`."""
    file_count: Int | None = None
    """Files in the manifest."""
    size_bytes: Int | None = None
    """Bytes of all files; absent when not known."""


class ModelArtifactStatus(Observed, frozen=True):
    """What was observed of an artifact."""

    resolved: Resolved | None = None
    """What the source pointed to; absent until resolved."""
    conditions: tuple[Condition, ...] = ()
    """Conditions; `Resolved` decides whether Pods are created."""


class ModelArtifact(Document, frozen=True):
    """The weights of a model, pinned to a revision."""

    kind: Literal["ModelArtifact"] = "ModelArtifact"
    """Name of the kind."""
    spec: ModelArtifactSpec
    """Which files of which source."""
    status: ModelArtifactStatus | None = None
    """What was observed; None when the document has no status."""
