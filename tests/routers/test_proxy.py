"""Envoy, as rendered for llm-d-router, between clients, a stand-in for the picker, and simulated engines."""

import subprocess
import time
from pathlib import Path

import pytest

from gpustack_components.render.router import router_objects
from tests.render import build
from tests.routers.calls import InFlight
from tests.routers.front import DESTINATION, PREFILLER, Front
from tests.routers.programs import Programs
from tests.routers.site import Site

pytestmark = pytest.mark.cluster
LOG_KEYS = {
    "start_time",
    "method",
    "path",
    "protocol",
    "response_code",
    "response_flags",
    "response_code_details",
    "duration",
    "upstream_host",
    "request_id",
    "bytes_received",
    "bytes_sent",
}


@pytest.mark.parametrize("router", [{}, {"requestTimeoutSeconds": 90}], ids=["no timeout", "a timeout"])
@pytest.mark.parametrize("engine", ["vLLM", "SGLang"])
def test_envoy_accepts_the_document(programs: Programs, tmp_path: Path, engine: str, router: dict[str, int]) -> None:
    resolved = build.resolved(build.deployment(engine, build.pair(), router={"name": "llm-d-router", **router}))
    (document,) = [one["data"]["envoy.yaml"] for one in router_objects(resolved) if one["kind"] == "ConfigMap"]
    file = tmp_path / "envoy.yaml"
    file.write_text(document)
    judged = subprocess.run([programs.envoy, "--mode", "validate", "-c", file], capture_output=True, text=True)
    assert judged.returncode == 0, judged.stderr
    assert "deprecated" not in judged.stderr.lower()


def test_a_request_goes_where_the_picker_says(site: Site, programs: Programs) -> None:
    front = Front(site, programs)
    first, second = (site.start(front.resolved, "decode", ordinal) for ordinal in (0, 1))
    prefiller = site.start(front.resolved, "prefill")

    front.plan(second, prefiller)
    longest = InFlight(site, tokens=220, stream=True)
    assert site.complete().by == second.name
    front.plan(first, prefiller)
    forged = {DESTINATION: front.endpoint(second), PREFILLER: "10.244.0.1:1"}
    assert site.complete(headers=forged).by == first.name
    assert DESTINATION not in front.seen("request")[-1]["request"], "the caller's own endpoint reaches nobody"
    assert first.calls[-1].headers[PREFILLER] == front.endpoint(prefiller)
    assert first.calls[-1].body == front.seen("request")[-1]["body"]
    assert not prefiller.calls, "the prefill leg is the sidecar's"

    stream = site.complete(path="/v1/chat/completions", tokens=5, stream=True)
    assert (stream.status, stream.tokens, stream.complete) == (200, 5, True)
    spread = stream.arrivals[4] - stream.arrivals[0]
    assert spread > 0.5 * 4 * first.pace, "each token comes when it is there"
    assert front.seen("response")[-1]["pieces"] >= 5

    assert site.get("/v1/models").status == 200
    front.plan(refuse=429)
    assert site.complete().status == 429
    front.plan(first, delay=1)
    assert site.complete().by == first.name, "a picker may think for more than Envoy's 200 ms for one message"
    front.plan()
    assert site.complete().status == 503, "no endpoint picked, none used"

    answer = longest.result(30)
    assert (answer.status, answer.tokens, answer.complete) == (200, 220, True)
    assert answer.arrivals[-1] > 10, "the picker's gRPC timeout does not end what streams through it"

    log = front.access_log()
    assert all(set(line) == LOG_KEYS for line in log)
    of = {(line["response_code"], line["upstream_host"]) for line in log}
    assert of == {(200, front.endpoint(first)), (200, front.endpoint(second)), (429, None), (503, None)}
    assert {line["path"] for line in log} == {"/v1/completions", "/v1/chat/completions", "/v1/models"}
    unpicked = next(line for line in log if line["response_code"] == 503)
    assert (unpicked["response_flags"], unpicked["response_code_details"]) == ("UH", "no_healthy_upstream")


def test_a_request_ends_at_its_timeout(site: Site, programs: Programs) -> None:
    front = Front(site, programs, requestTimeoutSeconds=2)
    engine = site.start(front.resolved, "decode")
    front.plan(engine)
    streaming = InFlight(site, tokens=100, stream=True)
    started = time.monotonic()
    whole = site.complete(tokens=100)
    assert (whole.status, whole.text) == (504, "upstream request timeout")
    assert 1.9 < time.monotonic() - started < 6
    stream = streaming.result(5)
    assert (stream.status, stream.complete) == (200, False)
    assert 10 < stream.tokens <= 40
    assert {line["response_flags"] for line in front.access_log()} == {"UT"}


def test_without_its_picker_nothing_is_routed_and_nothing_is_guessed(site: Site, programs: Programs) -> None:
    front = Front(site, programs)
    engine = site.start(front.resolved, "decode")
    front.plan(engine)
    assert site.complete().by == engine.name
    streaming = InFlight(site, tokens=100, stream=True)
    time.sleep(1)
    front.stop_picker()
    assert not streaming.result(5).complete, "answers stream through the picker, so they end with it"
    refused = [site.complete(headers=headers) for headers in ({}, {DESTINATION: front.endpoint(engine)}) * 3]
    assert {answer.status for answer in refused} <= {500, 503}
    assert len(engine.calls) == 2, "failing open sends nothing to an endpoint that nobody picked"
    front.start_picker()
    assert site.complete().by == engine.name, "Envoy goes on as soon as the picker is back"
    for line in front.access_log()[2:-1]:
        if line["response_code"] == 500:
            assert "ext_proc_error" in line["response_code_details"], "its body was already on its way to the picker"
        else:
            assert line["response_code_details"] == "no_healthy_upstream", "it passed the picker and had no endpoint"


def test_an_engine_that_is_gone_is_reported_at_once(site: Site, programs: Programs) -> None:
    front = Front(site, programs)
    engine = site.start(front.resolved, "decode")
    front.plan(engine)
    assert site.complete().by == engine.name
    engine.end()
    started = time.monotonic()
    assert site.complete().status == 503
    assert time.monotonic() - started < 5
    assert front.access_log()[-1]["response_flags"] == "UF"


def test_envoy_cuts_what_is_under_way_when_it_is_told_to_stop(site: Site, programs: Programs) -> None:
    """Why the rendered Pod puts its stop off (render.router.drain)."""
    front = Front(site, programs)
    engine = site.start(front.resolved, "decode")
    front.plan(engine)
    streaming = InFlight(site, tokens=60, stream=True)
    time.sleep(0.5)
    front.envoy.terminate()
    assert front.envoy.wait(5) == 0
    assert not streaming.result(5).complete
