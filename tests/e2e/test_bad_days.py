"""Refused edits and clusters that are away, seen from `pulumi preview` and `pulumi up`."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from sandbox.cluster import Sandbox
from tests.e2e.case import NEW, Case
from tests.faults.proxy import FaultProxy

pytestmark = pytest.mark.engine

NewCase = Callable[..., Case]
PACKS = Path(__file__).parents[2] / "policies"
ADMISSION_PACK = PACKS / "admission"
AWAY = yaml.safe_dump(
    {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "away",
        "contexts": [{"name": "away", "context": {"cluster": "away", "user": "nobody"}}],
        "clusters": [{"name": "away", "cluster": {"server": "https://127.0.0.1:9"}}],
        "users": [{"name": "nobody", "user": {"token": "not-a-secret"}}],
    }
)


def test_a_frozen_field_is_refused_by_preview_check_and_policy_pack_alike(new_case: NewCase, tmp_path: Path) -> None:
    case = new_case(cards=2)
    case.deploy(case.role(1))
    case.stack.up().expect(0)
    (spec,) = case.values["deployments"].values()

    def manifest(path: Path) -> Path:
        document = {
            "apiVersion": "worker.gpustack.ai/v1",
            "kind": "ModelDeployment",
            "metadata": {"name": "qwen", "namespace": case.namespace},
            "spec": spec,
        }
        path.write_text(yaml.safe_dump(document))
        return path

    old = manifest(tmp_path / "old.yaml")
    spec["model"]["name"] = "Qwen/Qwen3-14B"
    new = manifest(tmp_path / "new.yaml")
    case.save()

    previewed = case.stack.preview("--policy-pack", str(ADMISSION_PACK))
    assert previewed.code != 0
    by_resource, by_policy = previewed.output.split("Policies:")
    for said in (by_resource, by_policy):
        assert "spec.model" in said
        assert "(identity-model)" in said
    assert "[mandatory]" in by_policy

    command = [str(Path(sys.executable).with_name("gpustack-components")), "check", "-f", str(new), "--old", str(old)]
    checked = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, check=False)
    assert checked.returncode == 1, checked.stderr
    (refusal,) = json.loads(checked.stdout)["refusals"]
    assert (refusal["rule"], refusal["path"]) == ("identity-model", "spec.model")
    assert refusal["message"] in " ".join(by_resource.split())


def test_a_wrong_manifest_is_refused_by_the_policy_pack_before_anything_is_applied(new_case: NewCase) -> None:
    case = new_case(cards=2)
    case.deploy(case.role(1, extraArgs=["--kv-transfer-config={}"]))

    run = case.stack.preview("--policy-pack", str(ADMISSION_PACK))

    assert run.code != 0
    assert "owned-argument" in run.output
    assert "spec.roles[0].extraArgs[0]" in run.output
    assert "[mandatory]" in run.output
    assert case.leftovers() == []


def test_two_packs_report_every_violation_of_three_wrong_deployments_out_of_ten_in_one_preview(
    new_case: NewCase,
) -> None:
    case = new_case(cards=2)
    wrong = {
        "wrong-1": (
            case.role(1, extraArgs=["--kv-transfer-config={}"], env=[{"name": "MOONCAKE_CONFIG_PATH", "value": "/"}]),
        ),
        "wrong-4": (case.role(1), case.role(1, name="second", kind="Prefill")),
        "wrong-8": (case.role(1, extraArgs=["--tensor-parallel-size=4"], privileged=True),),
    }
    for index in range(10):
        name = f"wrong-{index}" if f"wrong-{index}" in wrong else f"fine-{index}"
        case.deploy(*wrong.get(name, (case.role(1),)), name=name)

    run = case.stack.preview("--policy-pack", str(ADMISSION_PACK), "--policy-pack", str(PACKS / "guardrails"))

    assert run.code != 0
    reported = run.output[run.output.index("Policies:") :]
    expected = {
        "wrong-1": ("spec.roles[0].extraArgs[0]", "(owned-argument)", "spec.roles[0].env[0]", "(owned-env)"),
        "wrong-4": ("spec.roles[0].kind", "spec.roles[1].kind", "(role-kind-mix)"),
        "wrong-8": ("spec.roles[0].resources.accelerator", "(parallel-width)", "spec.roles[0].privileged"),
    }
    for name, texts in expected.items():
        about = "\n".join(part for part in reported.split("- [mandatory]") if f"ModelDeployment: {name})" in part)
        assert all(text in about for text in texts), f"{name}:\n{reported}"
    assert "ModelDeployment: fine-" not in reported


def test_preview_without_a_reachable_cluster_still_validates_and_says_what_it_could_not_read(new_case: NewCase) -> None:
    case = new_case(cards=2)
    case.deploy(case.role(1))
    away = case.stack.directory / "away.kubeconfig"
    away.write_text(AWAY)
    case.stack.environment["KUBECONFIG"] = str(away)

    accepted = case.stack.preview()
    assert accepted.code == 0, accepted.output
    assert "127.0.0.1:9" in accepted.output
    assert "not-a-secret" not in accepted.output

    case.edit(size=65)
    refused = case.stack.preview()
    assert refused.code != 0
    assert "spec.roles[0].size" in refused.output
    assert "role-size-bound" in refused.output


def test_an_api_server_that_goes_away_mid_rollout_costs_nothing_but_time(new_case: NewCase, sandbox: Sandbox) -> None:
    with FaultProxy(sandbox.kubeconfig) as proxy:
        case = new_case(cards=3, exit_after=1)
        kubeconfig = case.stack.directory / "proxied.kubeconfig"
        kubeconfig.write_text(proxy.kubeconfig)
        case.stack.environment["KUBECONFIG"] = str(kubeconfig)
        case.deploy(case.role(3))
        case.stack.up().expect(0)

        case.edit_image(NEW)
        with case.watched() as timeline:
            running = case.stack.start_up()
            running.wait_for_text("turning over")
            proxy.go_away()
            with pytest.raises(AssertionError):
                running.wait_for_text("server/0  admitted", timeout=5)
            proxy.come_back()
            run = running.wait(180)
            assert run.code == 0, run.output
        assert timeline.fewest_admitted("server", after=3) >= 2
        assert set(case.images().values()) == {NEW}
        case.stack.destroy().expect(0)


def test_credentials_that_are_refused_are_named_without_being_shown(new_case: NewCase, sandbox: Sandbox) -> None:
    case = new_case(cards=2)
    case.deploy(case.role(1))
    config = yaml.safe_load(sandbox.kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {"token": "an-expired-token"}} for user in config["users"]]
    expired = case.stack.directory / "expired.kubeconfig"
    expired.write_text(yaml.safe_dump(config))
    good = case.stack.environment["KUBECONFIG"]
    case.stack.environment["KUBECONFIG"] = str(expired)

    run = case.stack.up()

    assert run.code != 0
    assert "an-expired-token" not in run.output
    assert "credentials" in run.output or "nauthorized" in run.output
    assert "Traceback" not in run.output
    case.stack.environment["KUBECONFIG"] = good
