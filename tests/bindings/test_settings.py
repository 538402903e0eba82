"""Reading settings (bindings sheet 7): defaults, spellings, and every fault at once."""

from typing import Any

import pytest

from gpustack_components.bindings.manufacturers import manufacturer
from gpustack_components.bindings.settings import InvalidSettings, Settings

DEFAULTS = {
    "model-deployment-kv-cache-dtype-owned": True,
    "model-deployment-router-image": "gpustack/llm-router:v0.1.0",
    "model-deployment-router-proxy-image": "gpustack/mirrored-envoy:distroless-v1.33.2",
    "model-deployment-routing-sidecar-image": "gpustack/mirrored-llm-d-router-disagg-sidecar:v0.10.0",
    "model-deployment-routing-sidecar-ec-connector": "",
    "model-deployment-router-cpu-request": "500m",
    "model-deployment-router-memory-request": "1Gi",
    "model-deployment-router-proxy-cpu-request": "250m",
    "model-deployment-router-proxy-memory-request": "256Mi",
    "model-deployment-router-drain-seconds": 120,
    "model-deployment-router-run-as-user": 65532,
    "model-deployment-endpoint-qualification": False,
    "model-deployment-handoff-wait": 30,
    "container-registry": "",
    "container-namespace": "",
    "model-deployment-tcp-tw-reuse": False,
    "kv-cache-backend-image": "gpustack/mirrored-mooncake:0.3.13.post1-cpu",
    "model-artifact-delivery-mode": "Engine",
    "model-artifact-huggingface-endpoint": "https://huggingface.co",
    "model-artifact-modelscope-endpoint": "https://www.modelscope.cn",
    "model-artifact-https-proxy": "",
    "model-artifact-no-proxy": "",
    "instance-general-resources-overcommit": True,
    "instance-privileged-allowed": False,
    "instance-host-path-volume-allowed": False,
    "instance-type-derived-from-node": True,
    "instance-type-aware-cpu-manufacturer": False,
    "instance-type-mixed-on-node": True,
    "instance-type-drain-when-no-flavors": True,
    "workload-fit-affinity": True,
}


@pytest.mark.parametrize(("name", "default"), DEFAULTS.items())
def test_a_setting_has_the_operators_default(name: str, default: Any) -> None:
    assert getattr(Settings.from_mapping({}), name.replace("-", "_")) == default


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("model-deployment-tcp-tw-reuse", "true", True),
        ("model_deployment_tcp_tw_reuse", True, True),
        ("model-deployment-kv-cache-dtype-owned", "False", False),
        ("instance-privileged-allowed", 1, True),
        ("model-artifact-delivery-mode", "Node", "Node"),
        ("model-artifact-https-proxy", "http://proxy:3128", "http://proxy:3128"),
        ("model-artifact-https-proxy", " ", ""),
        ("model-artifact-https-proxy", None, ""),
        ("model-deployment-router-drain-seconds", "30", 30),
        ("model-deployment-router-drain-seconds", 0, 0),
        ("model-deployment-router-cpu-request", "2", "2"),
        ("model-deployment-router-cpu-request", "", ""),
        ("container-registry", "registry.example.com:5000/mirror", "registry.example.com:5000/mirror"),
    ],
)
def test_values_are_read_as_a_setting_object_or_yaml_spells_them(name: str, value: Any, read: Any) -> None:
    assert getattr(Settings.from_mapping({name: value}), name.replace("-", "_")) == read


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("model-artifact-delivery", "Node", ["no such setting", "model-artifact-delivery-mode"]),
        ("zzz", "x", ["no such setting", "workload-fit-affinity"]),
        ("model-artifact-delivery-mode", "node", ["Engine or Node", "'node'"]),
        ("instance-privileged-allowed", "maybe", ["true or false", "'maybe'"]),
        ("model-artifact-https-proxy", "socks5://proxy", ["http"]),
        ("model-artifact-https-proxy", "http://user:secret@proxy", ["credentials"]),
        ("model-artifact-huggingface-endpoint", "huggingface.co", ["URL", "https://huggingface.co"]),
        ("model-artifact-modelscope-endpoint", "https://user:secret@hub.example.com", ["credentials", "an endpoint"]),
        ("kv-cache-backend-image", "", ["image"]),
        ("accelerator-resource-names", "nvidia.com/gpu", ["mapping"]),
        ("accelerator-resource-names", {"nvidia": 1}, ["text"]),
        ("model-artifact-no-proxy", 5, ["text", "5"]),
        ("model-deployment-router-drain-seconds", "2m", ["0 to 3600", "'2m'"]),
        ("model-deployment-router-drain-seconds", 3601, ["0 to 3600", "3601"]),
        ("model-deployment-router-run-as-user", True, ["whole number", "True"]),
        ("model-deployment-router-cpu-request", "half", ["quantity such as 500m", "'half'"]),
        ("model-deployment-router-memory-request", "0", ["above 0", "'0'"]),
        ("container-registry", "https://registry.example.com", ["registry.example.com", "'https://"]),
        ("container-namespace", "mirror/", ["'mirror/'"]),
    ],
)
def test_a_value_that_cannot_be_read_is_named_with_the_way_out(name: str, value: Any, words: list[str]) -> None:
    with pytest.raises(InvalidSettings) as caught:
        Settings.from_mapping({name: value})
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith(name)
    assert all(word in caught.value.problems[0] for word in words)


@pytest.mark.parametrize("name", ["model-artifact-https-proxy", "model-artifact-huggingface-endpoint"])
@pytest.mark.parametrize("url", ["http://user:hunter2@proxy", "//user:hunter2@", "http://user:hunter2@:80"])
def test_credentials_in_a_url_are_not_repeated_in_the_fault(name: str, url: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        Settings.from_mapping({name: url})
    assert "hunter2" not in str(caught.value)


def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(InvalidSettings) as caught:
        Settings.from_mapping({"zzz": 1, "model-artifact-delivery-mode": "x", "instance-privileged-allowed": "y"})
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize(
    ("name", "resource", "runtime", "partitions"),
    [
        ("nvidia", "nvidia.com/gpu", "nvidia", "mig"),
        ("amd", "amd.com/gpu", "amd", ""),
        ("ascend", "huawei.com/npu", "ascend", ""),
        ("cambricon", "cambricon.com/mlu", "cambricon", ""),
        ("hygon", "hygon.com/dcu", "hygon", "mig"),
        ("iluvatar", "iluvatar.com/gpu", "iluvatar", ""),
        ("metax", "metax-tech.com/gpu", "metax", ""),
        ("mthreads", "mthreads.com/gpu", "mthreads", ""),
        ("thead", "alibabacloud.com/ppu", "", "mig"),
    ],
)
def test_a_manufacturer_is_known_by_its_keys(name: str, resource: str, runtime: str, partitions: str) -> None:
    maker = manufacturer(name, Settings())
    assert maker is not None
    assert (maker.resource, maker.runtime_class, maker.partition_kind) == (resource, runtime, partitions)
    assert maker.credits == f"credits.gpustack.ai/{name}"


def test_settings_override_and_add_manufacturers() -> None:
    settings = Settings.from_mapping(
        {
            "accelerator-resource-names": {"acme": "acme.com/gpu", "nvidia": "example.com/gpu"},
            "accelerator-runtime-names": {"nvidia": ""},
            "accelerator-partition-kinds": {"amd": "cpx"},
        }
    )
    for name, expected in (
        ("acme", ("acme.com/gpu", "", "")),
        ("nvidia", ("example.com/gpu", "", "mig")),
        ("amd", ("amd.com/gpu", "amd", "cpx")),
    ):
        maker = manufacturer(name, settings)
        assert maker is not None and (maker.resource, maker.runtime_class, maker.partition_kind) == expected
    assert manufacturer("other", settings) is None
    assert manufacturer("", settings) is None
