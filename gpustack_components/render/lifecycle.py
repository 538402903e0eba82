"""Probes, drain hook and grace period of `main` (rendering sheets 7 and 8)."""

from typing import Any

from gpustack_components.bindings.resolve import ResolvedDeployment, ResolvedRole

GRACE_DEFAULT = 30
"""Seconds a managed Pod has between the request to stop and the kill."""
STARTUP_DEFAULT = 1800
"""Seconds an engine may take to start."""

PERIOD = 10
"""Seconds between two probes."""
_TIMEOUT = 5
_READINESS_FAILURES = 3
_LIVENESS_FAILURES = 6
_SETTLE = 5
_MARGIN = 5
IDLE_GAUGES = {
    "vLLM": ("vllm:num_requests_running", "vllm:num_requests_waiting"),
    "SGLang": (
        "sglang:num_running_reqs",
        "sglang:num_queue_reqs",
        "sglang:num_prefill_bootstrap_queue_reqs",
        "sglang:num_prefill_inflight_queue_reqs",
        "sglang:num_decode_prealloc_queue_reqs",
        "sglang:num_decode_transfer_queue_reqs",
    ),
}
"""Metrics of an engine that are all zero when no request is in it (rollout sheet 7.1)."""
_DRAIN = """\
import time
start = time.monotonic()
time.sleep({settle})
def busy(client):
    total = 0.0
    with client.open({url!r}, timeout=1) as answer:
        text = answer.read().decode("utf-8", "replace")
    for line in text.splitlines():
        name = line.split("{{")[0].split(" ")[0]
        if name in {gauges!r}:
            try:
                total += float((line.rsplit("}}", 1)[-1] if "{{" in line else line[len(name):]).split()[0])
            except (ValueError, IndexError):
                total += 1
    return total
try:
    import socket, ssl, urllib.error, urllib.request as http
    tls = ssl.create_default_context()
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    client = http.build_opener(http.ProxyHandler({{}}), http.HTTPSHandler(context=tls))
    idle = 0
    while idle < 2 and time.monotonic() - start < {until}:
        try:
            idle = idle + 1 if busy(client) == 0 else 0
        except (socket.timeout, urllib.error.URLError) as fault:
            if not isinstance(getattr(fault, "reason", fault), socket.timeout):
                break
            idle = 0
        if idle < 2:
            time.sleep(1)
except Exception:
    pass
"""


def probes(role: ResolvedRole) -> dict[str, Any]:
    """`startupProbe`, `readinessProbe` and `livenessProbe`; empty when the role has none."""
    target = role.listening.probe
    if target is None:
        return {}
    get = {"path": target.path, "port": target.port, "scheme": target.scheme}
    return {
        probe: {"httpGet": get, "periodSeconds": PERIOD, "timeoutSeconds": _TIMEOUT, "failureThreshold": failures}
        for probe, failures in (
            ("startupProbe", startup_failures(role)),
            ("readinessProbe", _READINESS_FAILURES),
            ("livenessProbe", _LIVENESS_FAILURES),
        )
    }


def startup_failures(role: ResolvedRole) -> int:
    """Failed startup probes within the seconds the role may take to start, rounded up."""
    return -(-role.declared.startup_timeout_seconds // PERIOD)


def grace_seconds(role: ResolvedRole) -> int | None:
    """`terminationGracePeriodSeconds`; None on a take-over role that states none."""
    stated = role.declared.termination_grace_period_seconds
    return stated if stated is not None or role.take_over else GRACE_DEFAULT


def drain_program(resolved: ResolvedDeployment, role: ResolvedRole, grace: int) -> str:
    """The Python program that keeps a stopping engine alive until it is idle: settle 5 s, then wait for two idle
    readings, and return 3 s before the grace period ends at the latest. Always exits 0."""
    url = f"{role.listening.scheme.lower()}://127.0.0.1:{role.listening.engine}/metrics"
    return _DRAIN.format(settle=_SETTLE, gauges=IDLE_GAUGES[resolved.engine], url=url, until=grace - _MARGIN)


def drain_hook(resolved: ResolvedDeployment, role: ResolvedRole) -> dict[str, Any]:
    """`lifecycle` of a managed `main`; empty on a take-over role."""
    grace = grace_seconds(role)
    if role.take_over or grace is None:
        return {}
    return {"preStop": {"exec": {"command": ["python3", "-c", drain_program(resolved, role, grace)]}}}
