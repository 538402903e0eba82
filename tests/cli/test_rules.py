"""`explain` and `rules`: every rule can be looked up by its id, and the page holds them all."""

import json

import pytest

from gpustack_components.cli.rules import all_rules, page


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_every_rule_can_be_explained(cli, rule) -> None:
    ran = cli("explain", rule.id)
    assert ran.code == 0
    assert ran.out.startswith(rule.id)
    told = " ".join(ran.out.split())
    assert " ".join(rule.when.split()) in told
    assert " ".join(rule.way_out.split()) in told


@pytest.mark.parametrize("asked", ["(parallel-width)", "PARALLEL_WIDTH", "`parallel-width`"])
def test_an_id_is_found_as_it_is_copied_from_a_message(cli, asked: str) -> None:
    assert cli("explain", asked).out.startswith("parallel-width")


def test_an_unknown_id_is_said_with_the_nearest(cli) -> None:
    ran = cli("explain", "paralel-widht")
    assert (ran.code, ran.out) == (2, "")
    assert "did you mean parallel-width" in ran.err


def test_without_an_id_all_rules_are_listed(cli) -> None:
    listed = cli("explain").out
    assert all(f"  {rule.id} " in listed for rule in all_rules())
    assert listed == cli("rules").out


def test_rules_as_json_have_every_field(cli) -> None:
    one = json.loads(cli("explain", "parallel-width", "-o", "json").out)
    assert list(one) == [
        "id",
        "subject",
        "layer",
        "severity",
        "operations",
        "needs",
        "paths",
        "when",
        "wayOut",
        "source",
    ]
    assert [rule["id"] for rule in json.loads(cli("rules", "-o", "json").out)] == [rule.id for rule in all_rules()]


def test_the_page_has_a_heading_for_each_rule() -> None:
    text = page(all_rules())
    assert all(f"\n### {rule.id}\n" in text for rule in all_rules())
