"""The JSON Schema that editors get: it accepts what decoding accepts and refuses what single fields refuse."""

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gpustack_components.api.decode import KINDS
from gpustack_components.api.load import load_text
from gpustack_components.api.schema import json_schema
from tests.api.manifests import SMALLEST, changed

DATA = Path(__file__).parents[1] / "data"
SEEDS = sorted((DATA / "seeds").glob("*.yaml"))
CASES: list[dict[str, Any]] = yaml.safe_load((DATA / "decode.yaml").read_text())
BEYOND_A_SCHEMA = {"role-name-duplicate", "port-duplicate", "env-duplicate"}
"""Rules of the API's lists, which JSON Schema has no word for."""


def refused(document: Any, kind: str | None) -> bool:
    return not jsonschema.Draft202012Validator(json_schema(kind)).is_valid(document)


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_every_kind_has_a_well_formed_schema_without_loose_references(kind: str | None) -> None:
    schema = json_schema(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert all(name in schema["$defs"] for name in re.findall(r"'#/\$defs/(\w+)'", repr(schema)))


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_the_seed_manifests_are_valid(path: Path) -> None:
    for raw in load_text(path.read_text(), str(path)):
        assert not refused(raw.value, raw.value["kind"])
        assert not refused(raw.value, None)


def test_the_manifest_of_an_older_build_is_invalid() -> None:
    path = DATA / "seeds" / "refused" / "prefill-decode-engine-version.yaml"
    (raw,) = load_text(path.read_text(), str(path))
    assert refused(raw.value, "ModelDeployment")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_the_schema_agrees_with_decoding(case: dict[str, Any]) -> None:
    judged = [refusal for refusal in case["refusals"] if refusal["rule"] not in BEYOND_A_SCHEMA]
    assert refused(changed(SMALLEST, case["set"]), "ModelDeployment") is bool(judged)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_says_what_it_is(kind: str) -> None:
    schema = json_schema(kind)
    for name, definition in ((kind, schema), *schema["$defs"].items()):
        for field, described in definition.get("properties", {}).items():
            assert described.get("description"), f"{name}.{field}"


def test_no_field_invites_null() -> None:
    assert "'null'" not in repr(json_schema())


def test_a_kind_there_is_none_of_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="InstanceType"):
        json_schema("Pod")
