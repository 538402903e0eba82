"""Every row of the tables: what it refuses, where, in which words, and that its nearest neighbour is accepted."""

import pytest

from gpustack_components.admission.registry import RULES
from gpustack_components.admission.review import review
from gpustack_components.api.refusal import Refusal
from tests.admission.cases import Case, Expected, cases

STORED_EXEMPT = {
    "role-service-name",
    "router-service-name",
    "listen-port",
    "reserved-listen-port",
    "served-model-name",
    "host-privileged",
    "host-path-volume",
    "interface-path",
    "pool-transport",
    "pool-binding-pool",
    "pool-binding-ceiling",
    "pool-binding-dtype",
    "pool-binding-domain",
}
"""Rules that leave a stored document alone until the judged fields move (sections 6.3, 7, 8; bindings sheet 3.1)."""

ALL = [pytest.param(case, id=case.name) for case in cases()]
REFUSED = [pytest.param(case, id=case.name) for case in cases() if case.refused]
NEIGHBOURS = [pytest.param(case, id=case.name) for case in cases() if case.neighbour is not None]


ORDINARY = {"router-token-counting"}
"""Warnings of most routed cases, told of those that are about them."""


def places(refusals: tuple[Refusal, ...]) -> list[Expected]:
    return [(refusal.rule, refusal.path) for refusal in refusals]


@pytest.mark.parametrize("case", ALL)
def test_the_verdict(case: Case) -> None:
    verdict = review(case.document, old=case.old, **case.arguments)
    assert places(verdict.refusals) == case.refused, [str(refusal) for refusal in verdict.refusals]
    assert verdict.accepted == (verdict.document is not None)
    words = " / ".join(str(refusal) for refusal in verdict.refusals)
    for name in case.row.get("names", ()):
        assert name in words
    for word in case.row.get("never", ()):
        assert word not in words
    assert all(refusal.transient == case.row.get("transient", False) for refusal in verdict.refusals)
    warned = case.row.get("warned", ())
    about = {one["rule"] for one in warned} | {*case.row.get("accepted", ())}
    warnings = tuple(one for one in verdict.warnings if one.rule in about or one.rule not in ORDINARY)
    assert places(warnings) == [(one["rule"], one["path"]) for one in warned]
    for warning, expected in zip(warnings, warned, strict=True):
        assert all(name in warning.message for name in expected.get("names", ()))
    assert {rule for gap in verdict.unjudged for rule in gap.rules} >= set(case.row.get("unjudged", ()))


@pytest.mark.parametrize("case", NEIGHBOURS)
def test_the_nearest_neighbour_is_accepted(case: Case) -> None:
    verdict = review(case.neighbour, old=case.old, **case.arguments)
    assert verdict.refusals == ()


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases() if case.judged_as_update])
def test_an_update_from_the_neighbour_is_refused_alike(case: Case) -> None:
    verdict = review(case.document, old=case.neighbour, **case.arguments)
    assert set(case.refused) <= set(places(verdict.refusals))


@pytest.mark.parametrize("case", [case for case in REFUSED if case.values[0].old is None])
def test_a_stored_document_is_refused_alike_unless_its_rule_exempts_it(case: Case) -> None:
    verdict = review(case.document, old=case.document, **case.arguments)
    lasting = [expected for expected in case.refused if expected[0] not in STORED_EXEMPT]
    assert places(verdict.refusals) == lasting


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_is_a_sentence_of_a_registered_rule_with_a_way_out(case: Case) -> None:
    for refusal in review(case.document, old=case.old, **case.arguments).refusals:
        rule = RULES[refusal.rule]
        assert rule.severity == "refuse"
        assert "; " in refusal.message or ", " in refusal.message
        assert not refusal.message.endswith(".")
        assert len(refusal.message) < 400
