"""`plan`: the next actions and the whole way, against a snapshot as kubectl prints it."""

import copy
import json
from collections.abc import Callable
from pathlib import Path

import pytest

STORE = """\
kind: KVCachePoolBinding
metadata: {name: cache, namespace: team-a}
spec: {poolRef: {name: dram}, quota: {ceiling: 600Gi}, domain: {name: team-a, blockSize: 64, dtype: bfloat16}}
---
kind: KVCachePool
metadata: {name: dram}
spec: {backends: [mooncake], quota: {total: 900Gi}}
status: {clientEndpoint: "dram:50051"}
---
kind: KVCacheBackend
metadata: {name: mooncake}
spec:
  transport: {protocol: TCP}
  connection: {managed: {leader: {}, members: [{nodeSelector: {}, medium: DRAM, capacityPerMember: 4Gi}]}}
"""
"""What is behind a cache Binding."""


@pytest.fixture
def snapshot(tmp_path: Path) -> Callable[..., str]:
    """Saves objects as `kubectl get -o json` prints them, and gives the file's name."""

    def save(*objects: dict) -> str:
        path = tmp_path / "observed.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
        return str(path)

    return save


@pytest.fixture
def standing(cli, minimal: Path, h20: Path) -> list[dict]:
    """The smallest deployment as it stands once all is admitted: record, Pods and Workloads."""
    pods = json.loads(cli("render", "-f", str(minimal), "-f", str(h20), "--role", "server", "-o", "json").out)["items"]
    [document, _] = json.loads(cli("check", "-f", str(minimal), "-f", str(h20), "-o", "json").out)["documents"]
    record = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "qwen-modeldeployment",
            "namespace": "team-a",
            "uid": "record",
            "labels": {
                "app.kubernetes.io/name": "model-deployment",
                "app.kubernetes.io/instance": "qwen",
                "app.kubernetes.io/managed-by": "gpustack-components",
            },
        },
        "data": {"document": json.dumps(document), "state": json.dumps({"phase": "Converged", "slots": {}})},
    }
    objects = [record]
    for ordinal, pod in enumerate(pods):
        group = pod["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"]
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "qwen-modeldeployment", "uid": "record"}
        pod["metadata"] |= {"name": f"qwen-server-{ordinal}", "uid": f"pod-{ordinal}", "ownerReferences": [owner]}
        pod["spec"]["nodeName"] = "gpu-0"
        pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        conditions = [{"type": kind, "status": "True"} for kind in ("QuotaReserved", "Admitted")]
        workload = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {
                "name": group,
                "namespace": "team-a",
                "uid": f"workload-{ordinal}",
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": f"pod-{ordinal}"}
                ],
            },
            "spec": {
                "queueName": pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"],
                "podSets": [{"name": "server", "count": 1, "template": {"spec": copy.deepcopy(pod["spec"])}}],
            },
            "status": {"conditions": conditions},
        }
        objects += [pod, workload]
    return objects


def planned(ran) -> dict:
    assert ran.code == 0, ran.err
    [deployment] = json.loads(ran.out)["deployments"]
    return deployment


def test_nothing_stands_and_everything_is_created(cli, minimal: Path, h20: Path, snapshot) -> None:
    plan = planned(cli("plan", "-f", str(minimal), "-f", str(h20), "--observed", snapshot(), "-o", "json"))
    assert list(plan) == ["namespace", "name", "converged", "actions", "slots", "waits", "forecast"]
    assert [(action["action"], action["ordinal"]) for action in plan["actions"]] == [
        ("CreateReplica", 0),
        ("CreateReplica", 1),
        ("CreateReplica", 2),
    ]
    assert [step["kind"] for step in plan["forecast"]["steps"]] == ["create"] * 3
    assert plan["forecast"]["lines"]


def test_what_stands_as_declared_needs_nothing(cli, minimal: Path, h20: Path, snapshot, standing) -> None:
    words = ("plan", "-f", str(minimal), "-f", str(h20), "--observed", snapshot(*standing))
    plan = planned(cli(*words, "-o", "json"))
    assert plan["converged"] is True
    assert plan["actions"] == []
    assert "nothing to do" in cli(*words).out


def test_an_edit_turns_the_highest_replica_over_first(
    cli, tmp_path: Path, minimal_text: str, h20: Path, snapshot, standing
) -> None:
    edited = tmp_path / "edited.yaml"
    edited.write_text(minimal_text.replace("v0.25.1", "v0.26.0"))
    words = ("plan", "-f", str(edited), "-f", str(h20), "--observed", snapshot(*standing))
    plan = planned(cli(*words, "-o", "json"))
    [action] = plan["actions"]
    assert (action["action"], action["ordinal"], action["why"]) == ("DeletePods", 2, "outdated")
    assert [step["ordinal"] for step in plan["forecast"]["steps"] if step["kind"] == "replace"] == [2, 1, 0]
    told = cli(*words).out
    assert "server/2: delete 1 Pod (outdated): qwen-server-2" in told
    assert "engine.image" in told


def test_a_frozen_field_is_refused_by_the_record(
    cli, tmp_path: Path, minimal_text: str, h20: Path, snapshot, standing
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(minimal_text.replace("Qwen/Qwen3-8B", "Qwen/Qwen3-32B"))
    ran = cli("plan", "-f", str(other), "-f", str(h20), "--observed", snapshot(*standing), "-o", "json")
    assert ran.code == 1
    assert [refusal["rule"] for refusal in json.loads(ran.out)["refusals"]] == ["identity-model"]


def test_pods_without_their_record_are_said(cli, minimal: Path, h20: Path, snapshot, standing) -> None:
    ran = cli("plan", "-f", str(minimal), "-f", str(h20), "--observed", snapshot(*standing[1:]))
    assert (ran.code, ran.out) == (2, "")
    assert "belong to ConfigMap qwen-modeldeployment, which is not there" in ran.err


def test_quota_in_the_snapshot_says_what_fits(cli, minimal: Path, h20: Path, snapshot) -> None:
    flavor = {"name": "h20-8x", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "4"}]}
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "h20-8x", "uid": "queue"},
        "spec": {"resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": [flavor]}]},
    }
    told = cli("plan", "-f", str(minimal), "-f", str(h20), "--observed", snapshot(queue)).out
    assert "queue h20-8x" in told


@pytest.mark.parametrize(
    "objects, sentence",
    [
        ([{"kind": "Pod", "metadata": {"name": "x"}}], "names no apiVersion or kind"),
        ([{"apiVersion": "v1", "kind": "Pod", "metadata": {}}], "a Pod has no metadata.name"),
        ([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}], "Pod x has no metadata.uid"),
    ],
)
def test_what_no_api_server_gives_out_is_said(cli, minimal: Path, h20: Path, snapshot, objects, sentence: str) -> None:
    ran = cli("plan", "-f", str(minimal), "-f", str(h20), "--observed", snapshot(*objects))
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err
    assert "kubectl get" in ran.err


@pytest.mark.parametrize("content", ["{", "a: [", "- just\n- text\n", "", "# none\n"])
def test_an_unreadable_snapshot_is_said(cli, tmp_path: Path, minimal: Path, h20: Path, content: str) -> None:
    observed = tmp_path / "observed.yaml"
    observed.write_text(content)
    ran = cli("plan", "-f", str(minimal), "-f", str(h20), "--observed", str(observed))
    assert (ran.code, ran.out) == (2, "")
    assert str(observed) in ran.err


@pytest.mark.parametrize("words", [(), ("--live", "--observed", "x.yaml")], ids=["neither", "both"])
def test_one_source_of_what_stands_is_named(cli, minimal: Path, words: tuple[str, ...]) -> None:
    ran = cli("plan", "-f", str(minimal), *words)
    assert (ran.code, ran.out) == (2, "")
    assert "--observed FILE" in ran.err


def test_what_cannot_be_rendered_is_exit_code_3(cli, minimal: Path, snapshot) -> None:
    assert cli("plan", "-f", str(minimal), "--observed", snapshot()).code == 3


def test_a_cache_binding_that_is_away_for_a_while_changes_nothing(
    cli, minimal: Path, h20: Path, tmp_path: Path, snapshot, standing
) -> None:
    """The record remembers the store the replicas were rendered with."""
    minimal.write_text(minimal.read_text().replace("  roles:", "  kvCache:\n    poolRef:\n      name: cache\n  roles:"))
    store = tmp_path / "store.yaml"
    store.write_text(STORE)
    files = ("-f", str(minimal), "-f", str(h20))
    pods = json.loads(cli("render", *files, "-f", str(store), "--role", "server", "-o", "json").out)["items"]
    live = [obj for obj in standing if obj["kind"] == "Pod"]
    for pod, rendered in zip(live, pods, strict=True):
        pod["metadata"]["annotations"] = rendered["metadata"]["annotations"]
    checked = json.loads(cli("check", *files, "-o", "json").out)["documents"]
    standing[0]["data"]["document"] = json.dumps(checked[0])
    away = ("plan", *files, "--observed")
    assert not planned(cli(*away, snapshot(*standing), "-o", "json"))["converged"]
    state = json.loads(standing[0]["data"]["state"])
    domain = {"name": "team-a", "block_size": 64, "dtype": "bfloat16"}
    remembered = {"binding": "cache", "pool": "dram", "endpoint": "dram:50051", "offers": ["tcp"], "tenant": "team-a"}
    standing[0]["data"]["state"] = json.dumps(state | {"store": remembered | {"domain": domain}})
    assert planned(cli(*away, snapshot(*standing), "-o", "json"))["converged"]
