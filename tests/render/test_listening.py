"""Ports, probes and Services of a role, case by case (rendering sheets 3.5, 6 and 7; router sheets 5, 11 and 13)."""

from typing import Any

import pytest

from gpustack_components.render.services import front_services
from tests.render import build

Json = dict[str, Any]


def outcome(case: Json):
    change = {
        key: case[found]
        for key, found in (
            ("ports", "declared" if "declared" in case else "ports"),
            ("extraArgs", "args"),
            ("command", "command"),
        )
        if found in case and (key != "ports" or isinstance(case[found][0], dict))
    }
    engine = case.get("engine") if isinstance(case.get("engine"), str) else "vLLM"
    spec: Json = {}
    if case.get("proxied"):
        spec["router"] = {"name": "llm-d-router"}
        change |= {"name": "server", "kind": "Decode"}
    if "router" in case:
        spec["router"] = {"name": case["router"]}
    return build.resolution(build.deployment(engine or "vLLM", [change], **spec))


@pytest.mark.parametrize("case", build.cases("probes"), ids=lambda case: case["name"])
def test_probes_ask_the_external_listener_or_nothing(case: Json) -> None:
    found = outcome(case).resolved
    assert found is not None
    main = build.main(build.render_replica(found, "server", 0).members[0])
    probes = {name: main[name] for name in ("startupProbe", "readinessProbe", "livenessProbe") if name in main}
    if case["probe"] is None:
        assert probes == {}
        return
    path, port, scheme = case["probe"]
    get = {"path": path, "port": port, "scheme": scheme}
    shared = {"httpGet": get, "periodSeconds": 10, "timeoutSeconds": 5}
    assert probes == {
        "startupProbe": {**shared, "failureThreshold": 180},
        "readinessProbe": {**shared, "failureThreshold": 3},
        "livenessProbe": {**shared, "failureThreshold": 6},
    }


@pytest.mark.parametrize(("seconds", "failures"), [(10, 1), (15, 2), (1800, 180), (1805, 181), (86400, 8640)])
def test_the_startup_budget_scales_the_failure_threshold(seconds: int, failures: int) -> None:
    pod = build.pod(build.deployment(roles=[{"startupTimeoutSeconds": seconds}]))
    assert build.main(pod)["startupProbe"]["failureThreshold"] == failures


def shown(port: Json) -> str:
    protocol = "" if port["protocol"] == "TCP" else f"/{port['protocol']}"
    if "containerPort" in port:
        return f"{port['name']}:{port['containerPort']}{protocol}"
    return f"{port['name']}:{port['port']}->{port['targetPort']}{protocol}"


@pytest.mark.parametrize("case", build.cases("ports"), ids=lambda case: case["name"])
def test_ports_stand_where_callers_and_the_engine_expect_them(case: Json) -> None:
    result = outcome(case)
    if "failure" in case:
        assert result.resolved is None and len(result.failures) == 1
        assert not result.failures[0].retryable
        for word in case["failure"]:
            assert word in result.failures[0].message
        return
    assert result.resolved is not None, result.failures
    pod = build.render_replica(result.resolved, "server", 0).members[0]
    main = build.main(pod)
    assert [shown(port) for port in main["ports"]] == case["ports"]
    service = front_services(result.resolved)[1]
    assert [shown(port) for port in service["spec"]["ports"]] == case["service"]
    proxy = [shown(c["ports"][0]) for c in pod["spec"].get("initContainers", []) if c["name"] == "routing-proxy"]
    assert proxy == ([case["proxy"]] if "proxy" in case else [])
    if "command" not in case:
        assert pod["metadata"]["annotations"]["prometheus.io/port"] == str(case["engine"])
        assert f"127.0.0.1:{case['engine']}/metrics" in main["lifecycle"]["preStop"]["exec"]["command"][2]


def test_a_tls_engine_is_fronted_scraped_and_drained_over_tls() -> None:
    document = build.deployment(
        roles=[{"kind": "Decode", "extraArgs": ["--ssl-keyfile=k"]}], router={"name": "llm-d-router"}
    )
    pod = build.pod(document)
    args = pod["spec"]["initContainers"][0]["args"]
    assert args[-2:] == ["--enable-tls=decoder", "--tls-insecure-skip-verify=decoder"]
    assert pod["metadata"]["annotations"]["prometheus.io/scheme"] == "https"
    assert "https://127.0.0.1:8200/metrics" in build.main(pod)["lifecycle"]["preStop"]["exec"]["command"][2]


def test_an_older_cluster_gets_the_proxy_as_its_first_container() -> None:
    document = build.deployment(roles=[{"kind": "Decode"}], router={"name": "llm-d-router"})
    pod = build.pod(document, kubernetes=(1, 28))
    assert [container["name"] for container in pod["spec"]["containers"]] == ["routing-proxy", "main"]
    assert "restartPolicy" not in pod["spec"]["containers"][0]
    assert "initContainers" not in pod["spec"]
    newer = build.pod(document, kubernetes=(1, 29))
    assert newer["spec"]["initContainers"][0]["restartPolicy"] == "Always"


class TestServices:
    def test_the_deployment_wide_one_fronts_the_first_role_only(self) -> None:
        found = build.resolved(build.deployment(roles=build.pair(), router={"name": "llm-d-router"}))
        wide, prefill, decode = front_services(found)
        assert [s["metadata"]["name"] for s in (wide, prefill, decode)] == ["qwen", "qwen-prefill", "qwen-decode"]
        assert wide["spec"]["selector"] == prefill["spec"]["selector"]
        assert wide["spec"]["ports"] == prefill["spec"]["ports"][:1]

    def test_selectors_name_the_role_and_above_size_1_its_leader(self) -> None:
        base = {
            "app.kubernetes.io/name": "model-deployment",
            "app.kubernetes.io/instance": "qwen",
            "app.kubernetes.io/component": "server",
        }
        for size, more in ((1, {}), (2, {"modeldeployment.gpustack.ai/member-index": "0"})):
            for service in front_services(build.resolved(build.deployment(roles=[{"size": size}]))):
                assert service["spec"]["selector"] == {**base, **more}
                assert service["spec"]["type"] == "ClusterIP"

    @pytest.mark.parametrize(
        ("engine", "role", "every"),
        [
            ("vLLM", {}, False),
            ("vLLM", {"extraArgs": ["-dp", "2"]}, False),
            ("vLLM", {"extraArgs": ["-dp=2", "--data-parallel-rank=$(GPUSTACK_MEMBER_INDEX)"]}, True),
            ("vLLM", {"extraArgs": ["-dp=2", "--data-parallel-external-lb"]}, True),
            ("vLLM", {"extraArgs": ["-dp=4", "-dpl=2", "--data-parallel-hybrid-lb"]}, True),
            ("vLLM", {"extraArgs": ["-dp=2", "-dpl=2", "--data-parallel-hybrid-lb"]}, False),
            ("vLLM", {"extraArgs": ["--data-parallel-rank=0", "--data-parallel-hybrid-lb"]}, False),
            ("vLLM", {"command": ["serve", "--data-parallel-external-lb"]}, False),
            ("SGLang", {"extraArgs": ["--data-parallel-external-lb"]}, False),
        ],
        ids=str,
    )
    def test_a_role_whose_every_member_serves_its_own_rank_is_fronted_by_all(
        self, engine: str, role: Json, every: bool
    ) -> None:
        for service in front_services(build.resolved(build.deployment(engine, roles=[{"size": 2, **role}]))):
            assert ("modeldeployment.gpustack.ai/member-index" not in service["spec"]["selector"]) is every

    def test_a_half_of_a_pair_is_fronted_by_its_leader_however_it_spreads_ranks(self) -> None:
        half = {"size": 2, "extraArgs": ["-dp=2", "--data-parallel-external-lb"]}
        for service in front_services(build.resolved(build.deployment(roles=build.pair(**half)))):
            assert service["spec"]["selector"]["modeldeployment.gpustack.ai/member-index"] == "0"

    def test_members_of_a_replica_resolve_each_other_before_they_are_ready(self) -> None:
        found = build.resolved(build.deployment(roles=[{"size": 2}]))
        service = build.render_replica(found, "server", 3).service
        assert service is not None
        assert service["metadata"]["name"] == "qwen-server-r3"
        assert service["spec"]["clusterIP"] == "None"
        assert service["spec"]["publishNotReadyAddresses"] is True
        assert service["spec"]["selector"] == {
            "app.kubernetes.io/name": "model-deployment",
            "app.kubernetes.io/instance": "qwen",
            "app.kubernetes.io/component": "server",
            "modeldeployment.gpustack.ai/pod-ordinal": "3",
        }

    def test_a_replica_of_one_pod_has_no_service_of_its_own(self) -> None:
        assert build.render_replica(build.resolved(build.deployment()), "server", 0).service is None
