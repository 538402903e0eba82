"""The JSON documents an engine is handed: transfer connector, KV events, store client (rendering sheet 4)."""

import json
from typing import Any

from gpustack_components.bindings.listen import BOOTSTRAP_PORT, EVENTS_PORT, REPLAY_PORT
from gpustack_components.bindings.resolve import ResolvedDeployment, ResolvedRole

EVENTS_TOPIC = "kv@"
"""Topic of KV events."""
_STORE_CONNECTORS = {"vllm": "MooncakeStoreConnector", "vllm-ascend": "AscendStoreConnector"}
_LEG_CONNECTORS = {"vllm": "MooncakeConnector", "vllm-ascend": "MooncakeConnectorV1"}
_ROLES = {"Server": "kv_both", "Prefill": "kv_producer", "Decode": "kv_consumer"}
_LOCAL_BUFFER_BYTES = 128 << 20


def compact(document: dict[str, Any]) -> str:
    """The document as one command-line argument or annotation."""
    return json.dumps(document, separators=(",", ":"))


def transfer_document(resolved: ResolvedDeployment, role: ResolvedRole) -> dict[str, Any] | None:
    """vLLM's `--kv-transfer-config`; None when neither leg nor store is rendered (4.1)."""
    if role.leg and role.store:
        leg, store = _leg(resolved, role), _store(role)
        if role.kind == "Prefill":
            store["kv_role"] = "kv_both"
        return {
            "kv_connector": "MultiConnector",
            "kv_role": _ROLES[role.kind],
            "kv_connector_extra_config": {"connectors": [leg, store]},
        }
    if role.leg:
        return _leg(resolved, role)
    return _store(role) if role.store else None


def _store(role: ResolvedRole) -> dict[str, Any]:
    document: dict[str, Any] = {"kv_connector": _STORE_CONNECTORS[role.family], "kv_role": _ROLES[role.kind]}
    if role.cache_prefix:
        document["kv_connector_extra_config"] = {"cache_prefix": role.cache_prefix}
    return document


def _leg(resolved: ResolvedDeployment, role: ResolvedRole) -> dict[str, Any]:
    document: dict[str, Any] = {"kv_connector": _LEG_CONNECTORS[role.family], "kv_role": _ROLES[role.kind]}
    if role.family == "vllm-ascend":
        document["kv_port"] = BOOTSTRAP_PORT
        document["kv_connector_extra_config"] = ascend_degrees(resolved)
    else:
        document["kv_connector_extra_config"] = {"mooncake_protocol": role.direct_protocol}
    return document


def ascend_degrees(resolved: ResolvedDeployment) -> dict[str, Any]:
    """Both halves' declared degrees, as the Ascend leg carries them in each half's document."""
    return {
        kind.lower(): {"tp_size": degrees.tensor, "dp_size": degrees.data}
        for kind, degrees in sorted(resolved.parallel.items(), reverse=True)
    }


def events_document() -> dict[str, Any]:
    """vLLM's `--kv-events-config` (4.2)."""
    return {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": f"tcp://*:{EVENTS_PORT}",
        "replay_endpoint": f"tcp://*:{REPLAY_PORT}",
        "buffer_steps": 10000,
        "hwm": 100000,
        "max_queue_size": 100000,
        "topic": EVENTS_TOPIC,
    }


def client_document(role: ResolvedRole) -> dict[str, Any] | None:
    """The store client's configuration file of the vLLM family; None without a store (4.3)."""
    if role.store is None or role.family == "sglang":
        return None
    document: dict[str, Any] = {
        "metadata_server": "P2PHANDSHAKE",
        "master_server_address": role.store.endpoint,
        "protocol": role.store_protocol,
        "device_name": "",
        "mode": "standalone-store",
        "global_segment_size": 0,
        "local_buffer_size": _LOCAL_BUFFER_BYTES,
    }
    if role.store.tenant:
        document["tenant_id"] = role.store.tenant
    return document
