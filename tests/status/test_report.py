"""Every row of the status tables (rollout sheet 8, 8.1, 8.2)."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpustack_components.cluster import readings
from gpustack_components.status.deployed import Observation
from gpustack_components.status.document import Condition, StatusDocument
from gpustack_components.status.facts import CacheTraffic, Facts, RoleEndpoints, RouterFound, Weights
from gpustack_components.status.report import report
from tests.status.objects import deployment, expected, observation

CASES: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent.parent / "data" / "status.yaml").read_text()
)
CONDITIONS = (
    "QuotaReserved",
    "ReplicasUpToDate",
    "RoleKindsReady",
    "KVEventsPublishing",
    "RouterReady",
    "DomainRegistered",
    "CacheAttached",
    "EndpointEligibility",
    "WeightsReady",
    "ElasticResize",
)


def rows(*sections: str) -> Any:
    named = [(section, case) for section in sections for case in CASES[section]]
    return pytest.mark.parametrize(("section", "case"), named, ids=[f"{s}: {c['name']}" for s, c in named])


def reported(section: str, case: dict[str, Any]) -> StatusDocument:
    spec: dict[str, Any] = {}
    if "router" in case:
        spec["router"] = {"name": "llm-d-router"}
    if case.get("kv_cache"):
        spec["kvCache"] = {"poolRef": {"name": "pool"}}
    if "weights" in case:
        spec["model"] = {"name": "m", "artifactRef": {"name": "weights"}}
    if "engine" in case:
        spec["engine"] = {"name": case["engine"], "image": "i"}
    document = deployment(case.get("roles", [{"replicas": 3}]), **spec)
    options = {key: case[key] for key in ("floor", "current", "cache_hold", "weights_hold", "publishes") if key in case}
    options["created"] = frozenset(map(tuple, case.get("created", ())))
    facts = Facts(
        expected=expected(document, **options) if case.get("expected", True) else None,
        deleting=case.get("deleting", False),
        domain=case.get("domain"),
        cache=CacheTraffic(**case["cache"]) if "cache" in case else None,
        router=RouterFound(**case["router"]) if case.get("router") is not None else None,
        weights=Weights(**case["weights"]) if case.get("weights") else None,
        qualifies=case.get("qualifies", False),
        elastic=Condition("ElasticResize", *case["elastic"]) if "elastic" in case else None,
        endpoints={name: RoleEndpoints(**found) for name, found in case.get("endpoints", {}).items()},
    )
    previous = {"conditions": [{"type": section, "status": "False", "reason": case.get("previous", "")}]}
    return report(document, observation(case.get("replicas", ())), facts, previous=previous)


@rows("phase")
def test_the_phase_follows_from_desired_and_ready(section: str, case: dict[str, Any]) -> None:
    status = reported(section, case)
    assert status.phase == case["phase"]
    assert re.search(case["message"], status.phase_message), status.phase_message


@rows(*CONDITIONS)
def test_a_condition_is_judged_by_the_first_row_that_matches(section: Any, case: dict[str, Any]) -> None:
    condition = reported(section, case).condition(section)
    if case["reason"] is None:
        assert condition is None
        return
    assert condition is not None
    assert (condition.status, condition.reason) == (case["status"], case["reason"])
    assert re.search(case.get("message", ""), condition.message), condition.message


@rows("roles")
def test_a_role_is_counted_in_replicas(section: str, case: dict[str, Any]) -> None:
    role = reported(section, case).roles[0].to_json()
    assert {key: role.get(key) for key in case["expect"]} == case["expect"]


@rows("roleSummary")
def test_the_summary_names_each_declared_kind(section: str, case: dict[str, Any]) -> None:
    assert reported(section, case).role_summary == case["summary"]


@rows("endpoint")
def test_the_endpoint_is_where_callers_are_answered(section: str, case: dict[str, Any]) -> None:
    assert reported(section, case).to_json().get("endpoint") == case["endpoint"]


@pytest.mark.parametrize("case", CASES["shapes"], ids=lambda case: str(case["members"]))
def test_a_replicas_shape_is_read_from_its_own_members(case: dict[str, Any]) -> None:
    def pod(total: Any, seat: Any) -> dict[str, Any]:
        annotations = {} if total is None else {"kueue.x-k8s.io/pod-group-total-count": str(total)}
        labels = {} if seat is None else {"modeldeployment.gpustack.ai/member-index": str(seat)}
        return {"metadata": {"annotations": annotations, "labels": labels}}

    found = readings.shape([pod(*member) for member in case["members"]])
    assert (found.state, found.total) == (case["state"], case["total"])


@pytest.mark.parametrize("case", CASES["sections"], ids=lambda case: case["name"])
def test_a_section_is_there_while_it_says_something(case: dict[str, Any]) -> None:
    cache: list[dict[str, Any]] = [{"kvCache": {"poolRef": {"name": "pool"}}}, {"router": {"name": "llm-d-router"}}]
    artifact: dict[str, Any] = {"model": {"name": "m", "artifactRef": {"name": "weights"}}}
    spec = {} if case.get("bare") else {**cache[0], **cache[1], **artifact}
    facts = Facts(**{key: value for key, value in case.get("facts", {}).items() if key != "weights"})
    if "weights" in case.get("facts", {}):
        facts = replace(facts, weights=Weights(**case["facts"]["weights"]))
    status = report(deployment([{}], **spec), observation(()), facts, previous=case.get("previous", {})).to_json()
    found = {key: status[key] for key in ("kvCache", "router", "model", "retirement") if key in status}
    assert found == case["expect"]


def test_a_condition_keeps_its_time_while_its_status_is_the_same() -> None:
    document = deployment([{"replicas": 1}])
    first = report(document, observation(["server/0 q"]), now="2026-01-01T00:00:00Z")
    second = report(document, observation(["server/0 q"]), previous=first.to_json(), now="2026-01-01T01:00:00Z")
    assert second == first
    third = report(document, observation(["server/0 ready A"]), previous=second.to_json(), now="2026-01-01T02:00:00Z")
    times = {condition.type: condition.since for condition in third.conditions}
    assert times["QuotaReserved"] == "2026-01-01T02:00:00Z"
    assert times["RouterReady"] == "2026-01-01T00:00:00Z"


def test_a_whole_document_reads_as_kubernetes_writes_status() -> None:
    document = deployment([{"replicas": 2}])
    status = report(document, observation(["server/0 ready A", "server/1 ready A"]), Facts(expected=expected(document)))
    assert status.to_json() == {
        "phase": "Ready",
        "endpoint": "http://qwen.team-a.svc:8000",
        "roleSummary": "2S",
        "roles": [
            {
                "name": "server",
                "kind": "Server",
                "desired": 2,
                "ready": 2,
                "quotaReserved": 2,
                "unmanaged": False,
                "assignedFlavors": ["h20"],
                "parallelism": {"loadBalance": "Internal", "source": {"kind": "ExtraArgs", "complete": True}},
            }
        ],
        "conditions": [
            {"type": type_, "status": value, "reason": reason, "message": message}
            for type_, value, reason, message in (
                ("DomainRegistered", "True", "NotApplicable", "The deployment names no KV cache pool."),
                ("WeightsReady", "True", "NotApplicable", "The deployment names no ModelArtifact."),
                ("QuotaReserved", "True", "Reserved", "All 2 replicas hold quota."),
                ("RoleKindsReady", "True", "AllKindsReady", "Ready: Server."),
                ("ReplicasUpToDate", "True", "UpToDate", "All 2 replicas run the current configuration."),
                ("CacheAttached", "True", "NotApplicable", "The deployment names no KV cache pool."),
                ("KVEventsPublishing", "True", "NotApplicable", "There is no router to read events."),
                ("RouterReady", "True", "NotApplicable", "The deployment has no router."),
                ("EndpointEligibility", "Unknown", "NotObserved", "Replicas are selected by readiness alone."),
            )
        ],
    }


def test_a_document_does_not_grow_with_the_replicas() -> None:
    def size(replicas: int) -> int:
        document = deployment([{"replicas": replicas}])
        lines = [
            f"server/{n} old {'ready A' if n % 2 else f'q message: {n} more needed in flavor h20'}"
            for n in range(replicas)
        ]
        return len(json.dumps(report(document, observation(lines), Facts(expected=expected(document))).to_json()))

    assert size(1000) < size(30) + 200


@pytest.mark.parametrize("value", [None, 1, "x", [], {}, {"metadata": None}, {"metadata": {"labels": []}, "status": 3}])
def test_malformed_objects_are_read_as_saying_nothing(value: Any) -> None:
    pods = (value,) if isinstance(value, dict) else ()
    document = deployment([{"replicas": 1}])
    status = report(document, Observation(pods, pods), Facts(expected=expected(document)))
    assert status.phase == "Starting"
    assert readings.at(value, "metadata", "labels", "x") is None
