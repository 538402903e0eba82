"""Which arguments and variables of a role or a router belong to the product (api sheet 4.3, 4.4, 4.10)."""

from collections.abc import Mapping
from types import MappingProxyType

VLLM = "vLLM"
"""The engine name of vLLM in `spec.engine.name`; vLLM on Ascend carries it too."""
SGLANG = "SGLang"
"""The engine name of SGLang in `spec.engine.name`."""

LLM_D_ROUTER = "llm-d-router"
"""The router that is an endpoint picker behind a proxy; it fronts both engines."""
VLLM_ROUTER = "vllm-router"
"""vLLM's own router; it fronts vLLM."""
SGLANG_GATEWAY = "sglang-gateway"
"""SGLang's own router; it fronts SGLang."""

KV_CACHE_DTYPE = "--kv-cache-dtype"
"""Owned on both engines while a Binding's dtype is rendered (4.5)."""
SERVED_MODEL_NAME = "--served-model-name"
"""Pinned to `spec.model.name`, not owned (4.6)."""

OWNED_ARGUMENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        VLLM: ("--kv-transfer-config", "--kv-events-config"),
        SGLANG: (
            "--hicache-storage-backend",
            "--hicache-storage-backend-extra-config",
            "--disaggregation-mode",
            "--disaggregation-transfer-backend",
            "--disaggregation-bootstrap-port",
        ),
    }
)
"""Arguments the product always writes itself, by engine name."""

_RANK_NAMES = ("GPUSTACK_REPLICA_LEADER_ADDRESS", "GPUSTACK_REPLICA_SIZE", "GPUSTACK_MEMBER_INDEX")

OWNED_ENVIRONMENT: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        VLLM: frozenset(("MOONCAKE_CONFIG_PATH", "VLLM_MOONCAKE_BOOTSTRAP_PORT", *_RANK_NAMES)),
        SGLANG: frozenset(
            (
                "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH",
                "MOONCAKE_MASTER",
                "MOONCAKE_TE_META_DATA_SERVER",
                "MOONCAKE_PROTOCOL",
                "MOONCAKE_DEVICE",
                "MOONCAKE_GLOBAL_SEGMENT_SIZE",
                "MOONCAKE_LOCAL_HOSTNAME",
                "MOONCAKE_TENANT_ID",
                *_RANK_NAMES,
            )
        ),
    }
)
"""Variables the product always writes itself, by engine name; matched exactly, on take-over roles too."""

ARTIFACT_ARGUMENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        VLLM: ("--model", "--revision", "--tokenizer-revision", "--download-dir"),
        SGLANG: ("--model-path", "--revision", "--download-dir"),
    }
)
"""Arguments owned while `spec.model.artifactRef` is set, on managed roles."""

_HUB_NAMES = (
    "HF_TOKEN",
    "HF_ENDPOINT",
    "HF_HOME",
    "MODELSCOPE_API_TOKEN",
    "MODELSCOPE_DOMAIN",
    "MODELSCOPE_CACHE",
)

ARTIFACT_ENVIRONMENT: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        VLLM: frozenset((*_HUB_NAMES, "VLLM_USE_MODELSCOPE")),
        SGLANG: frozenset((*_HUB_NAMES, "SGLANG_USE_MODELSCOPE")),
    }
)
"""Variables owned while `spec.model.artifactRef` is set, on managed roles."""

_DISCOVERY = (
    "--host",
    "--port",
    "--prometheus-host",
    "--prometheus-port",
    "--service-discovery",
    "--service-discovery-namespace",
    "--service-discovery-port",
    "--selector",
    "--prefill-selector",
    "--decode-selector",
)

ROUTER_ARGUMENTS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        LLM_D_ROUTER: frozenset(
            (
                "--endpoint-selector",
                "--endpoint-target-ports",
                "--config-file",
                "--secure-serving",
                "--grpc-health-port",
                "--metrics-endpoint-auth",
            )
        ),
        VLLM_ROUTER: frozenset((*_DISCOVERY, "--kv-connector", "--vllm-pd-disaggregation")),
        SGLANG_GATEWAY: frozenset((*_DISCOVERY, "--pd-disaggregation")),
    }
)
"""Arguments of `spec.router.extraArgs` the product writes itself, by router name; matched by their exact name."""

ROUTER_ENGINES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {LLM_D_ROUTER: (VLLM, SGLANG), VLLM_ROUTER: (VLLM,), SGLANG_GATEWAY: (SGLANG,)}
)
"""The engines each router fronts (router sheet 2)."""
