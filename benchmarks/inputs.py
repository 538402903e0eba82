"""The documents that rows measure with."""

from typing import Any

from gpustack_components.admission.review import review
from gpustack_components.api.decode import decode
from gpustack_components.api.model_deployment import ModelDeployment
from gpustack_components.bindings.catalog import Bindings
from gpustack_components.bindings.resolve import ResolvedDeployment, resolve
from gpustack_components.bindings.settings import Settings

Json = dict[str, Any]
API = "worker.gpustack.ai/v1"
INSTANCE_TYPE: Json = {
    "apiVersion": API,
    "kind": "InstanceType",
    "metadata": {"name": "h20-8x"},
    "spec": {
        "acceleratable": True,
        "acceleratorGroup": "nvidia-h20",
        "os": "linux",
        "arch": "amd64",
        "unitResources": {"cpu": "16", "ram": "64Gi"},
        "localStorage": "512Gi",
    },
    "status": {"detail": {"manufacturer": "nvidia"}, "accelerator": {"capacity": "16"}},
}


def ten_roles(replicas: int, size: int) -> Json:
    """A deployment of ten Server roles, each with arguments, environment and volumes as people write them."""
    roles = [
        {
            "name": f"server-{number}",
            "replicas": replicas,
            "size": size,
            "instanceType": "h20-8x",
            "resources": {"accelerator": 8},
            "extraArgs": [
                "--tensor-parallel-size=8",
                "--max-model-len=32768",
                "--gpu-memory-utilization=0.92",
                "--enable-prefix-caching",
            ],
            "env": [{"name": "HF_HUB_OFFLINE", "value": "1"}, {"name": "VLLM_LOGGING_LEVEL", "value": "WARNING"}],
            "additionalVolumes": [{"mountPath": "/models", "readOnly": True, "configMap": {"name": "models"}}],
            "terminationGracePeriodSeconds": 60,
        }
        for number in range(10)
    ]
    spec = {
        "model": {"name": "Qwen/Qwen3-8B"},
        "engine": {"name": "vLLM", "image": "vllm/vllm-openai:v0.25.1"},
        "roles": roles,
    }
    return {"apiVersion": API, "kind": "ModelDeployment", "metadata": {"name": "qwen", "namespace": "a"}, "spec": spec}


def bindings() -> Bindings:
    """The InstanceType those roles name."""
    return Bindings.of([decode(INSTANCE_TYPE).document])


def resolved(document: Json, known: Bindings, settings: Settings) -> ResolvedDeployment:
    """Check a document and resolve it; raises with every refusal when it is refused."""
    verdict = review(document, bindings=known, settings=settings)
    if not isinstance(verdict.document, ModelDeployment):
        raise RuntimeError("; ".join(map(str, verdict.refusals)))
    resolution = resolve(verdict.document, known, settings)
    if resolution.resolved is None:
        raise RuntimeError("; ".join(map(str, resolution.failures)))
    return resolution.resolved
