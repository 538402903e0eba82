"""The command of `main`, segment by segment in the order of the sheet (rendering sheet 3)."""

from collections.abc import Iterable, Iterator

from gpustack_components.api.command_line.flags import HOST, PORT, names_flag, served_names
from gpustack_components.api.command_line.owned import KV_CACHE_DTYPE, SERVED_MODEL_NAME
from gpustack_components.bindings.listen import BOOTSTRAP_PORT
from gpustack_components.bindings.resolve import ResolvedDeployment, ResolvedRole
from gpustack_components.render.documents import compact, events_document, transfer_document
from gpustack_components.render.origin import Origin, Segment

_ANY_ADDRESS = "0.0.0.0"  # noqa: S104


def path(role: ResolvedRole, field: str) -> str:
    """Field path of one of the role's fields."""
    return f"spec.roles[{role.index}].{field}"


def command(resolved: ResolvedDeployment, role: ResolvedRole) -> tuple[Segment, ...]:
    """Everything on `main`'s command line; `args` is never set."""
    if role.take_over:
        return (Segment(tuple(role.declared.command or ()), Origin("take-over (15.1)", path(role, "command"))),)
    own = tuple(role.declared.extra_args or ())
    synthesized = [*_base(resolved, role), *_connectors(resolved, role), *_defaulted(role, own)]
    stated = [Segment((token,), Origin("appended (3.1)", path(role, f"extraArgs[{i}]"))) for i, token in enumerate(own)]
    return (*synthesized, *stated, *_fill(resolved.engine, role, own))


def _base(resolved: ResolvedDeployment, role: ResolvedRole) -> Iterator[Segment]:
    spec = resolved.declared.spec
    artifact = resolved.artifact
    model = artifact.model if artifact else spec.model.name
    source = Origin("base command (3.1)", "spec.model.artifactRef" if artifact else "spec.model.name")
    if resolved.engine == "SGLang":
        yield Segment(("python3", "-m", "sglang.launch_server", "--model-path", model, "--enable-metrics"), source)
    else:
        yield Segment(("vllm", "serve", model), source)
    if artifact is None:
        return
    if artifact.delivery == "Engine":
        yield Segment(
            ("--revision", artifact.revision), Origin("engine delivery (3.1)", "ModelArtifact.status.resolved.revision")
        )
    if served_names(resolved.engine, role.declared.extra_args or ()) is None:
        yield Segment(
            (SERVED_MODEL_NAME, spec.model.name), Origin("served name beside an artifact (3.3)", "spec.model.name")
        )


def _connectors(resolved: ResolvedDeployment, role: ResolvedRole) -> Iterable[Segment]:
    if not role.connected:
        return ()
    return _sglang_connectors(resolved, role) if role.family == "sglang" else _vllm_connectors(resolved, role)


def _vllm_connectors(resolved: ResolvedDeployment, role: ResolvedRole) -> Iterator[Segment]:
    transfer = transfer_document(resolved, role)
    if transfer is not None:
        origin = Origin("transfer connector (4.1)", _transfer_inputs(resolved, role))
        yield Segment(("--kv-transfer-config", compact(transfer)), origin)
    yield from _dtype(resolved, role)
    if role.publish:
        yield Segment(("--kv-events-config", compact(events_document())), Origin("KV events (4.2)", "spec.router.name"))


def _transfer_inputs(resolved: ResolvedDeployment, role: ResolvedRole) -> str:
    """The fields that decide what stands in the transfer document."""
    fields = ["spec.router"] if role.leg else []
    if role.leg and role.family == "vllm-ascend":
        halves = [other for other in resolved.roles if other.kind in ("Prefill", "Decode")]
        fields += [path(half, "command" if half.take_over else "extraArgs") for half in halves]
    elif role.leg:
        fields.append("spec.kvTransfer.protocol")
    if role.store is not None:
        fields.append("spec.kvCache")
    *others, last = fields
    return f"{', '.join(others)} and {last}" if others else last


def _sglang_connectors(resolved: ResolvedDeployment, role: ResolvedRole) -> Iterator[Segment]:
    if role.store is not None:
        yield Segment(("--hicache-storage-backend", "mooncake"), Origin("store (3.2)", "spec.kvCache"))
        if role.cache_prefix:
            yield Segment(
                ("--hicache-storage-backend-extra-config", compact({"extra_backend_tag": role.cache_prefix})),
                Origin("key prefix (3.2)", "setting model-artifact-sglang-cache-prefix"),
            )
        yield from _dtype(resolved, role)
    if role.split:
        backend = "mooncake_tcp" if forces_tcp(role) else "mooncake"
        yield Segment(("--disaggregation-mode", role.kind.lower()), Origin("split (3.2)", path(role, "kind")))
        yield Segment(
            ("--disaggregation-transfer-backend", backend), Origin("direct transport (3.2)", "spec.kvTransfer.protocol")
        )
        if role.kind == "Prefill":
            yield Segment(
                ("--disaggregation-bootstrap-port", str(BOOTSTRAP_PORT)), Origin("split (3.2)", path(role, "kind"))
            )


def _dtype(resolved: ResolvedDeployment, role: ResolvedRole) -> Iterator[Segment]:
    if role.store is not None and role.store.domain.dtype and resolved.settings.model_deployment_kv_cache_dtype_owned:
        yield Segment(
            (KV_CACHE_DTYPE, role.store.domain.dtype),
            Origin("dtype of the store (3.2)", "KVCachePoolBinding.spec.domain.dtype"),
        )


def forces_tcp(role: ResolvedRole) -> bool:
    """Whether the transfer engine is pinned to TCP: the leg uses it and no store beside it uses another transport
    (3.2)."""
    return role.direct_protocol == "tcp" and role.store_protocol in ("", "tcp")


def _defaulted(role: ResolvedRole, own: tuple[str, ...]) -> Iterator[Segment]:
    if role.family != "sglang":
        return
    decoder = role.split and role.kind == "Decode"
    if role.store is not None and not decoder and not _states(own, "--enable-hierarchical-cache"):
        yield Segment(("--enable-hierarchical-cache",), Origin("default beside a store (3.2)", "spec.kvCache"))
    if decoder and not _states(own, "--disaggregation-decode-retraction-backup"):
        yield Segment(
            ("--disaggregation-decode-retraction-backup", "cpu_tensor"),
            Origin("default of a decoder (3.2)", path(role, "kind")),
        )


def _states(own: tuple[str, ...], flag: str) -> bool:
    return any(token == flag or token.startswith(f"{flag}=") for token in own)


def _fill(engine: str, role: ResolvedRole, own: tuple[str, ...]) -> Iterator[Segment]:
    """Host and port, each only where no token before names it: after `extraArgs`, against the letter of the seed
    (3.1)."""
    if not names_flag(engine, own, HOST):
        yield Segment((HOST, _ANY_ADDRESS), Origin("listen fill (3.1)"))
    if not names_flag(engine, own, PORT):
        field = path(role, "ports[0]") if role.declared.ports else ""
        yield Segment((PORT, str(role.listening.engine)), Origin("listen fill (3.1)", field))
