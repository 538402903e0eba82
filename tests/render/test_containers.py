"""Environment, volumes, security and Pod-level fields of a replica (rendering sheets 5, 10, 11, 13, 14, 16)."""

from typing import Any, ClassVar

import pytest

from tests.render import build

Json = dict[str, Any]
CACHE = {"poolRef": {"name": "cache"}}


def mounts(pod: Json) -> Json:
    return {mount["mountPath"]: mount for mount in build.main(pod)["volumeMounts"]}


def volume(pod: Json, name: str) -> Json | None:
    return next((v for v in pod["spec"]["volumes"] if v["name"] == name), None)


class TestEnvironment:
    def test_order_is_owned_defaulted_own_then_rank(self) -> None:
        role = {"size": 2, "env": [{"name": "A", "value": "1"}, {"name": "B", "value": ""}]}
        pod = build.pod(build.deployment(roles=[role], kvCache=CACHE), build.store())
        assert [entry["name"] for entry in build.main(pod)["env"]] == [
            "MOONCAKE_CONFIG_PATH",
            "MC_TE_METRIC",
            "VLLM_CACHE_ROOT",
            "A",
            "B",
            "GPUSTACK_REPLICA_LEADER_ADDRESS",
            "GPUSTACK_REPLICA_SIZE",
            "GPUSTACK_MEMBER_INDEX",
        ]

    def test_an_owned_name_in_a_stored_role_never_displaces_the_rendered_value(self) -> None:
        env = [{"name": "MOONCAKE_CONFIG_PATH", "value": "/mine"}, {"name": "GPUSTACK_REPLICA_SIZE", "value": "9"}]
        pod = build.pod(build.deployment(roles=[{"env": env}], kvCache=CACHE), build.store())
        assert build.environment(pod)["MOONCAKE_CONFIG_PATH"] == "/etc/gpustack/kvcache/mooncake.json"
        assert "GPUSTACK_REPLICA_SIZE" not in build.environment(pod)

    def test_owned_names_are_the_engines_own(self) -> None:
        env = [{"name": "MOONCAKE_MASTER", "value": "vllm-ignores-it"}]
        pod = build.pod(build.deployment("vLLM", roles=[{"env": env}]))
        assert build.environment(pod)["MOONCAKE_MASTER"] == "vllm-ignores-it"

    @pytest.mark.parametrize("name", ["MC_TE_METRIC", "MC_FORCE_TCP", "VLLM_CACHE_ROOT"])
    def test_a_defaulted_name_yields_to_the_role_in_the_roles_place(self, name: str) -> None:
        env = [{"name": "FIRST", "value": "1"}, {"name": name, "value": "mine"}]
        document = build.deployment(roles=build.pair(prefill={"env": env}), router={"name": "vllm-router"})
        names = [entry["name"] for entry in build.main(build.pod(document))["env"]]
        assert build.environment(build.pod(document))[name] == "mine"
        assert names.count(name) == 1 and names.index(name) > names.index("FIRST")

    def test_rank_variables_are_the_members_address_book(self) -> None:
        pod = build.pod(build.deployment(roles=[{"size": 3}]))
        env = build.environment(pod)
        assert env["GPUSTACK_REPLICA_LEADER_ADDRESS"] == "qwen-server-r0-m0.qwen-server-r0"
        assert env["GPUSTACK_REPLICA_SIZE"] == "3"
        assert env["GPUSTACK_MEMBER_INDEX"] == {
            "fieldRef": {"fieldPath": "metadata.labels['modeldeployment.gpustack.ai/member-index']"}
        }

    def test_a_store_without_tenants_is_told_none(self) -> None:
        for engine in ("vLLM", "SGLang"):
            pod = build.pod(build.deployment(engine, kvCache=CACHE), build.store(groups=["TCP"], tenancy=False))
            assert "MOONCAKE_TENANT_ID" not in build.environment(pod)
            assert "tenant_id" not in pod["metadata"]["annotations"].get("kvcache.gpustack.ai/client-config", "")

    def test_the_hub_is_configured_under_engine_delivery_only(self) -> None:
        source = {"huggingFace": {"repository": "Qwen/Q", "secretRef": {"name": "hub"}}}
        document = build.deployment(model={"artifactRef": {"name": "weights"}})
        settings = {"model-artifact-https-proxy": "http://proxy:3128"}
        env = build.environment(build.pod(document, [build.artifact(source)], settings=settings))
        assert env["HF_HOME"] == "/var/lib/gpustack/model-cache"
        assert env["HF_ENDPOINT"] == "https://huggingface.co"
        assert env["HF_TOKEN"] == {"secretKeyRef": {"name": "hub", "key": "token"}}
        assert env["HTTPS_PROXY"] == "http://proxy:3128"
        assert "NO_PROXY" not in env
        node = {**settings, "model-artifact-delivery-mode": "Node"}
        assert list(build.environment(build.pod(document, [build.artifact(source)], settings=node))) == [
            "VLLM_CACHE_ROOT"
        ]

    @pytest.mark.parametrize(
        ("engine", "switch"), [("vLLM", "VLLM_USE_MODELSCOPE"), ("SGLang", "SGLANG_USE_MODELSCOPE")]
    )
    def test_modelscope_is_switched_on_for_the_running_engine(self, engine: str, switch: str) -> None:
        source = {"modelScope": {"repository": "Qwen/Q", "secretRef": {"name": "hub"}}}
        document = build.deployment(engine, model={"artifactRef": {"name": "weights"}})
        env = build.environment(build.pod(document, [build.artifact(source)]))
        assert env["MODELSCOPE_CACHE"] == "/var/lib/gpustack/model-cache"
        assert env["MODELSCOPE_DOMAIN"] == "www.modelscope.cn"
        assert env["MODELSCOPE_API_TOKEN"] == {"secretKeyRef": {"name": "hub", "key": "token"}}
        assert [name for name in env if name.endswith("_USE_MODELSCOPE")] == [switch]
        assert env[switch] == "true"


class TestVolumes:
    def test_shared_memory_is_16gi_unless_stated_or_mounted(self) -> None:
        def shm(role: Json) -> Json | None:
            return volume(build.pod(build.deployment(roles=[role])), "gpustack-shm")

        assert shm({}) == {"name": "gpustack-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}
        assert (shm({"shmSize": "32Gi"}) or {})["emptyDir"]["sizeLimit"] == "32Gi"
        assert (shm({"command": ["serve"]}) or {})["emptyDir"]["sizeLimit"] == "16Gi"
        own = {"additionalVolumes": [{"mountPath": "/dev/shm", "hostPath": {"path": "/dev/shm"}}], "shmSize": "32Gi"}
        assert shm(own) is None

    def test_own_volumes_keep_their_position_in_the_name(self) -> None:
        own = [
            {"mountPath": "/a", "configMap": {"name": "cm"}, "readOnly": True},
            {"mountPath": "/b", "secret": {"name": "s"}, "subPath": "key"},
            {"mountPath": "/c", "hostPath": {"path": "/data", "type": "Directory"}},
        ]
        pod = build.pod(build.deployment(roles=[{"additionalVolumes": own}]))
        assert pod["spec"]["volumes"][:3] == [
            {"name": "additional-0", "configMap": {"name": "cm"}},
            {"name": "additional-1", "secret": {"secretName": "s"}},
            {"name": "additional-2", "hostPath": {"path": "/data", "type": "Directory"}},
        ]
        assert build.main(pod)["volumeMounts"][:3] == [
            {"name": "additional-0", "mountPath": "/a", "readOnly": True},
            {"name": "additional-1", "mountPath": "/b", "subPath": "key"},
            {"name": "additional-2", "mountPath": "/c"},
        ]

    def test_a_mount_over_the_client_configuration_keeps_the_rest_and_no_path_twice(self) -> None:
        own = [{"mountPath": "/etc/gpustack/kvcache", "configMap": {"name": "mine"}}]
        pod = build.pod(build.deployment(roles=[{"additionalVolumes": own}], kvCache=CACHE), build.store())
        assert [m["name"] for m in build.main(pod)["volumeMounts"] if m["mountPath"] == "/etc/gpustack/kvcache"] == [
            "additional-0"
        ]
        assert build.environment(pod)["MOONCAKE_CONFIG_PATH"] == "/etc/gpustack/kvcache/mooncake.json"

    def test_an_own_compile_cache_drops_the_host_path_and_keeps_the_variable(self) -> None:
        own = [{"mountPath": "/var/lib/gpustack/cache", "hostPath": {"path": "/fast"}}]
        pod = build.pod(build.deployment(roles=[{"additionalVolumes": own}]))
        assert volume(pod, "gpustack-compile-cache") is None
        assert build.environment(pod)["VLLM_CACHE_ROOT"] == "/var/lib/gpustack/cache"

    @pytest.mark.parametrize(
        ("role", "path"),
        [
            ({}, "nvidia-vllm/Qwen--Qwen2.5-72B-Instruct/tp1-pp1-dp1-ep1-cp1_1-2ff843d9"),
            (
                {"extraArgs": ["--tensor-parallel-size", "2"]},
                "nvidia-vllm/Qwen--Qwen2.5-72B-Instruct/tp2-pp1-dp1-ep1-cp1_1-b010ec79",
            ),
        ],
        ids=["no arguments", "tensor parallel"],
    )
    def test_the_compile_cache_is_told_apart_by_what_changes_kernels(self, role: Json, path: str) -> None:
        pod = build.pod(build.deployment(roles=[role]))
        assert volume(pod, "gpustack-compile-cache") == {
            "name": "gpustack-compile-cache",
            "hostPath": {"path": f"/var/lib/gpustack/cache/{path}", "type": "DirectoryOrCreate"},
        }

    @pytest.mark.parametrize("model", ["..", ".", "/models", "a/../b", "x" * 250 + "/y/", "ä b"])
    def test_the_compile_cache_is_one_directory_for_any_model_name(self, model: str) -> None:
        found = volume(build.pod(build.deployment(model={"name": model})), "gpustack-compile-cache")
        assert found is not None
        parts = found["hostPath"]["path"].split("/")
        assert len(parts) == 8
        assert not {".", "..", ""} & set(parts[1:])
        assert all(len(part) <= 255 and part.isascii() for part in parts)

    def test_the_compile_cache_of_an_artifact_is_named_by_its_identity(self) -> None:
        document = build.deployment(model={"artifactRef": {"name": "weights"}})
        found = volume(build.pod(document, [build.artifact()]), "gpustack-compile-cache")
        assert found is not None and "/m-0123456789abcdef0123456789abcdef/tp1" in found["hostPath"]["path"]

    CLAIM: ClassVar[Json] = {"persistentVolumeClaim": {"claimName": "pvc", "path": "qwen/3"}}
    IMAGE: ClassVar[Json] = {"image": {"reference": f"registry/qwen@{build.DIGEST}"}}
    HUB: ClassVar[Json] = {"huggingFace": {"repository": "Qwen/Q", "secretRef": {"name": "hub"}}}

    @pytest.mark.parametrize(
        ("source", "mode", "expected", "sub_path"),
        [
            (CLAIM, "Engine", {"persistentVolumeClaim": {"claimName": "pvc", "readOnly": True}}, "qwen/3"),
            (IMAGE, "Engine", {"image": IMAGE["image"]}, None),
            (
                HUB,
                "Node",
                {
                    "csi": {
                        "driver": "model.csi.gpustack.ai",
                        "readOnly": True,
                        "volumeAttributes": {
                            "artifact": "weights",
                            "artifactUID": "uid-qwen",
                            "manifestDigest": build.DIGEST,
                        },
                        "nodePublishSecretRef": {"name": "hub"},
                    }
                },
                None,
            ),
        ],
        ids=["claim", "image", "node delivery"],
    )
    @pytest.mark.parametrize("role", [{}, {"command": ["serve"]}], ids=["managed", "take-over"])
    def test_weights_are_mounted_read_only(
        self, source: Json, mode: str, expected: Json, sub_path: str | None, role: Json
    ) -> None:
        document = build.deployment(roles=[role], model={"artifactRef": {"name": "weights"}})
        pod = build.pod(document, [build.artifact(source)], settings={"model-artifact-delivery-mode": mode})
        assert volume(pod, "gpustack-model") == {"name": "gpustack-model", **expected}
        mount = mounts(pod)["/var/lib/gpustack/model"]
        assert mount["readOnly"] is True and mount.get("subPath") == sub_path
        assert volume(pod, "gpustack-model-cache") is None

    @pytest.mark.parametrize(
        ("size", "limit"), [(100 << 30, "110Gi"), (1 << 20, "1025Mi"), (1_000_000_007, "2073741831")]
    )
    def test_engine_delivery_downloads_into_a_volume_with_room_to_spare(self, size: int, limit: str) -> None:
        status = {
            "resolved": {"revision": build.COMMIT, "manifestDigest": build.DIGEST, "sizeBytes": size},
            "conditions": [{"type": "Resolved", "status": "True"}],
        }
        for role, expected in (({}, {"sizeLimit": limit}), ({"command": ["serve"]}, None)):
            document = build.deployment(roles=[role], model={"artifactRef": {"name": "weights"}})
            found = volume(build.pod(document, [build.artifact(resolved=status)]), "gpustack-model-cache")
            assert (found or {}).get("emptyDir") == expected


class TestSecurity:
    @pytest.mark.parametrize(
        ("engine", "role", "pinned"),
        [
            ("vLLM", {"extraArgs": ["--engram-config", "{}"]}, True),
            ("vLLM", {"extraArgs": ['--engram-config={"cpu_offload": true}']}, True),
            ("vLLM", {"extraArgs": ['--engram-config={"cpu_offload": false}']}, False),
            ("vLLM", {"extraArgs": ["--engram_config", "{not json"]}, True),
            ("vLLM", {"extraArgs": ["--engram-config.cpu_offload", "false"]}, False),
            ("vLLM", {"extraArgs": ["--engram-config.cpu_offload=0"]}, False),
            ("vLLM", {"extraArgs": ["--engram-config.size=3"]}, True),
            ("vLLM", {"extraArgs": []}, False),
            ("vLLM", {"command": ["serve", "--engram-config", "{}"]}, True),
            ("vLLM", {"command": ["serve"], "extraArgs": ["--engram-config", "{}"]}, False),
            ("SGLang", {"env": [{"name": "SGLANG_ENABLE_DSV41_ENGRAM_HOST_TABLE", "value": "1"}]}, True),
            ("SGLang", {"env": [{"name": "SGLANG_ENABLE_DSV41_ENGRAM_HOST_TABLE", "value": "0"}]}, False),
            (
                "SGLang",
                {"env": [{"name": "SGLANG_ENABLE_DSV41_ENGRAM_HOST_TABLE", "value": v} for v in ("1", "0")]},
                False,
            ),
            ("SGLang", {"extraArgs": ["--engram-config", "{}"]}, False),
        ],
    )
    def test_engram_host_memory_may_lock_memory(self, engine: str, role: Json, pinned: bool) -> None:
        main = build.main(build.pod(build.deployment(engine, roles=[role])))
        granted = {"capabilities": {"add": ["IPC_LOCK", "SYS_RESOURCE"]}}
        assert main.get("securityContext") == (granted if pinned else None)

    def test_a_privileged_role_needs_no_capabilities_beside(self) -> None:
        role = {"privileged": True, "extraArgs": ["--engram-config", "{}"]}
        assert build.main(build.pod(build.deployment(roles=[role])))["securityContext"] == {"privileged": True}

    @pytest.mark.parametrize(
        ("engine", "kind", "role", "on", "reused"),
        [
            ("SGLang", "prefill", {}, True, True),
            ("SGLang", "prefill", {}, False, False),
            ("SGLang", "decode", {}, True, False),
            ("SGLang", "prefill", {"command": ["serve"]}, True, False),
            ("vLLM", "prefill", {}, True, False),
        ],
    )
    def test_sockets_are_reused_on_sglang_prefillers_only(
        self, engine: str, kind: str, role: Json, on: bool, reused: bool
    ) -> None:
        document = build.deployment(engine, build.pair(**role), router={"name": "llm-d-router"})
        pod = build.pod(document, role=kind, settings={"model-deployment-tcp-tw-reuse": on})
        sysctls = {"sysctls": [{"name": "net.ipv4.tcp_tw_reuse", "value": "1"}]}
        assert pod["spec"].get("securityContext") == (sysctls if reused else None)


class TestPod:
    def test_what_every_pod_states_and_what_none_does(self) -> None:
        spec = build.pod(build.deployment(roles=[{"imagePullSecrets": [{"name": "pull"}]}]))["spec"]
        assert spec["restartPolicy"] == "Always"
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        assert spec["imagePullSecrets"] == [{"name": "pull"}]
        for absent in ("nodeSelector", "tolerations", "affinity", "hostIPC", "hostNetwork", "shareProcessNamespace"):
            assert absent not in spec

    @pytest.mark.parametrize(
        ("manufacturer", "classes", "expected"),
        [
            ("nvidia", {"nvidia"}, "nvidia"),
            ("nvidia", {"amd"}, None),
            ("nvidia", set(), None),
            ("ascend", {"ascend", "nvidia"}, "ascend"),
            ("thead", {"thead"}, None),
            ("", {"nvidia"}, None),
        ],
    )
    def test_a_runtime_class_is_named_only_where_the_cluster_has_it(
        self, manufacturer: str, classes: set[str], expected: str | None
    ) -> None:
        pod = build.pod(build.deployment(), [build.instance_type(manufacturer=manufacturer)], runtime_classes=classes)
        assert pod["spec"].get("runtimeClassName") == expected

    def test_labels_and_annotations_are_the_sheets(self) -> None:
        role = {"size": 2, "topology": {"requiredLevel": "topology.kubernetes.io/zone"}}
        found = build.resolved(build.deployment(roles=[role]))
        pod = build.render_replica(found, "server", 3).members[1]
        annotations = pod["metadata"]["annotations"]
        assert len(annotations.pop("modeldeployment.gpustack.ai/pod-spec-hash")) == 64
        assert pod["metadata"]["labels"] == {
            "app.kubernetes.io/name": "model-deployment",
            "app.kubernetes.io/instance": "qwen",
            "app.kubernetes.io/component": "server",
            "app.kubernetes.io/part-of": "gpustack-operator-worker",
            "kueue.x-k8s.io/queue-name": "gpustack-fnv64-a5858ac7f29544c0",
            "kueue.x-k8s.io/pod-group-name": build.group_name("team-a", "qwen", "server", 3),
            "modeldeployment.gpustack.ai/role-kind": "server",
            "modeldeployment.gpustack.ai/pod-ordinal": "3",
            "modeldeployment.gpustack.ai/member-index": "1",
        }
        assert annotations == {
            "kueue.x-k8s.io/pod-group-total-count": "2",
            "kueue.x-k8s.io/role-hash": "server",
            "kueue.x-k8s.io/pod-group-serving": "true",
            "kueue.x-k8s.io/podset-required-topology": "topology.kubernetes.io/zone",
            "modeldeployment.gpustack.ai/render-version": "1",
            "prometheus.io/scrape": "true",
            "prometheus.io/path": "/metrics",
            "prometheus.io/port": "8000",
            "prometheus.io/scheme": "http",
        }

    def test_names_are_fixed_above_size_1_and_the_servers_at_size_1(self) -> None:
        several = build.render_replica(build.resolved(build.deployment(roles=[{"size": 3}])), "server", 2)
        assert [pod["metadata"]["name"] for pod in several.members] == [f"qwen-server-r2-m{m}" for m in range(3)]
        for pod in several.members:
            assert "generateName" not in pod["metadata"]
            assert pod["spec"]["hostname"] == pod["metadata"]["name"]
            assert pod["spec"]["subdomain"] == "qwen-server-r2"
        one = build.pod(build.deployment())
        assert one["metadata"]["generateName"] == "qwen-server-" and "name" not in one["metadata"]
        assert "hostname" not in one["spec"] and "subdomain" not in one["spec"]

    def test_the_published_entrance_is_carried_verbatim(self) -> None:
        pod = build.pod(build.deployment(), [build.instance_type(status={"entrance": "queue-for-h20-8x"})])
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "queue-for-h20-8x"

    def test_an_empty_entrance_is_a_retryable_failure(self) -> None:
        failures = build.resolution(build.deployment(), [build.instance_type(status={"entrance": ""})]).failures
        assert [failure.retryable for failure in failures] == [True]
        assert "h20-8x" in failures[0].message

    def test_a_take_over_role_keeps_its_place_and_gets_no_engine_help(self) -> None:
        role = {
            "command": ["serve", "--port", "9100"],
            "size": 2,
            "env": [{"name": "MOONCAKE_MASTER", "value": "own"}, {"name": "MOONCAKE_CONFIG_PATH", "value": "refused"}],
        }
        document = build.deployment(
            roles=build.pair(prefill={"extraArgs": ["--port=9100"]}, decode=role),
            router={"name": "llm-d-router"},
            kvCache=CACHE,
            model={"artifactRef": {"name": "weights"}},
        )
        pod = build.pod(document, [*build.store(), build.artifact()], "decode")
        main = build.main(pod)
        assert main["command"] == ["serve", "--port", "9100"]
        assert [entry["name"] for entry in main["env"]] == [
            "MOONCAKE_MASTER",
            "GPUSTACK_REPLICA_LEADER_ADDRESS",
            "GPUSTACK_REPLICA_SIZE",
            "GPUSTACK_MEMBER_INDEX",
        ]
        assert [v["name"] for v in pod["spec"]["volumes"]] == ["gpustack-shm"]
        assert not {"startupProbe", "readinessProbe", "livenessProbe", "lifecycle"} & set(main)
        assert not [key for key in pod["metadata"]["annotations"] if "prometheus" in key or "kvcache" in key]
        assert "initContainers" not in pod["spec"]
        assert main["resources"]["limits"]["nvidia.com/gpu"] == "2"
        assert pod["metadata"]["labels"]["modeldeployment.gpustack.ai/role-kind"] == "decode"
