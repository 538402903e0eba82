"""Why a Pod is as it is: every argument, variable, port, mount, resource, label and annotation with its rule and
its input.

Made from the same values that are rendered, so an explanation cannot drift from the Pod (`render --explain`).
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

from gpustack_components.api.concealment import HIDDEN, concealed_text, telling
from gpustack_components.api.names import leader_address
from gpustack_components.bindings.resolve import ResolvedDeployment, ResolvedRole
from gpustack_components.cluster import keys
from gpustack_components.render.argv import path
from gpustack_components.render.environment import rank
from gpustack_components.render.origin import Origin
from gpustack_components.render.replica import render_replica
from gpustack_components.render.sidecar import routing_proxy
from gpustack_components.render.template import Template, template

Part = Literal[
    "field",
    "argument",
    "env",
    "port",
    "volume",
    "limit",
    "request",
    "label",
    "annotation",
    "container field",
    "container",
    "sidecar field",
    "sidecar argument",
    "sidecar env",
    "sidecar port",
    "document",
]
"""What kind of thing in a Pod or a router is explained."""
_FLAG = re.compile(r"--[\w-]+")


@dataclass(frozen=True, slots=True)
class Explained:
    """One thing in a Pod and why it is there."""

    part: Part
    """What kind of thing it is."""
    name: str
    """Flag, variable, key or field; for arguments without a flag, the first token."""
    value: str
    """What is rendered, as text; documents stay JSON."""
    rule: str
    """The rule that put it there, with its section of the rendering sheet."""
    field: str
    """The input it comes from; empty for a constant of the product."""
    secret: bool = False
    """Whether the value is a secret by its name, written out where a reference should stand."""

    def shown(self) -> "Explained":
        """The same without text that may be a secret."""
        name = HIDDEN if self.secret and self.part == "argument" else concealed_text(self.name)
        return replace(self, name=name, value=HIDDEN if self.secret else concealed_text(self.value))


def explain(
    resolved: ResolvedDeployment, role: ResolvedRole | str, ordinal: int = 0, member: int = 0
) -> tuple[Explained, ...]:
    """Everything in one member's Pod, in the order of the manifest. Raises what `render_replica` raises."""
    role = resolved.role(role) if isinstance(role, str) else role
    pod = render_replica(resolved, role, ordinal).members[member]
    shared = template(resolved, role)
    main = pod["spec"]["containers"][shared.main_index]
    lines = chain(
        _metadata(pod, role, shared),
        _pod_fields(pod["spec"], role),
        _main(resolved, role, shared, main, ordinal),
        _sidecar(resolved, role),
    )
    return tuple(secrets_told(lines))


def secrets_told(lines: Iterable[Explained]) -> Iterator[Explained]:
    """The lines, those whose value is a secret by the name of its variable or of the flag before it marked so."""
    flagged = False
    for line in lines:
        if line.part == "argument":
            secret = flagged and not line.value.startswith("-")
            yield replace(line, secret=True) if secret else line
            flagged = secret or (_FLAG.fullmatch(line.value) is not None and telling(line.value))
        else:
            yield replace(line, secret=True) if line.part == "env" and _written_out(line) else line


def _written_out(line: Explained) -> bool:
    return telling(line.name) and not line.value.startswith('{"secretKeyRef"')


def _line(part: Part, name: str, value: Any, origin: Origin) -> Explained:
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return Explained(part, name, text, origin.rule, origin.field)


def _metadata(pod: dict[str, Any], role: ResolvedRole, shared: Template) -> Iterator[Explained]:
    metadata = pod["metadata"]
    seat = Origin("seat (14)", path(role, "replicas"))
    known = {pair.key: pair.origin for pair in (*shared.labels, *shared.annotations)}
    naming = Origin("name (2)", path(role, "size"))
    for name in ("name", "generateName"):
        if name in metadata:
            yield _line("field", f"metadata.{name}", metadata[name], naming)
    for key, value in metadata["labels"].items():
        yield _line("label", key, value, known.get(key, seat))
    for key, value in metadata["annotations"].items():
        hashed = Origin("fingerprint (rollout 2.1)", "everything declared and resolved for this seat")
        yield _line("annotation", key, value, hashed if key == keys.POD_SPEC_HASH else known[key])


def _pod_fields(spec: dict[str, Any], role: ResolvedRole) -> Iterator[Explained]:
    origins = {
        "hostname": Origin("name (2)", path(role, "size")),
        "subdomain": Origin("name (2)", path(role, "size")),
        "imagePullSecrets": Origin("overlay (15.1)", path(role, "imagePullSecrets")),
        "runtimeClassName": Origin("runtime class of the cluster (13)", "InstanceType.status.detail.manufacturer"),
        "affinity": Origin("encoders beside prefill, prefill beside decode (19)", "spec.roles[].kind"),
        "securityContext": Origin("socket reuse (11)", "setting model-deployment-tcp-tw-reuse"),
        "terminationGracePeriodSeconds": Origin("grace (8)", path(role, "terminationGracePeriodSeconds")),
    }
    for name, value in spec.items():
        if name not in ("containers", "initContainers", "volumes"):
            yield _line("field", f"spec.{name}", value, origins.get(name, Origin("constant (13)")))


def _main(
    resolved: ResolvedDeployment, role: ResolvedRole, shared: Template, main: dict[str, Any], ordinal: int
) -> Iterator[Explained]:
    image = path(role, "image") if role.declared.image else "spec.engine.image"
    own_arguments = "command" if role.take_over else "extraArgs"
    privileged = "privileged" if role.declared.privileged else own_arguments if resolved.engine == "vLLM" else "env"
    origins = {
        "image": Origin("image (15.4)", image),
        "imagePullPolicy": Origin("overlay (15.1)", path(role, "imagePullPolicy")),
        "startupProbe": Origin("probe (7)", path(role, "startupTimeoutSeconds")),
        "readinessProbe": Origin("probe (7)"),
        "livenessProbe": Origin("probe (7)"),
        "lifecycle": Origin("drain hook (8)", path(role, "terminationGracePeriodSeconds")),
        "securityContext": Origin("security (11)", path(role, privileged)),
    }
    for name, origin in origins.items():
        if name in main:
            yield _line("container field", name, main[name], origin)
    for segment in shared.argv:
        yield _line("argument", segment.tokens[0], " ".join(segment.tokens), segment.origin)
    leader = leader_address(resolved.name, role.name, ordinal)
    for entry in (*shared.env, *rank(role, leader)):
        yield _line("env", entry.value["name"], entry.value.get("value", entry.value.get("valueFrom")), entry.origin)
    for entry in shared.ports:
        yield _line(
            "port", entry.value["name"], f"{entry.value['containerPort']}/{entry.value['protocol']}", entry.origin
        )
    for mounted in shared.mounted:
        where = mounted.mount["mountPath"] if mounted.mount else "not mounted, the role mounts its own there"
        source = {key: value for key, value in mounted.volume.items() if key != "name"}
        text = f"{where} from {json.dumps(source, separators=(',', ':'))}"
        yield _line("volume", mounted.volume["name"], text, mounted.origin)
    for pair in shared.limits:
        yield _line("limit", pair.key, pair.value, pair.origin)
    for pair in shared.requests:
        yield _line("request", pair.key, pair.value, pair.origin)


def _sidecar(resolved: ResolvedDeployment, role: ResolvedRole) -> Iterator[Explained]:
    """The routing proxy of a decoder, the only other container there is."""
    proxy = routing_proxy(resolved, role)
    if proxy is None:
        return
    rule = "routing proxy of a decoder (9.1)"
    external, own = Origin(rule, path(role, "ports")), Origin(rule, path(role, "extraArgs"))
    there = Origin(rule, "spec.router.name")
    image = Origin(rule, "setting model-deployment-routing-sidecar-image")
    yield _line("container", proxy["name"], proxy["image"], image)
    for name in ("imagePullPolicy", "securityContext", "restartPolicy"):
        if name in proxy:
            yield _line("sidecar field", name, proxy[name], there)
    origins = {"--port": external, "--model-server-port": own, "--kv-connector": Origin(rule, "spec.engine.name")}
    origins |= {"--enable-tls": own, "--tls-insecure-skip-verify": own}
    origins["--ec-connector"] = Origin(rule, "setting model-deployment-routing-sidecar-ec-connector")
    for token in proxy["args"]:
        flag = token.partition("=")[0]
        yield _line("sidecar argument", flag, token, origins.get(flag, there))
    for entry in proxy["env"]:
        yield _line("sidecar env", entry["name"], entry.get("value", entry.get("valueFrom")), there)
    for port in proxy["ports"]:
        yield _line("sidecar port", port["name"], f"{port['containerPort']}/{port['protocol']}", external)
