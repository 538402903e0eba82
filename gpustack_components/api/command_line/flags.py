"""Which flag an argument spells, read as the engine's own parser would.

Two questions, two resolvers, kept side by side because their answers differ on purpose:

`resolve_flag` asks *may the user write this?* Any prefix of an owned key counts, unique or not: an ambiguous prefix
only makes the engine exit, so refusing it early costs nobody anything (api sheet 4.2).

`reaches` asks *what will the engine do with this?* Only the exact spelling or a prefix that is unique among the flags
the engine registers counts, because an argument that merely shares a stem must not move a port or a probe (rendering
sheet 3.4). `--po` is `--port` on SGLang and nothing on vLLM, which also registers `--pooler-config`.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from gpustack_components.api.command_line.owned import (
    ARTIFACT_ARGUMENTS,
    KV_CACHE_DTYPE,
    OWNED_ARGUMENTS,
    SERVED_MODEL_NAME,
    SGLANG,
    VLLM,
)

HOST: Final = "--host"
"""The address the engine listens on."""
PORT: Final = "--port"
"""The port the engine listens on."""
SSL_KEYFILE: Final = "--ssl-keyfile"
"""Names a private key: the listener then speaks TLS."""
SSL_CERTFILE: Final = "--ssl-certfile"
"""Names a certificate: the listener then speaks TLS."""
SSL_CERT_REQS: Final = "--ssl-cert-reqs"
"""Whether vLLM asks clients for a certificate (0, 1 or 2); SGLang has no such flag."""

END_OF_FLAGS: Final = "--"
"""A bare `--`: no engine reads a flag after it."""

_LISTEN_FLAGS: Final = frozenset((HOST, PORT, SSL_KEYFILE, SSL_CERTFILE, SSL_CERT_REQS))

_REGISTERED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        VLLM: (
            HOST,
            "--headless",
            "--help",
            "--hf-config-path",
            "--hf-overrides",
            "--hf-token",
            PORT,
            "--performance-mode",
            "--pipeline-parallel-size",
            "--pooler-config",
            "--prefill-context-parallel-size",
            "--prefix-caching-hash-algo",
            "--profiler-config",
            SSL_KEYFILE,
            SSL_CERTFILE,
            SSL_CERT_REQS,
            "--ssl-ca-certs",
            "--ssl-ciphers",
            "--seed",
            SERVED_MODEL_NAME,
            "--skip-tokenizer-init",
            "--speculative-config",
            "--swap-space",
        ),
        SGLANG: (
            HOST,
            "--help",
            "--hicache-ratio",
            "--hicache-size",
            "--hicache-storage-backend",
            PORT,
            "--page-size",
            "--pipeline-parallel-size",
            "--pp-size",
            "--prefill-attention-backend",
            "--preferred-sampling-params",
            SSL_KEYFILE,
            SSL_CERTFILE,
            "--ssl-ca-certs",
            "--ssl-keyfile-password",
            "--sampling-backend",
            "--schedule-policy",
            SERVED_MODEL_NAME,
            "--skip-tokenizer-init",
            "--speculative-algorithm",
            "--stream-interval",
        ),
    }
)
"""Flags of each engine that share a stem with the ones read here, so that a prefix can be told unique or not."""

_OTHER_REGISTERED: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        VLLM: frozenset((*OWNED_ARGUMENTS[VLLM], *_LISTEN_FLAGS, "--tokenizer")),
        SGLANG: frozenset((*OWNED_ARGUMENTS[SGLANG], *_LISTEN_FLAGS)),
    }
)
"""Exact spellings that are flags of their own, so never a prefix of a longer owned key (`--tokenizer` beside
`--tokenizer-revision`, `--hicache-storage-backend` beside its `-extra-config`)."""

_NEGATIVE_NUMBER: Final = re.compile(r"-\d+$|-\d*\.\d+$")
_INTEGER: Final = re.compile(r"[+-]?(\d+(?:_\d+)*)")
_INT64_DIGITS: Final = 19
INT64_MAX: Final = 2**63 - 1
"""The largest number an engine's integer is read as; beyond it a value is out of range."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One place where a flag stands in an argument list."""

    index: int
    """Position of the token that spells the flag."""
    spelling: str
    """The name as written, without `=value`."""
    value: str | None
    """What the flag is given, inline or as the next token; None when it is given nothing."""


def entry_name(entry: str) -> str:
    """The flag an entry spells: the text before its first `=` (4.1)."""
    return entry.partition("=")[0]


def normal_name(engine: str, name: str) -> str:
    """The name as the engine's parser compares it: vLLM reads `_` as `-` before the first dot of a long flag."""
    if engine != VLLM or "_" not in name or not name.startswith("--"):
        return name
    head, dot, tail = name.partition(".")
    return head.replace("_", "-") + dot + tail


def resolve_flag(engine: str, entry: str, keys: Sequence[str]) -> str | None:
    """The one of `keys` that `entry` reaches, judged strictly for ownership (4.2); None when it reaches none.

    A prefix of a key is that key, the first in order when several fit; a longer flag never is, and neither is the exact
    spelling of another flag the engine registers.
    """
    if not entry.startswith("--"):
        return None
    name = normal_name(engine, entry_name(entry))
    if engine == VLLM:
        name = name.partition(".")[0]
    if name == END_OF_FLAGS:
        return None
    if name in keys:
        return name
    if name in _OTHER_REGISTERED.get(engine, _LISTEN_FLAGS):
        return None
    return next((key for key in keys if key.startswith(name)), None)


def reaches(engine: str, entry: str, flag: str) -> bool:
    """Whether the engine reads `entry` as `flag`: spelled exactly, or by a prefix unique to it (rendering 3.4)."""
    if not entry.startswith("--"):
        return False
    name = normal_name(engine, entry_name(entry))
    if name == flag:
        return True
    if len(name) <= len(END_OF_FLAGS) or not flag.startswith(name):
        return False
    return not any(other != flag and other.startswith(name) for other in _REGISTERED.get(engine, ()))


def is_value(token: str) -> bool:
    """Whether a parser would take the token as the value of the flag before it (4.8, "consumable")."""
    return not token.startswith("-") or _NEGATIVE_NUMBER.match(token) is not None


def read_integer(text: str) -> int | None:
    """The integer the engines read in `text` (4.9), or None; surrounding blanks, one sign and single `_` are allowed.

    A number too long for 64 bits is returned beyond `INT64_MAX` in size, never exactly.
    """
    match = _INTEGER.fullmatch(text.strip())
    if match is None:
        return None
    digits = match[1].replace("_", "").lstrip("0") or "0"
    size = int(digits) if len(digits) <= _INT64_DIGITS else INT64_MAX + 2
    return -size if match[0].startswith("-") else size


def occurrences(engine: str, tokens: Sequence[str], flag: str) -> Iterator[Occurrence]:
    """Every place where `tokens` name `flag` as the engine reads them, in order, up to a bare `--`."""
    for index, token in enumerate(tokens):
        if token == END_OF_FLAGS:
            return
        if reaches(engine, token, flag):
            name, equals, inline = token.partition("=")
            if equals:
                yield Occurrence(index, name, inline)
            else:
                following = tokens[index + 1] if index + 1 < len(tokens) else "-"
                yield Occurrence(index, name, following if is_value(following) else None)


def last_occurrence(engine: str, tokens: Sequence[str], flag: str) -> Occurrence | None:
    """The occurrence whose value the engine keeps: the last one, whatever its spelling."""
    return next(iter(deque(occurrences(engine, tokens, flag), maxlen=1)), None)


def names_flag(engine: str, tokens: Sequence[str], flag: str) -> bool:
    """Whether the engine would read any of `tokens` as `flag`, in any spelling it accepts."""
    return any(True for _ in occurrences(engine, tokens, flag))


def _last_integer(engine: str, tokens: Sequence[str], flag: str) -> int | None:
    last = last_occurrence(engine, tokens, flag)
    return None if last is None or last.value is None else read_integer(last.value)


def own_port(engine: str, tokens: Sequence[str]) -> int | None:
    """The role's own `--port`, last occurrence; None when unnamed, without a value or not an integer (4.7)."""
    return _last_integer(engine, tokens, PORT)


def scheme(engine: str, tokens: Sequence[str]) -> Literal["HTTP", "HTTPS"]:
    """`HTTPS` when the tokens name a key or a certificate file, else `HTTP`; no other TLS flag matters."""
    if names_flag(engine, tokens, SSL_KEYFILE) or names_flag(engine, tokens, SSL_CERTFILE):
        return "HTTPS"
    return "HTTP"


def ssl_cert_reqs(engine: str, tokens: Sequence[str]) -> int | None:
    """vLLM's `--ssl-cert-reqs`, last occurrence; None when unnamed or not an integer, and always on SGLang."""
    return _last_integer(engine, tokens, SSL_CERT_REQS) if engine == VLLM else None


def served_names(engine: str, tokens: Sequence[str]) -> tuple[str, ...] | None:
    """Every value `--served-model-name` is given, in order (4.6); None when no token reaches the flag.

    vLLM takes all tokens up to the next one starting with `-`, SGLang exactly one. The flag is found by `resolve_flag`,
    strictly, because its value is pinned.
    """
    named = False
    names: list[str] = []
    for index, token in enumerate(tokens):
        if token == END_OF_FLAGS:
            break
        if resolve_flag(engine, token, (SERVED_MODEL_NAME,)) is None:
            continue
        named = True
        _, equals, inline = token.partition("=")
        if equals:
            names.append(inline)
            continue
        for value in tokens[index + 1 :] if engine == VLLM else tokens[index + 1 : index + 2]:
            if value.startswith("-"):
                break
            names.append(value)
    return tuple(names) if named else None


def owned_argument(engine: str, entry: str) -> str | None:
    """The argument of the product's own that `entry` reaches on this engine (4.3), or None."""
    return resolve_flag(engine, entry, OWNED_ARGUMENTS.get(engine, ()))


def artifact_argument(engine: str, entry: str) -> str | None:
    """The argument owned while an artifact is referenced that `entry` reaches (4.4), or None."""
    return resolve_flag(engine, entry, ARTIFACT_ARGUMENTS.get(engine, ()))


def dtype_argument(engine: str, entry: str) -> bool:
    """Whether `entry` reaches `--kv-cache-dtype` (4.5)."""
    return resolve_flag(engine, entry, (KV_CACHE_DTYPE,)) is not None
