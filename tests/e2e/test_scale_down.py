"""Replicas taken away by `pulumi up` where qualification is on: withdrawn, drained, and only then deleted."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import SERVICE
from gpustack_components.cluster.readings import at, label, ordinal, terminating, uid
from sandbox.cluster import Sandbox
from tests.e2e.case import Case
from tests.e2e.engine import Run
from tests.faults.proxy import FaultProxy

pytestmark = pytest.mark.engine

NewCase = Callable[..., Case]
METRICS = "GET */pods/*/proxy/metrics"


def metrics(running: int) -> bytes:
    """What a vLLM engine reports."""
    return f"vllm:num_requests_running {running}\nvllm:num_requests_waiting 0\n".encode()


def words(run: Run) -> str:
    """The output with every run of white space as one space."""
    return " ".join(run.output.split())


def why(case: Case) -> str:
    """What `status --why` says of the deployment, in one line."""
    command = Path(sys.executable).with_name("gpustack-components")
    shown = subprocess.run(
        [command, "status", "qwen", "-n", case.namespace, "--why"],
        env={**case.stack.environment, "COLUMNS": "400"},
        capture_output=True,
        text=True,
        check=True,
    )
    return " ".join(shown.stdout.split())


def test_a_replica_is_kept_while_its_engine_is_busy_goes_on_when_declared_again_and_leaves_once_idle(
    new_case: NewCase, sandbox: Sandbox
) -> None:
    case = new_case(cards=3)

    def labelled() -> dict[int | None, str | None]:
        return {ordinal(pod): label(pod, keys.ENDPOINT_ELIGIBLE) for pod in case.pods()}

    with FaultProxy(sandbox.kubeconfig) as proxy:
        config = case.stack.directory / "proxied.kubeconfig"
        config.write_text(proxy.kubeconfig)
        direct, case.stack.environment["KUBECONFIG"] = case.stack.environment["KUBECONFIG"], str(config)
        case.change(settings={"qwen": {"model-deployment-endpoint-qualification": True}})
        case.deploy(case.role(3))
        case.stack.up().expect(0)
        front = case.cluster.get(SERVICE, case.namespace, "qwen-server")
        assert at(front, "spec", "selector", keys.ENDPOINT_ELIGIBLE) == "true"
        assert labelled() == {0: "true", 1: "true", 2: "true"}
        before = {ordinal(pod): uid(pod) for pod in case.pods()}

        case.edit(replicas=2)
        ahead = words(case.stack.preview().expect(0))
        assert "server/2 leaves: it is taken out of selection, drained until idle (240 s at most)" in ahead
        busy = proxy.answer(METRICS, 200, metrics(running=3))
        run = case.stack.start_up()
        run.wait_for(lambda: busy.used >= 2)
        assert labelled() == {0: "true", 1: "true", 2: None}
        held = why(case)
        assert "server/2" in held and "it is being retired (Draining, Busy: Pod" in held, held
        run.signal()
        assert run.wait().code != 0
        assert not [pod for pod in case.pods() if terminating(pod)]

        case.edit(replicas=3)
        case.stack.up().expect(0)
        assert {ordinal(pod): uid(pod) for pod in case.pods()} == before, "nothing was created for its sake"
        assert labelled() == {0: "true", 1: "true", 2: "true"}

        case.edit(replicas=2)
        proxy.clear()
        idle = proxy.answer(METRICS, 200, metrics(running=0))
        left = words(case.stack.up().expect(0))
        assert idle.used == 2, "two idle reads in a row commit the deletion"
        assert "server/2 retirement Completed" in left, left
        assert {ordinal(pod): uid(pod) for pod in case.pods()} == {0: before[0], 1: before[1]}
        assert "unchanged" in case.stack.preview("--expect-no-changes").expect(0).output
        case.stack.environment["KUBECONFIG"] = direct
