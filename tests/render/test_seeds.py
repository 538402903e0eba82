"""The deployments of the seed pages, rendered: the first replica of each role and all Services, against reviewed
golden files."""

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from gpustack_components.render.objects import local_queues
from gpustack_components.render.services import front_services
from tests.render import build
from tests.render.seeds import SEEDS, resolution

ELASTIC = [name for name, document in SEEDS.items() if any(role.elastic_ep for role in document.spec.roles)]
ORDINARY = [name for name in SEEDS if name not in ELASTIC]


@pytest.mark.parametrize("name", ORDINARY)
def test_a_seed_renders_to_its_reviewed_objects(name: str, snapshot: SnapshotAssertion) -> None:
    found = resolution(name).resolved
    assert found is not None
    replicas = [build.render_replica(found, role, 0) for role in found.roles]
    objects = [*local_queues(found), *front_services(found)]
    for replica in replicas:
        objects += [replica.service] if replica.service else []
        objects += [build.readable(pod) for pod in replica.members]
    assert objects == snapshot.use_extension(JSONSnapshotExtension)


@pytest.mark.parametrize("name", ELASTIC)
def test_an_elastic_role_is_a_failure_and_never_an_ordinary_pod(name: str) -> None:
    failures = resolution(name).failures
    assert [failure.retryable for failure in failures] == [False]
    assert "elasticEp" in failures[0].message
