"""What is asked of an API server, as plain values.

Building a request is apart from sending it, so that it can be tested and counted alone.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote, urlencode

from gpustack_components.cluster import port
from gpustack_components.cluster.keys import FIELD_MANAGER
from gpustack_components.cluster.port import Json, Kind

PAGE = 500
"""Objects asked for in one page of a list."""

Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete"]
"""A verb as RBAC spells it."""

_SUBJECT_ACCESS_REVIEW = Kind(
    "authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
_KINDS = {(kind.api_version, kind.kind): kind for kind in vars(port).values() if isinstance(kind, Kind)}


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request to an API server."""

    verb: Verb
    """What it does, as RBAC names it."""
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    """The HTTP method."""
    path: str
    """Path below the server's address, escaped, e.g. `/api/v1/namespaces/team-a/pods`."""
    query: tuple[tuple[str, str], ...] = ()
    """Query parameters, in order."""
    body: Any = None
    """JSON value sent, or None for no body."""
    content_type: str = "application/json"
    """Media type of the body."""
    kind: Kind | None = None
    """Kind asked about; None for `/version` and discovery."""
    namespace: str | None = None
    """Namespace asked about; None for cluster-scoped kinds and for all namespaces."""
    name: str = ""
    """Name of the object asked about; empty for a list or a generated name."""

    @property
    def target(self) -> str:
        """Path and query as they stand in the request line."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path

    @property
    def payload(self) -> bytes | None:
        """The body as bytes."""
        return None if self.body is None else json.dumps(self.body, separators=(",", ":")).encode()

    @property
    def subject(self) -> str:
        """What is asked about, in words: `Pod team-a/qwen-0`, `Pods in namespace team-a`, `/version`."""
        if self.kind is None:
            return self.path
        if self.name:
            return (
                f"{self.kind.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind.kind} {self.name}"
            )
        where = (
            f" in namespace {self.namespace}"
            if self.namespace
            else (" in all namespaces" if self.kind.namespaced else "")
        )
        return f"{self.kind.kind if self.verb == 'create' else _several(self.kind.kind)}{where}"


def _several(kind: str) -> str:
    return f"{kind}{'es' if kind.endswith('s') else 's'}"


def known_kind(obj: Json) -> Kind | None:
    """The kind of an object among those that the port names, or None."""
    return _KINDS.get((str(obj.get("apiVersion")), str(obj.get("kind"))))


def group_path(api_version: str) -> str:
    """Where a group and version is served: `/api/v1`, `/apis/kueue.x-k8s.io/v1beta2`."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def resource_path(kind: Kind, namespace: str | None, name: str = "", subresource: str = "") -> str:
    """The path of a collection, an object or its subresource."""
    parts = [group_path(kind.api_version)]
    if kind.namespaced and namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(kind.plural)
    parts += [quote(part, safe="") for part in (name, *subresource.split("/")) if part]
    return "/".join(parts)


def get(kind: Kind, namespace: str | None, name: str) -> Request:
    """Read one object."""
    return Request(
        "get", "GET", resource_path(kind, namespace, name), kind=kind, namespace=_scope(kind, namespace), name=name
    )


def list_page(
    kind: Kind, namespace: str | None, selector: str, field_selector: str, *, limit: int = PAGE, continued: str = ""
) -> Request:
    """Read one page of a list; `limit` 0 asks for everything at once."""
    query = _selectors(selector, field_selector)
    if limit:
        query.append(("limit", str(limit)))
    if continued:
        query.append(("continue", continued))
    return Request(
        "list", "GET", resource_path(kind, namespace), tuple(query), kind=kind, namespace=_scope(kind, namespace)
    )


def watch(
    kind: Kind, namespace: str | None, selector: str, field_selector: str, *, resource_version: str, seconds: int
) -> Request:
    """Follow a selection from a version on, for at most `seconds`."""
    query = _selectors(selector, field_selector)
    query += [
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("resourceVersion", resource_version),
        ("timeoutSeconds", str(seconds)),
    ]
    return Request(
        "watch", "GET", resource_path(kind, namespace), tuple(query), kind=kind, namespace=_scope(kind, namespace)
    )


def create(kind: Kind, obj: Json, *, dry_run: bool = False) -> Request:
    """Create an object; fields the server does not know are refused instead of dropped."""
    namespace, name = _place(kind, obj)
    query = (("fieldManager", FIELD_MANAGER), ("fieldValidation", "Strict"), *_dry(dry_run))
    return Request(
        "create", "POST", resource_path(kind, namespace), query, obj, kind=kind, namespace=namespace, name=name
    )


def replace(kind: Kind, obj: Json) -> Request:
    """Update an object as a whole."""
    namespace, name = _place(kind, obj)
    query = (("fieldManager", FIELD_MANAGER),)
    return Request(
        "update", "PUT", resource_path(kind, namespace, name), query, obj, kind=kind, namespace=namespace, name=name
    )


def apply(kind: Kind, obj: Json, *, force: bool = False, subresource: str = "", dry_run: bool = False) -> Request:
    """Server-side apply."""
    namespace, name = _place(kind, obj)
    query = (
        ("fieldManager", FIELD_MANAGER),
        ("force", str(force).lower()),
        ("fieldValidation", "Strict"),
        *_dry(dry_run),
    )
    path = resource_path(kind, namespace, name, subresource)
    return Request("patch", "PATCH", path, query, obj, "application/apply-patch+yaml", kind, namespace, name)


def patch(
    kind: Kind,
    namespace: str | None,
    name: str,
    operations: Sequence[Mapping[str, Any]],
    *,
    subresource: str = "",
    manager: str = "",
) -> Request:
    """JSON patch (RFC 6902)."""
    path = resource_path(kind, namespace, name, subresource)
    body = [dict(operation) for operation in operations]
    query = (("fieldManager", manager or FIELD_MANAGER),)
    return Request(
        "patch", "PATCH", path, query, body, "application/json-patch+json", kind, _scope(kind, namespace), name
    )


def delete(
    kind: Kind, namespace: str | None, name: str, *, uid: str | None = None, grace_seconds: int | None = None
) -> Request:
    """Ask for deletion, in the background, on the condition of a uid."""
    options: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
    if uid is not None:
        options["preconditions"] = {"uid": uid}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    path = resource_path(kind, namespace, name)
    return Request("delete", "DELETE", path, body=options, kind=kind, namespace=_scope(kind, namespace), name=name)


def access_review(verb: str, kind: Kind, namespace: str | None, *, subresource: str = "") -> Request:
    """Ask whether this identity may do something."""
    group = kind.api_version.partition("/")[0] if "/" in kind.api_version else ""
    attributes: Json = {"verb": verb, "group": group, "resource": kind.plural}
    if kind.namespaced and namespace:
        attributes["namespace"] = namespace
    if subresource:
        attributes["subresource"] = subresource
    review = _SUBJECT_ACCESS_REVIEW
    body = {"apiVersion": review.api_version, "kind": review.kind, "spec": {"resourceAttributes": attributes}}
    return Request("create", "POST", resource_path(review, None), body=body, kind=review)


def read_pod(namespace: str, name: str, number: int, path: str, *, scheme: str = "http") -> Request:
    """Ask a server inside a Pod, through the API server's proxy."""
    place = f"{'https:' if scheme == 'https' else ''}{quote(name, safe='')}:{number}"
    whole = f"{resource_path(port.POD, namespace)}/{place}/proxy{quote(path)}"
    return Request("get", "GET", whole, kind=port.POD, namespace=namespace, name=name)


def version() -> Request:
    """Ask for the server's version."""
    return Request("get", "GET", "/version")


def discovery(api_version: str) -> Request:
    """Ask which kinds a group and version serves."""
    return Request("get", "GET", group_path(api_version))


def _scope(kind: Kind, namespace: str | None) -> str | None:
    return namespace if kind.namespaced else None


def _place(kind: Kind, obj: Json) -> tuple[str | None, str]:
    metadata: Json = obj.get("metadata") or {}
    return _scope(kind, metadata.get("namespace")), str(metadata.get("name") or "")


def _selectors(selector: str, field_selector: str) -> list[tuple[str, str]]:
    pairs = (("labelSelector", selector), ("fieldSelector", field_selector))
    return [(key, value) for key, value in pairs if value]


def _dry(dry_run: bool) -> tuple[tuple[str, str], ...]:
    return (("dryRun", "All"),) if dry_run else ()
