"""The flags by which each engine states its parallel degrees, modes and wiring (api sheet 4.8)."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from gpustack_components.api.command_line.owned import SGLANG, VLLM


@dataclass(frozen=True, slots=True)
class Flag:
    """One row of an engine's flag table (4.8)."""

    name: str
    """Canonical long spelling."""
    kind: Literal["degree", "mode", "wiring"]
    """A number that is stored, a switch, or a flag that wires members together by hand."""
    aliases: tuple[str, ...] = ()
    """Other spellings the engine registers."""
    abbreviation: str = ""
    """A single-dash shortening the parser accepts although nobody registered it."""
    minimum: int = 1
    """Smallest degree the engine takes."""
    takes_value: bool = False
    """Whether a wiring flag is followed by a value."""


def _degree(name: str, *aliases: str, abbreviation: str = "", minimum: int = 1) -> Flag:
    return Flag(name, "degree", aliases, abbreviation, minimum, takes_value=True)


def _wiring(name: str, *aliases: str, takes_value: bool = True) -> Flag:
    return Flag(name, "wiring", aliases, takes_value=takes_value)


TENSOR: Final = "--tensor-parallel-size"
"""vLLM's tensor-parallel degree."""
PIPELINE: Final = "--pipeline-parallel-size"
"""vLLM's pipeline-parallel degree."""
DATA: Final = "--data-parallel-size"
"""vLLM's data-parallel degree."""
DATA_LOCAL: Final = "--data-parallel-size-local"
"""How many data-parallel ranks vLLM runs in this Pod; 0 reads as undeclared."""
ELASTIC_MAX: Final = "--elastic-ep-max-dp-size"
"""The widest data-parallel world vLLM's elastic expert parallelism may grow to."""
PREFILL_CONTEXT: Final = "--prefill-context-parallel-size"
"""vLLM's prefill context-parallel degree."""

FLAGS: Final[Mapping[str, tuple[Flag, ...]]] = MappingProxyType(
    {
        VLLM: (
            _degree(TENSOR, "-tp", abbreviation="-t"),
            _degree(PIPELINE, "-pp"),
            _degree(DATA, "-dp"),
            _degree(DATA_LOCAL, "-dpl", minimum=0),
            _degree(ELASTIC_MAX),
            _degree(PREFILL_CONTEXT, "-pcp", abbreviation="-pc"),
            _degree("--decode-context-parallel-size", "-dcp"),
            Flag("--enable-expert-parallel", "mode", ("-ep",), "-e"),
            _wiring("--nnodes", "-n"),
            _wiring("--node-rank", "-r"),
            _wiring("--master-addr"),
            _wiring("--master-port"),
            _wiring("--data-parallel-rank", "-dpn"),
            _wiring("--data-parallel-start-rank", "-dpr"),
            _wiring("--data-parallel-address", "-dpa"),
            _wiring("--data-parallel-rpc-port", "-dpp"),
            _wiring("--data-parallel-backend", "-dpb"),
            _wiring("--headless", takes_value=False),
            _wiring("--data-parallel-hybrid-lb", "-dph", takes_value=False),
            _wiring("--data-parallel-external-lb", "-dpe", takes_value=False),
            _wiring("--data-parallel-multi-port-external-lb", "-dpm", takes_value=False),
        ),
        SGLANG: (
            _degree("--tp-size", "--tensor-parallel-size"),
            _degree("--pp-size", "--pipeline-parallel-size"),
            _degree("--dp-size", "--data-parallel-size"),
            _degree("--ep-size", "--expert-parallel-size", "--ep"),
            _degree("--dcp-size", "--decode-context-parallel-size"),
            _degree("--attn-cp-size", "--attention-context-parallel-size"),
            _degree("--moe-dp-size", "--moe-data-parallel-size"),
            _degree("--dwdp-size"),
            Flag("--enable-dp-attention", "mode"),
            Flag("--enable-prefill-cp", "mode"),
            _wiring("--nnodes"),
            _wiring("--node-rank"),
            _wiring("--dist-init-addr", "--nccl-init-addr"),
        ),
    }
)
"""What each engine's parser registers about parallelism, by engine name (4.8)."""
