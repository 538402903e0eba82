"""What the executor is shown when a list and a watch of the same objects are answered side by side."""

import threading
from collections.abc import Iterator
from typing import Any

from gpustack_components.cluster.port import POD, Event, Json, Kind, Listing, Stop
from gpustack_components.rollout.view import LiveView


def pod(name: str, version: int) -> Json:
    return {"kind": "Pod", "metadata": {"name": name, "uid": f"uid of {name}", "resourceVersion": str(version)}}


class SlowLists:
    """An API server whose second list of Pods shows how things were before what the watch tells meanwhile."""

    def __init__(self, before: Listing, meanwhile: list[Event]) -> None:
        self.before, self.meanwhile = before, meanwhile
        self.lists = 0
        self.told = threading.Event()

    def list(self, kind: Kind, *_: object, **__: object) -> Listing:
        if kind is not POD:
            return Listing((), "1")
        self.lists += 1
        if self.lists == 1:
            return Listing(self.before.items, "1")
        assert self.told.wait(5)
        return self.before

    def watch(self, kind: Kind, *_: object, stop: Stop, **__: object) -> Iterator[Event]:
        if kind is POD:
            yield from self.meanwhile
            self.told.set()
        while not stop.is_set():
            threading.Event().wait(0.01)


def shown(before: Listing, *meanwhile: Event) -> dict[str, int]:
    """Version of every Pod by name that a view shows after a list that was overtaken by these events."""
    cluster: Any = SlowLists(before, list(meanwhile))
    view = LiveView(cluster, "team-a", "qwen", threading.Event())
    try:
        view.fresh()
        view.wait(5)
        found = view.fresh().pods
    finally:
        view.close()
    return {one["metadata"]["name"]: int(one["metadata"]["resourceVersion"]) for one in found}


def test_a_pod_that_a_watch_saw_go_does_not_come_back_with_an_older_list() -> None:
    listing = Listing((pod("a", 3), pod("b", 4)), "10")
    assert shown(listing, Event("DELETED", pod("a", 12))) == {"b": 4}


def test_a_pod_that_a_watch_saw_change_keeps_what_is_newer() -> None:
    listing = Listing((pod("a", 3),), "10")
    assert shown(listing, Event("MODIFIED", pod("a", 12)), Event("ADDED", pod("c", 13))) == {"a": 12, "c": 13}


def test_a_list_that_is_newer_replaces_what_was_known() -> None:
    listing = Listing((pod("a", 9),), "20")
    assert shown(listing, Event("ADDED", pod("c", 8))) == {"a": 9}
