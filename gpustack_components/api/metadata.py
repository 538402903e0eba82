"""Metadata of an object: what a user writes and what the API server fills in (api sheet 2.6)."""

from typing import Annotated

from pydantic import Field

from gpustack_components.api.names import DNS_1123_LABEL, DNS_1123_SUBDOMAIN, DNS_LABEL_LENGTH, SUBDOMAIN_LENGTH
from gpustack_components.api.part import Int, Opaque, Part


class ObjectMeta(Part, frozen=True):
    """Kubernetes' ObjectMeta. Server-filled fields are accepted so that a live object can be fed in unchanged."""

    name: Annotated[str, Field(min_length=1, max_length=SUBDOMAIN_LENGTH, pattern=DNS_1123_SUBDOMAIN)]
    """Name of the object: a DNS subdomain. Required, because every derived name starts with it."""
    generate_name: str | None = None
    """Kept when a live object carries it; never used."""
    namespace: Annotated[str, Field(max_length=DNS_LABEL_LENGTH, pattern=DNS_1123_LABEL)] | None = None
    """Namespace; absent means the one the door decides, and on a cluster-scoped kind none."""
    labels: dict[str, str] = Field(default_factory=dict[str, str])
    """Labels, always editable."""
    annotations: dict[str, str] = Field(default_factory=dict[str, str])
    """Annotations, always editable."""
    uid: str | None = None
    """Set by the API server; absent on an object that was never stored."""
    resource_version: str | None = None
    """Set by the API server."""
    generation: Int | None = None
    """Set by the API server: counts changes of the spec."""
    creation_timestamp: str | None = None
    """Set by the API server (RFC 3339)."""
    deletion_timestamp: str | None = None
    """Set by the API server while the object is being deleted (RFC 3339)."""
    deletion_grace_period_seconds: Int | None = None
    """Set by the API server with the deletion timestamp, in seconds."""
    finalizers: tuple[str, ...] = ()
    """What must let go before the object disappears."""
    owner_references: tuple[Opaque, ...] = ()
    """Owners, as raw JSON."""
    managed_fields: tuple[Opaque, ...] = ()
    """Server-side apply's bookkeeping, as raw JSON."""
    self_link: str | None = None
    """Set by API servers before Kubernetes 1.24."""

    @property
    def deleting(self) -> bool:
        """True while the object is being deleted."""
        return self.deletion_timestamp is not None
