"""The smallest deployment: four replicas of one model, two cards each, on two nodes of eight cards."""

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

qwen = gpustack.ModelDeployment(
    "qwen-chat",
    namespace="team-a",
    spec={
        "model": {"name": "Qwen/Qwen2.5-72B-Instruct"},
        "engine": {"name": "vLLM", "image": "vllm/vllm-openai:v0.25.1"},
        "roles": [
            {
                "name": "server",
                "replicas": 4,
                "instance_type": h20.name,
                "resources": {"accelerator": 2},
                "extra_args": ["--tensor-parallel-size=2"],
            }
        ],
    },
    bindings=[h20],
    timeouts={"admission": "2m"},
    opts=pulumi.ResourceOptions(depends_on=[team_a]),
)

pulumi.export("endpoint", qwen.endpoint)
