"""`explain` and `rules`: every rule can be looked up by its id, and the page holds them all."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpustack_components
from gpustack_components.cli.rules import all_rules, page


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_every_rule_can_be_explained(cli, rule) -> None:
    ran = cli("explain", rule.id)
    assert ran.code == 0
    assert ran.out.startswith(rule.id)
    told = " ".join(ran.out.split())
    assert " ".join(rule.when.split()) in told
    assert " ".join(rule.way_out.split()) in told


def ids_in_brackets() -> Iterator[str]:
    """The first argument of every `Refusal(...)` and `Hold(...)` that the package builds."""
    for module in Path(gpustack_components.__file__).parent.rglob("*.py"):
        if module.parent.name in ("status", "rollout"):
            continue
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Refusal", "Hold"):
                first = node.args[0] if node.args else None
                if isinstance(first, ast.Constant):
                    yield str(first.value)


def test_whatever_ends_a_sentence_in_brackets_can_be_explained() -> None:
    printed = set(ids_in_brackets())
    assert {"timeouts", "settings", "declared-twice", "ClaimNotBound"} <= printed
    assert printed - {rule.id for rule in all_rules()} == set()


@pytest.mark.parametrize("asked", ["(not-renderable)", "not renderable", "NOT_RENDERABLE"])
def test_what_is_no_rule_is_explained_as_one(cli, asked: str) -> None:
    assert cli("explain", asked).out.startswith("not-renderable  (rendering, render)")


def test_what_only_holds_pods_back_is_not_called_a_refusal(cli) -> None:
    assert "Pods are held back while the ModelArtifact's claim does not exist" in cli("explain", "claimnotbound").out


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
