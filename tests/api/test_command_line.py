"""The rows of api sheet 4 and rendering sheet 3.4, read from data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpustack_components.api import command_line as cl

DATA = Path(__file__).parents[1] / "data"
TABLES = yaml.safe_load((DATA / "command_line.yaml").read_text())
PARSERS = [yaml.safe_load((DATA / "engine_parsers" / f"{name}.yaml").read_text()) for name in ("vllm", "sglang")]


@dataclass(frozen=True)
class Entry:
    name: str
    value: str


def rows(table: str) -> Any:
    return pytest.mark.parametrize(
        "row", TABLES[table], ids=lambda row: f"{row['engine']} {row.get('args', row.get('entry'))}"
    )


def parallelism(row: dict[str, Any], engine: str) -> cl.Parallelism:
    return cl.read_parallelism(engine, row["args"], [Entry(*pair) for pair in row.get("env", {}).items()])


@rows("owned_argument")
def test_an_entry_reaches_the_owned_argument_its_engine_would_read(row: dict[str, Any]) -> None:
    assert cl.owned_argument(row["engine"], row["entry"]) == row.get("reaches")


@rows("dtype_argument")
def test_an_entry_reaches_the_cache_dtype(row: dict[str, Any]) -> None:
    assert cl.dtype_argument(row["engine"], row["entry"]) == row["reaches"]


@rows("artifact_argument")
def test_an_entry_reaches_an_argument_owned_by_the_artifact(row: dict[str, Any]) -> None:
    assert cl.artifact_argument(row["engine"], row["entry"]) == row.get("reaches")


@rows("own_port")
def test_the_last_readable_port_is_the_roles_own(row: dict[str, Any]) -> None:
    assert cl.own_port(row["engine"], row["args"]) == row.get("port")


@rows("named_host")
def test_a_listen_flag_is_named_by_a_unique_prefix_only(row: dict[str, Any]) -> None:
    assert cl.names_flag(row["engine"], row["args"], "--host") == row["named"]


@rows("scheme")
def test_a_key_or_a_certificate_turns_the_listener_to_tls(row: dict[str, Any]) -> None:
    assert cl.scheme(row["engine"], row["args"]) == row["scheme"]


@rows("ssl_cert_reqs")
def test_the_demand_for_client_certificates_is_read_on_vllm(row: dict[str, Any]) -> None:
    assert cl.ssl_cert_reqs(row["engine"], row["args"]) == row.get("value")


@rows("served_names")
def test_every_served_name_is_collected(row: dict[str, Any]) -> None:
    names = cl.served_names(row["engine"], row["args"])
    assert (names if names is None else list(names)) == row.get("names")


@rows("width")
def test_the_width_of_one_member(row: dict[str, Any]) -> None:
    assert parallelism(row, row["engine"]).width == row["width"]


@rows("balance")
def test_the_load_balance_shape(row: dict[str, Any]) -> None:
    balance = parallelism(row, row["engine"]).balance()
    assert balance.shape == row["shape"]
    assert bool(balance.reason) == (row["shape"] == "Unknown")
    assert all(flag in balance.reason for flag in row.get("naming", ()))


@pytest.mark.parametrize(
    ("engine", "row"),
    [
        pytest.param(table["engine"], row, id=f"{table['engine']} {row['args']}")
        for table in PARSERS
        for row in table["cases"]
    ],
)
def test_a_spelled_form_is_read(engine: str, row: dict[str, Any]) -> None:
    read = parallelism(row, engine)
    assert dict(read.degrees) == row.get("degrees", {})
    assert read.modes == set(row.get("modes", ()))
    assert read.wiring == set(row.get("wiring", ()))
    assert [error.flag for error in read.errors] == row.get("errors", [])


TOKENS = st.lists(
    st.one_of(
        st.sampled_from(
            ["-tp", "--tp-size", "-t", "-n2", "--nnodes", "--", "-", "--port", "2", "-2", "--served-model-name"]
        ),
        st.text(max_size=8),
        st.text(max_size=6).map("--".__add__),
    )
)


@given(st.sampled_from(["vLLM", "SGLang", "other"]), TOKENS, TOKENS)
def test_reading_never_raises_and_ignores_everything_after_a_bare_dashdash(
    engine: str, before: list[str], after: list[str]
) -> None:
    whole = [*before, "--", *after]
    assert cl.read_parallelism(engine, whole) == cl.read_parallelism(engine, [*before, "--"])
    assert cl.own_port(engine, whole) == cl.own_port(engine, [*before, "--"])
    assert cl.served_names(engine, whole) == cl.served_names(engine, [*before, "--"])
    assert cl.scheme(engine, whole) in ("HTTP", "HTTPS")


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_an_integer_of_64_bits_reads_as_python_reads_it(number: int) -> None:
    assert cl.read_integer(f" {number:+_} ") == number
