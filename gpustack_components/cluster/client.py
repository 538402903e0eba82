"""The adapter of the cluster port over HTTP: what each verb sends, repeats and makes of the answer."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from gpustack_components.cluster import kubeconfig as kubeconfigs
from gpustack_components.cluster import requests
from gpustack_components.cluster.errors import (
    Lost,
    failure,
    names_an_object,
    not_json,
    status_of,
    worth_repeating,
)
from gpustack_components.cluster.pod_proxy import probe
from gpustack_components.cluster.port import (
    Cluster,
    ClusterError,
    Conflict,
    Event,
    Expired,
    Json,
    Kind,
    Listing,
    NotServed,
    Stop,
    Unreachable,
)
from gpustack_components.cluster.readings import at
from gpustack_components.cluster.requests import Request
from gpustack_components.cluster.retrying import Patience, Pauses, Repeat, interruptible
from gpustack_components.cluster.transport import Answer, Transport
from gpustack_components.cluster.watching import Watch


def connect(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    in_cluster: bool = False,
    on_request: Callable[[Request], None] | None = None,
    stop: Stop | None = None,
    patience: Patience | None = None,
) -> "Client":
    """A cluster, found as pulumi-kubernetes finds it; contacts nobody yet, but may run the kubeconfig's login command.

    `kubeconfig` is a path or a kubeconfig's text; without it KUBECONFIG, `~/.kube/config` and the Pod's service account
    are tried in that order. `in_cluster` takes the service account only. `on_request` is called with every request just
    before it is sent, retries included. Once `stop` is set nothing is tried again, and no request lasts longer than a
    second more, so that what must be written at the end still can be. Raises `KubeconfigError` or `Unauthorized`.
    """
    source = kubeconfigs.locate(kubeconfig, in_cluster=in_cluster)
    transport = Transport(source, context, on_request=on_request)
    return Client(transport, Pauses(patience or Patience(), stop=stop))


@dataclass(frozen=True, slots=True)
class _Outcome:
    answer: Answer
    unsure: bool
    """An earlier try of the same request may have acted already."""


class Client(Cluster):
    """A `Cluster` over HTTP; safe to use from several threads."""

    def __init__(self, transport: Transport, pauses: Pauses) -> None:
        self._transport = transport
        self._pauses = pauses
        self._reached = False
        self._kinds: dict[tuple[str, str], Kind] = {}

    @property
    def server(self) -> str:
        """The API server's URL, for sentences."""
        return self._transport.server

    def get(self, kind: Kind, namespace: str | None, name: str) -> Json | None:
        request = requests.get(kind, namespace, name)
        answer = self._exchange(request).answer
        return None if _absent(answer) else self._object(request, answer)

    def list(self, kind: Kind, namespace: str | None, selector: str = "", *, field_selector: str = "") -> Listing:
        try:
            return self._pages(kind, namespace, selector, field_selector, limit=requests.PAGE)
        except Expired:
            return self._pages(kind, namespace, selector, field_selector, limit=0)

    def create(self, obj: Json, *, dry_run: bool = False) -> Json:
        request = requests.create(self._kind_of(obj), obj, dry_run=dry_run)
        outcome = self._exchange(request, Repeat.ALWAYS if request.name else Repeat.UNPROCESSED)
        if outcome.unsure and status_of(outcome.answer.body).get("reason") == "AlreadyExists":
            live = self._live(request)
            if live is not None and _created_as(live, obj):
                return live
        return self._object(request, outcome.answer)

    def replace(self, obj: Json) -> Json:
        request = requests.replace(self._kind_of(obj), obj)
        outcome = self._exchange(request)
        if _absent(outcome.answer):
            raise Conflict(f"{request.subject} was deleted meanwhile.")
        if outcome.unsure and outcome.answer.code == 409:
            live = self._live(request)
            if live is not None and _replaced_by(live, obj):
                return live
        return self._object(request, outcome.answer)

    def apply(self, obj: Json, *, force: bool = False, subresource: str = "", dry_run: bool = False) -> Json:
        kind = self._kind_of(obj)
        request = requests.apply(kind, obj, force=force, subresource=subresource, dry_run=dry_run)
        return self._object(request, self._exchange(request).answer)

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
        request = requests.patch(kind, namespace, name, operations, subresource=subresource, manager=manager)
        repeat = Repeat.ALWAYS if all(map(_repeatable, operations)) else Repeat.UNPROCESSED
        answer = self._exchange(request, repeat).answer
        return None if _absent(answer) else self._object(request, answer)

    def delete(
        self, kind: Kind, namespace: str | None, name: str, *, uid: str | None = None, grace_seconds: int | None = None
    ) -> bool:
        request = requests.delete(kind, namespace, name, uid=uid, grace_seconds=grace_seconds)
        outcome = self._exchange(request)
        if _absent(outcome.answer):
            return outcome.unsure
        if outcome.answer.code == 409 and uid is not None:
            live = self._live(request)
            if live is None or live["metadata"].get("uid") != uid:
                return False
        self._object(request, outcome.answer)
        return True

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
        def follow(version: str, seconds: int) -> Request:
            return requests.watch(kind, namespace, selector, field_selector, resource_version=version, seconds=seconds)

        return iter(Watch(self._transport, follow, self._pauses, resource_version, stop))

    def read_pod(self, namespace: str, name: str, port: int, path: str, *, scheme: str = "http") -> str:
        request = requests.read_pod(namespace, name, port, path, scheme=scheme)
        return interruptible(
            partial(probe, self._transport, request),
            self._pauses.stop,
            partial(Lost, f"Given up waiting for an answer of {request.subject}: the run was stopped."),
        )

    def may(self, verb: str, kind: Kind, namespace: str | None, *, subresource: str = "") -> bool:
        request = requests.access_review(verb, kind, namespace, subresource=subresource)
        review = self._object(request, self._exchange(request).answer)
        return bool(at(review, "status", "allowed"))

    def server_version(self) -> tuple[int, int]:
        request = requests.version()
        version = self._object(request, self._exchange(request).answer)
        digits = ["".join(filter(str.isdigit, str(version.get(part, "")))) for part in ("major", "minor")]
        if not all(digits):
            raise ClusterError(f"{self.server} does not say its version as an API server does.")
        return int(digits[0]), int(digits[1])

    def _exchange(self, request: Request, repeat: Repeat = Repeat.ALWAYS) -> _Outcome:
        """Send until an answer says more than "later", or the bound is reached; raises `Unreachable` without one."""
        tries = self._pauses.begin()
        unsure = renewed = False
        while True:
            session = self._transport.session
            try:
                answer = interruptible(
                    partial(self._transport.send, request, session),
                    self._pauses.stop,
                    partial(Lost, f"Given up waiting for an answer about {request.subject}: the run was stopped."),
                )
            except Unreachable as error:
                lost = isinstance(error, Lost)
                unsure = unsure or lost
                safe = repeat is Repeat.ALWAYS or not lost
                if not (self._reached and safe and tries.again()):
                    raise
                continue
            self._reached = True
            if answer.code == 401 and not renewed:
                renewed = True
                if self._transport.renew(session):
                    continue
            if answer.code == 401:
                raise failure(
                    request, answer.code, answer.headers, answer.body, credentials=self._transport.session.credentials
                )
            acted = answer.code >= 500
            later = worth_repeating(answer.code, answer.body) and (repeat is Repeat.ALWAYS or not acted)
            if later and tries.again(answer.headers):
                unsure = unsure or acted
                continue
            return _Outcome(answer, unsure)

    def _pages(self, kind: Kind, namespace: str | None, selector: str, field_selector: str, *, limit: int) -> Listing:
        items: list[Json] = []
        continued, version = "", ""
        while True:
            request = requests.list_page(kind, namespace, selector, field_selector, limit=limit, continued=continued)
            page = self._object(request, self._exchange(request).answer)
            metadata: Json = page.get("metadata") or {}
            for item in page.get("items") or ():
                items.append({"apiVersion": kind.api_version, "kind": kind.kind, **item})
            version = version or str(metadata.get("resourceVersion") or "")
            continued = str(metadata.get("continue") or "")
            if not continued:
                return Listing(tuple(items), version)

    def _object(self, request: Request, answer: Answer) -> Json:
        if not 200 <= answer.code < 300:
            raise failure(request, answer.code, answer.headers, answer.body)
        try:
            value: Any = json.loads(answer.body)
        except ValueError:
            raise not_json(request, answer.code) from None
        if not isinstance(value, dict):
            raise not_json(request, answer.code)
        return cast("Json", value)

    def _live(self, request: Request) -> Json | None:
        return self.get(request.kind, request.namespace, request.name) if request.kind else None

    def _kind_of(self, obj: Json) -> Kind:
        kind = requests.known_kind(obj)
        if kind is not None:
            return kind
        api_version, name = str(obj.get("apiVersion")), str(obj.get("kind"))
        if (api_version, name) not in self._kinds:
            request = requests.discovery(api_version)
            answer = self._exchange(request).answer
            served: list[Json] = [] if answer.code == 404 else at(self._object(request, answer), "resources") or []
            for entry in served:
                if "/" not in entry["name"]:
                    found = Kind(api_version, entry["kind"], entry["name"], bool(entry["namespaced"]))
                    self._kinds[(api_version, entry["kind"])] = found
        try:
            return self._kinds[(api_version, name)]
        except KeyError:
            raise NotServed(f"The API server does not serve {name} ({api_version}).") from None


def _absent(answer: Answer) -> bool:
    return answer.code == 404 and names_an_object(answer.body)


def _repeatable(operation: Mapping[str, Any]) -> bool:
    return operation.get("op") in ("test", "replace", "add") and not str(operation.get("path", "")).endswith("/-")


def _created_as(live: Json, obj: Json) -> bool:
    """Whether the object that stands there came from a create whose answer was lost."""
    asked: Json = obj.get("metadata") or {}
    marks = {key: asked[key] for key in ("labels", "annotations", "ownerReferences") if asked.get(key)}
    return not live["metadata"].get("deletionTimestamp") and _holds(live["metadata"], marks)


def _replaced_by(live: Json, obj: Json) -> bool:
    """Whether what stands there is the outcome of a replace whose answer was lost."""
    volatile = ("resourceVersion", "managedFields", "generation")
    asked: Json = obj.get("metadata") or {}
    metadata = {key: asked[key] for key in asked if key not in volatile}
    return _holds(live, {**obj, "metadata": metadata})


def _holds(live: Any, asked: Any) -> bool:
    """Whether all that was asked for reads in what is there; servers and webhooks add to it."""
    if isinstance(asked, Mapping):
        wanted = cast("Mapping[str, Any]", asked)
        return isinstance(live, Mapping) and all(key in live and _holds(live[key], wanted[key]) for key in wanted)
    if isinstance(asked, list):
        entries = cast("list[Any]", asked)
        if not isinstance(live, list):
            return False
        standing = cast("list[Any]", live)
        return all(any(_holds(entry, element) for entry in standing) for element in entries)
    return bool(live == asked)
