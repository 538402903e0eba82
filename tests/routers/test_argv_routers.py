"""vllm-router and the SGLang gateway, started with exactly the rendered command line in front of servers."""

import copy
import json
import time
from typing import Any

import pytest

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import POD
from gpustack_components.render.replica import render_replica
from sandbox.cluster import Sandbox
from sandbox.processes import wait_until
from tests.routers.argv import Kind, each_router, serving
from tests.routers.calls import InFlight, Load
from tests.routers.kubelet import LOADING
from tests.routers.programs import Programs
from tests.routers.site import MODEL, Site

pytestmark = pytest.mark.cluster
Json = dict[str, Any]


@each_router
def test_it_finds_the_servers_of_its_deployment_and_nothing_else(
    site: Site, sandbox: Sandbox, programs: Programs, router: Kind
) -> None:
    since = sandbox.audit_log.stat().st_size
    found = router.resolved(site, [{}])
    program = site.start_router(programs, found)
    assert wait_until(lambda: site.listens(8081), seconds=20), "ready before there is any engine"
    assert site.complete().status == 503
    neighbour = site.start(router.resolved(site, [{}], "other"), "server")
    # The second Pod of a replica of two is no leader; here it answers, and still must not be asked.
    large = router.resolved(site, [{"size": 2}])
    follower = site.engine(site.create(copy.deepcopy(render_replica(large, "server", 7).members[1]), router.engine))
    loading = copy.deepcopy(render_replica(found, "server", 8).members[0])
    loading["metadata"]["annotations"][LOADING] = "true"
    unready = site.engine(site.create(loading, router.engine))
    engines = [site.start(found, "server", ordinal) for ordinal in (0, 1)]

    assert serving(site, engines)
    for path in ("/v1/completions", "/v1/chat/completions"):
        stream = site.complete(path=path, tokens=5, stream=True)
        assert (stream.status, stream.tokens, stream.complete) == (200, 5, True)
        assert stream.arrivals[4] - stream.arrivals[0] > 0.5 * 4 * engines[0].pace, "each token comes when it is there"
    assert site.get("/health").status == 200
    assert [model["id"] for model in site.get("/v1/models").documents()[0]["data"]] == [MODEL]

    own = [pod for pod in site.cluster.list(POD, site.namespace).items if keys.ROUTER in pod["metadata"]["labels"]]
    assert own, "the router's own Pods stand beside the engines"
    assert not any(f"{pod['status']['podIP']}:" in site.log("router") for pod in own)
    for stranger in (neighbour, follower, unready):
        assert not stranger.calls and not stranger.paths, "a stranger is not even asked how it is"

    requests = _asked(sandbox, site, since)
    assert {(one["verb"], one["objectRef"]["resource"], one["objectRef"].get("namespace")) for one in requests} <= {
        ("list", "pods", site.namespace),
        ("watch", "pods", site.namespace),
    }
    assert requests and {one["responseStatus"]["code"] for one in requests} == {200}, "its Role is enough"

    streaming = InFlight(site, tokens=30, stream=True)
    assert wait_until(lambda: sum(engine.running for engine in engines) == 1, seconds=5)
    program.terminate()
    assert streaming.result(10).complete, "told to stop, it still ends what it has begun"
    assert program.wait(10) == 0


@each_router
def test_no_request_is_lost_while_its_servers_are_replaced(site: Site, programs: Programs, router: Kind) -> None:
    found = router.resolved(site, [{}])
    site.start_router(programs, found)
    before = [site.start(found, "server", ordinal) for ordinal in (0, 1)]
    assert serving(site, before)
    standing = list(before)
    with Load(site, clients=4, tokens=30) as load:
        for ordinal, leaving in enumerate(before):
            assert wait_until(lambda busy=leaving: busy.running > 0, seconds=10)
            standing.remove(leaving)
            site.delete(leaving)
            assert serving(site, standing, seconds=4)
            assert not site.gone(leaving), "it is dropped because it is being deleted, not because it stopped answering"
            asked = len(leaving.calls)
            site.wait_gone(leaving)
            assert (len(leaving.calls), leaving.cut) == (asked, 0)
            standing.append(site.start(found, "server", ordinal))
            assert serving(site, standing)
    assert load.lost == []
    assert len(load.answers) > 20
    assert all(5 < seconds < 20 for seconds in site.kubelet.drains.values())
    assert set(site.kubelet.drains) == {engine.name for engine in before}


@each_router
def test_with_qualification_it_waits_for_the_label(site: Site, programs: Programs, router: Kind) -> None:
    found = router.resolved(site, [{}], settings={"model-deployment-endpoint-qualification": True})
    site.start_router(programs, found)
    standing, retiring = (site.start(found, "server", ordinal) for ordinal in (0, 1))
    assert wait_until(lambda: site.listens(8081), seconds=20)
    site.label(standing, keys.ENDPOINT_ELIGIBLE, "true")
    assert serving(site, [standing])
    assert not retiring.paths, "its label is not there yet"
    site.label(retiring, keys.ENDPOINT_ELIGIBLE, "true")
    assert serving(site, [standing, retiring])
    under_way = [InFlight(site, tokens=30, stream=True) for _ in range(2)]
    assert wait_until(lambda: retiring.running == 1, seconds=5)
    site.label(retiring, keys.ENDPOINT_ELIGIBLE, None)
    assert serving(site, [standing], seconds=3) is router.forgets
    assert all(request.result(10).complete for request in under_way)


@each_router
def test_each_attempt_at_a_request_ends_at_its_timeout(site: Site, programs: Programs, router: Kind) -> None:
    """Both routers make five of a request that they have not begun to answer, unless `extraArgs` says otherwise."""
    found = router.resolved(site, [{}], requestTimeoutSeconds=1, extraArgs=["--retry-max-retries", "2"])
    site.start_router(programs, found)
    engine = site.start(found, "server")
    assert serving(site, [engine])
    asked = len(engine.calls)
    started = time.monotonic()
    stream = site.complete(tokens=100, stream=True)
    assert (stream.status, stream.complete) == (200, False)
    assert time.monotonic() - started < 5
    whole = site.complete(tokens=100)
    assert (whole.status, len(engine.calls) - asked) == (500, 1 + 2)
    exposed = site.get("/metrics", port=9090).text
    assert [metric for metric in router.metrics if metric not in exposed] == []


def _asked(sandbox: Sandbox, site: Site, since: int) -> list[Json]:
    """Requests of the router's ServiceAccount that the API server noted after a position in its audit log."""
    user = f"system:serviceaccount:{site.namespace}:qwen-router"
    with sandbox.audit_log.open() as log:
        log.seek(since)
        events = [json.loads(line) for line in log if user in line]
    return [event for event in events if event["user"]["username"] == user]
