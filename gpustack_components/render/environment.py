"""The environment of `main` and how it merges with the role's own (rendering sheet 5)."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from gpustack_components.api.command_line.owned import ARTIFACT_ENVIRONMENT, OWNED_ENVIRONMENT
from gpustack_components.bindings.artifact import MODEL_CACHE_PATH
from gpustack_components.bindings.kv_cache import CLIENT_CONFIG_PATH
from gpustack_components.bindings.listen import BOOTSTRAP_PORT
from gpustack_components.bindings.resolve import ResolvedDeployment, ResolvedRole
from gpustack_components.cluster.keys import MEMBER_INDEX
from gpustack_components.render.argv import forces_tcp, path
from gpustack_components.render.origin import Entry, Origin
from gpustack_components.render.volumes import CLIENT_CONFIG_FILE, COMPILE_CACHE_PATH

LEADER_ADDRESS = "GPUSTACK_REPLICA_LEADER_ADDRESS"
"""Variable that tells a member where its leader is."""
REPLICA_SIZE = "GPUSTACK_REPLICA_SIZE"
"""Variable that tells a member how many there are."""
MEMBER_INDEX_VARIABLE = "GPUSTACK_MEMBER_INDEX"
"""Variable that tells a member which one it is."""
_TOKEN_KEY = "token"  # noqa: S105


def literal(name: str, value: str) -> dict[str, Any]:
    """A variable with a value."""
    return {"name": name, "value": value}


def from_field(name: str, field_path: str) -> dict[str, Any]:
    """A variable that the kubelet fills from the Pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field_path}}}


def from_secret(name: str, secret: str, key: str) -> dict[str, Any]:
    """A variable that the kubelet fills from a Secret; its value is never read here."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def environment(resolved: ResolvedDeployment, role: ResolvedRole) -> tuple[Entry, ...]:
    """All variables of `main` but the rank variables, in order; no name twice."""
    entries = [] if role.take_over else [*_store(role), *_leg(role), *_artifact(resolved)]
    owned = OWNED_ENVIRONMENT.get(resolved.engine, frozenset())
    if resolved.artifact is not None and not role.take_over:
        owned |= ARTIFACT_ENVIRONMENT.get(resolved.engine, frozenset())
    stated = {variable.name for variable in role.declared.env}
    if not role.take_over:
        entries += [entry for entry in _defaults(resolved, role) if entry.value["name"] not in stated]
    at = {entry.value["name"]: index for index, entry in enumerate(entries)}
    for index, variable in enumerate(role.declared.env):
        if variable.name in owned:
            continue
        entry = Entry(literal(variable.name, variable.value), Origin("own variable (5.1)", path(role, f"env[{index}]")))
        if variable.name in at:
            entries[at[variable.name]] = entry
        else:
            at[variable.name] = len(entries)
            entries.append(entry)
    return tuple(entries)


def rank(role: ResolvedRole, leader: str) -> tuple[Entry, ...]:
    """What tells a member of a replica of several Pods its place; empty at size 1."""
    if role.size == 1:
        return ()
    origin = Origin("rank of a member (5.2)", path(role, "size"))
    return (
        Entry(literal(LEADER_ADDRESS, leader), origin),
        Entry(literal(REPLICA_SIZE, str(role.size)), origin),
        Entry(from_field(MEMBER_INDEX_VARIABLE, f"metadata.labels['{MEMBER_INDEX}']"), origin),
    )


def _store(role: ResolvedRole) -> Iterator[Entry]:
    store = role.store
    if store is None:
        return
    if role.family != "sglang":
        value = f"{CLIENT_CONFIG_PATH}/{CLIENT_CONFIG_FILE}"
        yield Entry(literal("MOONCAKE_CONFIG_PATH", value), Origin("store client (5.2)", "spec.kvCache"))
        return
    if store.tenant:
        yield Entry(
            literal("MOONCAKE_TENANT_ID", store.tenant),
            Origin("reuse domain (5.2)", "KVCachePoolBinding.spec.domain.name"),
        )
    yield Entry(
        literal("MOONCAKE_MASTER", store.endpoint), Origin("store client (5.2)", "KVCachePool.status.clientEndpoint")
    )
    client = Origin("store client (5.2)", "spec.kvCache")
    yield Entry(literal("MOONCAKE_TE_META_DATA_SERVER", "P2PHANDSHAKE"), client)
    yield Entry(
        literal("MOONCAKE_PROTOCOL", role.store_protocol),
        Origin("store transport (5.2)", "KVCacheBackend.spec.transport.protocol"),
    )
    yield Entry(literal("MOONCAKE_DEVICE", ""), client)
    yield Entry(literal("MOONCAKE_GLOBAL_SEGMENT_SIZE", "0"), client)
    yield Entry(from_field("MOONCAKE_LOCAL_HOSTNAME", "status.podIP"), client)


def _leg(role: ResolvedRole) -> Iterator[Entry]:
    if role.family == "vllm" and role.leg and role.kind == "Prefill":
        yield Entry(
            literal("VLLM_MOONCAKE_BOOTSTRAP_PORT", str(BOOTSTRAP_PORT)), Origin("direct leg (5.2)", "spec.router")
        )


def _artifact(resolved: ResolvedDeployment) -> Iterator[Entry]:
    artifact, settings = resolved.artifact, resolved.settings
    if artifact is None or artifact.delivery != "Engine":
        return
    engine_delivery = "engine delivery (5.2)"
    secret = Origin(engine_delivery, "ModelArtifact.spec.source secretRef")
    if artifact.hub == "HuggingFace":
        yield Entry(literal("HF_HOME", MODEL_CACHE_PATH), Origin(engine_delivery, "spec.model.artifactRef"))
        yield Entry(
            literal("HF_ENDPOINT", settings.model_artifact_huggingface_endpoint),
            Origin(engine_delivery, "setting model-artifact-huggingface-endpoint"),
        )
        if artifact.secret:
            yield Entry(from_secret("HF_TOKEN", artifact.secret, _TOKEN_KEY), secret)
        return
    yield Entry(literal("MODELSCOPE_CACHE", MODEL_CACHE_PATH), Origin(engine_delivery, "spec.model.artifactRef"))
    yield Entry(
        literal("MODELSCOPE_DOMAIN", urlsplit(settings.model_artifact_modelscope_endpoint).netloc),
        Origin(engine_delivery, "setting model-artifact-modelscope-endpoint"),
    )
    if artifact.secret:
        yield Entry(from_secret("MODELSCOPE_API_TOKEN", artifact.secret, _TOKEN_KEY), secret)
    switch = "SGLANG_USE_MODELSCOPE" if resolved.engine == "SGLang" else "VLLM_USE_MODELSCOPE"
    yield Entry(literal(switch, "true"), Origin(engine_delivery, "ModelArtifact.spec.source.modelScope"))


def _defaults(resolved: ResolvedDeployment, role: ResolvedRole) -> Iterator[Entry]:
    if role.connected:
        inputs = (("spec.kvCache", role.store is not None), ("spec.router", role.leg or role.publish))
        cause = " and ".join(field for field, causes in inputs if causes)
        yield Entry(literal("MC_TE_METRIC", "1"), Origin("default beside a connector (5.2)", cause))
    if role.family == "vllm" and role.leg and forces_tcp(role):
        yield Entry(literal("MC_FORCE_TCP", "1"), Origin("default of a TCP leg (5.2)", "spec.kvTransfer.protocol"))
    cache_root = "SGLANG_CACHE_DIR" if resolved.engine == "SGLang" else "VLLM_CACHE_ROOT"
    yield Entry(literal(cache_root, COMPILE_CACHE_PATH), Origin("compile cache (10.1)", "spec.engine.name"))
    settings = resolved.settings
    if resolved.artifact is not None and resolved.artifact.delivery == "Engine":
        for name, value, setting in (
            ("HTTPS_PROXY", settings.model_artifact_https_proxy, "model-artifact-https-proxy"),
            ("NO_PROXY", settings.model_artifact_no_proxy, "model-artifact-no-proxy"),
        ):
            if value:
                yield Entry(literal(name, value), Origin("engine delivery (5.2)", f"setting {setting}"))
