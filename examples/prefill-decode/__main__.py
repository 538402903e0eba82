"""One model split into prefill and decode, behind the router that pairs them."""

import pulumi
import pulumi_kubernetes as kubernetes

import gpustack_components as gpustack

team_a = kubernetes.core.v1.Namespace("team-a", metadata={"name": "team-a"})

h20 = gpustack.InstanceType(
    "h20-8x",
    manufacturer="nvidia",
    cards_per_node=8,
    nodes=2,
    unit_resources={"cpu": "16", "ram": "64Gi"},
    node_labels={"gpu": "h20"},
)

half = {"instance_type": h20.name, "resources": {"accelerator": 2}, "extra_args": ["--tensor-parallel-size=2"]}

qwen = gpustack.ModelDeployment(
    "qwen-pd",
    namespace="team-a",
    spec={
        "model": {"name": "Qwen/Qwen2.5-72B-Instruct"},
        "engine": {"name": "vLLM", "image": "vllm/vllm-openai:v0.25.1"},
        "router": {"name": "vllm-router", "replicas": 2},
        "roles": [
            {"name": "prefill", "kind": "Prefill", "replicas": 2, **half},
            {"name": "decode", "kind": "Decode", "replicas": 2, **half},
        ],
    },
    bindings=[h20],
    timeouts={"admission": "2m"},
    opts=pulumi.ResourceOptions(depends_on=[team_a]),
)

pulumi.export("endpoint", qwen.endpoint)
