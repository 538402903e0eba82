"""Transport protocols: Mooncake's spelling, a backend's offers, which offer an engine takes, the interface key
(bindings sheet 4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gpustack_components.api.kv_cache import KVCacheBackend

Family = Literal["vllm", "vllm-ascend", "sglang"]
"""The engine as connectors see it: vLLM splits by accelerator manufacturer, SGLang does not (rendering sheet 1)."""

SPELLINGS = {
    "": "tcp",
    "Auto": "tcp",
    "TCP": "tcp",
    "RDMA": "rdma",
    "EFA": "efa",
    "CANN": "ascend",
    "ROCM": "hip",
    "MUSA": "musa",
    "MACA": "maca",
}
"""Protocol of the API to Mooncake's spelling; `Auto` is never a probe."""

REQUIRED = {"vllm-ascend": "ascend"}
"""The one transport a family's store client accepts; a family not named here takes the first offer."""

RDMA_SHARED_KEY = "device.gpustack.ai/rdma.shared"
"""One concurrent use of an RDMA interface."""
RDMA_KEY = "device.gpustack.ai/rdma"
"""Whole RDMA interfaces."""
EFA_KEY = "vpc.amazonaws.com/efa"
"""EFA devices."""


def spelling(protocol: str | None) -> str:
    """Mooncake's name of an API protocol; unset reads as `Auto`, an unknown value gives empty text."""
    return SPELLINGS.get(protocol or "", "")


def offers(backend: "KVCacheBackend") -> tuple[str, ...]:
    """Effective protocols of the backend's member groups in their order; one backend-wide value when it has none."""
    wide = backend.spec.transport.protocol if backend.spec.transport else None
    managed = backend.spec.connection.managed if backend.spec.connection else None
    groups = (managed.members or ()) if managed else ()
    if not groups:
        return (spelling(wide),)
    return tuple(spelling((group.transport.protocol if group.transport else None) or wide) for group in groups)


def taken_offer(family: Family, offered: Sequence[str]) -> str | None:
    """The first offer the engine's store client accepts; None when it accepts none of them (bindings sheet 4.2)."""
    required = REQUIRED.get(family)
    usable = [offer for offer in offered if offer]
    if required is None:
        return usable[0] if usable else None
    return required if required in usable else None


@dataclass(frozen=True, slots=True)
class InterfaceVerdict:
    """What a positive `resources.interface` turns into (bindings sheet 4.5)."""

    key: str = ""
    """Resource key to request; empty when there is none."""
    problem: str = ""
    """Why there is no key, naming the protocols in the way and the way out; empty when there is one."""


def interface_key(store_offers: Sequence[str], direct: str, count: int) -> InterfaceVerdict:
    """The resource key of `count` fabric interfaces, or why there is no path for them.

    `store_offers` are the bound backend's offers (empty without a cache or on a take-over role), `direct` the
    protocol of the role's direct leg (empty without one).
    """
    distinct = list(dict.fromkeys(store_offers))
    if len(distinct) > 1:
        return InterfaceVerdict(
            problem=f"the cache backend's groups offer different protocols ({', '.join(store_offers)}), "
            "so no one interface serves them; give every group one protocol, or bind another pool"
        )
    fabrics = tuple(dict.fromkeys(p for p in (*distinct, direct) if p in ("rdma", "efa")))
    if len(fabrics) > 1:
        return InterfaceVerdict(
            problem=f"the store uses {distinct[0]} and the direct transfer {direct}, "
            "and one interface request cannot serve both; use the same protocol on both sides"
        )
    if not fabrics:
        used = ", ".join(dict.fromkeys(p for p in (*distinct, direct) if p))
        found = (
            f"the transfers of this role use {used}, which cannot use a fabric interface"
            if used
            else "this role has no managed transfer that a fabric interface could serve"
        )
        return InterfaceVerdict(
            problem=f"{found}; move the cache backend or spec.kvTransfer.protocol to RDMA or EFA, or drop the "
            "interface request"
        )
    if fabrics[0] == "efa":
        return InterfaceVerdict(key=EFA_KEY)
    return InterfaceVerdict(key=RDMA_SHARED_KEY if count == 1 else RDMA_KEY)
