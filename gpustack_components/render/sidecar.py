"""The routing proxy in front of a decoder (rendering sheet 9.1, router sheet 11)."""

from typing import Any

from gpustack_components.bindings.images import redirected
from gpustack_components.bindings.listen import BOOTSTRAP_PORT, Port
from gpustack_components.bindings.resolve import ResolvedDeployment, ResolvedRole
from gpustack_components.bindings.shape import is_encoded
from gpustack_components.render.environment import from_field, literal

ROUTING_PROXY = "routing-proxy"
"""Name of the proxy's container."""
WAIT_FOR_WORKER = "wait-for-worker"
"""Reserved container name: never rendered here, and never part of a fingerprint (9.2)."""

_CONNECTORS = {
    "sglang": ("--kv-connector=sglang",),
    "vllm-ascend": ("--kv-connector=nixlv2",),
    "vllm": ("--kv-connector=mooncake", f"--mooncake-bootstrap-port={BOOTSTRAP_PORT}"),
}


def container_port(port: Port) -> dict[str, Any]:
    """The port as a container declares it."""
    return {"name": port.name, "containerPort": port.number, "protocol": port.protocol}


def routing_proxy(resolved: ResolvedDeployment, role: ResolvedRole) -> dict[str, Any] | None:
    """The proxy's container, restartable where the cluster knows that; None on a role without one."""
    if not role.proxy:
        return None
    external = role.listening.serving
    args = [
        f"--port={external.number}",
        f"--model-server-port={role.listening.engine}",
        *_CONNECTORS[role.family],
        "--secure-proxy=false",
    ]
    embeddings = resolved.settings.model_deployment_routing_sidecar_ec_connector
    if embeddings and is_encoded(resolved.declared.spec):
        args.append(f"--ec-connector={embeddings}")
    if role.listening.scheme == "HTTPS":
        args += ["--enable-tls=decoder", "--tls-insecure-skip-verify=decoder"]
    env = [from_field("POD_IP", "status.podIP")]
    if role.family == "sglang":
        env.append(literal("SGLANG_BOOTSTRAP_PORT", str(BOOTSTRAP_PORT)))
    container: dict[str, Any] = {
        "name": ROUTING_PROXY,
        "image": redirected(resolved.settings.model_deployment_routing_sidecar_image, resolved.settings),
        "imagePullPolicy": "IfNotPresent",
        "args": args,
        "env": env,
        "ports": [container_port(Port(external.name, external.number))],
        "securityContext": {"allowPrivilegeEscalation": False, "runAsNonRoot": True},
    }
    if resolved.native_sidecars:
        container["restartPolicy"] = "Always"
    return container
