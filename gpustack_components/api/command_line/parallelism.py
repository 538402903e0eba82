"""The parallelism a command line declares, read as the engine's parser would (api sheet 4.8, 4.9, 4.11, 4.12)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import Final, Literal, Protocol

from gpustack_components.api.command_line.flags import (
    END_OF_FLAGS,
    INT64_MAX,
    entry_name,
    is_value,
    normal_name,
    read_integer,
)
from gpustack_components.api.command_line.owned import SGLANG, VLLM
from gpustack_components.api.command_line.parallel_flags import (
    DATA,
    DATA_LOCAL,
    ELASTIC_MAX,
    FLAGS,
    PIPELINE,
    PREFILL_CONTEXT,
    TENSOR,
    Flag,
)

DP_SIZE_VARIABLE: Final = "VLLM_DP_SIZE"
"""The variable vLLM reads a data-parallel degree from when no argument states one."""


class Variable(Protocol):
    """One entry of `roles[].env`."""

    @property
    def name(self) -> str:
        """The variable's name."""
        ...

    @property
    def value(self) -> str:
        """Its literal value."""
        ...


@dataclass(frozen=True, slots=True)
class _Table:
    """One engine's flags, indexed the three ways the scan asks for them."""

    spellings: Mapping[str, Flag]
    abbreviations: Mapping[str, Flag]

    @classmethod
    def of(cls, flags: tuple[Flag, ...]) -> "_Table":
        return cls(
            {spelling: flag for flag in flags for spelling in (flag.name, *flag.aliases)},
            {flag.abbreviation: flag for flag in flags if flag.abbreviation},
        )


_TABLES: Final = {engine: _Table.of(flags) for engine, flags in FLAGS.items()}


@dataclass(frozen=True, slots=True)
class ParallelismError:
    """Why one token, or `VLLM_DP_SIZE`, could not be read as a degree."""

    flag: str
    """The flag's canonical spelling, or the variable's name."""
    spelling: str
    """The token or the variable as written."""
    reason: str
    """What is wrong with it, as the rest of a sentence: `is given "two", which is not an integer`."""


@dataclass(frozen=True, slots=True)
class WidthDegree:
    """One factor of a member's width."""

    label: str
    """What the degree is called in prose, e.g. `tensor-parallel`."""
    flag: str
    """The flag, or the variable, that states it."""
    value: int
    """The degree."""


@dataclass(frozen=True, slots=True)
class BalanceShape:
    """Who spreads requests over the data-parallel ranks (4.12)."""

    shape: Literal["Internal", "External", "Hybrid", "MultiPort", "Unknown"]
    """The shape as status shows it."""
    reason: str = ""
    """Why the shape is Unknown; empty otherwise."""

    @property
    def every_member_serves(self) -> bool:
        """Whether each member of a replica answers for ranks of its own, and not the leader for all."""
        return self.shape in ("External", "Hybrid")


@dataclass(frozen=True, slots=True)
class Parallelism:
    """What a command line says about parallelism: degrees, modes and wiring, with every error of the reading."""

    engine: str
    """The engine whose parser was followed."""
    degrees: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Stated degrees by canonical flag; a repeated flag keeps its last. `VLLM_DP_SIZE` counts as data parallel."""
    modes: frozenset[str] = frozenset()
    """Switches that are on, by canonical flag."""
    wiring: frozenset[str] = frozenset()
    """Flags that wire members by hand, by canonical flag."""
    data_from_variable: bool = False
    """Whether the data-parallel degree comes from `VLLM_DP_SIZE`."""
    nodes: int = 0
    """The value of `--nnodes`; 0 when unstated or unreadable."""
    errors: tuple[ParallelismError, ...] = ()
    """Everything that could not be read, in order. While there is one, no degree may be relied on."""

    def _first(self, default: int, *flags: str) -> int:
        return next((self.degrees[flag] for flag in flags if flag in self.degrees), default)

    @property
    def tensor(self) -> int:
        """Tensor-parallel degree; 1 when unstated."""
        return self._first(1, TENSOR, "--tp-size")

    @property
    def pipeline(self) -> int:
        """Pipeline-parallel degree; 1 when unstated."""
        return self._first(1, PIPELINE, "--pp-size")

    @property
    def data(self) -> int:
        """Data-parallel degree over all members; 1 when unstated."""
        return self._first(1, DATA, "--dp-size")

    @property
    def data_local(self) -> int:
        """Data-parallel ranks of one member (vLLM); 0 when unstated."""
        return self._first(0, DATA_LOCAL)

    @property
    def elastic_max(self) -> int:
        """Widest elastic data-parallel world (vLLM); 0 when unstated."""
        return self._first(0, ELASTIC_MAX)

    @property
    def prefill_context(self) -> int:
        """Prefill context-parallel degree (vLLM); 1 when unstated."""
        return self._first(1, PREFILL_CONTEXT)

    @property
    def decode_context(self) -> int:
        """Decode context-parallel degree; 1 when unstated."""
        return self._first(1, "--decode-context-parallel-size", "--dcp-size")

    @property
    def expert(self) -> int:
        """Expert-parallel degree (SGLang); 1 when unstated."""
        return self._first(1, "--ep-size")

    @property
    def attention_context(self) -> int:
        """Attention context-parallel degree (SGLang); 1 when unstated."""
        return self._first(1, "--attn-cp-size")

    @property
    def moe_data(self) -> int:
        """Data-parallel degree of the expert layers (SGLang); 1 when unstated."""
        return self._first(1, "--moe-dp-size")

    @property
    def dwdp(self) -> int:
        """Distributed-weight data-parallel degree (SGLang); 1 when unstated."""
        return self._first(1, "--dwdp-size")

    def width_degrees(self) -> tuple[WidthDegree, ...]:
        """The degrees above 1 that multiply into one member's cards (4.11)."""
        if self.engine == VLLM:
            data = WidthDegree("data-parallel", DP_SIZE_VARIABLE if self.data_from_variable else DATA, self.data)
            factors = (
                WidthDegree("tensor-parallel", TENSOR, self.tensor),
                WidthDegree("pipeline-parallel", PIPELINE, self.pipeline),
                WidthDegree("prefill-context-parallel", PREFILL_CONTEXT, self.prefill_context),
                WidthDegree("local data-parallel", DATA_LOCAL, self.data_local) if self.data_local >= 1 else data,
            )
        elif self.engine == SGLANG:
            shares_cards = (
                "--enable-dp-attention" in self.modes or max(self.dwdp, self.moe_data, self.attention_context) > 1
            )
            factors = (
                WidthDegree("tensor-parallel", "--tp-size", self.tensor),
                WidthDegree("pipeline-parallel", "--pp-size", self.pipeline),
                WidthDegree("data-parallel", "--dp-size", 1 if shares_cards else self.data),
            )
        else:
            factors = ()
        return tuple(degree for degree in factors if degree.value > 1)

    @property
    def width(self) -> int | None:
        """Cards one member needs (4.11); None when the product no longer fits 64 bits."""
        width = prod(degree.value for degree in self.width_degrees())
        return width if width <= INT64_MAX else None

    def balance(self) -> BalanceShape:
        """Who spreads requests over data-parallel ranks, by the flags present (4.12)."""
        return _balance(self)


def read_parallelism(engine: str, tokens: Sequence[str], env: Iterable[Variable] = ()) -> Parallelism:
    """Read the degrees, modes and wiring that `tokens` and the literal variables `env` declare for `engine`.

    `tokens` is the role's argument stream: `command` of a take-over role, else `extraArgs`. Never raises; unknown
    tokens are ignored and everything unreadable is in `.errors`.
    """
    table = _TABLES.get(engine)
    if table is None:
        return Parallelism(engine)
    scan = _Scan(engine, table)
    scan.read(tokens)
    if engine == VLLM:
        scan.read_variable(env)
    return Parallelism(
        engine,
        MappingProxyType(scan.degrees),
        frozenset(scan.modes),
        frozenset(scan.wiring),
        scan.data_from_variable,
        scan.nodes,
        tuple(scan.errors),
    )


class _Scan:
    """One walk over one argument list."""

    def __init__(self, engine: str, table: _Table) -> None:
        self.engine = engine
        self.table = table
        self.degrees: dict[str, int] = {}
        self.modes: set[str] = set()
        self.wiring: set[str] = set()
        self.nodes = 0
        self.data_from_variable = False
        self.errors: list[ParallelismError] = []

    def read(self, tokens: Sequence[str]) -> None:
        position = 0
        while position < len(tokens):
            token = tokens[position]
            position += 1
            if token == END_OF_FLAGS:
                return
            if not token.startswith("-"):
                continue
            match = self._match(token)
            if match is None:
                continue
            flag, value = match
            if value is None and flag.takes_value and position < len(tokens) and is_value(tokens[position]):
                value = tokens[position]
                position += 1
            self._take(flag, token, value)

    def _match(self, token: str) -> tuple[Flag, str | None] | None:
        name, equals, inline = token.partition("=")
        attached = inline if equals else None
        key = normal_name(self.engine, name)
        flag = self.table.spellings.get(key)
        if flag is not None:
            return self._attach(flag, attached)
        flag = self.table.abbreviations.get(key)
        if flag is not None:
            if attached is None:
                return flag, None
            if flag.kind == "degree":
                self._fail(
                    flag,
                    token,
                    f"joins a value to an abbreviation, which not every Python reads alike; write {flag.name}={inline}",
                )
            return None
        if not key.startswith("--"):
            return self._glued(key, token) if attached is None and len(key) > len("-x") else None
        reached = [spelling for spelling in self.table.spellings if spelling.startswith(key)]
        return self._attach(self.table.spellings[reached[0]], attached) if len(reached) == 1 else None

    def _attach(self, flag: Flag, attached: str | None) -> tuple[Flag, str | None] | None:
        return None if attached is not None and not flag.takes_value else (flag, attached)

    def _glued(self, key: str, token: str) -> tuple[Flag, str | None] | None:
        short, rest = key[:2], key[2:]
        flag = self.table.spellings.get(short)
        if flag is not None:
            return flag, rest
        flag = self.table.abbreviations.get(short)
        if flag is not None:
            self._fail(
                flag,
                token,
                f"reads as {short} with a value glued on, an abbreviation of {flag.name}; write it apart",
            )
        return None

    def _take(self, flag: Flag, token: str, value: str | None) -> None:
        if flag.kind == "mode":
            self.modes.add(flag.name)
        elif flag.kind == "wiring":
            self.wiring.add(flag.name)
            if flag.name == "--nnodes":
                self.nodes = (value is not None and read_integer(value)) or 0
        elif value is None:
            self._fail(flag, token, "is given no value")
        else:
            self._store(flag, entry_name(token), value)

    def _store(self, flag: Flag, spelling: str, value: str) -> None:
        degree, reason = _read_degree(value, flag.minimum)
        if degree is None:
            self._fail(flag, spelling, reason)
        else:
            self.degrees[flag.name] = degree

    def read_variable(self, env: Iterable[Variable]) -> None:
        value = None
        for variable in env:
            if variable.name == DP_SIZE_VARIABLE:
                value = variable.value
        stated_local = self.degrees.get(DATA_LOCAL)
        if value is None or self.degrees.get(DATA, 1) > 1 or stated_local == 0:
            return
        degree, reason = _read_degree(value, 1)
        if degree is None:
            self.errors.append(ParallelismError(DP_SIZE_VARIABLE, DP_SIZE_VARIABLE, reason))
        else:
            self.degrees[DATA] = degree
            self.data_from_variable = True

    def _fail(self, flag: Flag, spelling: str, reason: str) -> None:
        self.errors.append(ParallelismError(flag.name, spelling, reason))


def _read_degree(value: str, minimum: int) -> tuple[int | None, str]:
    degree = read_integer(value)
    if degree is None:
        return None, f'is given "{value}", which is not an integer'
    if abs(degree) > INT64_MAX:
        return None, "is given a number out of the 64-bit range"
    if degree < minimum:
        return None, f"is given {degree}, below its minimum of {minimum}"
    return degree, ""


_EXTERNAL: Final = ("--data-parallel-external-lb", "--data-parallel-rank")
_HYBRID: Final = "--data-parallel-hybrid-lb"
_MULTI_PORT: Final = "--data-parallel-multi-port-external-lb"
_START_RANK: Final = "--data-parallel-start-rank"


def _balance(read: Parallelism) -> BalanceShape:
    votes: dict[Literal["External", "Hybrid", "MultiPort"], list[str]] = {}
    for flag in _EXTERNAL:
        if flag in read.wiring:
            votes.setdefault("External", []).append(flag)
    if _HYBRID in read.wiring:
        votes.setdefault("Hybrid", []).append(_HYBRID)
    if _MULTI_PORT in read.wiring:
        votes.setdefault("MultiPort", []).append(_MULTI_PORT)
    if _START_RANK in read.wiring and "External" in votes:
        votes.setdefault("Hybrid", []).append(_START_RANK)
    if len(votes) > 1:
        flags = ", ".join(flag for named in votes.values() for flag in named)
        return BalanceShape("Unknown", f"{flags} ask for different load balancers")
    if votes:
        (shape,) = votes
        return BalanceShape(_narrowed(read) if shape == "Hybrid" else shape)
    return _without_votes(read)


def _narrowed(read: Parallelism) -> Literal["External", "Hybrid", "Internal"]:
    if read.data_local == 1:
        return "External"
    return "Internal" if read.data_local == read.data else "Hybrid"


def _without_votes(read: Parallelism) -> BalanceShape:
    if _START_RANK not in read.wiring or "--headless" in read.wiring:
        return BalanceShape("Internal")
    if 0 < read.data_local < read.data:
        return BalanceShape("External" if read.data_local == 1 else "Hybrid")
    if read.data_local == 0 and "--nnodes" in read.wiring and read.nodes != 1:
        if read.nodes < 1:
            return BalanceShape("Unknown", f"{_START_RANK} stands beside an --nnodes that is no positive number")
        return BalanceShape(
            "Unknown", f"{_START_RANK} over {read.nodes} nodes needs {DATA_LOCAL} to tell the ranks of one member"
        )
    return BalanceShape("Internal")
