"""vllm-router and the SGLang gateway before a Prefill and a Decode role: who computes what, and what is handed on."""

import pytest

from sandbox.processes import wait_until
from tests.render import build
from tests.routers.argv import Kind, each_router
from tests.routers.calls import Load
from tests.routers.engines import Call, Engine
from tests.routers.programs import Programs
from tests.routers.site import Site

pytestmark = pytest.mark.cluster


def both_serve(site: Site, engines: list[Engine], seconds: float = 20) -> bool:
    """Whether each of these engines is asked for its half of a request."""

    def all_asked() -> bool:
        before = [len(engine.calls) for engine in engines]
        site.reached(6)
        return all(len(engine.calls) > asked for engine, asked in zip(engines, before, strict=True))

    return wait_until(all_asked, seconds=seconds)


@each_router
def test_prefill_is_split_from_decode(site: Site, programs: Programs, router: Kind) -> None:
    found = router.resolved(site, build.pair())
    site.start_router(programs, found)
    prefillers = [site.start(found, "prefill", ordinal) for ordinal in (0, 1)]
    decoders = [site.start(found, "decode", ordinal) for ordinal in (0, 1)]
    assert both_serve(site, [*prefillers, *decoders])
    for path in ("/v1/completions", "/v1/chat/completions"):
        text = f"to be split on {path}"
        answer = site.complete(path=path, text=text, tokens=4, stream=True)
        assert (answer.status, answer.complete, answer.tokens) == (200, True, 4)
        prefill, prefiller = only_call(prefillers, text)
        decode, decoder = only_call(decoders, text)
        assert answer.by == 4 * decoder.name
        assert prefill.body.get("prompt") == decode.body.get("prompt")
        assert prefill.body.get("messages") == decode.body.get("messages")
        LEGS[router.name](site, prefill, decode, prefiller)
    exposed = site.get("/metrics", port=9090).text
    assert [metric for metric in router.pair_metrics if metric not in exposed] == []
    assert site.get("/health").status == 200


def vllm_legs(site: Site, prefill: Call, decode: Call, prefiller: Engine) -> None:
    """Mooncake's push: the prefiller computes one token and keeps its cache for whoever names the transfer."""
    transfer = prefill.body["kv_transfer_params"]
    assert (transfer["do_remote_decode"], transfer["do_remote_prefill"]) == (True, False)
    assert transfer["transfer_id"]
    assert (prefill.body.get("max_tokens") or prefill.body["max_completion_tokens"], prefill.body["stream"]) == (
        1,
        False,
    )
    assert prefill.headers["x-request-id"] == decode.headers["x-request-id"]
    # docs/decisions.md, "Where a discovered prefiller's bootstrap server is": the day this changes is worth knowing.
    assert "kv_transfer_params" not in decode.body
    assert "/query" not in prefiller.paths


def sglang_legs(site: Site, prefill: Call, decode: Call, prefiller: Engine) -> None:
    """Both halves are told where they meet: at the prefiller, on the port its annotation names."""
    meeting = ("bootstrap_host", "bootstrap_port", "bootstrap_room")
    assert [prefill.body[key] for key in meeting] == [decode.body[key] for key in meeting]
    pod = site.pod(prefiller)
    assert prefill.body["bootstrap_host"] == pod["status"]["podIP"]
    assert str(prefill.body["bootstrap_port"]) == pod["metadata"]["annotations"]["sglang.ai/bootstrap-port"]


LEGS = {"vllm-router": vllm_legs, "sglang-gateway": sglang_legs}


def only_call(engines: list[Engine], text: str) -> tuple[Call, Engine]:
    """The one call that carried the text, and who was asked."""
    (found,) = [(call, engine) for engine in engines for call in engine.calls if text in str(call.body)]
    return found


@each_router
def test_no_request_is_lost_while_both_halves_are_replaced(site: Site, programs: Programs, router: Kind) -> None:
    found = router.resolved(site, build.pair())
    site.start_router(programs, found)
    leaving = [site.start(found, "prefill", 0), site.start(found, "decode", 0)]
    staying = [site.start(found, "prefill", 1), site.start(found, "decode", 1)]
    assert both_serve(site, [*leaving, *staying])
    with Load(site, clients=4, tokens=30) as load:
        assert wait_until(lambda: leaving[1].running > 0, seconds=10)
        for engine in leaving:
            site.delete(engine)
        site.wait_gone(*leaving)
        arriving = [site.start(found, "prefill", 0), site.start(found, "decode", 0)]
        assert both_serve(site, [*arriving, *staying])
    assert load.lost == []
    assert len(load.answers) > 12
    assert [engine.cut for engine in leaving] == [0, 0]
    assert set(site.kubelet.drains) == {engine.name for engine in leaving}
