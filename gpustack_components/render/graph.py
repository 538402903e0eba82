"""A deployment as a text diagram: roles, ports, connectors, store, router, and the transfers that will silently not
happen.

The seed's prefill and decode page warns of legs that are missing while everything answers (`render --graph`).
"""

from collections.abc import Iterator
from itertools import pairwise

from gpustack_components.admission.volumes import meet
from gpustack_components.api.names import ROUTER_SERVICE_PORT, role_service, router_name
from gpustack_components.bindings.kv_cache import CLIENT_CONFIG_PATH
from gpustack_components.bindings.resolve import ResolvedDeployment, ResolvedRole
from gpustack_components.bindings.shape import PICKER, is_idle_encoder, is_pair
from gpustack_components.render.documents import client_document, transfer_document
from gpustack_components.render.services import every_member_serves
from gpustack_components.render.sidecar import ROUTING_PROXY

_LABEL_WIDTH = 10


def graph(resolved: ResolvedDeployment) -> str:
    """The diagram, followed by one line per mistake; ends with a line feed."""
    warnings = "".join(f"warning: {mistake}\n" for mistake in mistakes(resolved))
    return f"{diagram(resolved)}\n{warnings}" if warnings else diagram(resolved)


def diagram(resolved: ResolvedDeployment) -> str:
    """The diagram alone; ends with a line feed."""
    spec = resolved.declared.spec
    router = spec.router.name if spec.router else "no router"
    store = f"store {resolved.store.pool} at {resolved.store.endpoint}" if resolved.store else "no store"
    lines = [f"{resolved.namespace}/{resolved.name}: {resolved.engine}, {router}, {store}", ""]
    if spec.router:
        split = is_pair(spec)
        reached = ", ".join(r.name for r in resolved.roles if not (split and is_idle_encoder(spec, r.declared)))
        copies = f", {resolved.router.replicas} Pods" if resolved.router and resolved.router.replicas > 1 else ""
        front = f"{router_name(resolved.name)}:{ROUTER_SERVICE_PORT} ({router}{copies})"
        lines += [f"callers -> {front} -> {reached}", ""]
    else:
        lines += [f"callers -> {resolved.name} -> {resolved.roles[0].name}", ""]
    for role in resolved.roles:
        lines += [*_role(resolved, role), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _role(resolved: ResolvedDeployment, role: ResolvedRole) -> Iterator[str]:
    cards = ", ".join(f"{count} {key}" for key, count in role.resources.accelerators)
    each = f"{cards} each" if cards else "no accelerator"
    pods = "1 Pod" if role.size == 1 else f"{role.size} Pods"
    many = "1 replica" if role.replicas == 1 else f"{role.replicas} replicas"
    yield f"{role.name}: {role.kind}, {many} of {pods}, {each} ({role.declared.instance_type})"
    listening = role.listening
    front = f"{role_service(resolved.name, role.name)}:{listening.external[0].number}"
    proxy = f"{ROUTING_PROXY}:{listening.serving.number} -> " if role.proxy else ""
    members = "" if role.size == 1 else " of every member" if every_member_serves(role) else " of member 0"
    yield _labelled("serves", f"{front} -> {proxy}main:{listening.engine}{members}")
    for label, text in _connections(resolved, role):
        yield _labelled(label, text)


def _labelled(label: str, text: str) -> str:
    return f"  {label:<{_LABEL_WIDTH}} {text}"


def _connections(resolved: ResolvedDeployment, role: ResolvedRole) -> Iterator[tuple[str, str]]:
    if role.take_over:
        yield "command", "owned by the role; no connector is added"
    others = [other.name for other in resolved.roles if {other.kind, role.kind} == {"Prefill", "Decode"}]
    if role.leg or role.split:
        direction = "hands to" if role.kind == "Prefill" else "pulls from"
        yield direction, f"{', '.join(others)} by {_leg_connector(resolved, role)}"
    if role.store is not None:
        tenant = f"tenant {role.store.tenant}" if role.store.tenant else "no tenant"
        yield "stores", f"{role.store.pool} over {role.store_protocol}, {tenant}, {role.store.domain.dtype}"
    if role.publish:
        yield "publishes", "KV events on 5557, replay on 5558"


def _leg_connector(resolved: ResolvedDeployment, role: ResolvedRole) -> str:
    if role.family == "sglang":
        return f"SGLang disaggregation over {role.direct_protocol}"
    document = transfer_document(resolved, role) or {}
    connectors = document.get("kv_connector_extra_config", {}).get("connectors", [document])
    protocol = "ascend" if role.family == "vllm-ascend" else role.direct_protocol
    return f"{connectors[0]['kv_connector']} over {protocol}"


def mistakes(resolved: ResolvedDeployment) -> tuple[str, ...]:
    """What is accepted, answers, and does not do what it looks like: one sentence each with the way out."""
    return tuple(_mistakes(resolved))


def _mistakes(resolved: ResolvedDeployment) -> Iterator[str]:
    spec = resolved.declared.spec
    halves = [role for role in resolved.roles if role.kind in ("Prefill", "Decode")]
    if is_pair(spec) and spec.router is None:
        yield "nothing routes between prefill and decode: no request is ever split; set spec.router"
    if halves and not is_pair(spec):
        yield f"{halves[0].name} is half of a pair without the other, so it runs undivided; declare the other kind too"
    for role in halves:
        lost_leg = spec.router is not None and is_pair(spec) and not role.leg and not role.split
        if lost_leg and role.take_over:
            yield f"{role.name} owns its command, so its side of the transfer is its own; nothing is rendered for it"
        elif lost_leg:
            name = spec.router.name if spec.router else ""
            yield (f"{role.name} hands over no block: behind {name} an Ascend role has no transfer leg; use {PICKER}")
    for role in resolved.roles:
        if is_idle_encoder(spec, role.declared):
            yield (
                f"{role.name} gets no images to encode: only {PICKER} sends them, in front of Encode, Prefill and "
                "Decode; declare all three behind it"
            )
    families = {role.family for role in halves if not role.take_over}
    if is_pair(spec) and "vllm-ascend" in families and len(families) > 1:
        yield "prefill and decode speak different handshakes and no transfer forms; put both on one manufacturer"
        if resolved.store is not None:
            yield "an Ascend role and one of another manufacturer never find each other's blocks in the store"
    legs = [role.family for role in resolved.roles if role.leg]
    if spec.kv_transfer is not None and spec.kv_transfer.protocol:
        if not legs:
            yield "spec.kvTransfer renders nothing here: no role has a transfer leg"
        elif set(legs) == {"vllm-ascend"}:
            yield "spec.kvTransfer is not read on Ascend: its transfer leg always uses ascend"
    if spec.kv_cache is not None and resolved.store is None:
        yield f"no store is connected: {resolved.connection.message}"
    yield from _hidden_configuration(resolved)
    yield from _mixed_offers(resolved)


def _hidden_configuration(resolved: ResolvedDeployment) -> Iterator[str]:
    """Mounts that replace the store client's configuration, which no rule refuses (rendering sheet 10)."""
    for role in resolved.roles:
        if client_document(role) is None:
            continue
        for volume in role.declared.additional_volumes:
            if meet(volume.mount_path, CLIENT_CONFIG_PATH):
                yield (
                    f"{role.name} mounts {volume.mount_path}, and its store client reads that in place of the "
                    "connection to the store; mount it elsewhere"
                )


def _mixed_offers(resolved: ResolvedDeployment) -> Iterator[str]:
    offers = resolved.store.offers if resolved.store else ()
    free = [role for role in resolved.roles if role.store is not None and role.family != "vllm-ascend"]
    if free and any(one != other for one, other in pairwise(offers)):
        yield (
            f"the store's groups offer {', '.join(offers)}, and clients use {free[0].store_protocol} only: "
            "blocks on the others are never read; give every group one protocol"
        )
