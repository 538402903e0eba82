"""Our reading of a command line in the words of the parsers' answers: flag -> value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpustack_components.api import command_line as cl
from gpustack_components.api.command_line.flags import HOST, PORT, SSL_CERT_REQS, SSL_CERTFILE, SSL_KEYFILE
from gpustack_components.api.command_line.owned import (
    ARTIFACT_ARGUMENTS,
    KV_CACHE_DTYPE,
    OWNED_ARGUMENTS,
    SERVED_MODEL_NAME,
    VLLM,
)
from gpustack_components.api.command_line.parallel_flags import FLAGS

Sets = Mapping[str, Any]


@dataclass(frozen=True)
class Reading:
    """What we read of one command line."""

    read: dict[str, Any]
    """Flags read as the engine reads them, with numbers where we keep one, else True."""
    judged: dict[str, Any]
    """Flags judged strictly, because a user may not write them or only with one value."""
    errors: bool
    """Whether the reading is an error, and so a refusal."""


def ours(engine: str, args: Sequence[str]) -> Reading:
    """Our reading."""
    parallelism = cl.read_parallelism(engine, args)
    read: dict[str, Any] = {
        **parallelism.degrees,
        **dict.fromkeys((*parallelism.modes, *parallelism.wiring), True),
        **{flag: True for flag in (HOST, SSL_KEYFILE, SSL_CERTFILE) if cl.names_flag(engine, args, flag)},
        PORT: cl.own_port(engine, args),
        SSL_CERT_REQS: cl.ssl_cert_reqs(engine, args),
    }
    stop = args.index("--") if "--" in args else len(args)
    judged: dict[str, Any] = {}
    for keys in (OWNED_ARGUMENTS[engine], ARTIFACT_ARGUMENTS[engine], (KV_CACHE_DTYPE,)):
        for token in args[:stop]:
            reached = cl.resolve_flag(engine, token, keys)
            if reached:
                judged[reached] = True
    names = cl.served_names(engine, args)
    if names is not None:
        judged[SERVED_MODEL_NAME] = list(names)
    return Reading({flag: value for flag, value in read.items() if value is not None}, judged, bool(parallelism.errors))


def theirs(engine: str, sets: Sets) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parts of an answer that we read, and that we judge."""
    degrees = {flag.name for flag in FLAGS[engine] if flag.kind == "degree"} | {PORT, SSL_CERT_REQS}
    watched = {flag.name for flag in FLAGS[engine]} | {HOST, PORT, SSL_KEYFILE, SSL_CERTFILE}
    if engine == VLLM:
        watched.add(SSL_CERT_REQS)
    read = {flag: sets[flag] if flag in degrees else True for flag in sets.keys() & watched if sets[flag] is not False}
    strict = {*OWNED_ARGUMENTS[engine], *ARTIFACT_ARGUMENTS[engine], KV_CACHE_DTYPE}
    judged: dict[str, Any] = dict.fromkeys(sets.keys() & strict, True)
    if SERVED_MODEL_NAME in sets:
        served = sets[SERVED_MODEL_NAME]
        judged[SERVED_MODEL_NAME] = served if isinstance(served, list) else [served]
    return read, judged


def disagreement(engine: str, row: Mapping[str, Any]) -> str | None:
    """How our reading of a row differs from the parser's, or None.

    A line the engine runs with must be read alike and refused for nothing. A line it exits on must be an error, or read
    as nothing; refusing a flag in it costs nobody anything.
    """
    reading = ours(engine, row["args"])
    if "error" in row or "refused" in row:
        return f"reads {reading.read}, the engine exits" if reading.read and not reading.errors else None
    read, judged = theirs(engine, row["sets"])
    if reading.errors:
        return f"an error, the engine reads {read}"
    if reading.read != read:
        return f"reads {reading.read}, the engine {read}"
    return None if reading.judged == judged else f"judges {reading.judged}, the engine sets {judged}"
