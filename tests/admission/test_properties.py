"""What holds for any document: no exception, one order, frozen fields frozen, defaults filled once."""

import copy
import random
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gpustack_components.admission.defaulting import default
from gpustack_components.admission.registry import RULES
from gpustack_components.admission.review import review, review_all
from gpustack_components.api.decode import decode
from gpustack_components.api.model_deployment import ModelDeployment
from gpustack_components.bindings.catalog import Bindings
from gpustack_components.bindings.settings import Settings
from tests.admission.cases import cases, edited, world

Json = dict[str, Any]
UPDATE_RULES = {rule.id for rule in RULES.values() if rule.operations == ("update",)}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_NAMES = """
    spec metadata kind roles model engine name router kvCache poolRef resources ports extraArgs command env size
    replicas instanceType elasticEp width accelerator interface targetRef ratios algorithm type min max target
    annotations topology
"""
KEYS = st.sampled_from(_NAMES.split())
_WORDS = "vLLM SGLang llm-d-router Prefill Decode -tp --port 8998 50% 1e9 h20-8x 1500m 9"
NUMBERS = [0, 1, -1, 64, 65, 5557, 2**63, 2**70, 0.5]
TOKENS = [["-tp", "2", "--port=5557"], ["--", "-n2", "-t=1"]]
LEAVES = JSON | st.sampled_from([*_WORDS.split(), "", "\ud800", *NUMBERS, *TOKENS])


@st.composite
def mutated(draw: st.DrawFn) -> Json:
    """A document of the conformance cases with some of its values replaced, removed or moved."""
    document = draw(st.sampled_from(cases())).document
    for _ in range(draw(st.integers(0, 4))):
        at: Any = document
        while True:
            if isinstance(at, dict) and at:
                key: Any = draw(st.sampled_from(sorted(at)) | KEYS)
            elif isinstance(at, list) and at:
                key = draw(st.integers(0, len(at) - 1))
            else:
                break
            below = at.get(key) if isinstance(at, dict) else at[key]
            if isinstance(below, dict | list) and below and draw(st.booleans()):
                at = below
                continue
            if isinstance(at, dict) and draw(st.integers(0, 3)) == 0:
                at.pop(key, None)
            else:
                at[key] = copy.deepcopy(draw(LEAVES))
            break
    return document


def shuffled(value: Any, dice: random.Random) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        dice.shuffle(keys)
        return {key: shuffled(value[key], dice) for key in keys}
    return [shuffled(item, dice) for item in value] if isinstance(value, list) else value


def assert_sound(verdict: Any) -> None:
    for refusal in verdict.refusals:
        assert refusal.rule in RULES
        assert refusal.rule != "internal-error", refusal.message
        assert refusal.message
    assert verdict.accepted == (verdict.document is not None)


@given(JSON, JSON)
def test_any_json_value_gets_a_verdict(new: Any, old: Any) -> None:
    assert_sound(review(new, old=old, bindings=world(), settings=Settings()))


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(mutated(), mutated(), st.booleans())
def test_any_mutated_document_gets_a_verdict(new: Json, old: Json, complete: bool) -> None:
    bindings = world() if complete else Bindings()
    assert_sound(review(new, bindings=bindings, settings=Settings()))
    assert_sound(review(new, old=old, bindings=bindings, settings=Settings()))
    for verdict in review_all([new, old], bindings=bindings, settings=Settings()):
        assert_sound(verdict)


@given(mutated(), st.randoms(use_true_random=False))
@example({"kind": "ModelDeployment", "roles": "\ud800", "model": "\ud800"}, random.Random(1))
def test_the_order_of_map_keys_changes_no_verdict(document: Json, dice: random.Random) -> None:
    one = review(document, bindings=world(), settings=Settings())
    other = review(shuffled(document, dice), bindings=world(), settings=Settings())
    assert [(r.rule, r.path) for r in one.refusals] == [(r.rule, r.path) for r in other.refusals]


@given(mutated())
def test_an_identical_reapply_is_never_refused_by_an_update_rule(document: Json) -> None:
    verdict = review(document, old=document, bindings=world(), settings=Settings())
    assert not UPDATE_RULES & {refusal.rule for refusal in verdict.refusals}


@given(mutated())
def test_defaults_are_filled_once(raw: Json) -> None:
    document = decode(raw).document
    if isinstance(document, ModelDeployment):
        filled = default(document, world())
        assert default(filled, world()) is filled
        again = review(filled, old=filled, bindings=world(), settings=Settings())
        assert again.document is None or again.document == filled


FROZEN = {
    "spec.model": "identity-model",
    "spec.engine.name": "identity-engine",
    "spec.kvCache": "identity-kv-cache",
}


@settings(max_examples=200)
@given(st.data())
def test_a_frozen_field_differs_exactly_where_an_identity_rule_says_so(data: st.DataObject) -> None:
    accepted = [case for case in cases() if not case.refused and case.document["kind"] == "ModelDeployment"]
    new, old = (data.draw(st.sampled_from(accepted)).document for _ in range(2))
    decoded = [decode(document).document for document in (new, old)]
    assert all(isinstance(document, ModelDeployment) for document in decoded)
    verdict = review(new, old=old, bindings=world(), settings=Settings())
    found = {refusal.rule for refusal in verdict.refusals}
    for path, rule in FROZEN.items():
        before, after = (_at(document, path) for document in decoded)
        assert (rule in found) == (before != after)
    names = [{role.name for role in document.spec.roles} for document in decoded]
    assert ("identity-role-set" in found) == (names[0] != names[1])


def _at(document: Any, path: str) -> Any:
    for step in path.split("."):
        document = getattr(document, "kv_cache" if step == "kvCache" else step)
    return document


def test_a_change_of_each_ordinary_field_is_no_change_of_identity() -> None:
    edits: list[Json] = [
        {"spec.engine.image": "other"},
        {"metadata.labels": {"a": "b"}},
        {"metadata.annotations": {"a": "b"}},
        {"spec.kvTransfer": {"protocol": "RDMA"}},
        {"spec.router": {"name": "llm-d-router"}},
        {"status": {"phase": "Ready"}},
        {"spec.roles[0].replicas": 3},
        {"spec.roles[0].size": 3},
        {"spec.roles[0].instanceType": "a100-8x"},
        {"spec.roles[0].resources": {"accelerator": 2}},
        {"spec.roles[0].command": ["x"]},
        {"spec.roles[0].image": "x"},
        {"spec.roles[0].shmSize": "1Gi"},
        {"spec.roles[0].ports": [{"port": 9000}]},
    ]
    for edit in edits:
        old, new = edited("server", {}), edited("server", edit)
        for pair in ((old, new), (new, old)):
            verdict = review(pair[1], old=pair[0], bindings=world(), settings=Settings())
            assert verdict.refusals == (), edit
