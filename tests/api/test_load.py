"""Reading text: YAML as Kubernetes reads it, and one sentence with a place for everything that cannot be read."""

import json
import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpustack_components.api.load import UnreadableInput, load_text


def only(text: str, source: str = "f.yaml") -> dict[str, Any]:
    (document,) = load_text(text, source)
    return document.value


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", True),
        ("Off", False),
        ('"on"', "on"),
        ("1e3", 1000.0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("010", 8),
        ("0x1F", 31),
        ("0b11", 3),
        ("1_000", 1000),
        ("-3", -3),
        ("1:30", "1:30"),
        ("2026-01-01", "2026-01-01"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("1.2.3", "1.2.3"),
        ("0.25.1", "0.25.1"),
        ("64Gi", "64Gi"),
        ("12345678901234567890", 12345678901234567890),
        ("~", None),
        ("null", None),
        ("''", ""),
        ("!!str 5", "5"),
        ("!!int 5", 5),
        ("|-\n  a\n  b", "a\nb"),
        ("--flag", "--flag"),
        ("+", "+"),
    ],
)
def test_scalars_mean_what_kubernetes_reads_in_them(written: str, value: Any) -> None:
    found = only(f"kind: A\na: {written}\n")["a"]
    assert found == value
    assert type(found) is type(value)


def test_documents_keep_their_order_and_first_line_and_empty_ones_are_skipped() -> None:
    documents = load_text("# first\nkind: A\n---\n---\n# nothing\n---\nkind: B\n", "f.yaml")
    assert [(d.source, d.index, d.line, d.value) for d in documents] == [
        ("f.yaml", 0, 2, {"kind": "A"}),
        ("f.yaml", 1, 7, {"kind": "B"}),
    ]


def test_lists_are_flattened_into_their_items() -> None:
    text = "kind: List\nitems:\n- kind: A\n- {kind: ModelDeploymentList, items: [{kind: B}]}\n---\nkind: C\n"
    assert [d.value["kind"] for d in load_text(text, "f.yaml")] == ["A", "B", "C"]
    assert [d.index for d in load_text(text, "f.yaml")] == [0, 1, 2]


def test_concatenated_json_documents_are_read() -> None:
    documents = load_text('{"kind": "A"}\n\n{"kind": "B", "t": "\\t"}', "f.json")
    assert [(d.line, d.value["kind"]) for d in documents] == [(1, "A"), (3, "B")]


def test_flow_style_yaml_is_not_taken_for_json() -> None:
    assert only("{kind: A, a: [1, 2]}") == {"kind": "A", "a": [1, 2]}


def test_a_byte_order_mark_and_windows_line_ends_are_read() -> None:
    assert only("\ufeffkind: A\r\na: b\r\n") == {"kind": "A", "a": "b"}


def test_anchors_and_merge_keys_are_read() -> None:
    assert only("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}\ne: *x") == {
        "a": {"b": 1, "c": 2},
        "d": {"b": 1, "c": 3},
        "e": {"b": 1, "c": 2},
    }


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("", "f.yaml: ", "no document"),
        ("\n---\n# nothing\n", "f.yaml: ", "no document"),
        ("kind: List\nitems: []", "f.yaml: ", "no document"),
        ("a: b: c", "f.yaml:1:5: ", "mapping values are not allowed"),
        ("a: 1\nb:\n\t- c", "f.yaml:3:1: ", "indent with spaces"),
        ("a: 'b", "f.yaml:1:", "quoted scalar"),
        ("a: [b", "f.yaml:2:1: ", "flow sequence"),
        ("a: 1\nb: {c: 1, c: 2}", "f.yaml:2:11: ", '"c" stands twice'),
        ('{"a": {"c": 1, "c": 2}}', "f.yaml: ", '"c" stands twice'),
        ("- kind: A", "f.yaml:1: ", "a list"),
        ("hello", "f.yaml:1: ", "a lone value"),
        ("a: *x", "f.yaml:1:4: ", "no anchor"),
        ("a: &x [*x]", "f.yaml:1:8: ", "inside its own anchor"),
        ("on: 1", "f.yaml:1:1: ", "reads as true"),
        ("? [a]\n: b", "f.yaml:1:3: ", "cannot be a key"),
        ("a: !!python/object/apply:os.system [x]", "f.yaml:1:4: ", "remove it"),
        ("a: !secret x", "f.yaml:1:4: ", "!secret"),
        ("a: !!int x", "f.yaml:1:4: ", "!!int"),
        ("a: \x01", "f.yaml:1: ", "control character"),
        ("a: \ud800", "f.yaml: ", "Unicode"),
        ('{"a": NaN}', "f.yaml: ", "NaN"),
        ('{"a": ' + "9" * 5000 + "}", "f.yaml: ", "5000 digits"),
        ('{"a": [' * 20_000, "f.yaml: ", "too deeply"),
        ("".join(f"{' ' * i}a:\n" for i in range(90)), "f.yaml:", "deeper than"),
    ],
)
def test_text_that_cannot_be_read_is_refused_with_its_place(text: str, place: str, says: str) -> None:
    with pytest.raises(UnreadableInput) as refusal:
        load_text(text, "f.yaml")
    assert str(refusal.value).startswith(place)
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_broken_json_in_a_json_file_is_placed_as_json() -> None:
    with pytest.raises(UnreadableInput, match=r"^f\.json:2:3: broken JSON: expecting"):
        load_text('{"a": 1,\n  b}', "f.json")


def test_an_alias_bomb_is_refused_at_once() -> None:
    bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 30)
    )
    started = time.perf_counter()
    with pytest.raises(UnreadableInput, match="aliases repeat"):
        load_text(bomb, "f.yaml")
    assert time.perf_counter() - started < 1


def test_text_beyond_the_limit_is_refused_without_reading_it() -> None:
    with pytest.raises(UnreadableInput, match="split it into files"):
        load_text(" " * (16 * 2**20 + 1), "f.yaml")


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=6), _JSON, min_size=1, max_size=4))
def test_json_and_the_yaml_of_the_same_value_read_alike(value: dict[str, Any]) -> None:
    if str(value.get("kind")).endswith("List"):
        return
    assert only(json.dumps(value), "f.json") == value
    quoted = yaml.safe_dump(value, default_style='"', allow_unicode=False)
    assert only(quoted) == yaml.safe_load(quoted)


@given(st.text(max_size=60) | st.text(alphabet="a:-{}[]&*!|>#'\"\n \t<,0", max_size=40))
def test_any_text_is_read_or_refused_with_a_sentence(text: str) -> None:
    try:
        assert all(isinstance(document.value, dict) for document in load_text(text, "f.yaml"))
    except UnreadableInput as refusal:
        assert str(refusal).startswith("f.yaml")
