"""`render --graph`: the diagram of each seed, and every leg that would be missing in silence."""

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from gpustack_components.render.graph import graph, mistakes
from tests.render import build
from tests.render.seeds import resolution
from tests.render.test_seeds import ORDINARY

Json = dict[str, Any]
LLM_D = {"router": {"name": "llm-d-router"}}
CACHE = {"kvCache": {"poolRef": {"name": "cache"}}}


class TextFile(SingleFileSnapshotExtension):
    """Golden files a person can read."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


@pytest.mark.parametrize("name", ORDINARY)
def test_a_seed_is_drawn_as_reviewed(name: str, snapshot: SnapshotAssertion) -> None:
    found = resolution(name).resolved
    assert found is not None
    assert graph(found) == snapshot.use_extension(TextFile)


@pytest.mark.parametrize(
    ("role", "fronted"),
    [
        ({}, "main:8000\n"),
        ({"size": 2}, "main:8000 of member 0\n"),
        ({"size": 2, "extraArgs": ["-dp=2", "--data-parallel-external-lb"]}, "main:8000 of every member\n"),
    ],
)
def test_the_diagram_says_which_members_answer(role: Json, fronted: str) -> None:
    assert graph(build.resolved(build.deployment(roles=[role]))).endswith(fronted)


def test_the_diagram_leaves_out_encoders_that_the_router_sends_nothing() -> None:
    roles = [ENCODER, *build.pair()]
    for name, reached in (("llm-d-router", "encode, prefill, decode"), ("vllm-router", "prefill, decode")):
        drawn = graph(build.resolved(build.deployment(roles=roles, router={"name": name})))
        assert f"({name}) -> {reached}\n" in drawn


def of(
    engine: str = "vLLM", roles: list[Json] | None = None, bound: list[object] | None = None, **spec: Any
) -> tuple[str, ...]:
    return mistakes(build.resolved(build.deployment(engine, roles or build.pair(), **spec), bound or []))


def mounting(path: str) -> Json:
    return {"additionalVolumes": [{"mountPath": path, "configMap": {"name": "mine"}}]}


OVER, INSIDE = mounting("/etc/gpustack/kvcache"), mounting("/etc/gpustack/kvcache/mooncake.json")
BESIDE = mounting("/etc/gpustack/kvcache-of-mine")
NPU = build.instance_type("npu", "ascend")
ENCODER = {"name": "encode", "kind": "Encode"}
CASES: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "a routed pair": (of(**LLM_D), []),
    "a routed pair with a store": (of(bound=build.store(), **LLM_D, **CACHE), []),
    "a server": (of(roles=[{}]), []),
    "an SGLang pair behind its gateway": (of("SGLang", router={"name": "sglang-gateway"}), []),
    "a pair without a router": (of(), ["spec.router"]),
    "a pair with a store and no router": (of(bound=build.store(), **CACHE), ["spec.router"]),
    "half a pair": (of(roles=build.pair()[:1], **LLM_D), ["prefill is half of a pair"]),
    "an encoder behind a picker": (of(roles=[ENCODER, *build.pair()], **LLM_D), []),
    "an encoder behind an argv router": (
        of(roles=[ENCODER, *build.pair()], router={"name": "vllm-router"}),
        ["encode gets no images to encode: only llm-d-router sends them"],
    ),
    "an encoder that nothing routes to": (of(roles=[ENCODER]), []),
    "an Ascend pair behind vllm-router": (
        of(bound=[build.instance_type(manufacturer="ascend")], router={"name": "vllm-router"}),
        ["prefill hands over no block", "decode hands over no block"],
    ),
    "an Ascend pair behind the picker": (of(bound=[build.instance_type(manufacturer="ascend")], **LLM_D), []),
    "an Ascend pair told a protocol": (
        of(bound=[build.instance_type(manufacturer="ascend")], kvTransfer={"protocol": "RDMA"}, **LLM_D),
        ["spec.kvTransfer is not read on Ascend"],
    ),
    "an SGLang pair told a protocol": (of("SGLang", kvTransfer={"protocol": "RDMA"}, **LLM_D), []),
    "one Ascend half": (
        of(roles=build.pair(decode={"instanceType": "npu"}), bound=[build.instance_type(), NPU], **LLM_D),
        ["different handshakes"],
    ),
    "one Ascend half beside a store": (
        of(
            roles=build.pair(decode={"instanceType": "npu"}),
            bound=[build.instance_type(), NPU, *build.store(protocol="CANN")],
            **LLM_D,
            **CACHE,
        ),
        ["different handshakes", "never find each other's blocks"],
    ),
    "a half that owns its command": (
        of(roles=build.pair(decode={"command": ["serve"]}), **LLM_D),
        ["decode owns its command"],
    ),
    "a transfer protocol nobody reads": (
        of(roles=[{}], kvTransfer={"protocol": "RDMA"}),
        ["spec.kvTransfer renders nothing"],
    ),
    "a store that is not there": (of(roles=[{}], **CACHE), ["no store is connected", "cache is not known"]),
    "a mount over the store client's configuration": (
        of(roles=[OVER], bound=build.store(), **CACHE),
        ["server mounts /etc/gpustack/kvcache"],
    ),
    "a file in the store client's configuration": (
        of(roles=[INSIDE], bound=build.store(), **CACHE),
        ["server mounts /etc/gpustack/kvcache/mooncake.json"],
    ),
    "the same mount without a file to hide": (of("SGLang", roles=[OVER], bound=build.store(), **CACHE), []),
    "a mount beside the store client's configuration": (of(roles=[BESIDE], bound=build.store(), **CACHE), []),
    "a store of two protocols": (
        of(roles=[{}], bound=build.store(groups=("TCP", "RDMA")), **CACHE),
        ["tcp, rdma", "one protocol"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_transfer_that_will_not_happen_is_said(case: str) -> None:
    found, words = CASES[case]
    assert bool(found) == bool(words)
    for word in words:
        assert any(word in mistake for mistake in found), found
