"""The provider as the SDK drives it: a fresh process, four threads, every call at once."""

import json
import subprocess
import sys

KUBECONFIG = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "away",
        "contexts": [{"name": "away", "context": {"cluster": "away", "user": "nobody"}}],
        "clusters": [{"name": "away", "cluster": {"server": "https://127.0.0.1:9"}}],
        "users": [{"name": "nobody", "user": {"token": "hunter2"}}],
    }
)
PROGRAM = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from pulumi.dynamic import Config, ConfigureRequest
from gpustack_components.components.provider import RolloutProvider

provider = RolloutProvider()
provider.configure(ConfigureRequest(Config({"kubernetes:kubeconfig": sys.stdin.read()}, "llm")))
barrier = threading.Barrier(4)

def call(number):
    barrier.wait()
    spec = {
        "model": {"name": "m"}, "engine": {"name": "vLLM", "image": "i:1"},
        "roles": [{"name": "server", "instanceType": "pool", "size": 65.0 + number}],
    }
    checked = provider.check({}, {"metadata": {"name": f"d{number}", "namespace": "team-a"}, "spec": spec})
    return [failure.reason for failure in checked.failures], checked.inputs["plan"]

with ThreadPoolExecutor(4) as pool:
    for reasons, plan in pool.map(call, range(4)):
        print(" | ".join((*reasons, *plan)))
"""


def test_four_first_calls_at_once_each_get_their_own_answer():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=KUBECONFIG, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert all(f"spec.roles[0].size: found {65 + number}" in line for number, line in enumerate(lines))
    assert all("the cluster could not be read" in line and "127.0.0.1:9" in line for line in lines)
    assert "hunter2" not in done.stdout + done.stderr
