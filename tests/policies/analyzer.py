"""A policy pack behind the analyzer's own servicer: resources go in as the engine sends them, violations come out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format, struct_pb2
from pulumi.runtime.proto import analyzer_pb2
from pulumi_policy import EnforcementLevel, Policy
from pulumi_policy.policy import _PolicyAnalyzerServicer  # pyright: ignore[reportPrivateUsage]
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE

UNKNOWN = UNKNOWN_STRING_VALUE
"""Stands in properties where a preview does not know the value yet."""


@dataclass(frozen=True)
class Finding:
    """One diagnostic of the analyzer."""

    policy: str
    message: str
    mandatory: bool
    severity: str


class Analyzer:
    """One pack, configured once, asked about one resource after the other."""

    def __init__(self, policies: Sequence[Policy], config: Mapping[str, Any] | None = None) -> None:
        level = EnforcementLevel.ADVISORY
        names = ("pack", "0.0.1")
        self._servicer = _PolicyAnalyzerServicer(*names, list(policies), level, None, *(None,) * 6)
        request = analyzer_pb2.ConfigureAnalyzerRequest()
        for policy, properties in (config or {}).items():
            entry = request.policyConfig[policy]
            entry.enforcementLevel = analyzer_pb2.MANDATORY
            entry.properties.CopyFrom(struct(properties))
        self._servicer.Configure(request, None)

    def analyze(
        self, type_: str, properties: Mapping[str, Any], *, name: str = "qwen", parent: str = ""
    ) -> list[Finding]:
        """What the pack says about one resource."""
        types = f"{parent}${type_}" if parent else type_
        request = analyzer_pb2.AnalyzeRequest(
            type=type_, urn=f"urn:pulumi:prod::llm::{types}::{name}", name=name, properties=struct(properties)
        )
        response = self._servicer.Analyze(request, None)
        return [
            Finding(
                one.policyName,
                one.message.removeprefix(f"{one.description}\n"),
                one.enforcementLevel == analyzer_pb2.MANDATORY,
                analyzer_pb2.PolicySeverity.Name(one.severity),
            )
            for one in response.diagnostics
        ]


def struct(properties: Mapping[str, Any]) -> struct_pb2.Struct:
    """Properties as they travel: numbers become floats."""
    return json_format.Parse(json.dumps(properties), struct_pb2.Struct())


def component(spec: Mapping[str, Any], *, namespace: str = "team-a", **more: Any) -> dict[str, Any]:
    """The inputs of a ModelDeployment component."""
    labels = {"labels": more.pop("labels")} if "labels" in more else {}
    return {"metadata": {"name": "qwen", "namespace": namespace, **labels}, "spec": spec, **more}


def spec(**changes: Any) -> dict[str, Any]:
    """A spec that admission accepts; `roles`, `router` and others replace its parts."""
    base: dict[str, Any] = {
        "model": {"name": "Qwen/Qwen3-8B"},
        "engine": {"name": "vLLM", "image": "vllm/vllm-openai:v0.25.1"},
        "roles": [role()],
    }
    return {**base, **changes}


def role(**changes: Any) -> dict[str, Any]:
    """A Server role of one card."""
    base: dict[str, Any] = {"name": "server", "instanceType": "h20-8x", "resources": {"accelerator": 1}}
    return {**base, **changes}
