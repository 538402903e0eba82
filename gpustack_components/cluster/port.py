"""The port through which everything reads and writes a cluster: raw JSON in and out, about ten verbs.

The planner never sees it; executors and doors hold one. Adapters are `cluster.client` (HTTP) and, in
tests, a simulated cluster.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object as the API server addresses it."""

    api_version: str
    """Group and version as in a manifest: `v1`, `kueue.x-k8s.io/v1beta2`."""
    kind: str
    plural: str
    namespaced: bool = True


POD = Kind("v1", "Pod", "pods")
SERVICE = Kind("v1", "Service", "services")
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
EVENT = Kind("v1", "Event", "events")
NODE = Kind("v1", "Node", "nodes", namespaced=False)
NAMESPACE = Kind("v1", "Namespace", "namespaces", namespaced=False)
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
ENDPOINT_SLICE = Kind("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")
CUSTOM_RESOURCE_DEFINITION = Kind(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
RUNTIME_CLASS = Kind("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", namespaced=False)
WORKLOAD = Kind("kueue.x-k8s.io/v1beta2", "Workload", "workloads")
LOCAL_QUEUE = Kind("kueue.x-k8s.io/v1beta2", "LocalQueue", "localqueues")
CLUSTER_QUEUE = Kind("kueue.x-k8s.io/v1beta2", "ClusterQueue", "clusterqueues", namespaced=False)
RESOURCE_FLAVOR = Kind("kueue.x-k8s.io/v1beta2", "ResourceFlavor", "resourceflavors", namespaced=False)


class ClusterError(Exception):
    """A request that failed; `str()` is a sentence for a person, without a secret in it."""

    retryable: bool = False
    """True when the same request may succeed later without an edit."""


class Unreachable(ClusterError):
    """No answer: connection refused, reset, name not resolved, TLS failed, or no answer within the request's time."""

    retryable = True


class Unauthorized(ClusterError):
    """401: no, wrong or expired credentials."""


class Forbidden(ClusterError):
    """403: the sentence names verb, kind and namespace."""


class Conflict(ClusterError):
    """409 on a write whose precondition (resourceVersion or uid) no longer holds."""


class AlreadyExists(ClusterError):
    """409 on a create: an object of that name stands there."""


class Invalid(ClusterError):
    """400 or 422, or a refusal by an admission webhook: the object itself is refused."""


class NotServed(ClusterError):
    """404 on a kind: the API server does not serve it (for example Kueue's CRDs are absent)."""


class Busy(ClusterError):
    """429 or 5xx that outlasted the adapter's own retries."""

    retryable = True


class NotSeenYet(Busy):
    """A refusal by an admission webhook to which something that stands, as a namespace just made, is unknown still."""


class Expired(ClusterError):
    """410 on a watch or a continued list: list again."""

    retryable = True


@dataclass(frozen=True, slots=True)
class Listing:
    """The answer to a list."""

    items: tuple[Json, ...]
    resource_version: str
    """Where a watch of the same selection continues."""


@dataclass(frozen=True, slots=True)
class Event:
    """One change that a watch delivered."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: Json


class Stop(Protocol):
    """Tells a wait that it should end: a `threading.Event`, or anything with its `is_set`."""

    def is_set(self) -> bool: ...


class Cluster(Protocol):
    """A Kubernetes API server. Every method may raise `ClusterError`; a missing object is None or False, no error.

    Adapters retry 429 (honouring Retry-After), 5xx and broken connections of idempotent requests themselves, within a
    bound.
    """

    def get(self, kind: Kind, namespace: str | None, name: str) -> Json | None:
        """The object, or None when it does not exist. Raises `NotServed` when the kind is not served."""
        ...

    def list(self, kind: Kind, namespace: str | None, selector: str = "", *, field_selector: str = "") -> Listing:
        """All objects of the kind in the namespace (None: all namespaces) that match both selectors."""
        ...

    def create(self, obj: Json, *, dry_run: bool = False) -> Json:
        """The stored object. Raises `AlreadyExists`, `Invalid`. A create whose response was lost is found on the
        server, not repeated, when the object has a fixed name; with `generateName` the caller looks by label before it
        repeats."""
        ...

    def replace(self, obj: Json) -> Json:
        """Update on the condition of `metadata.resourceVersion`; raises `Conflict`."""
        ...

    def apply(self, obj: Json, *, force: bool = False, subresource: str = "", dry_run: bool = False) -> Json:
        """Server-side apply with this product's field manager; raises `Conflict` when another manager owns a field and
        not force."""
        ...

    def patch(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        *,
        subresource: str = "",
        manager: str = "",
    ) -> Json | None:
        """JSON patch (RFC 6902); None when the object is gone. A failed `test` operation raises `Conflict`. `manager`
        owns the fields it writes, this product's field manager unless it is given."""
        ...

    def delete(
        self, kind: Kind, namespace: str | None, name: str, *, uid: str | None = None, grace_seconds: int | None = None
    ) -> bool:
        """Ask for deletion on the condition of the uid; False when no such object (or one of another uid) stands
        there."""
        ...

    def watch(
        self,
        kind: Kind,
        namespace: str | None,
        selector: str = "",
        *,
        field_selector: str = "",
        resource_version: str,
        stop: Stop,
    ) -> Iterator[Event]:
        """Changes after `resource_version`, ended by the server after about five minutes (resume from the last seen
        version), or by `stop` within a second. Raises `Expired` when the version is too old."""
        ...

    def read_pod(self, namespace: str, name: str, port: int, path: str, *, scheme: str = "http") -> str:
        """What a server inside a Pod answers to a GET, asked through the API server's proxy, once: text of at most 1
        MiB, its status 200, begun within 2 seconds and complete within 5. Raises `ClusterError` for anything else."""
        ...

    def may(self, verb: str, kind: Kind, namespace: str | None, *, subresource: str = "") -> bool:
        """Whether this identity may do it (SelfSubjectAccessReview)."""
        ...

    def server_version(self) -> tuple[int, int]:
        """Major and minor version of the API server, e.g. (1, 35)."""
        ...
