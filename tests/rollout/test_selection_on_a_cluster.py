"""Selectors that a run may not write, or that do not stay as they were written."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from gpustack_components.api.names import role_service
from gpustack_components.cluster import keys
from gpustack_components.cluster.port import SERVICE, Cluster, Json, Kind
from gpustack_components.cluster.readings import at
from gpustack_components.rollout.contract import Outcome, RolloutRefused, Timeouts
from gpustack_components.rollout.converge import converge
from gpustack_components.rollout.desired import Front
from tests.rollout.lab import NAME, Lab, Role, wanted
from tests.rollout.test_preflight import identity

pytestmark = pytest.mark.cluster

POLICY = Kind(
    "admissionregistration.k8s.io/v1beta1",
    "MutatingAdmissionPolicy",
    "mutatingadmissionpolicies",
    namespaced=False,
)
BINDING = Kind(
    "admissionregistration.k8s.io/v1beta1",
    "MutatingAdmissionPolicyBinding",
    "mutatingadmissionpolicybindings",
    namespaced=False,
)
LABELS = {keys.APP_NAME: keys.APP_NAME_VALUE, keys.APP_INSTANCE: NAME}
BASE = {**LABELS, keys.APP_COMPONENT: "server"}
LEADER = {**BASE, keys.MEMBER_INDEX: "0"}
FRONT = role_service(NAME, "server")


@pytest.fixture
def standing(kubeconfig: Path, namespace: str) -> Iterator[Lab]:
    """Two replicas of two Pods behind the role's Service."""
    lab = Lab(kubeconfig, namespace)
    lab.open_queue(4)
    spec = {"selector": LEADER, "ports": [{"port": 8000}]}
    metadata = {"name": FRONT, "namespace": namespace, "labels": LABELS}
    lab.unseen.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    assert up(lab, size=2, selector=LEADER).phase == "Converged"
    yield lab
    lab.close()


def up(lab: Lab, *, size: int, selector: dict[str, str], cluster: Cluster | None = None) -> Outcome:
    """Bring about replicas of that size, whose Service declares that selector."""
    of = wanted(lab.namespace, {"server": Role(replicas=2, size=size)})
    asked = replace(of, desired=replace(of.desired, fronts=(Front(FRONT, "server", selector),)))
    return converge(cluster or lab.cluster, asked, timeouts=Timeouts(lease=3), progress=lab.lines.append)


def selected(lab: Lab) -> Json:
    """What the role's Service selects by."""
    found: Json = at(lab.unseen.get(SERVICE, lab.namespace, FRONT), "spec", "selector")
    return found


@contextmanager
def undone(lab: Lab, key: str) -> Iterator[None]:
    """A policy of the cluster puts a term back into every selector."""
    name = f"undo-{uuid.uuid4().hex[:8]}"
    escaped = f"'/spec/selector/' + jsonpatch.escapeKey('{key}')"
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": lab.namespace}},
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["services"]}
            ],
        },
        "mutations": [
            {
                "patchType": "JSONPatch",
                "jsonPatch": {"expression": f"[JSONPatch{{op: 'add', path: {escaped}, value: '0'}}]"},
            }
        ],
    }
    version = POLICY.api_version
    lab.unseen.create({"apiVersion": version, "kind": POLICY.kind, "metadata": {"name": name}, "spec": spec})
    lab.unseen.create(
        {"apiVersion": version, "kind": BINDING.kind, "metadata": {"name": name}, "spec": {"policyName": name}}
    )
    probe = [{"op": "replace", "path": "/spec/selector", "value": {"in": "force"}}]
    lab.until(lambda: key in at(lab.unseen.patch(SERVICE, lab.namespace, FRONT, probe), "spec", "selector"))
    back = [{"op": "replace", "path": "/spec/selector", "value": LEADER}]
    lab.unseen.patch(SERVICE, lab.namespace, FRONT, back)
    yield
    lab.unseen.delete(BINDING, None, name)
    lab.unseen.delete(POLICY, None, name)
    time.sleep(1)


def test_a_selector_that_is_undone_ends_the_run_with_a_sentence_and_the_next_one_completes_it(standing: Lab) -> None:
    with undone(standing, keys.MEMBER_INDEX):
        outcome = up(standing, size=1, selector=BASE)
    assert outcome.phase == "Incomplete"
    assert outcome.reasons == (
        f"qwen server: Service {FRONT} cannot be told whom to select: another controller or a webhook undoes it",
    )
    standing.until(lambda: up(standing, size=1, selector=BASE).phase == "Converged")
    assert selected(standing) == BASE


@pytest.mark.parametrize(
    ("verbs", "lacked"),
    [(["get", "list", "create", "delete"], "patch"), (["list", "create", "patch"], "get, delete"), (["list"], "")],
)
def test_rights_on_services_are_asked_for_before_the_first_write_where_shapes_change_and_only_there(
    standing: Lab, kubeconfig: Path, verbs: list[str], lacked: str
) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "how-to" / "own-cluster.md").read_text()
    blocks = [text.partition("\n")[2].partition("```")[0] for text in guide.split("```yaml")[1:]]
    role = next(block for block in map(yaml.safe_load, blocks) if block.get("kind") == "Role")
    rules = [{**rule, "verbs": verbs} if rule["resources"] == ["services"] else rule for rule in role["rules"]]
    before = {pod["metadata"]["uid"] for pod in standing.pods()}
    with identity(standing, kubeconfig, rules) as cluster:
        if lacked:
            words = f"these credentials may not {lacked} services in namespace"
            with pytest.raises(RolloutRefused, match=words):
                up(standing, size=1, selector=BASE, cluster=cluster)
        else:
            assert up(standing, size=2, selector=LEADER, cluster=cluster).phase == "Converged", "nothing changes"
    assert selected(standing) == LEADER
    assert {pod["metadata"]["uid"] for pod in standing.pods()} == before
