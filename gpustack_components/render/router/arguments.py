"""Command lines of the programs: proxy, picker, and the two routers that read nothing else (router sheet 6.2, 8)."""

from collections.abc import Iterator, Mapping

from gpustack_components.api.command_line.owned import SGLANG_GATEWAY, VLLM_ROUTER
from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.render.origin import Origin, Segment
from gpustack_components.render.router.discovery import is_split, role_labels, shared_labels
from gpustack_components.render.router.identity import GRPC_HEALTH_PORT, HTTP_PORT, METRICS_PORT, router_of

PICKER_PROGRAM = "epp"
"""The picker's program in the router image."""
PROGRAMS: Mapping[str, str] = {VLLM_ROUTER: "vllm-router", SGLANG_GATEWAY: "sgl-model-gateway"}
"""The program of each argv router in the router image."""
CONFIG_PATH = "/config"
"""Where the programs of llm-d-router find their documents."""

_SWITCHES = {VLLM_ROUTER: "--vllm-pd-disaggregation", SGLANG_GATEWAY: "--pd-disaggregation"}
_FIXED = Origin("router listener (router 8)")


def proxy_arguments() -> tuple[Segment, ...]:
    """Arguments of the proxy in front of the picker."""
    return (Segment(("-c", f"{CONFIG_PATH}/envoy.yaml"), Origin("proxy (router 6.1)")),)


def picker_arguments(resolved: ResolvedDeployment) -> tuple[Segment, ...]:
    """Arguments of `epp`; its gRPC port serves the proxy in the same Pod alone, so neither TLS nor a login."""
    fixed = Origin("picker (router 6.2)")
    segments = [
        Segment(("--endpoint-selector=$(ENDPOINT_SELECTOR)",), Origin("discovery (router 6.4)", "metadata.name")),
        Segment(("--endpoint-target-ports=$(ENDPOINT_TARGET_PORTS)",), Origin("serving port (router 5)", "spec.roles")),
        Segment((f"--config-file={CONFIG_PATH}/epp.yaml",), fixed),
        Segment(("--secure-serving=false",), fixed),
        Segment((f"--grpc-health-port={GRPC_HEALTH_PORT}",), fixed),
        Segment(("--metrics-endpoint-auth=false",), fixed),
    ]
    return (*segments, *_own(resolved))


def router_arguments(resolved: ResolvedDeployment) -> tuple[Segment, ...]:
    """Arguments of `vllm-router` or `sgl-model-gateway`."""
    return (*_rendered(resolved), *_own(resolved))


def _rendered(resolved: ResolvedDeployment) -> Iterator[Segment]:
    router = router_of(resolved)
    yield Segment(("--host=0.0.0.0",), _FIXED)
    yield Segment((f"--port={HTTP_PORT}",), _FIXED)
    yield Segment(("--prometheus-host=0.0.0.0",), _FIXED)
    yield Segment((f"--prometheus-port={METRICS_PORT}",), _FIXED)
    timeout = router.declared.request_timeout_seconds
    if timeout is not None:
        origin = Origin("request timeout (router 9)", "spec.router.requestTimeoutSeconds")
        yield Segment((f"--request-timeout-secs={timeout}",), origin)
    if router.name == VLLM_ROUTER:
        yield Segment(("--kv-connector=mooncake",), Origin("transfer connector (router 8)", "spec.router.name"))
    discovery = "discovery (router 8)"
    yield Segment(("--service-discovery",), Origin(discovery))
    yield Segment((f"--service-discovery-namespace={resolved.namespace}",), Origin(discovery, "metadata.namespace"))
    yield Segment((f"--service-discovery-port={router.serving_port}",), Origin("serving port (router 5)", "spec.roles"))
    if not is_split(resolved):
        yield Segment(("--selector", *_words(shared_labels(resolved))), Origin(discovery, "metadata.name"))
        return
    yield Segment((_SWITCHES[router.name],), Origin("pair of roles (router 8)", "spec.roles[].kind"))
    for role in sorted(resolved.roles, key=lambda role: role.kind, reverse=True):
        if role.kind in ("Prefill", "Decode"):
            labels = role_labels(resolved, role)
            origin = Origin(discovery, f"spec.roles[{role.index}].name")
            yield Segment((f"--{role.kind.lower()}-selector", *_words(labels)), origin)


def _words(labels: Mapping[str, str]) -> list[str]:
    """One word per label: the routers cut each word at its first `=` and drop one without."""
    return [f"{key}={labels[key]}" for key in sorted(labels)]


def _own(resolved: ResolvedDeployment) -> Iterator[Segment]:
    """`spec.router.extraArgs`, entry by entry and last."""
    for index, entry in enumerate(router_of(resolved).declared.extra_args):
        yield Segment((entry,), Origin("own arguments (router 3)", f"spec.router.extraArgs[{index}]"))
