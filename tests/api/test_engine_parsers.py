"""Our readings against Python's own argparse, set up with the flags that a release of each engine registers.

The lists of flags come out of the engines' source (`tests/api/engine_flags.py`). vLLM's one addition to argparse that
matters here, dashes for underscores in long flags, is made below as its `FlexibleArgumentParser` does.
"""

import argparse
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from gpustack_components.api import command_line as cl
from gpustack_components.api.command_line.flags import reaches
from gpustack_components.api.command_line.owned import ARTIFACT_ARGUMENTS, KV_CACHE_DTYPE, OWNED_ARGUMENTS
from gpustack_components.api.command_line.parallelism import FLAGS

DATA = Path(__file__).parents[1] / "data" / "engine_parsers"
RELEASES = {"vLLM": "vllm-0.30.0", "SGLang": "sglang-0.5.23"}
LISTEN = ("--host", "--port", "--ssl-keyfile", "--ssl-certfile", "--ssl-cert-reqs")


class UnreadableError(Exception):
    """The engine would exit with a message about its arguments."""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UnreadableError(message)


@cache
def registered(engine: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What each flag of the release takes, and its spellings."""
    listed = yaml.safe_load((DATA / f"{RELEASES[engine]}.flags.yaml").read_text())["flags"]
    return tuple((kind, tuple(names)) for kind, *names in listed)


@cache
def spellings(engine: str) -> frozenset[str]:
    return frozenset(name for _, names in registered(engine) for name in names)


@cache
def parser(engine: str) -> Parser:
    built = Parser(add_help=True)
    for kind, names in registered(engine):
        extra: dict[str, Any] = {"default": None, "dest": next(name for name in names if name.startswith("--"))}
        if kind == "switch":
            extra["action"] = "store_true"
        elif kind == "switch-or-no":
            extra["action"] = argparse.BooleanOptionalAction
        elif kind == "int":
            extra["type"] = int
        elif kind == "list":
            extra["nargs"] = "+"
        built.add_argument(*names, **extra)
    return built


def parsed(engine: str, tokens: list[str]) -> dict[str, Any]:
    """What the engine would read, by canonical flag; raises `UnreadableError` where it would exit."""
    if engine == "vLLM":
        tokens = [_dashed(token) if token.startswith("--") else token for token in tokens]
    known, _ = parser(engine).parse_known_args(tokens)
    return {flag: value for flag, value in vars(known).items() if value is not None and value is not False}


def _dashed(token: str) -> str:
    name, equals, value = token.partition("=")
    head, dot, tail = name.partition(".")
    return head.replace("_", "-") + dot + tail + equals + value


def cases(engine: str) -> list[Any]:
    rows = yaml.safe_load((DATA / f"{engine.lower()}.yaml").read_text())["cases"]
    shared = [row for row in rows if "env" not in row and row.get("parser", True)]
    return [pytest.param(engine, row, id=f"{engine} {row['args']}") for row in shared]


@pytest.mark.parametrize(("engine", "row"), [*cases("vLLM"), *cases("SGLang")])
def test_the_engine_reads_what_we_read(engine: str, row: dict[str, Any]) -> None:
    read = parsed(engine, row["args"])
    kinds = {flag.name: flag.kind for flag in FLAGS[engine]}
    assert {flag: value for flag, value in read.items() if kinds.get(flag) == "degree"} == row.get("degrees", {})
    assert {flag for flag in read if kinds.get(flag) == "mode"} == set(row.get("modes", ()))
    assert {flag for flag in read if kinds.get(flag) == "wiring"} == set(row.get("wiring", ()))


@pytest.mark.parametrize("engine", RELEASES)
def test_every_flag_we_read_is_registered_with_its_aliases(engine: str) -> None:
    known = {name: set(names) for _, names in registered(engine) for name in names}
    for flag in FLAGS[engine]:
        assert set(flag.aliases) | {flag.name} == known[flag.name]
    for flag in (*OWNED_ARGUMENTS[engine], *ARTIFACT_ARGUMENTS[engine], KV_CACHE_DTYPE, "--served-model-name"):
        assert flag in known


@pytest.mark.parametrize("engine", RELEASES)
def test_a_flag_takes_a_value_where_we_expect_one(engine: str) -> None:
    takes = {name: not kind.startswith("switch") for kind, names in registered(engine) for name in names}
    assert {flag.name: flag.takes_value for flag in FLAGS[engine]} == {
        flag.name: takes[flag.name] for flag in FLAGS[engine]
    }


@pytest.mark.parametrize("engine", RELEASES)
@pytest.mark.parametrize("flag", LISTEN)
def test_a_prefix_of_a_listen_flag_is_read_as_the_engine_reads_it(engine: str, flag: str) -> None:
    known = spellings(engine)
    if flag not in known:
        pytest.skip(f"{engine} has no {flag}")
    for length in range(len("--x"), len(flag) + 1):
        prefix = flag[:length]
        meant = {name for name in (*known, "--help") if name.startswith(prefix)}
        assert reaches(engine, prefix, flag) == (prefix == flag or meant == {flag}), prefix


@pytest.mark.parametrize("engine", RELEASES)
def test_no_other_flag_of_the_engine_is_taken_for_one_of_ours(engine: str) -> None:
    for keys in (OWNED_ARGUMENTS[engine], ARTIFACT_ARGUMENTS[engine], (KV_CACHE_DTYPE,), ("--served-model-name",)):
        aliases = {name for _, names in registered(engine) for name in names if set(names) & set(keys)}
        taken = {name for name in spellings(engine) if cl.resolve_flag(engine, name, keys)}
        assert taken == aliases
