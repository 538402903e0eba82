"""Command lines of `main`, in full (rendering sheets 3 and 17)."""

from typing import Any

import pytest

from tests.render import build

CASES = build.cases("command_lines")


def rendered(case: dict[str, Any]) -> dict[str, Any]:
    role = case.get("role", {})
    shown = case.get("shown", "server")
    if case.get("roles") == "pair":
        halves = {
            half: build.merged(case.get(half, {}), role if half == shown else {}) for half in ("prefill", "decode")
        }
        roles = build.pair(**halves)
    else:
        roles = [role]
    spec: dict[str, Any] = {}
    bound: list[object] = [build.instance_type(manufacturer=case.get("manufacturer", "nvidia"))]
    if "router" in case:
        spec["router"] = {"name": case["router"]}
    if "cache" in case:
        spec["kvCache"] = {"poolRef": {"name": "cache"}}
        bound += build.store(protocol=case["cache"], dtype=case.get("dtype", "bfloat16"))
    if "artifact" in case:
        spec["model"] = {"artifactRef": {"name": "weights"}}
        bound.append(build.artifact(**case["artifact"]))
    document = build.deployment(case["engine"], roles, **spec)
    return build.pod(document, bound, shown, settings=case.get("settings", {}))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_command_is_the_sheets(case: dict[str, Any]) -> None:
    main = build.main(rendered(case))
    if "command" in case:
        assert main["command"] == case["command"]
    else:
        base = 3 if case["engine"] == "vLLM" else 6
        assert main["command"][base:] == case["tail"]
    assert "args" not in main
    if "scheme" in case:
        assert main["startupProbe"]["httpGet"]["scheme"] == case["scheme"]
