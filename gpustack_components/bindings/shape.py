"""Which parts of prefill/decode wiring a role gets, decided from the deployment alone (rendering sheet 1).

Both admission and rendering ask here, so they cannot disagree about a leg.
"""

from typing import TYPE_CHECKING

from gpustack_components.bindings.manufacturers import ASCEND
from gpustack_components.bindings.transport import Family, spelling

if TYPE_CHECKING:
    from gpustack_components.api.model_deployment import ModelDeploymentSpec, Role

PICKER = "llm-d-router"
"""The router whose picker names a prefiller per request; the only one with a decode proxy and an Ascend leg."""


def kind(role: "Role") -> str:
    """The role's effective kind: `Server` when unset."""
    return role.kind or "Server"


def takes_over(role: "Role") -> bool:
    """Whether the role owns its whole command line."""
    return bool(role.command)


def family(engine: str, manufacturer: str) -> Family:
    """The engine as connectors see it; an unobserved manufacturer counts as not Ascend."""
    if engine == "SGLang":
        return "sglang"
    return "vllm-ascend" if manufacturer == ASCEND else "vllm"


def is_pair(spec: "ModelDeploymentSpec") -> bool:
    """Whether at least one Prefill and one Decode role are declared; a lone half runs undivided."""
    kinds = {kind(role) for role in spec.roles}
    return {"Prefill", "Decode"} <= kinds


def has_leg(spec: "ModelDeploymentSpec", role: "Role", manufacturer: str) -> bool:
    """Whether the role hands blocks over directly: a router in front of a pair, and on Ascend that router is the
    picker."""
    if spec.router is None or not is_pair(spec) or kind(role) not in ("Prefill", "Decode"):
        return False
    return manufacturer != ASCEND or spec.router.name == PICKER


def is_split(spec: "ModelDeploymentSpec", role: "Role") -> bool:
    """Whether the role is half of an SGLang pair; a router is not required, and what is rendered also needs a
    connector."""
    return spec.engine.name == "SGLang" and is_pair(spec) and kind(role) in ("Prefill", "Decode")


def has_proxy(spec: "ModelDeploymentSpec", role: "Role") -> bool:
    """Whether the routing proxy fronts the engine: a managed Decode role behind the picker, on both engines."""
    return spec.router is not None and spec.router.name == PICKER and kind(role) == "Decode" and not takes_over(role)


def publishes(spec: "ModelDeploymentSpec", role: "Role", manufacturer: str) -> bool:
    """Whether the role publishes KV events: a managed, non-Ascend vLLM role behind the picker that is no decoder or
    encoder."""
    return (
        spec.router is not None
        and spec.router.name == PICKER
        and spec.engine.name == "vLLM"
        and manufacturer != ASCEND
        and not takes_over(role)
        and kind(role) in ("Server", "Prefill")
    )


def is_encoded(spec: "ModelDeploymentSpec") -> bool:
    """Whether images are encoded apart: Encode, Prefill and Decode roles behind the picker."""
    kinds = {kind(role) for role in spec.roles}
    return spec.router is not None and spec.router.name == PICKER and {"Encode", "Prefill", "Decode"} <= kinds


def is_idle_encoder(spec: "ModelDeploymentSpec", role: "Role") -> bool:
    """Whether the role encodes behind a router that sends it no images: no picker, or not all three kinds."""
    return spec.router is not None and kind(role) == "Encode" and not is_encoded(spec)


def tokenizer(spec: "ModelDeploymentSpec") -> "Role":
    """The role whose servers count tokens for the picker: the first by name that is Prefill, else Server, else of any
    kind (router sheet 10)."""
    ordered = sorted(spec.roles, key=lambda role: role.name)
    for wanted in ("Prefill", "Server"):
        for role in ordered:
            if kind(role) == wanted:
                return role
    return ordered[0]


def can_qualify(role: "Role") -> bool:
    """Whether members of the role can be labelled endpoint-eligible: a managed Server or Decode role (router sheet
    6.4)."""
    return kind(role) in ("Server", "Decode") and not takes_over(role)


def direct_protocol(spec: "ModelDeploymentSpec", role: "Role", manufacturer: str) -> str:
    """Protocol of the role's direct leg as the interface rule sees it; empty without one (bindings sheet 4.4).

    SGLang, Ascend, take-over roles and an unobserved manufacturer contribute nothing.
    """
    if takes_over(role) or spec.engine.name != "vLLM" or manufacturer in ("", ASCEND):
        return ""
    if not has_leg(spec, role, manufacturer):
        return ""
    return spelling(spec.kv_transfer.protocol if spec.kv_transfer else None)
