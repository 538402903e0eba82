"""Our readings of command lines, and the command lines we render, against the real parsers' answers."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpustack_components.api import command_line as cl
from gpustack_components.api.command_line.owned import (
    ARTIFACT_ARGUMENTS,
    KV_CACHE_DTYPE,
    OWNED_ARGUMENTS,
    ROUTER_ARGUMENTS,
    SERVED_MODEL_NAME,
)
from gpustack_components.api.command_line.parallel_flags import FLAGS, TENSOR
from tests.engine_parsers import answers, command_lines
from tests.engine_parsers.readings import disagreement
from tests.render.build import Json

FILES = {"vLLM": "vllm", "SGLang": "sglang"}
DIFFERENCES: list[Json] = yaml.safe_load((answers.FOLDER.parent / "differences.yaml").read_text(encoding="utf-8"))
ENGINES = pytest.mark.parametrize("engine", FILES)
ROUTERS = pytest.mark.parametrize("router", command_lines.ROUTERS)
AGAIN = "run `make engine-parsers` and review what it changes"


def differing(reader: str) -> dict[tuple[str, ...], str]:
    """The lines on which we are known to differ, with the reason."""
    return {tuple(args): group["because"] for group in DIFFERENCES if group["of"] == reader for args in group["lines"]}


@ENGINES
def test_every_spelled_form_was_shown_to_the_engines_parser(engine: str) -> None:
    asked = {tuple(row["args"]) for row in answers.read(FILES[engine])["lines"]}
    missing = [line for line in command_lines.lines(engine) if line not in asked]
    assert not missing, AGAIN


@ENGINES
def test_we_read_what_the_engine_reads_except_for_the_listed_differences(engine: str) -> None:
    found = {tuple(row["args"]): disagreement(engine, row) for row in answers.read(FILES[engine])["lines"]}
    known = differing(engine)
    assert {args: said for args, said in found.items() if said and args not in known} == {}
    assert [args for args in known if not found.get(args)] == [], "listed as differences, and none"


@ENGINES
def test_every_flag_we_read_is_one_of_the_engine_with_its_spellings_and_what_it_takes(engine: str) -> None:
    known = {flags[1]: flags for flags in answers.read(FILES[engine])["flags"]}
    for flag in FLAGS[engine]:
        kind, *spellings = known[flag.name]
        assert set(spellings) == {flag.name, *flag.aliases}
        assert kind.startswith("switch") != flag.takes_value
    others = (*OWNED_ARGUMENTS[engine], *ARTIFACT_ARGUMENTS[engine], *command_lines.listen_flags(engine))
    for name in (*others, KV_CACHE_DTYPE, SERVED_MODEL_NAME):
        assert name in known


@ENGINES
def test_no_other_flag_of_the_engine_is_taken_for_one_we_judge(engine: str) -> None:
    flags = answers.read(FILES[engine])["flags"]
    for keys in (OWNED_ARGUMENTS[engine], ARTIFACT_ARGUMENTS[engine], (KV_CACHE_DTYPE,), (SERVED_MODEL_NAME,)):
        ours = {name for _, *spellings in flags for name in spellings if set(spellings) & set(keys)}
        assert {name for _, *names in flags for name in names if cl.resolve_flag(engine, name, keys)} == ours


@ENGINES
def test_every_command_we_render_is_accepted_by_the_engine(engine: str) -> None:
    heard = {tuple(row["command"]): row for row in answers.read(FILES[engine])["commands"]}
    for name, command in command_lines.rendered(engine).items():
        assert command in heard, f"{name}: {AGAIN}"
        said = heard[command]
        if {(token,) for token in command} & differing(f"{engine} commands").keys():
            assert "error" in said, name
            continue
        assert "sets" in said, f"{name}: {said.get('error')}"
        assert "refused" not in said, name
        assert disagreement(engine, {"args": list(command), **said}) is None, name


@pytest.mark.parametrize("row", answers.read("vllm")["documents"], ids=lambda row: f"{row['flag']} {row['document']}")
def test_a_document_we_render_loads_in_vllms_configuration(row: Json) -> None:
    assert row.get("loads"), row.get("error")
    for name, registered in row.get("connectors", {}).items():
        assert registered != ((name,) in differing("vLLM connectors")), name


def test_every_document_we_render_was_shown_to_vllm() -> None:
    shown = {(row["flag"], row["document"]) for row in answers.read("vllm")["documents"]}
    assert set(command_lines.documents(command_lines.rendered("vLLM").values())) <= shown, AGAIN


@ENGINES
def test_a_store_client_reads_what_it_is_given(engine: str) -> None:
    heard = answers.read(FILES[engine])["stores"]
    assert [row["given"] for row in heard] == command_lines.stores(engine), AGAIN
    assert heard
    for row in heard:
        given, reads = row["given"], row.get("reads")
        assert reads is not None, row.get("error")
        if engine == "vLLM":
            defaults = {"enable_offload": False, "tenant_id": "default"}
            assert reads == defaults | given
            continue
        assert reads["local_hostname"] == command_lines.POD_IP
        assert reads["metadata_server"] == "P2PHANDSHAKE"
        assert reads["master_server_address"] == given["MOONCAKE_MASTER"]
        assert (reads["protocol"], reads["device_name"]) == (given["MOONCAKE_PROTOCOL"], "")
        assert (reads["global_segment_size"], reads["standalone_storage"]) == (0, False)
        assert reads["tenant_id"] == given.get("MOONCAKE_TENANT_ID", "default")


@pytest.mark.parametrize("row", answers.read("vllm")["variables"], ids=lambda row: f"{row['args']} {row['env']}")
def test_the_data_parallel_variable_counts_where_vllm_counts_it(row: Json) -> None:
    read = cl.read_parallelism("vLLM", row["args"], [Entry(*pair) for pair in row["env"].items()])
    if "error" in row:
        assert read.errors
    else:
        assert not read.errors
        assert read.data == row["data_parallel_size"]


class Entry:
    """One variable."""

    def __init__(self, name: str, value: str) -> None:
        self.name = name
        self.value = value


@ROUTERS
def test_a_routers_owned_flags_are_its_own_and_taken_as_we_write_them(router: str) -> None:
    said = answers.read("routers")[router]
    registered = {spelling for _, *spellings in said["flags"] for spelling in spellings}
    assert ROUTER_ARGUMENTS[router] <= registered
    heard = {tuple(row["command"]): row for row in said["commands"]}
    for name, command in command_lines.router_commands(router).items():
        assert "sets" in heard[command], f"{name}: {heard[command].get('error')}"


@ROUTERS
def test_a_router_reads_no_owned_flag_we_do_not_see_except_for_the_listed_differences(router: str) -> None:
    known = differing(router)
    rows = answers.read("routers")[router]["lines"]
    assert {tuple(row["args"]) for row in rows} >= set(command_lines.router_lines(router)), AGAIN
    for row in rows:
        reached = row.get("sets", {}).keys() & ROUTER_ARGUMENTS[router]
        seen = {cl.entry_name(row["args"][0])} & ROUTER_ARGUMENTS[router]
        unseen = bool(reached - seen)
        assert unseen == (tuple(row["args"]) in known), row


def test_a_difference_is_listed_with_its_reason() -> None:
    assert all(len(group["because"]) > len(TENSOR) for group in DIFFERENCES)
    listed: list[Any] = [(group["of"], tuple(args)) for group in DIFFERENCES for args in group["lines"]]
    assert len(listed) == len(set(listed))
    assert Path(answers.FOLDER).is_dir()
