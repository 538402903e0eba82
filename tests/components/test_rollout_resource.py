"""What is part of users' state: the type token, the pickled provider, and the words of the hook."""

import base64
import pickle
import subprocess
import sys
from typing import Any

import pulumi
import pytest
from pulumi.dynamic.dynamic import serialize_provider

from gpustack_components.components.provider import RolloutProvider
from gpustack_components.components.rollout import ROLLOUT_TYPE, Rollout, fail_unless_converged


def test_the_type_token_never_changes():
    assert f"pulumi-python:{Rollout._resource_type_name}" == ROLLOUT_TYPE == "pulumi-python:dynamic/gpustack:Rollout"  # pyright: ignore[reportPrivateUsage]


def test_the_provider_is_kept_in_state_by_reference_to_its_module():
    text = serialize_provider(RolloutProvider())
    assert len(text) < 200
    assert b"gpustack_components.components.provider" in base64.b64decode(text)
    assert isinstance(pickle.loads(base64.b64decode(text)), RolloutProvider)


def test_the_pickled_provider_of_the_first_release_still_loads():
    released = (
        "gASVQgAAAAAAAACMJ2dwdXN0YWNrX2NvbXBvbmVudHMuY29tcG9uZW50cy5wcm92aWRlcpSMD1JvbGxvdXRQcm92aWRlcpSTlCmBlC4="
    )
    assert isinstance(pickle.loads(base64.b64decode(released)), RolloutProvider)


def test_a_provider_that_was_configured_pickles_no_configuration():
    assert RolloutProvider.serialize_as_secret_always is False
    assert vars(RolloutProvider()) == {}


def test_importing_the_provider_prints_nothing_and_loads_no_kubernetes_sdk():
    program = (
        "import sys, gpustack_components.components.provider\n"
        "heavy = [name for name in ('pulumi_kubernetes', 'kubernetes') if name in sys.modules]\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def hook_args(**outputs: Any) -> pulumi.ResourceHookArgs:
    return pulumi.ResourceHookArgs("urn", "team-a/qwen", "qwen", ROLLOUT_TYPE, new_outputs=outputs)


def test_the_hook_lets_a_converged_rollout_pass():
    fail_unless_converged(hook_args(phase="Converged"))


@pytest.mark.parametrize("outputs", [{"phase": "Incomplete", "reasons": ["server/4 waits: no quota"]}, {}])
def test_the_hook_fails_the_run_with_every_reason_and_the_way_on(outputs: dict[str, Any]):
    with pytest.raises(RuntimeError) as failed:
        fail_unless_converged(hook_args(**outputs))
    lines = str(failed.value).splitlines()
    assert lines[0] == "qwen did not converge:"
    assert lines[1].strip() in ("server/4 waits: no quota", "no reason was recorded")
    assert "`pulumi up` resumes" in lines[-1]
