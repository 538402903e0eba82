"""The settings that rendering and admission read, with the defaults of the operator (bindings sheet 7).

Setting values never enter a fingerprint: changing one shows on new and replaced Pods only.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from gpustack_components.api.concealment import concealed_text

DeliveryMode = Literal["Engine", "Node"]
"""How a hub artifact reaches the engine: downloaded by the engine, or mounted by the node plugin (bindings sheet
5.2)."""

_NO_PART_OF_AN_IMAGE = re.compile(r"://|\s|/\Z|\A/|@")
_HIGHEST = {
    "model_deployment_router_drain_seconds": 3600,
    "model_deployment_router_run_as_user": 2**31 - 1,
    "model_deployment_handoff_wait": 180,
}
_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})


class InvalidSettings(ValueError):  # noqa: N818
    """Settings that cannot be read; `problems` holds one sentence per entry at fault."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems
        """Every fault found, each naming the setting, the value and the way out."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings with their defaults. In a file, a name is spelled with dashes: `model-artifact-delivery-mode`
    (bindings sheet 7)."""

    model_deployment_kv_cache_dtype_owned: bool = True
    """Render `--kv-cache-dtype` from the Binding and refuse it in `extraArgs` (bindings sheet 3.6)."""
    model_deployment_router_image: str = "gpustack/llm-router:v0.1.0"
    """Router image while `spec.router.image` is empty."""
    model_deployment_router_proxy_image: str = "gpustack/mirrored-envoy:distroless-v1.33.2"
    """Proxy in front of the picker of llm-d-router."""
    model_deployment_routing_sidecar_image: str = "gpustack/mirrored-llm-d-router-disagg-sidecar:v0.10.0"
    """Image of the `routing-proxy` container on decode Pods (rendering sheet 9.1)."""
    model_deployment_routing_sidecar_ec_connector: str = ""
    """Ours (router sheet 11): `--ec-connector` of the routing sidecar of a deployment with Encode, Prefill and Decode
    roles; empty renders none."""
    model_deployment_router_cpu_request: str = "500m"
    """Ours: CPU the picker or an argv router requests; empty for no request."""
    model_deployment_router_memory_request: str = "1Gi"
    """Ours: memory the picker or an argv router requests; empty for no request."""
    model_deployment_router_proxy_cpu_request: str = "250m"
    """Ours: CPU the proxy in front of the picker requests; empty for no request."""
    model_deployment_router_proxy_memory_request: str = "256Mi"
    """Ours: memory the proxy in front of the picker requests; empty for no request."""
    model_deployment_router_drain_seconds: int = 120
    """Ours: seconds a router Pod that is told to leave goes on with the requests it has, 0 to 3600."""
    model_deployment_router_run_as_user: int = 65532
    """Ours: user id router containers run as; 0 states none and leaves it to the image or to the cluster."""
    model_deployment_endpoint_qualification: bool = False
    """Let routers and Services select only members labelled endpoint-eligible, where a role's shape can qualify
    (router sheet 6.4, rollout sheet 9)."""
    model_deployment_handoff_wait: int = 30
    """Ours: seconds a withdrawn prefill or decode replica is given for the transfers that were begun, before it is
    asked whether it is idle; 0 to 180, inside the 240 seconds of its drain (rollout sheet 7.2)."""
    container_registry: str = ""
    """Registry the default images of router, proxy and sidecar are pulled from; empty for the image's own (router
    sheet 7)."""
    container_namespace: str = ""
    """Namespace that takes the place of `gpustack` in those images; empty to keep it."""
    model_deployment_tcp_tw_reuse: bool = False
    """Set `net.ipv4.tcp_tw_reuse` on the Prefill half of SGLang pairs (rendering sheet 11)."""
    kv_cache_backend_image: str = "gpustack/mirrored-mooncake:0.3.13.post1-cpu"
    """Image of a KVCacheBackend that names none."""
    model_artifact_delivery_mode: DeliveryMode = "Engine"
    """How hub artifacts are delivered (bindings sheet 5.2)."""
    model_artifact_huggingface_endpoint: str = "https://huggingface.co"
    """`HF_ENDPOINT` under Engine delivery."""
    model_artifact_modelscope_endpoint: str = "https://www.modelscope.cn"
    """Its host becomes `MODELSCOPE_DOMAIN` under Engine delivery."""
    model_artifact_https_proxy: str = ""
    """`HTTPS_PROXY` under Engine delivery; http or https, without credentials."""
    model_artifact_no_proxy: str = ""
    """`NO_PROXY` under Engine delivery."""
    model_artifact_sglang_cache_prefix: bool = False
    """Ours (bindings sheet 5.7): name the artifact in SGLang's store keys through
    `--hicache-storage-backend-extra-config`. Off, two artifacts under one Binding share SGLang blocks."""
    instance_general_resources_overcommit: bool = True
    """Request less cpu, memory and ephemeral storage than the limit (bindings sheet 2.4)."""
    instance_privileged_allowed: bool = False
    """Whether a role may newly take `privileged`."""
    instance_host_path_volume_allowed: bool = False
    """Whether a role may newly take a hostPath volume."""
    instance_type_derived_from_node: bool = True
    """Whether the operator authors InstanceTypes from nodes."""
    instance_type_aware_cpu_manufacturer: bool = False
    """Whether InstanceType names carry the CPU group (bindings sheet 1.2)."""
    instance_type_mixed_on_node: bool = True
    """Scheduling chain only."""
    instance_type_drain_when_no_flavors: bool = True
    """Scheduling chain only."""
    workload_fit_affinity: bool = True
    """Workload pin only."""
    accelerator_resource_names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Ours: extended resource per manufacturer where it is not the default, e.g. `{nvidia: example.com/gpu}`
    (bindings sheet 1.3)."""
    accelerator_runtime_names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Ours: RuntimeClass name per manufacturer where it is not the default; empty text: none."""
    accelerator_partition_kinds: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Ours: partition kind per manufacturer where it is not the default, e.g. `{amd: cpx}`."""

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> "Settings":
        """Settings from names spelled with dashes (or underscores) and values as a `Setting` object or YAML holds
        them.

        Raises `InvalidSettings` with every fault: unknown names and values that cannot be read.
        """
        known = {f.name: f for f in fields(cls)}
        read: dict[str, Any] = {}
        problems: list[str] = []
        for name, value in values.items():
            key = str(name).replace("-", "_")
            if key not in known:
                problems.append(_unknown(str(name), known))
                continue
            try:
                read[key] = _read(key, known[key].default, value)
            except ValueError as fault:
                problems.append(f"{_dashed(key)}: {fault}")
        if problems:
            raise InvalidSettings(tuple(problems))
        return cls(**read)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _unknown(name: str, known: Mapping[str, Any]) -> str:
    near = get_close_matches(name.replace("-", "_"), known, n=1)
    hint = f"did you mean {_dashed(near[0])}?" if near else f"known are {', '.join(_dashed(n) for n in sorted(known))}"
    return f"{name}: no such setting; {hint}"


def _read(key: str, default: Any, value: Any) -> Any:
    if isinstance(default, bool):
        return _read_bool(value)
    if isinstance(default, int):
        return _read_number(value, _HIGHEST[key])
    if key.startswith("accelerator_"):
        return _read_names(value)
    if value is None:
        return default
    if not isinstance(value, str):
        raise ValueError(f"expected text, found {value!r}")
    text = value.strip()
    if key == "model_artifact_delivery_mode" and text not in get_args(DeliveryMode):
        raise ValueError(f"expected Engine or Node, found {value!r}")
    if key == "model_artifact_https_proxy" and text:
        _check_proxy(text)
    if key.endswith("_endpoint"):
        if not urlsplit(text).hostname:
            raise ValueError(f"expected a URL such as {default}, found {concealed_text(text)!r}")
        _check_no_user(text, "an endpoint")
    if key.endswith("_image") and not text:
        raise ValueError(f"expected an image reference such as {default}, found {value!r}")
    if key.startswith("container_") and _NO_PART_OF_AN_IMAGE.search(text):
        raise ValueError(f"expected the part of an image reference, such as registry.example.com, found {value!r}")
    if key.endswith("_request") and text:
        _check_amount(text, default)
    return text


def _read_bool(value: Any) -> bool:
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"expected true or false, found {value!r}")


def _read_number(value: Any, highest: int) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not (text.isascii() and text.isdecimal()) or int(text) > highest:
        raise ValueError(f"expected a whole number from 0 to {highest}, found {value!r}")
    return int(text)


def _check_amount(text: str, default: str) -> None:
    from gpustack_components.api.quantity import Quantity

    try:
        amount = Quantity(text)
    except ValueError as fault:
        raise ValueError(f"expected a quantity such as {default}, found {text!r}") from fault
    if amount <= Quantity("0"):
        raise ValueError(f"expected a quantity above 0, or nothing for no request, found {text!r}")


def _read_names(value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError(f"expected a mapping of manufacturer to name, found {value!r}")
    names: dict[str, str] = {}
    for manufacturer, name in value.items():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(manufacturer, str) or not isinstance(name, str):
            raise ValueError(f"expected text on both sides, found {manufacturer!r}: {name!r}")
        names[manufacturer] = name
    return MappingProxyType(names)


def _check_proxy(text: str) -> None:
    url = urlsplit(text)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError("expected an http or https URL with a host")
    _check_no_user(text, "a proxy")


def _check_no_user(text: str, what: str) -> None:
    url = urlsplit(text)
    if url.username or url.password:
        raise ValueError(
            f"the URL carries credentials, which would be readable on every Pod; name {what} that needs none"
        )
