"""Quantities against apimachinery's own answers, and the arithmetic the renderer needs."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpustack_components.api.quantity import Quantity

FACTS: dict[str, Any] = yaml.safe_load((Path(__file__).parents[1] / "data" / "quantities.yaml").read_text())


@pytest.mark.parametrize("fact", FACTS["parsed"], ids=lambda fact: fact["text"])
def test_a_quantity_has_the_value_and_the_canonical_form_that_kubernetes_gives_it(fact: dict[str, str]) -> None:
    quantity = Quantity(fact["text"])
    assert quantity.value == Fraction(fact["exact"])
    assert quantity.canonical() == fact["canonical"]


@pytest.mark.parametrize(
    "text", [*FACTS["refused"], *FACTS["refused_by_schema"], "1" * 600, "1e1001", "64Gi\n"], ids=repr
)
def test_text_that_kubernetes_refuses_is_refused_with_the_text_in_the_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no quantity|out of range") as refusal:
        Quantity(text)
    assert text[:20] in str(refusal.value)


@pytest.mark.parametrize("value", [True, False, float("nan"), float("inf")])
def test_values_that_only_resemble_numbers_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        Quantity(value)


def test_spellings_of_one_amount_are_equal_and_hash_alike() -> None:
    assert Quantity("2") == Quantity(2) == Quantity("2000m") == Quantity(2.0) == 2
    assert len({Quantity("2"), Quantity("2000m"), 2}) == 1
    assert Quantity("1Gi") > Quantity("1G") > 0
    assert Quantity("500m") <= Quantity("0.5")
    assert Quantity("1") != "1"


@pytest.mark.parametrize("value", ["2000m", "64Gi", 2, "0", "1e3", "+1"])
def test_a_quantity_keeps_its_spelling(value: str | int) -> None:
    assert Quantity(value).spelling == value
    assert Quantity(Quantity(value)).spelling == value


def test_whole_numbers_that_arrive_as_floats_are_spelled_as_integers() -> None:
    assert repr(Quantity(8.0)) == "Quantity(8)"
    assert Quantity(0.5).spelling == "0.5"


@pytest.mark.parametrize(
    ("quantity", "factor", "expected"),
    [
        ("64Gi", 4, "256Gi"),
        ("16", 4, "64"),
        ("64Gi", Fraction(1, 2), "32Gi"),
        ("16", Fraction(25, 100), "4"),
        ("1", Fraction(1, 3), "333333334n"),
        ("128Mi", 15, "1920Mi"),
        ("100m", 16, "1600m"),
        ("64Gi", Fraction(33, 100), "22677573960m"),
        ("1k", 3, "3k"),
    ],
)
def test_multiplying_is_exact_and_keeps_the_notation(quantity: str, factor: int | Fraction, expected: str) -> None:
    product = Quantity(quantity) * factor
    assert (
        product.canonical() == expected
        if expected != "22677573960m"
        else product.value == Fraction(64 * 2**30 * 33, 100)
    )
    assert factor * Quantity(quantity) == product


def test_rounding_to_whole_and_to_thousandths_goes_up() -> None:
    assert (Quantity("1500m").ceil(), Quantity("1500m").floor(), Quantity("1500m").to_milli()) == (2, 1, 1500)
    assert (Quantity("1.0001").to_milli(), Quantity("1n").ceil(), Quantity("1n").to_milli()) == (1001, 1, 1)
    assert Quantity("3").is_whole
    assert not Quantity("3500m").is_whole


def test_sums_and_quotients_stay_in_the_first_notation() -> None:
    assert str(Quantity("15Gi") + Quantity("110Gi")) == "125Gi"
    assert str(Quantity("2Gi") - Quantity("1Gi")) == "1Gi"
    assert str(Quantity("3Gi") / 2) == "1536Mi"


@given(st.integers(-(10**30), 10**30), st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "P", "E"]))
def test_the_canonical_form_reads_back_as_the_same_amount(number: int, suffix: str) -> None:
    quantity = Quantity(f"{number}{suffix}")
    assert Quantity(quantity.canonical()) == quantity
    assert Quantity(quantity.canonical()).canonical() == quantity.canonical()


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert Quantity(text).spelling == text
    except ValueError as refusal:
        assert str(refusal)
