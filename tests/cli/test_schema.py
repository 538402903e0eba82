"""`schema`: JSON Schemas that editors accept, for each kind and for all of them."""

import json

import pytest

KINDS = (
    "ModelDeployment",
    "InstanceType",
    "KVCachePoolBinding",
    "KVCachePool",
    "KVCacheBackend",
    "ModelArtifact",
    "ModelDeploymentScaler",
)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_a_schema(cli, kind: str) -> None:
    ran = cli("schema", kind)
    assert ran.code == 0
    assert "spec" in json.loads(ran.out)["properties"]
    assert cli("schema", kind.lower()).out == ran.out


def test_without_a_kind_the_schema_covers_all(cli) -> None:
    ran = cli("schema")
    assert ran.code == 0
    assert set(KINDS) <= set(json.loads(ran.out)["properties"]["kind"]["enum"])


def test_an_unknown_kind_is_said(cli) -> None:
    ran = cli("schema", "ModelDeploymnt")
    assert (ran.code, ran.out) == (2, "")
    assert "ModelDeployment" in ran.err
