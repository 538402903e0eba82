"""`status`, `plan --live`, `render --live` on a real cluster with Kueue, and what is said when none can be reached."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gpustack_components.api.encode import encode
from gpustack_components.cli.judge import judge, read, read_settings
from gpustack_components.cli.resolving import resolve_all
from gpustack_components.cluster import keys
from gpustack_components.cluster.client import Client, connect
from gpustack_components.cluster.port import (
    CLUSTER_QUEUE,
    CUSTOM_RESOURCE_DEFINITION,
    POD,
    RESOURCE_FLAVOR,
    SERVICE,
    Kind,
)
from gpustack_components.render.objects import local_queues
from gpustack_components.render.queues import instance_type_objects
from gpustack_components.render.services import front_services
from gpustack_components.rollout.contract import Outcome, Timeouts, Wanted
from gpustack_components.rollout.converge import converge, teardown

OWNER = "stack of this test"


def test_a_name_with_its_namespace_before_it_is_told_how_it_is_written(cli) -> None:
    ran = cli("status", "team-a/qwen", "--kubeconfig", "/nowhere/config")
    assert (ran.code, ran.out) == (2, "")
    assert "team-a/qwen: is no name of a deployment; write `status qwen -n team-a`" in ran.err


class TestUnreachable:
    """What is said of a cluster that cannot be reached: exit code 4 and a sentence, at every command that reads one."""

    @pytest.fixture(params=["status", "plan", "check", "render"])
    def words(self, request: pytest.FixtureRequest, minimal: Path) -> list[str]:
        if request.param == "status":
            return ["status", "qwen"]
        return [request.param, "-f", str(minimal), "--live"]

    def test_a_kubeconfig_that_does_not_exist(self, cli, words: list[str]) -> None:
        ran = cli(*words, "--kubeconfig", "/nowhere/config")
        assert (ran.code, ran.out) == (4, "")
        assert "/nowhere/config does not exist" in ran.err

    def test_a_kubeconfig_that_is_none(self, cli, words: list[str], tmp_path: Path) -> None:
        (tmp_path / "config").write_text("just: text\n")
        ran = cli(*words, "--kubeconfig", str(tmp_path / "config"))
        assert (ran.code, ran.out) == (4, "")
        assert "Traceback" not in ran.err
        assert len(ran.err) > 40

    def test_a_server_that_does_not_answer(self, cli, words: list[str], tmp_path: Path) -> None:
        cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
        config = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context]}
        config |= {"users": [{"name": "u", "user": {"token": "t0k3n"}}], "current-context": "x"}
        (tmp_path / "config").write_text(json.dumps(config))
        ran = cli(*words, "--kubeconfig", str(tmp_path / "config"))
        assert (ran.code, ran.out) == (4, "")
        assert "127.0.0.1" in ran.err
        assert "t0k3n" not in ran.err


class Deployed:
    """The smallest deployment in a namespace of its own, driven by the real rollout."""

    def __init__(self, kubeconfig: Path, namespace: str, folder: Path, deployment: str, types: str) -> None:
        self.cluster: Client = connect(str(kubeconfig))
        self.namespace = namespace
        self.type = f"h20-{namespace}"
        self.folder = folder
        self._deployment = deployment.replace("team-a", namespace).replace("h20-8x", self.type)
        self._types = types.replace("h20-8x", self.type)
        self.files = self.write()

    def write(self, *edits: tuple[str, str]) -> list[str]:
        """The documents as files, with texts of the deployment replaced; as `-f` options."""
        text = self._deployment
        for old, new in edits:
            assert old in text
            text = text.replace(old, new)
        (self.folder / "deployment.yaml").write_text(text)
        (self.folder / "types.yaml").write_text(self._types)
        return ["-f", str(self.folder / "deployment.yaml"), "-f", str(self.folder / "types.yaml")]

    def up(self, cards: int) -> Outcome:
        """Bring it about in a queue of that many cards."""
        judgement = judge(read(self.files[1::2]), read_settings(None))
        for instance_type in judgement.bindings.instance_types.values():
            labels = {"gpu": "h20"}
            for obj in instance_type_objects(instance_type, nodes=1, cards_per_node=cards, node_labels=labels):
                self.cluster.apply(obj, force=True)
        [resolved] = resolve_all(judgement)
        for obj in (*local_queues(resolved), *front_services(resolved)):
            self.cluster.apply(obj, force=True)
        wanted = Wanted.of(resolved, encode(resolved.declared), owner=OWNER, holder="a test")
        return converge(self.cluster, wanted, timeouts=Timeouts(admission=3, ready=20, drain=30))

    def down(self) -> None:
        """Remove it and its queue."""
        teardown(self.cluster, self.namespace, "qwen", owner=OWNER, holder="a test", timeouts=Timeouts(drain=30))
        self.cluster.delete(CLUSTER_QUEUE, None, self.type)
        self.cluster.delete(RESOURCE_FLAVOR, None, self.type)


@pytest.fixture
def deployed(
    kubeconfig: Path, namespace: str, tmp_path: Path, minimal_text: str, h20_text: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Deployed]:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    it = Deployed(kubeconfig, namespace, tmp_path, minimal_text, h20_text)
    yield it
    it.down()


@pytest.mark.cluster
class TestStatus:
    """`status` of a deployment of which two replicas serve and one waits for quota."""

    def test_a_waiting_replica_is_told_with_kueue_s_own_reason(self, cli, deployed: Deployed) -> None:
        assert deployed.up(cards=4).phase == "Incomplete"
        words = ("status", "qwen", "-n", deployed.namespace)
        table = cli(*words)
        assert table.code == 0, table.err
        lines = table.out.splitlines()
        states = {line.split()[0]: line.split()[1] for line in lines if line.startswith("server/")}
        assert states == {"server/0": "serving", "server/1": "serving", "server/2": "waiting"}
        [waiting] = [line for line in lines if line.startswith("server/2")]
        assert "insufficient unused quota for nvidia.com/gpu" in waiting
        assert f"kubectl -n {deployed.namespace} port-forward service/qwen 8000:8000" in table.out
        assert "curl http://localhost:8000/v1/chat/completions" in table.out
        assert "released when" not in table.out
        assert "QuotaReserved" in table.out
        assert "CONFIG" not in table.out
        compared = cli(*words, *deployed.write(("v0.25.1", "v0.26.0"))).out
        assert compared.count(" current ") == 3
        why = cli(*words, "--why").out
        assert "released when" in why
        assert f"$ kubectl -n {deployed.namespace} describe workload gpustack-fnv64-" in why
        assert "has 0 free of 4 x nvidia.com/gpu" in why
        assert re.search(r"server/0 +created .* ago, got quota .* ago, admitted", why), why
        assert re.search(r"run +the last run stopped before it was done: .*server/2: not admitted", why), why
        assert "$ pulumi up" in why
        assert "does not exist" not in why

        report = json.loads(cli(*words, "-o", "json").out)
        assert [replica["state"] for replica in report["replicas"]] == ["serving", "serving", "waiting"]
        assert (report["phase"], report["run"]["phase"]) == ("Degraded", "Incomplete")
        assert report["endpoint"] == f"http://qwen.{deployed.namespace}.svc:8000"
        assert set(report) == {
            "namespace", "name", "phase", "phaseMessage", "endpoint", "roleSummary", "roles", "conditions",
            "replicas", "events", "run", "strangers", "absentServices", "call",
        }  # fmt: skip
        assert report["run"]["turnovers"] == {}
        told = {one["type"]: one for one in report["conditions"]}
        assert told["ReplicasUpToDate"]["reason"] == "UpToDate"
        assert told["QuotaReserved"]["lastTransitionTime"] <= report["run"]["updated"]
        assert "state: waiting" in cli(*words, "-o", "yaml").out
        explained = json.loads(cli(*words, "-o", "json", "--why").out)["why"]
        assert [one["subject"] for one in explained] == ["run", "server/2"]

        deployed.cluster.delete(SERVICE, deployed.namespace, "qwen")
        missed = " ".join(cli(*words, "--why").out.split())
        assert "Service qwen does not exist, so nobody is reached through it" in missed
        assert "$ pulumi refresh && pulumi up" in missed
        plain = cli(*words).out
        assert "port-forward" not in plain
        warned = "Service qwen does not exist, so nobody is reached through it; `pulumi refresh && pulumi up` makes it"
        assert warned in plain
        assert json.loads(cli(*words, "-o", "json").out)["absentServices"] == ["qwen"]

    def test_a_deployment_that_does_not_exist_is_exit_code_1(self, cli, deployed: Deployed) -> None:
        absent = cli("status", "qwen", "-n", deployed.namespace)
        assert (absent.code, absent.out) == (1, "")
        assert f"there is no deployment qwen in namespace {deployed.namespace}" in absent.err
        deployed.up(cards=6)
        misspelt = cli("status", "qwn", "-n", deployed.namespace)
        assert misspelt.code == 1
        assert "did you mean qwen?" in misspelt.err

    def test_what_stands_on_the_record_s_name_and_is_none_is_said(self, cli, core: Any, deployed: Deployed) -> None:
        core.create_namespaced_config_map(deployed.namespace, {"metadata": {"name": "qwen-modeldeployment"}})
        foreign = cli("status", "qwen", "-n", deployed.namespace)
        assert (foreign.code, foreign.out) == (1, "")
        assert "stands where deployment qwen keeps its record, and is not one" in foreign.err
        core.delete_namespaced_config_map("qwen-modeldeployment", deployed.namespace)

    def test_a_record_that_cannot_be_read_is_said(self, cli, core: Any, deployed: Deployed) -> None:
        assert deployed.up(cards=6).phase == "Converged"
        stored = core.read_namespaced_config_map("qwen-modeldeployment", deployed.namespace)
        stored.data["document"] = '{"kind": "ModelDeployment", "spec": 3}'
        core.replace_namespaced_config_map("qwen-modeldeployment", deployed.namespace, stored)
        unreadable = cli("status", "qwen", "-n", deployed.namespace)
        assert (unreadable.code, unreadable.out) == (1, "")
        assert "holds no readable deployment" in unreadable.err
        assert "`pulumi up` writes it anew" in unreadable.err

    def test_pods_whose_record_was_deleted_are_said_to_end_with_it(self, cli, core: Any, deployed: Deployed) -> None:
        labels = {keys.APP_NAME: keys.APP_NAME_VALUE, keys.APP_INSTANCE: "qwen"}
        container = {"name": keys.MAIN_CONTAINER, "image": "vllm/vllm-openai:v0.25.1"}
        core.create_namespaced_pod(
            deployed.namespace, {"metadata": {"name": "left", "labels": labels}, "spec": {"containers": [container]}}
        )
        left = cli("status", "qwen", "-n", deployed.namespace)
        assert left.code == 1
        assert "the record of deployment qwen" in left.err
        assert "1 are still there" in left.err

    def test_a_watch_tells_each_change_until_it_is_interrupted(self, cli, deployed: Deployed) -> None:
        assert deployed.up(cards=6).phase == "Converged"
        watching = subprocess.Popen(
            [cli.script, "status", "qwen", "-n", deployed.namespace, "--watch"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
        )
        assert watching.stdout is not None
        first = [watching.stdout.readline() for _ in range(3)]
        assert [line.split()[1] for line in first] == ["server/0", "server/1", "server/2"]
        [pod] = deployed.cluster.list(POD, deployed.namespace, "modeldeployment.gpustack.ai/pod-ordinal=1").items
        deployed.cluster.delete(POD, deployed.namespace, pod["metadata"]["name"])
        rest = iter(watching.stdout.readline, "")
        whole = next(rest)
        assert "Ready, 3S" in whole
        assert "server/1  leaving" in next(rest)
        assert any("warning ReplicaLeaving" in line for line in rest)
        deployed.cluster.patch(
            POD, deployed.namespace, pod["metadata"]["name"], [{"op": "remove", "path": "/metadata/finalizers"}]
        )
        assert any("server/1  missing" in line for line in rest)
        deployed.cluster.delete(SERVICE, deployed.namespace, "qwen-server")
        assert any("warning services: Service qwen-server does not exist" in line for line in rest)
        watching.send_signal(signal.SIGINT)
        _, err = watching.communicate(timeout=20)
        assert (watching.returncode, err) == (130, "")

    def test_a_watch_asks_nothing_while_nothing_changes_and_ends_with_the_deployment(
        self, cli, sandbox: Any, deployed: Deployed
    ) -> None:
        assert deployed.up(cards=6).phase == "Converged"
        watching = subprocess.Popen(
            [cli.script, "status", "qwen", "-n", deployed.namespace, "--watch", "--why", "-o", "yaml"],
            stdout=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
        )
        assert watching.stdout is not None
        assert watching.stdout.readline() == "---\n"
        time.sleep(2)

        def asked() -> int:
            lines = Path(sandbox.audit_log).read_text().splitlines()
            return sum(f'"namespace":"{deployed.namespace}"' in line for line in lines)

        before = asked()
        time.sleep(7)
        assert asked() == before
        teardown(deployed.cluster, deployed.namespace, "qwen", owner=OWNER, holder="t", timeouts=Timeouts(drain=30))
        out, _ = watching.communicate(timeout=20)
        assert watching.returncode == 0
        assert "phase: Deleting" in out


@pytest.mark.cluster
class TestPlan:
    """`plan --live` against a snapshot of the same moment."""

    def test_the_cluster_and_its_snapshot_give_the_same_plan(self, cli, deployed: Deployed, tmp_path: Path) -> None:
        assert deployed.up(cards=6).phase == "Converged"
        files = deployed.write(("v0.25.1", "v0.26.0"))
        live = cli("plan", *files, "--live", "-o", "json")
        assert live.code == 0, live.err
        kinds = "pods,workloads,configmaps,clusterqueues,localqueues"
        snapshot = tmp_path / "observed.yaml"
        got = subprocess.run(
            ["kubectl", "-n", deployed.namespace, "get", kinds, "-o", "yaml"],
            capture_output=True,
            text=True,
            check=True,
        )
        snapshot.write_text(got.stdout)
        from_file = cli("plan", *files, "--observed", str(snapshot), "-o", "json")
        assert from_file.out == live.out
        [plan] = json.loads(live.out)["deployments"]
        assert [step["ordinal"] for step in plan["forecast"]["steps"]] == [2, 1, 0]
        deployed.files = deployed.write()
        assert json.loads(cli("plan", *deployed.files, "--live", "-o", "json").out)["deployments"][0]["converged"]


ARTIFACTS = Kind("worker.gpustack.ai/v1", "ModelArtifact", "modelartifacts")


@pytest.fixture
def artifacts_served(kubeconfig: Path) -> Iterator[None]:
    """The cluster serves the operator's ModelArtifacts, and nothing else of it."""
    cluster = connect(str(kubeconfig))
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "ModelArtifact", "plural": "modelartifacts", "singular": "modelartifact"}
    name = "modelartifacts.worker.gpustack.ai"
    spec = {"group": "worker.gpustack.ai", "scope": "Namespaced", "names": names, "versions": [version]}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    cluster.apply({**kind, "metadata": {"name": name}, "spec": spec})
    yield
    cluster.delete(CUSTOM_RESOURCE_DEFINITION, None, name)


def until(holds: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.cluster
def test_what_the_files_do_not_declare_is_read_from_the_cluster(
    cli, deployed: Deployed, artifacts_served: None
) -> None:
    files = deployed.write(("name: Qwen/Qwen3-8B", "name: Qwen/Qwen3-8B\n    artifactRef:\n      name: weights"))
    assert "weights" in cli("render", *files).err
    spec = {"source": {"huggingFace": {"repository": "Qwen/Qwen3-8B", "revision": "main"}}}
    status = {
        "conditions": [{"type": "Resolved", "status": "True"}],
        "resolved": {
            "revision": "b968826d9c46dd6066d109eabc6255188de91218",
            "manifestDigest": f"sha256:{'0' * 64}",
            "sizeBytes": 1,
        },
    }
    metadata = {"name": "weights", "namespace": deployed.namespace}
    artifact = {"apiVersion": ARTIFACTS.api_version, "kind": ARTIFACTS.kind, "metadata": metadata}

    def stored() -> bool:
        with suppress(Exception):
            deployed.cluster.create({**artifact, "spec": spec, "status": status})
            return True
        return False

    until(stored)
    ran = cli("render", *files, "--live", "-o", "json")
    assert ran.code == 0, ran.err
    assert sum(obj["kind"] == "Pod" for obj in json.loads(ran.out)["items"]) == 3, ran.err


@pytest.mark.cluster
def test_a_cluster_without_the_operator_is_said(
    cli, minimal: Path, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    ran = cli("check", "-f", str(minimal), "--live")
    assert ran.code == 0
    assert "serves no kind of worker.gpustack.ai/v1" in ran.err
