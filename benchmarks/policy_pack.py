"""What the admission pack adds to each resource, against a pack whose only policy does nothing."""

import json
from collections.abc import Callable
from typing import Any

from google.protobuf import json_format, struct_pb2
from pulumi.runtime.proto import analyzer_pb2
from pulumi_policy import EnforcementLevel, ResourceValidationPolicy
from pulumi_policy.policy import _PolicyAnalyzerServicer  # pyright: ignore[reportPrivateUsage]

from benchmarks.inputs import ten_roles
from benchmarks.row import Bench, Row, fastest
from policies.admission.pack import POLICIES

COMPONENT = "gpustack:index:ModelDeployment"
OTHER = "kubernetes:core/v1:Service"
TIMES = 20


def measure(bench: Bench) -> list[Row]:
    """One row per kind of resource, through the analyzer's own servicer."""
    document = ten_roles(8, 2)
    deployment = {
        "metadata": document["metadata"],
        "spec": {**document["spec"], "roles": document["spec"]["roles"][:5]},
    }
    service = {"metadata": {"name": "qwen"}, "spec": {"selector": {"app": "qwen"}, "ports": [{"port": 8000}]}}
    nothing = _idle(0)
    full, empty = _servicer(POLICIES), _servicer([nothing])
    as_many = _servicer([_idle(number) for number in range(len(POLICIES))])
    rows: list[Row] = []
    for what, type_, properties in (
        ("a ModelDeployment of 5 roles", COMPONENT, deployment),
        ("any other resource", OTHER, service),
    ):
        request = _request(type_, properties)
        with_pack, without, idle = (
            taken / TIMES * 1000
            for taken in fastest(
                bench.rounds * 3, _asking(full, request), _asking(empty, request), _asking(as_many, request)
            )
        )
        detail = f"{with_pack:.2f} ms : {without:.2f} ms, {len(POLICIES)} idle policies {idle:.2f} ms"
        rows.append(Row(f"policy pack, {what}", "an empty pack", with_pack - without, 3, "ms more", detail))
    return rows


def _idle(number: int) -> ResourceValidationPolicy:
    name = f"nothing-{number}"
    return ResourceValidationPolicy(name=name, description="Does nothing.", validate=lambda args, report: None)


def _asking(servicer: Any, request: Any) -> Callable[[], None]:
    def ask() -> None:
        for _ in range(TIMES):
            servicer.Analyze(request, None)

    return ask


def _servicer(policies: list[Any]) -> Any:
    servicer = _PolicyAnalyzerServicer("pack", "0.0.1", list(policies), EnforcementLevel.ADVISORY, None, *(None,) * 6)
    servicer.Configure(analyzer_pb2.ConfigureAnalyzerRequest(), None)
    return servicer


def _request(type_: str, properties: dict[str, Any]) -> Any:
    struct = json_format.Parse(json.dumps(properties), struct_pb2.Struct())
    return analyzer_pb2.AnalyzeRequest(
        type=type_, urn=f"urn:pulumi:prod::llm::{type_}::qwen", name="qwen", properties=struct
    )
