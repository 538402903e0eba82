"""Where a replica that serves leaves by the retirement protocol, and where its Pods are simply deleted."""

from typing import Any

import pytest

from gpustack_components.rollout.desired import Desired
from tests.render import build

ON = {"model-deployment-endpoint-qualification": True}


@pytest.mark.parametrize(
    ("engine", "router", "settings", "in_force"),
    [
        pytest.param("vLLM", None, {}, False, id="the setting is off"),
        pytest.param("vLLM", None, ON, True, id="no router, so Services are what leads to it"),
        pytest.param("vLLM", "vllm-router", ON, True, id="vllm-router drops a Pod that loses the label"),
        pytest.param("SGLang", "llm-d-router", ON, True, id="the picker selects by the label"),
        pytest.param("SGLang", "sglang-gateway", ON, False, id="the gateway drops a Pod only when it is being deleted"),
    ],
)
def test_the_protocol_is_in_force_where_a_replica_can_be_withdrawn(
    engine: str, router: str | None, settings: dict[str, bool], in_force: bool
) -> None:
    declared: dict[str, Any] = {"router": {"name": router}} if router else {}
    resolved = build.resolved(build.deployment(engine, [{"replicas": 2}], **declared), settings=settings)
    assert (Desired.of(resolved).protocol is not None) is in_force
