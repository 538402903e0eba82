"""The router's Deployment: its Pods, how they are replaced, and how they leave (router sheet 4, 6.1, 8)."""

from typing import Any

from gpustack_components.api.names import router_name
from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.bindings.router import ResolvedRouter
from gpustack_components.bindings.settings import Settings
from gpustack_components.cluster import keys
from gpustack_components.cluster.port import Json
from gpustack_components.render.environment import from_field
from gpustack_components.render.origin import Segment
from gpustack_components.render.router.arguments import (
    CONFIG_PATH,
    PICKER_PROGRAM,
    PROGRAMS,
    picker_arguments,
    proxy_arguments,
    router_arguments,
)
from gpustack_components.render.router.config_map import (
    ENDPOINT_SELECTOR,
    ENDPOINT_TARGET_PORTS,
)
from gpustack_components.render.router.drain import grace_seconds, linger
from gpustack_components.render.router.identity import (
    GRPC_HEALTH_PORT,
    GRPC_PORT,
    HTTP_PORT,
    METRICS_PORT,
    labels,
    metadata,
    router_of,
)

_CONFIG = "config"
_DISCOVERY_SECONDS = 5
"""What a router is given to find the engines: it listens before, and answers 503 until then."""
_SPREAD_OVER = ("kubernetes.io/hostname", "topology.kubernetes.io/zone")


def deployment(resolved: ResolvedDeployment, config_hash: str) -> Json:
    """The Deployment; `config_hash` is that of its ConfigMap, empty without one. A new Pod is ready before an old one
    goes, so that the router is never away."""
    router = router_of(resolved)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(resolved),
        "spec": {
            "replicas": router.replicas,
            "selector": {"matchLabels": labels(resolved)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": {
                "metadata": {"labels": labels(resolved), "annotations": _annotations(config_hash)},
                "spec": _pod(resolved, router),
            },
        },
    }


def _annotations(config_hash: str) -> dict[str, str]:
    annotations = {
        "prometheus.io/scrape": "true",
        "prometheus.io/path": "/metrics",
        keys.PROMETHEUS_PORT: str(METRICS_PORT),
        "prometheus.io/scheme": "http",
    }
    if config_hash:
        annotations[keys.ROUTER_CONFIG_HASH] = config_hash
    return annotations


def _pod(resolved: ResolvedDeployment, router: ResolvedRouter) -> dict[str, Any]:
    user = resolved.settings.model_deployment_router_run_as_user
    pod: dict[str, Any] = {
        "serviceAccountName": router_name(resolved.name),
        "terminationGracePeriodSeconds": grace_seconds(resolved),
        "securityContext": {
            "runAsNonRoot": True,
            **({"runAsUser": user, "runAsGroup": user} if user else {}),
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [_spread(resolved, key) for key in _SPREAD_OVER],
        "containers": [_proxy(resolved), _picker(resolved)] if router.picks else [_argv_router(resolved)],
    }
    if router.declared.image_pull_secrets:
        once = dict.fromkeys(secret.name for secret in router.declared.image_pull_secrets)
        pod["imagePullSecrets"] = [{"name": name} for name in once]
    if router.picks:
        pod["volumes"] = [{"name": _CONFIG, "configMap": {"name": router_name(resolved.name)}}]
    return pod


def _spread(resolved: ResolvedDeployment, key: str) -> dict[str, Any]:
    """Copies of one template apart where that is possible. Stated at every count, or scaling from one copy would
    replace it."""
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels(resolved)},
        "matchLabelKeys": ["pod-template-hash"],
    }


def _proxy(resolved: ResolvedDeployment) -> dict[str, Any]:
    router, settings = router_of(resolved), resolved.settings
    return {
        "name": "envoy",
        "image": router.proxy_image,
        "imagePullPolicy": router.proxy_pull_policy,
        "args": _tokens(proxy_arguments()),
        "ports": [_port("http", HTTP_PORT)],
        "readinessProbe": {"tcpSocket": {"port": HTTP_PORT}},
        "volumeMounts": [_mount()],
        **_requests(
            settings.model_deployment_router_proxy_cpu_request, settings.model_deployment_router_proxy_memory_request
        ),
        **_security(),
        **linger(resolved, "envoy"),
    }


def _picker(resolved: ResolvedDeployment) -> dict[str, Any]:
    router = router_of(resolved)
    return {
        "name": "epp",
        "image": router.image,
        "imagePullPolicy": router.image_pull_policy,
        "command": [PICKER_PROGRAM],
        "args": _tokens(picker_arguments(resolved)),
        "env": [
            _from_config("ENDPOINT_SELECTOR", resolved, ENDPOINT_SELECTOR),
            _from_config("ENDPOINT_TARGET_PORTS", resolved, ENDPOINT_TARGET_PORTS),
            from_field("NAMESPACE", "metadata.namespace"),
            from_field("POD_NAME", "metadata.name"),
        ],
        "ports": [_port("grpc", GRPC_PORT), _port("grpc-health", GRPC_HEALTH_PORT), _port("metrics", METRICS_PORT)],
        "readinessProbe": {"grpc": {"port": GRPC_HEALTH_PORT}, "initialDelaySeconds": _DISCOVERY_SECONDS},
        "volumeMounts": [_mount()],
        **_router_requests(resolved.settings),
        **_security(),
        **linger(resolved, "epp"),
    }


def _argv_router(resolved: ResolvedDeployment) -> dict[str, Any]:
    router = router_of(resolved)
    return {
        "name": "router",
        "image": router.image,
        "imagePullPolicy": router.image_pull_policy,
        "command": [PROGRAMS[router.name]],
        "args": _tokens(router_arguments(resolved)),
        "ports": [_port("http", HTTP_PORT), _port("metrics", METRICS_PORT)],
        "readinessProbe": {"tcpSocket": {"port": HTTP_PORT}, "initialDelaySeconds": _DISCOVERY_SECONDS},
        **_router_requests(resolved.settings),
        **_security(),
        **linger(resolved, "router"),
    }


def _tokens(segments: tuple[Segment, ...]) -> list[str]:
    return [token for segment in segments for token in segment.tokens]


def _port(name: str, number: int) -> dict[str, Any]:
    return {"name": name, "containerPort": number, "protocol": "TCP"}


def _mount() -> dict[str, Any]:
    return {"name": _CONFIG, "mountPath": CONFIG_PATH, "readOnly": True}


def _from_config(variable: str, resolved: ResolvedDeployment, key: str) -> dict[str, Any]:
    reference = {"name": router_name(resolved.name), "key": key, "optional": False}
    return {"name": variable, "valueFrom": {"configMapKeyRef": reference}}


def _router_requests(settings: Settings) -> dict[str, Any]:
    return _requests(settings.model_deployment_router_cpu_request, settings.model_deployment_router_memory_request)


def _requests(cpu: str, memory: str) -> dict[str, Any]:
    requests = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
    return {"resources": {"requests": requests}} if requests else {}


def _security() -> dict[str, Any]:
    return {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
