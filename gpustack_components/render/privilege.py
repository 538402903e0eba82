"""Security contexts: what the sheet grants and nothing more (rendering sheet 11)."""

import json
from typing import Any

from gpustack_components.api.command_line.flags import entry_name, normal_name
from gpustack_components.bindings.listen import role_tokens
from gpustack_components.bindings.resolve import ResolvedDeployment, ResolvedRole

_ENGRAM = "--engram-config"
_ENGRAM_OFFLOAD = f"{_ENGRAM}.cpu_offload"
_ENGRAM_HOST_TABLE = "SGLANG_ENABLE_DSV41_ENGRAM_HOST_TABLE"


def main_security(resolved: ResolvedDeployment, role: ResolvedRole) -> dict[str, Any] | None:
    """`main`'s security context: privileged where declared, memory-locking capabilities for Engram host memory,
    else none."""
    if role.declared.privileged:
        return {"privileged": True}
    if pins_host_memory(resolved.engine, role):
        return {"capabilities": {"add": ["IPC_LOCK", "SYS_RESOURCE"]}}
    return None


def pod_security(resolved: ResolvedDeployment, role: ResolvedRole) -> dict[str, Any] | None:
    """The Pod's security context: reuse of TIME_WAIT sockets on an SGLang prefiller, where the setting asks for
    it."""
    reuses = (
        resolved.settings.model_deployment_tcp_tw_reuse
        and role.family == "sglang"
        and role.split
        and role.kind == "Prefill"
        and not role.take_over
    )
    return {"sysctls": [{"name": "net.ipv4.tcp_tw_reuse", "value": "1"}]} if reuses else None


def pins_host_memory(engine: str, role: ResolvedRole) -> bool:
    """Whether the role turns Engram's host-memory offload on, as far as its arguments or environment say."""
    if engine == "SGLang":
        stated = [variable.value for variable in role.declared.env if variable.name == _ENGRAM_HOST_TABLE]
        return stated[-1:] == ["1"]
    tokens = role_tokens(role.declared)
    named, offload = False, True
    for index, token in enumerate(tokens):
        name = normal_name(engine, entry_name(token))
        if name != _ENGRAM and not name.startswith(f"{_ENGRAM}."):
            continue
        named = True
        _, inline, value = token.partition("=")
        if not inline:
            value = tokens[index + 1] if index + 1 < len(tokens) else ""
        if name == _ENGRAM:
            offload = _document_offloads(value)
        elif name == _ENGRAM_OFFLOAD:
            offload = value.strip().lower() not in ("false", "0")
    return named and offload


def _document_offloads(text: str) -> bool:
    try:
        document: object = json.loads(text)
    except ValueError:
        return True
    return not isinstance(document, dict) or document.get("cpu_offload", True) is not False  # pyright: ignore[reportUnknownMemberType]
