"""Every object of the shape matrix, of the routers, of the seeds and of the queues is valid for each Kubernetes
version it may meet."""

import json
from functools import cache
from typing import Any

import jsonschema
import pytest
import referencing
from kubernetes_validate import utils

from gpustack_components.render.replica import render_replica
from gpustack_components.render.router import router_objects
from gpustack_components.render.services import front_services
from tests.render.routers import MATRIX, SETS
from tests.render.seeds import resolution
from tests.render.test_seeds import ORDINARY
from tests.render.test_shapes import RENDERED, outcome

OLDEST = 30
VERSIONS = sorted({v for v in utils.all_versions() if int(v.split(".")[1]) >= OLDEST})


@cache
def validator(version: str, group: str, kind: str) -> Any:
    """A validator of one kind of an API group under the strict schemas, which refuse unknown fields. Kept, because
    loading one takes a second."""
    directory = f"kubernetes-json-schema/v{version}-local-strict"
    resource = referencing.Resource.from_contents(
        utils.schema_contents(f"{directory}/{kind.lower()}-{group}v1.json", version)
    )
    return jsonschema.Draft202012Validator(
        resource.contents, registry=referencing.Registry().with_resource("_definitions.json", definitions(version))
    )


@cache
def definitions(version: str) -> Any:
    contents = utils.schema_contents(f"kubernetes-json-schema/v{version}-local-strict/_definitions.json", version)
    return referencing.Resource.from_contents(contents, default_specification=referencing.jsonschema.DRAFT202012)


@cache
def every_object() -> tuple[dict[str, Any], ...]:
    """The first Pod of each role, the Services and the routers, of all suites."""
    resolved = [outcome(case).resolved for case in RENDERED] + [resolution(name).resolved for name in ORDINARY]
    found: list[dict[str, Any]] = []
    for deployment in resolved:
        assert deployment is not None
        found += front_services(deployment)
        for role in deployment.roles:
            replica = render_replica(deployment, role, 0)
            found += [replica.members[0], *([replica.service] if replica.service else [])]
    found += routers()
    return tuple(json.loads(text) for text in sorted({json.dumps(manifest) for manifest in found}))


def routers() -> list[dict[str, Any]]:
    """Each router with everything it may have; sets of roles change texts in it alone."""
    router = {"replicas": 2, "imagePullSecrets": [{"name": "pull"}], "extraArgs": ["--v=4"]}
    return [one for case in MATRIX if case.roles is SETS[0] for one in router_objects(case.resolved(router))]


def api_group(manifest: dict[str, Any]) -> str:
    """The API group as the schemas spell it: `apps-`, `rbac-`, nothing for the core group."""
    group, slash, _ = manifest["apiVersion"].partition("/")
    return f"{group.partition('.')[0]}-" if slash else ""


@pytest.mark.parametrize("version", VERSIONS)
def test_objects_are_valid_under_the_strict_schemas(version: str) -> None:
    assert len(every_object()) > len(RENDERED)
    for manifest in every_object():
        faults = [
            f"{fault.json_path}: {fault.message}"
            for fault in validator(version, api_group(manifest), manifest["kind"]).iter_errors(manifest)
        ]
        assert not faults, (manifest["metadata"], faults)


def test_the_validator_refuses_what_is_wrong() -> None:
    wrong = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [{"nmae": "main"}]}}
    assert list(validator(VERSIONS[-1], "", "Pod").iter_errors(wrong))
