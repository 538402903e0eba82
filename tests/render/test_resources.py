"""Resources of `main` (bindings sheet 2, rendering sheet 12)."""

import json
from typing import Any

import pytest

from tests.render import build

CASES: list[dict[str, Any]] = build.cases("resources")


def outcome(case: dict[str, Any], **options: Any):
    manufacturer = case.get("manufacturer", "nvidia")
    change: dict[str, Any] = {"spec": {}, "status": {"detail": case.get("detail", {})}}
    if "storage" in case:
        change["spec"]["localStorage"] = case["storage"]
    if "unit" in case:
        change["spec"]["unitResources"] = case["unit"]
    document = build.deployment(
        roles=[{"resources": None if case["request"] is None else build.merged({"accelerator": None}, case["request"])}]
    )
    known = [build.instance_type(manufacturer=manufacturer, **change)]
    return build.resolution(document, known, settings=case.get("settings", {}), **options)


@pytest.mark.parametrize("case", [case for case in CASES if "failure" not in case], ids=json.dumps)
def test_a_pod_gets_what_its_request_and_type_derive(case: dict[str, Any]) -> None:
    found = outcome(case)
    assert found.resolved is not None, found.failures
    resources = build.main(build.render_replica(found.resolved, "server", 0).members[0])["resources"]
    assert resources["limits"] == {key: str(value) for key, value in case["limits"].items()}
    assert resources["requests"] == case["requests"]


@pytest.mark.parametrize("case", [case for case in CASES if "failure" in case], ids=json.dumps)
def test_what_cannot_be_derived_is_a_failure_and_never_a_guess(case: dict[str, Any]) -> None:
    failures = outcome(case).failures
    assert [failure.retryable for failure in failures] == [case["failure"]["retryable"]]
    for word in case["failure"]["names"]:
        assert word in failures[0].message


@pytest.mark.parametrize(
    ("request_", "key", "credits"),
    [
        ({"acceleratorSlicedMemoryPercentage": 50}, "nvidia.com/gpu.sliced.units", "800000"),
        ({"acceleratorSlicedCoresPercentage": 25}, "nvidia.com/gpu.sliced.units", "400000"),
        ({"acceleratorPartitionedProfile": "3g.40gb"}, "nvidia.com/gpu.partitioned.units", "800000"),
    ],
)
def test_units_are_stated_only_where_no_webhook_folds_them(request_: dict[str, Any], key: str, credits: str) -> None:
    case = {"request": {"accelerator": 1, **request_}}
    for present, expected in ((True, None), (False, credits)):
        found = outcome(case, operator_present=present).resolved
        assert found is not None
        limits = build.main(build.render_replica(found, "server", 0).members[0])["resources"]["limits"]
        assert limits.get(key) == expected


def test_an_engine_delivered_artifact_grows_the_storage_limit_and_not_the_request() -> None:
    document = build.deployment(model={"artifactRef": {"name": "weights"}})
    resources = build.main(build.pod(document, [build.artifact()]))["resources"]
    assert resources["limits"]["ephemeral-storage"] == "125Gi"
    assert resources["requests"]["ephemeral-storage"] == "1920Mi"
