"""The router stack (router sheet 4, 6.1, 6.2, 7, 8): each router in front of each engine and set of roles, against
reviewed golden files, and the rows of the sheet."""

import copy
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from gpustack_components.api.yaml_text import yaml_text
from gpustack_components.render.objects import render_all
from gpustack_components.render.router import router_objects
from tests.render import build, routers
from tests.render.routers import MATRIX, PAIRINGS, Routed, routed

Json = dict[str, Any]
THREE = {
    "app.kubernetes.io/name": "model-deployment",
    "app.kubernetes.io/instance": "qwen",
}


class YamlFile(SingleFileSnapshotExtension):
    """Golden files as one would read the objects in a cluster."""

    _write_mode = WriteMode.TEXT
    file_extension = "yaml"


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(YamlFile)


@pytest.mark.parametrize(("router", "engine"), PAIRINGS)
def test_the_stack_of_a_pair_is_as_reviewed(router: str, engine: str, golden: SnapshotAssertion) -> None:
    found = build.resolved(build.deployment(engine, build.pair(), router={"name": router, "replicas": 2}))
    assert "---\n".join(yaml_text(one) for one in router_objects(found)) == golden


@pytest.mark.parametrize("case", MATRIX, ids=lambda case: case.name)
def test_a_set_of_roles_is_found_and_routed_as_reviewed(case: Routed, golden: SnapshotAssertion) -> None:
    assert yaml_text(dependent(case)) == golden


def dependent(case: Routed) -> Json:
    """All that depends on the roles: what the picker reads, or the command line."""
    objects = routers.by_kind(case.resolved())
    if "ConfigMap" not in objects:
        return {"args": routers.containers(objects)["router"]["args"]}
    data = {key: value for key, value in objects["ConfigMap"]["data"].items() if key not in ("epp.yaml", "envoy.yaml")}
    return {**data, "epp.yaml": routers.picker(objects)}


@pytest.mark.parametrize("case", MATRIX, ids=lambda case: case.name)
def test_nothing_else_depends_on_the_roles(case: Routed) -> None:
    def rest(objects: Json) -> Json:
        out = copy.deepcopy(objects)
        if "ConfigMap" in out:
            for key in ("epp.yaml", "endpoint-target-ports"):
                del out["ConfigMap"]["data"][key]
            del routers.template(out)["metadata"]["annotations"]["modeldeployment.gpustack.ai/router-config-hash"]
        else:
            del routers.containers(out)["router"]["args"]
        return out

    assert rest(routers.by_kind(case.resolved())) == rest(routed(case.router, case.engine))


@pytest.mark.parametrize("case", MATRIX, ids=lambda case: case.name)
def test_objects_come_in_order_with_one_name_and_exactly_three_labels(case: Routed) -> None:
    kinds = ["ServiceAccount", "Role", "RoleBinding", "Service", "Deployment"]
    if case.router == "llm-d-router":
        kinds.insert(3, "ConfigMap")
    for replicas, expected in ((None, kinds), (1, kinds), (3, [*kinds, "PodDisruptionBudget"])):
        found = router_objects(case.resolved({"replicas": replicas} if replicas else {}))
        assert [one["kind"] for one in found] == expected
        for one in found:
            assert (one["metadata"]["name"], one["metadata"]["namespace"]) == ("qwen-router", "team-a")
            assert one["metadata"]["labels"] == {**THREE, "modeldeployment.gpustack.ai/router": case.router}


def test_without_a_router_there_is_none() -> None:
    assert router_objects(build.resolved(build.deployment())) == ()


def test_the_router_comes_after_the_services_and_before_the_pods() -> None:
    found = build.resolved(build.deployment(router={"name": "vllm-router"}))
    kinds = [one["kind"] for one in render_all(found)]
    assert kinds == [
        "LocalQueue", "Service", "Service", "ServiceAccount", "Role", "RoleBinding", "Service", "Deployment", "Pod"
    ]  # fmt: skip


class TestDeployment:
    @pytest.mark.parametrize(("router", "engine"), PAIRINGS)
    def test_selector_template_and_services_agree_on_three_labels(self, router: str, engine: str) -> None:
        objects = routed(router, engine, router={"replicas": 2})
        labels = {**THREE, "modeldeployment.gpustack.ai/router": router}
        assert objects["Deployment"]["spec"]["selector"] == {"matchLabels": labels}
        assert routers.template(objects)["metadata"]["labels"] == labels
        assert objects["Service"]["spec"]["selector"] == labels
        assert objects["PodDisruptionBudget"]["spec"]["selector"] == {"matchLabels": labels}

    @pytest.mark.parametrize(("stated", "rendered"), [({}, 1), ({"replicas": 1}, 1), ({"replicas": 4}, 4)])
    def test_copies_are_one_unless_stated(self, stated: Json, rendered: int) -> None:
        assert routed("vllm-router", router=stated)["Deployment"]["spec"]["replicas"] == rendered

    def test_a_new_pod_is_ready_before_an_old_one_leaves(self) -> None:
        strategy = routed("vllm-router")["Deployment"]["spec"]["strategy"]
        assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}

    def test_scaling_changes_the_count_and_the_budget_alone(self) -> None:
        one, three = (routed("llm-d-router", router={"replicas": count}) for count in (1, 3))
        assert three.pop("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
        one["Deployment"]["spec"].pop("replicas")
        three["Deployment"]["spec"].pop("replicas")
        assert one == three

    @pytest.mark.parametrize(("router", "engine"), PAIRINGS)
    def test_scraping_is_annotated_and_the_documents_hashed(self, router: str, engine: str) -> None:
        annotations = dict(routers.template(routed(router, engine))["metadata"]["annotations"])
        hashed = annotations.pop("modeldeployment.gpustack.ai/router-config-hash", None)
        assert (hashed is not None and len(hashed) == 64) == (router == "llm-d-router")
        assert annotations == {
            "prometheus.io/scrape": "true",
            "prometheus.io/path": "/metrics",
            "prometheus.io/port": "9090",
            "prometheus.io/scheme": "http",
        }

    @pytest.mark.parametrize(("router", "engine"), PAIRINGS)
    def test_containers_probes_and_ports(self, router: str, engine: str) -> None:
        containers = routers.containers(routed(router, engine))
        tcp, later = {"tcpSocket": {"port": 8081}}, {"initialDelaySeconds": 5}
        if router == "llm-d-router":
            assert list(containers) == ["envoy", "epp"]
            envoy, epp = containers["envoy"], containers["epp"]
            assert (envoy["args"], "command" in envoy, "env" in envoy) == (["-c", "/config/envoy.yaml"], False, False)
            assert (envoy["readinessProbe"], numbers(envoy)) == (tcp, {"http": 8081})
            assert epp["readinessProbe"] == {"grpc": {"port": 9003}, **later}
            assert numbers(epp) == {"grpc": 9002, "grpc-health": 9003, "metrics": 9090}
            mounts = [{"name": "config", "mountPath": "/config", "readOnly": True}]
            assert envoy["volumeMounts"] == epp["volumeMounts"] == mounts
        else:
            assert list(containers) == ["router"]
            only = containers["router"]
            assert (only["readinessProbe"], numbers(only)) == ({**tcp, **later}, {"http": 8081, "metrics": 9090})
            assert not {"env", "volumeMounts"} & set(only)
        for container in containers.values():
            assert not {"livenessProbe", "startupProbe"} & set(container)

    def test_the_picker_reads_its_configmap_and_its_pod(self) -> None:
        objects = routed("llm-d-router")
        assert routers.template(objects)["spec"]["volumes"] == [
            {"name": "config", "configMap": {"name": "qwen-router"}}
        ]
        assert routers.containers(objects)["epp"]["env"] == [
            from_config("ENDPOINT_SELECTOR", "endpoint-selector"),
            from_config("ENDPOINT_TARGET_PORTS", "endpoint-target-ports"),
            {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ]

    def test_the_pickers_arguments_end_with_the_deployments_own(self) -> None:
        epp = routers.containers(routed("llm-d-router", router={"extraArgs": ["--v=4", "--zap-log-level", "info"]}))
        assert epp["epp"]["command"] == ["epp"]
        assert epp["epp"]["args"] == [
            "--endpoint-selector=$(ENDPOINT_SELECTOR)",
            "--endpoint-target-ports=$(ENDPOINT_TARGET_PORTS)",
            "--config-file=/config/epp.yaml",
            "--secure-serving=false",
            "--grpc-health-port=9003",
            "--metrics-endpoint-auth=false",
            "--v=4",
            "--zap-log-level",
            "info",
        ]


def numbers(container: Json) -> dict[str, int]:
    assert {port["protocol"] for port in container["ports"]} == {"TCP"}
    return {port["name"]: port["containerPort"] for port in container["ports"]}


def from_config(variable: str, key: str) -> Json:
    return {"name": variable, "valueFrom": {"configMapKeyRef": {"name": "qwen-router", "key": key, "optional": False}}}


class TestAccess:
    def test_pods_of_the_namespace_may_be_watched_and_nothing_else(self) -> None:
        objects = routed("llm-d-router")
        assert set(objects["ServiceAccount"]) == {"apiVersion", "kind", "metadata"}
        rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
        assert objects["Role"]["rules"] == [rule]
        binding = objects["RoleBinding"]
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "qwen-router", "namespace": "team-a"}]
        assert binding["roleRef"] == {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "qwen-router"
        }  # fmt: skip
        assert routers.template(objects)["spec"]["serviceAccountName"] == "qwen-router"

    @pytest.mark.parametrize(("router", "engine"), PAIRINGS)
    def test_the_service_answers_callers_on_8000(self, router: str, engine: str) -> None:
        spec = routed(router, engine)["Service"]["spec"]
        assert spec["type"] == "ClusterIP"
        assert spec["ports"] == [{"name": "http", "port": 8000, "targetPort": 8081, "protocol": "TCP"}]


MIRROR = {"container-registry": "registry.example.com:5000", "container-namespace": "mirror"}


class TestImages:
    def images(self, router: Json | None = None, name: str = "llm-d-router", **settings: Any) -> dict[str, str]:
        found = routers.containers(routed(name, router=router, settings=settings))
        return {name: container["image"] for name, container in found.items()}

    def test_defaults_come_from_the_settings(self) -> None:
        envoy = "gpustack/mirrored-envoy:distroless-v1.33.2"
        assert self.images() == {"envoy": envoy, "epp": "gpustack/llm-router:v0.1.0"}
        assert self.images(name="vllm-router") == {"router": "gpustack/llm-router:v0.1.0"}
        assert self.images(**{"model-deployment-router-proxy-image": "own/envoy:1"})["envoy"] == "own/envoy:1"

    def test_a_mirror_moves_defaults_and_leaves_the_deployments_own_image(self) -> None:
        moved = self.images({"image": "gpustack/llm-router:v0.2.0"}, **MIRROR)
        assert moved == {
            "envoy": "registry.example.com:5000/mirror/mirrored-envoy:distroless-v1.33.2",
            "epp": "gpustack/llm-router:v0.2.0",
        }

    @pytest.mark.parametrize(
        ("settings", "image", "pulled"),
        [
            ({"container-namespace": "mirror"}, "gpustack/x:1", "mirror/x:1"),
            ({"container-registry": "r.io"}, "gpustack/x:1", "r.io/gpustack/x:1"),
            ({"container-registry": "r.io", "container-namespace": "a/b"}, "gpustack/x:1", "r.io/a/b/x:1"),
            (MIRROR, "ghcr.io/llm-d/x:1", "ghcr.io/llm-d/x:1"),
            (MIRROR, "localhost/x:1", "localhost/x:1"),
            (MIRROR, "host:5000/x:1", "host:5000/x:1"),
            ({"container-registry": "r.io"}, "x:1", "r.io/x:1"),
            (MIRROR, "x:1", "registry.example.com:5000/x:1"),
        ],
    )
    def test_a_reference_that_names_a_registry_stays(self, settings: Json, image: str, pulled: str) -> None:
        found = self.images(name="vllm-router", **settings, **{"model-deployment-router-image": image})
        assert found == {"router": pulled}

    def test_the_routing_sidecar_is_mirrored_too(self) -> None:
        document = build.deployment(roles=build.pair(), router={"name": "llm-d-router"})
        pod = build.pod(document, role="decode", settings=MIRROR)
        assert pod["spec"]["initContainers"][0]["image"].startswith("registry.example.com:5000/mirror/mirrored-llm-d")

    @pytest.mark.parametrize(
        ("image", "policy"),
        [
            ("own:latest", "Always"),
            ("own", "Always"),
            ("host:5000/own", "Always"),
            ("own:v1", "IfNotPresent"),
            ("host:5000/own:v1", "IfNotPresent"),
            (f"own@{build.DIGEST}", "IfNotPresent"),
            (f"own:latest@{build.DIGEST}", "IfNotPresent"),
        ],
    )
    def test_the_pull_policy_follows_the_tag(self, image: str, policy: str) -> None:
        containers = routers.containers(routed("llm-d-router", router={"image": image}))
        assert containers["epp"]["imagePullPolicy"] == policy
        assert containers["envoy"]["imagePullPolicy"] == "IfNotPresent"

    def test_a_stated_policy_and_secrets_hold_for_both_containers(self) -> None:
        router = {"imagePullPolicy": "Never", "imagePullSecrets": [{"name": "a"}, {"name": "b"}]}
        objects = routed("llm-d-router", router=router)
        assert {one["imagePullPolicy"] for one in routers.containers(objects).values()} == {"Never"}
        assert routers.template(objects)["spec"]["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]
        assert "imagePullSecrets" not in routers.template(routed("llm-d-router"))["spec"]

    def test_a_secret_stated_twice_is_named_once_or_server_side_apply_refuses_the_deployment(self) -> None:
        stated = {"imagePullSecrets": [{"name": "b"}, {"name": "a"}, {"name": "b"}]}
        found = routers.template(routed("vllm-router", router=stated))["spec"]
        assert found["imagePullSecrets"] == [{"name": "b"}, {"name": "a"}]


class TestHardening:
    @pytest.mark.parametrize(("router", "engine"), PAIRINGS)
    def test_pods_keep_to_the_restricted_profile(self, router: str, engine: str) -> None:
        objects = routed(router, engine)
        assert routers.template(objects)["spec"]["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        for container in routers.containers(objects).values():
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}
            }  # fmt: skip

    def test_the_user_may_be_left_to_the_cluster(self) -> None:
        objects = routed("vllm-router", settings={"model-deployment-router-run-as-user": 0})
        context = routers.template(objects)["spec"]["securityContext"]
        assert context == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}

    def test_requests_are_stated_without_limits_and_can_be_set_or_left_out(self) -> None:
        found = routers.containers(routed("llm-d-router"))
        assert {name: one["resources"] for name, one in found.items()} == {
            "envoy": {"requests": {"cpu": "250m", "memory": "256Mi"}},
            "epp": {"requests": {"cpu": "500m", "memory": "1Gi"}},
        }
        settings = {
            "model-deployment-router-cpu-request": "4",
            "model-deployment-router-memory-request": "",
            "model-deployment-router-proxy-cpu-request": "",
            "model-deployment-router-proxy-memory-request": "",
        }
        found = routers.containers(routed("llm-d-router", settings=settings))
        assert found["epp"]["resources"] == {"requests": {"cpu": "4"}}
        assert "resources" not in found["envoy"]

    def test_copies_are_spread_where_that_is_possible(self) -> None:
        for constraint in routers.template(routed("vllm-router"))["spec"]["topologySpreadConstraints"]:
            assert constraint["whenUnsatisfiable"] == "ScheduleAnyway"
            assert constraint["labelSelector"]["matchLabels"].items() >= THREE.items()


class TestLeaving:
    """A stop is put off while requests run: Envoy exits at once, argv routers drain by themselves."""

    def waits(self, name: str, router: Json | None = None, **options: Any) -> tuple[dict[str, int], int]:
        objects = routed(name, router=router, **options)
        found = {
            container: one["lifecycle"]["preStop"]["sleep"]["seconds"]
            for container, one in routers.containers(objects).items()
            if "lifecycle" in one
        }
        return found, routers.template(objects)["spec"]["terminationGracePeriodSeconds"]

    def test_the_picker_outlives_its_proxy_and_both_end_within_the_grace(self) -> None:
        assert self.waits("llm-d-router") == ({"envoy": 125, "epp": 126}, 130)

    def test_an_argv_router_is_told_once_nobody_sends_it_anything_new(self) -> None:
        assert self.waits("vllm-router") == ({"router": 5}, 130)

    @pytest.mark.parametrize(
        ("timeout", "setting", "seconds"), [(20, 120, 20), (90000, 120, 120), (20, 7, 7), (1, 0, 0)]
    )
    def test_no_longer_than_a_request_may_take(self, timeout: int, setting: int, seconds: int) -> None:
        settings = {"model-deployment-router-drain-seconds": setting}
        waits, grace = self.waits("llm-d-router", {"requestTimeoutSeconds": timeout}, settings=settings)
        assert (waits, grace) == ({"envoy": seconds + 5, "epp": seconds + 6}, seconds + 10)

    def test_an_older_cluster_cannot_put_it_off(self) -> None:
        assert self.waits("llm-d-router", kubernetes=(1, 29)) == ({}, 130)
        assert self.waits("llm-d-router", kubernetes=(1, 30))[0]


WORKED = """\
--host=0.0.0.0 --port=8081 --prometheus-host=0.0.0.0 --prometheus-port=9090
--request-timeout-secs=90 --kv-connector=mooncake
--service-discovery --service-discovery-namespace=team-a --service-discovery-port=8000
--vllm-pd-disaggregation
--prefill-selector app.kubernetes.io/component=prefill app.kubernetes.io/instance=qwen
  app.kubernetes.io/name=model-deployment modeldeployment.gpustack.ai/member-index=0
  modeldeployment.gpustack.ai/role-kind=prefill
--decode-selector app.kubernetes.io/component=decode app.kubernetes.io/instance=qwen
  app.kubernetes.io/name=model-deployment modeldeployment.gpustack.ai/member-index=0
  modeldeployment.gpustack.ai/role-kind=decode
--policy round_robin
"""
"""The command line of the worked example (router sheet 8)."""


class TestCommandLine:
    """Router sheet 8, its worked example included."""

    def args(self, name: str, engine: str, roles: Any, **router: Any) -> list[str]:
        return routers.containers(routed(name, engine, roles, router))["router"]["args"]

    def test_the_worked_example(self) -> None:
        router = {"requestTimeoutSeconds": 90, "extraArgs": ["--policy", "round_robin"]}
        assert self.args("vllm-router", "vLLM", build.pair(), **router) == WORKED.split()
        objects = routed("vllm-router", "vLLM", build.pair(), router)
        assert routers.containers(objects)["router"]["command"] == ["vllm-router"]

    def test_the_gateways_line_differs_by_the_connector_and_the_switch(self) -> None:
        router = {"requestTimeoutSeconds": 90, "extraArgs": ["--policy", "round_robin"]}
        expected = ["--pd-disaggregation" if word == "--vllm-pd-disaggregation" else word for word in WORKED.split()]
        expected.remove("--kv-connector=mooncake")
        assert self.args("sglang-gateway", "SGLang", build.pair(), **router) == expected
        objects = routed("sglang-gateway", "SGLang", build.pair(), router)
        assert routers.containers(objects)["router"]["command"] == ["sgl-model-gateway"]

    def test_without_a_timeout_no_flag_states_one(self) -> None:
        assert not [word for word in self.args("vllm-router", "vLLM", [{}]) if "timeout" in word]

    @pytest.mark.parametrize("roles", [[{}], [{"name": "p", "kind": "Prefill"}], [{"name": "d", "kind": "Decode"}]])
    def test_without_a_pair_one_selector_finds_all(self, roles: list[Json]) -> None:
        args = self.args("vllm-router", "vLLM", roles)
        assert args[args.index("--selector") + 1 :] == [
            "app.kubernetes.io/instance=qwen",
            "app.kubernetes.io/name=model-deployment",
            "modeldeployment.gpustack.ai/member-index=0",
        ]
        assert not [word for word in args if "disaggregation" in word or "prefill" in word or "decode" in word]
