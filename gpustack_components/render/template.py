"""What all Pods of a role share, computed once: the template that `replica` stamps (rendering sheets 1 and 10 to
14)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from gpustack_components.bindings.listen import BOOTSTRAP_PORT, KV_EVENTS, KV_REPLAY, SGLANG_BOOTSTRAP, VLLM_BOOTSTRAP
from gpustack_components.bindings.resolve import ResolvedDeployment, ResolvedRole
from gpustack_components.bindings.resources import CPU, EPHEMERAL, MEMORY, overcommitted
from gpustack_components.cluster import keys
from gpustack_components.render.argv import command, path
from gpustack_components.render.documents import client_document, compact
from gpustack_components.render.environment import environment
from gpustack_components.render.lifecycle import drain_hook, grace_seconds, probes
from gpustack_components.render.origin import Entry, Origin, Pair, Segment
from gpustack_components.render.placement import affinity
from gpustack_components.render.privilege import main_security, pod_security
from gpustack_components.render.sidecar import container_port, routing_proxy
from gpustack_components.render.version import CURRENT
from gpustack_components.render.volumes import Mounted, download_capacity, volumes

SGLANG_BOOTSTRAP_ANNOTATION = "sglang.ai/bootstrap-port"
"""Tells the picker where an SGLang prefiller's bootstrap server listens."""


@dataclass(frozen=True, slots=True)
class Template:
    """One role's Pod without what differs from seat to seat. Its dicts are shared by every Pod stamped from it."""

    spec: dict[str, Any]
    """Pod spec, with `main` complete but for the rank variables."""
    main_index: int
    """Position of `main` in the spec's containers."""
    labels: tuple[Pair, ...]
    """Labels that do not name the seat."""
    annotations: tuple[Pair, ...]
    """Annotations but the hash."""
    label_values: dict[str, str]
    """`labels` as Pods carry them."""
    annotation_values: dict[str, str]
    """`annotations` as Pods carry them."""
    argv: tuple[Segment, ...]
    """The command of `main`."""
    env: tuple[Entry, ...]
    """Variables of `main` but the rank variables."""
    ports: tuple[Entry, ...]
    """Ports of `main`."""
    mounted: tuple[Mounted, ...]
    """Volumes and where `main` mounts them."""
    limits: tuple[Pair, ...]
    """Limits of `main`."""
    requests: tuple[Pair, ...]
    """Requests of `main`."""


_templates: "WeakKeyDictionary[ResolvedDeployment, dict[str, Template]]" = WeakKeyDictionary()


def template(resolved: ResolvedDeployment, role: ResolvedRole) -> Template:
    """The role's template; computed once per resolved deployment."""
    kept = _templates.setdefault(resolved, {})
    found = kept.get(role.name)
    if found is None:
        found = kept[role.name] = _build(resolved, role)
    return found


def _build(resolved: ResolvedDeployment, role: ResolvedRole) -> Template:
    argv, env = command(resolved, role), environment(resolved, role)
    ports, mounted = tuple(_ports(role)), volumes(resolved, role)
    limits, requests = resources(resolved, role)
    proxy = routing_proxy(resolved, role)
    main: dict[str, Any] = {"name": keys.MAIN_CONTAINER, "image": role.image}
    if role.declared.image_pull_policy:
        main["imagePullPolicy"] = role.declared.image_pull_policy
    main["command"] = [token for segment in argv for token in segment.tokens]
    if env:
        main["env"] = [entry.value for entry in env]
    main["ports"] = [entry.value for entry in ports]
    main["resources"] = {
        "limits": {pair.key: pair.value for pair in limits},
        "requests": {pair.key: pair.value for pair in requests},
    }
    main.update(probes(role))
    hook = drain_hook(resolved, role)
    if hook:
        main["lifecycle"] = hook
    security = main_security(resolved, role)
    if security:
        main["securityContext"] = security
    mounts = [item.mount for item in mounted if item.mount]
    if mounts:
        main["volumeMounts"] = mounts
    spec = _pod_spec(resolved, role, main, proxy, mounted)
    labels, annotations = tuple(_labels(resolved, role)), tuple(_annotations(role))
    return Template(
        spec=spec,
        main_index=len(spec["containers"]) - 1,
        labels=labels,
        annotations=annotations,
        label_values={pair.key: pair.value for pair in labels},
        annotation_values={pair.key: pair.value for pair in annotations},
        argv=argv,
        env=env,
        ports=ports,
        mounted=mounted,
        limits=limits,
        requests=requests,
    )


def _pod_spec(
    resolved: ResolvedDeployment,
    role: ResolvedRole,
    main: dict[str, Any],
    proxy: dict[str, Any] | None,
    mounted: tuple[Mounted, ...],
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Always",
    }
    if role.declared.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": secret.name} for secret in role.declared.image_pull_secrets]
    if role.runtime_class:
        spec["runtimeClassName"] = role.runtime_class
    wishes = affinity(resolved, role)
    if wishes:
        spec["affinity"] = wishes
    security = pod_security(resolved, role)
    if security:
        spec["securityContext"] = security
    grace = grace_seconds(role)
    if grace is not None:
        spec["terminationGracePeriodSeconds"] = grace
    if proxy is not None and resolved.native_sidecars:
        spec["initContainers"] = [proxy]
    spec["containers"] = [proxy, main] if proxy is not None and not resolved.native_sidecars else [main]
    if mounted:
        spec["volumes"] = [item.volume for item in mounted]
    return spec


def _ports(role: ResolvedRole) -> Iterator[Entry]:
    declared = {(p.port, p.protocol): i for i, p in enumerate(role.declared.ports)}
    connectors = {VLLM_BOOTSTRAP: "spec.router", SGLANG_BOOTSTRAP: path(role, "kind")}
    connectors |= dict.fromkeys((KV_EVENTS, KV_REPLAY), "spec.router.name")
    own = path(role, "command" if role.take_over else "extraArgs")
    for port in role.listening.container:
        index = declared.get((port.number, port.protocol))
        if index is not None:
            yield Entry(container_port(port), Origin("declared port (6)", path(role, f"ports[{index}]")))
        elif port in connectors:
            yield Entry(container_port(port), Origin("port of a connector (6)", connectors[port]))
        else:
            field = own if port.number == role.listening.own_port else ""
            yield Entry(container_port(port), Origin("port of the engine (3.5)", field))


def resources(resolved: ResolvedDeployment, role: ResolvedRole) -> tuple[tuple[Pair, ...], tuple[Pair, ...]]:
    """Limits and requests of `main` (rendering sheet 12)."""
    pod = role.resources
    unit = Origin("derived from the type (12)", "InstanceType.spec.unitResources")
    local = Origin("capped default (12)", "InstanceType.spec.localStorage")
    settled = Origin("overcommit (12)", "setting instance-general-resources-overcommit")
    card = Origin(f"{pod.mode} accelerator request (12)", path(role, "resources"))
    ephemeral, ephemeral_origin = pod.ephemeral, local
    if resolved.artifact is not None and resolved.artifact.cache_bytes and not role.take_over:
        ephemeral = ephemeral + download_capacity(resolved.artifact)
        ephemeral_origin = Origin(
            "capped default and the download volume (12)", "ModelArtifact.status.resolved.sizeBytes"
        )
    asked = [Pair(key, count, card) for key, count in pod.accelerators]
    if resolved.write_units:
        asked += [
            Pair(key, count, Origin("charge of a slice (12)", path(role, "resources"))) for key, count in pod.units
        ]
    key, count = role.interface
    if key:
        asked.append(Pair(key, str(count), Origin("fabric interfaces (12.2)", path(role, "resources.interface"))))
    limits = (
        Pair(CPU, pod.cpu.canonical(), unit),
        Pair(MEMORY, pod.memory.canonical(), unit),
        Pair(EPHEMERAL, ephemeral.canonical(), ephemeral_origin),
        *asked,
    )
    if resolved.settings.instance_general_resources_overcommit:
        cpu, memory, storage = overcommitted(pod, accelerated=role.accelerated)
    else:
        cpu, memory, storage, settled = pod.cpu, pod.memory, pod.ephemeral, unit
    requests = (
        Pair(CPU, cpu.canonical(), settled),
        Pair(MEMORY, memory.canonical(), settled),
        Pair(EPHEMERAL, storage.canonical(), settled),
        *asked,
    )
    return limits, requests


def _labels(resolved: ResolvedDeployment, role: ResolvedRole) -> Iterator[Pair]:
    constant = Origin("product label (14)")
    yield Pair(keys.APP_NAME, keys.APP_NAME_VALUE, constant)
    yield Pair(keys.APP_INSTANCE, resolved.name, Origin("selector label (14)", "metadata.name"))
    yield Pair(keys.APP_COMPONENT, role.name, Origin("selector label (14)", path(role, "name")))
    yield Pair(keys.APP_PART_OF, keys.PART_OF_VALUE, constant)
    yield Pair(keys.QUEUE_NAME, role.entrance, Origin("Kueue queue (14)", "InstanceType.status.entrance"))
    yield Pair(keys.ROLE_KIND, role.kind.lower(), Origin("role kind (14)", path(role, "kind")))


def _annotations(role: ResolvedRole) -> Iterator[Pair]:
    yield Pair(keys.GROUP_TOTAL, str(role.size), Origin("Kueue group (14)", path(role, "size")))
    yield Pair(keys.ROLE_HASH, role.name, Origin("Kueue PodSet name (14)", path(role, "name")))
    yield Pair(keys.GROUP_SERVING, "true", Origin("Kueue group (14)"))
    level = role.declared.topology.required_level if role.declared.topology else None
    if level:
        yield Pair(keys.REQUIRED_TOPOLOGY, level, Origin("topology (14)", path(role, "topology.requiredLevel")))
    yield Pair(keys.RENDER_VERSION, str(CURRENT), Origin("render version (14)"))
    if role.take_over:
        return
    client = client_document(role)
    if client is not None:
        yield Pair(keys.CLIENT_CONFIG, compact(client), Origin("store client configuration (4.3)", "spec.kvCache"))
    if role.family == "sglang" and role.split and role.kind == "Prefill":
        yield Pair(SGLANG_BOOTSTRAP_ANNOTATION, str(BOOTSTRAP_PORT), Origin("split (14)", path(role, "kind")))
    scrape = Origin("metrics scrape (14)")
    yield Pair("prometheus.io/scrape", "true", scrape)
    yield Pair("prometheus.io/path", "/metrics", scrape)
    yield Pair(keys.PROMETHEUS_PORT, str(role.listening.engine), scrape)
    yield Pair("prometheus.io/scheme", role.listening.scheme.lower(), scrape)
