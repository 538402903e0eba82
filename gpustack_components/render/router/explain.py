"""Why everything in a router is there: its Deployment, its documents, its Service (`render --explain` and `--diff`).

Read off the rendered objects, so that an explanation cannot drift from them.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, cast

from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.cluster import keys
from gpustack_components.cluster.port import Json
from gpustack_components.render.explain import Explained, Part, secrets_told
from gpustack_components.render.origin import Origin, Segment
from gpustack_components.render.router.arguments import picker_arguments, proxy_arguments, router_arguments
from gpustack_components.render.router.config_map import documents
from gpustack_components.render.router.identity import router_of
from gpustack_components.render.router.stack import router_objects

_KINDS = "spec.roles[].kind"
_NAME = "metadata.name"
_PICKER, _PROXY = "picker document (router 6.5)", "proxy document (router 6.6)"
_DOCUMENTS: tuple[tuple[str, Origin], ...] = (
    (r"epp\.yaml .*\.modelName", Origin(_PICKER, "spec.model.name")),
    (r"epp\.yaml .*\.vllm\.url", Origin("tokenizer endpoint (router 10)", _KINDS)),
    (r"epp\.yaml .*\.podLabelSelector", Origin("discovery (router 6.4)", _NAME)),
    (r"epp\.yaml .*\.podNamespace", Origin(_PICKER, "metadata.namespace")),
    (r"epp\.yaml .*\.parameters\.port", Origin("serving port (router 5)", "spec.roles")),
    (r"epp\.yaml .*\.nonCachedTokens", Origin("threshold (router 9)", "spec.router.disaggregationThresholdTokens")),
    (r"epp\.yaml plugins\[(\w+-pods\].*|[\w-]+\]\.(pluginRef|weight))", Origin(_PICKER, _KINDS)),
    (r"epp\.yaml plugins\[(prefix-based|always-disagg|disagg-).*", Origin(_PICKER, _KINDS)),
    (r"epp\.yaml (plugins|engineConfigs|sources|extractors)\[.*", Origin(_PICKER, "spec.engine.name")),
    (r"epp\.yaml schedulingProfiles\[.*", Origin(_PICKER, _KINDS)),
    (r"epp\.yaml .*", Origin(_PICKER)),
    (r"envoy\.yaml .*\.route\.timeout", Origin("request timeout (router 9)", "spec.router.requestTimeoutSeconds")),
    (r"envoy\.yaml .*", Origin(_PROXY)),
    (r"endpoint-selector", Origin("discovery (router 6.4)", _NAME)),
    (r"endpoint-target-ports", Origin("serving port (router 5)", "spec.roles")),
    (r"extra-args\.json", Origin("own arguments (router 6.3)", "spec.router.extraArgs")),
)
_POD: dict[str, Origin] = {
    "serviceAccountName": Origin("access (router 4)", _NAME),
    "terminationGracePeriodSeconds": Origin(
        "drain", "setting model-deployment-router-drain-seconds and spec.router.requestTimeoutSeconds"
    ),
    "securityContext": Origin("restricted profile", "setting model-deployment-router-run-as-user"),
    "topologySpreadConstraints": Origin("spread", _NAME),
    "imagePullSecrets": Origin("images (router 7)", "spec.router.imagePullSecrets"),
    "volumes": Origin("documents (router 6.3)", _NAME),
}
_CONTAINER: dict[str, Origin] = {
    "imagePullPolicy": Origin("images (router 7)", "spec.router.imagePullPolicy"),
    "command": Origin("program (router 7)", "spec.router.name"),
    "lifecycle": _POD["terminationGracePeriodSeconds"],
    "readinessProbe": Origin("containers (router 6.1, 8)"),
    "securityContext": Origin("restricted profile"),
    "volumeMounts": Origin("containers (router 6.1)"),
}


def explain_router(resolved: ResolvedDeployment) -> tuple[Explained, ...]:
    """Everything in the deployment's router, object by object; nothing without one."""
    return tuple(secrets_told(line for manifest in router_objects(resolved) for line in _object(resolved, manifest)))


def _object(resolved: ResolvedDeployment, manifest: Json) -> Iterator[Explained]:
    match manifest["kind"]:
        case "ConfigMap":
            yield from _documents(resolved, manifest["data"])
        case "Service":
            for port in manifest["spec"]["ports"]:
                ports = f"{port['port']} -> {port['targetPort']}/{port['protocol']}"
                yield _line("port", "Service", ports, Origin("Service (router 4)"))
        case "Deployment":
            yield from _deployment(resolved, manifest["spec"])
        case "PodDisruptionBudget":
            origin = Origin("eviction", "spec.router.replicas")
            yield _line("field", "PodDisruptionBudget maxUnavailable", manifest["spec"]["maxUnavailable"], origin)
        case _:
            return


def _line(part: Part, name: str, value: Any, origin: Origin) -> Explained:
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return Explained(part, name, text, origin.rule, origin.field)


def _documents(resolved: ResolvedDeployment, contents: dict[str, str]) -> Iterator[Explained]:
    """Each value of the documents by its place, and the other keys as they are."""
    written = documents(resolved)
    for key, text in contents.items():
        for place, value in _leaves(written[key], "") if key in written else [("", text)]:
            name = f"{key} {place}".rstrip()
            yield _line("document", name, value, _origin(name))


def _leaves(value: Any, place: str, held: str = "") -> Iterator[tuple[str, Any]]:
    """Every value in a document. Its place starts at the innermost list around it, whose entries go by the name they
    carry, or by their number: whole paths would be wider than a page."""
    if isinstance(value, dict) and value:
        for key, inner in cast("Json", value).items():
            yield from _leaves(inner, f"{place}.{key}" if place else key, key)
    elif isinstance(value, list) and value:
        for index, inner in enumerate(cast("list[Any]", value)):
            yield from _leaves(inner, f"{held}[{_named(inner) or index}]")
    else:
        yield place, value


def _named(entry: Any) -> str:
    known = cast("Json", entry) if isinstance(entry, dict) else {}
    name: str = known.get("name") or known.get("pluginRef") or known.get("type") or ""
    return name.rpartition(".")[2]


def _origin(name: str) -> Origin:
    return next(origin for pattern, origin in _DOCUMENTS if re.fullmatch(pattern, name))


def _deployment(resolved: ResolvedDeployment, spec: dict[str, Any]) -> Iterator[Explained]:
    yield _line("field", "spec.replicas", spec["replicas"], Origin("copies (router 4)", "spec.router.replicas"))
    yield _line("field", "spec.strategy", spec["strategy"], Origin("replacement"))
    yield _line("field", "spec.selector", spec["selector"]["matchLabels"], Origin("labels (router 4)", _NAME))
    template = spec["template"]
    for key, value in template["metadata"]["labels"].items():
        yield _line(
            "label", key, value, Origin("labels (router 4)", "spec.router.name" if key == keys.ROUTER else _NAME)
        )
    for key, value in template["metadata"]["annotations"].items():
        hashed = Origin("hash of the documents (router 4)", "everything in the documents")
        yield _line("annotation", key, value, hashed if key == keys.ROUTER_CONFIG_HASH else Origin("scrape (router 4)"))
    for name, value in template["spec"].items():
        if name != "containers":
            yield _line("field", f"spec.{name}", value, _POD[name])
    for container in template["spec"]["containers"]:
        yield from _container(resolved, container)


def _container(resolved: ResolvedDeployment, container: dict[str, Any]) -> Iterator[Explained]:
    router, name = router_of(resolved), container["name"]
    setting = "proxy-image" if name == "envoy" else "image"
    own = name != "envoy" and router.declared.image
    image = "spec.router.image" if own else f"setting model-deployment-router-{setting}"
    yield _line("container", name, container["image"], Origin("images (router 7)", image))
    for field, origin in _CONTAINER.items():
        if field in container:
            yield _line("container field", f"{name} {field}", container[field], origin)
    for segment in _segments(resolved, name):
        yield _line("argument", segment.tokens[0], " ".join(segment.tokens), segment.origin)
    for entry in container.get("env", ()):
        yield _line("env", entry["name"], entry["valueFrom"], Origin("containers (router 6.1)"))
    for port in container["ports"]:
        number = f"{port['containerPort']}/{port['protocol']}"
        yield _line("port", port["name"], number, Origin("containers (router 6.1, 8)"))
    proxy = "proxy-" if name == "envoy" else ""
    for resource, amount in container.get("resources", {}).get("requests", {}).items():
        origin = Origin("requests", f"setting model-deployment-router-{proxy}{resource}-request")
        yield _line("request", f"{name} {resource}", amount, origin)


def _segments(resolved: ResolvedDeployment, container: str) -> tuple[Segment, ...]:
    if container == "envoy":
        return proxy_arguments()
    return picker_arguments(resolved) if container == "epp" else router_arguments(resolved)
