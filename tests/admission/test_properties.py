"""What holds for any document: no exception, one order, frozen fields frozen, defaults filled once."""

import copy
import random
from typing import Any

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from gpustack_components.admission.defaulting import default
from gpustack_components.admission.registry import RULES
from gpustack_components.admission.review import review, review_all
from gpustack_components.api.decode import decode
from gpustack_components.api.encode import encode
from gpustack_components.api.model_deployment import ModelDeployment
from gpustack_components.api.quantity import Quantity
from gpustack_components.bindings.catalog import Bindings
from gpustack_components.bindings.settings import Settings
from tests.admission import fuzz
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
    annotations topology acceleratable unitResources cpu ram domain dtype blockSize quota ceiling backends connection
    managed external members endpoints address port protocol value replicas source path allowPatterns expectedDigest
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


def test_documents_mutated_by_their_places_get_sound_verdicts() -> None:
    assert fuzz.main(3000, 1) == 0


@given(mutated(), st.randoms(use_true_random=False))
@example({"kind": "ModelDeployment", "roles": "\ud800", "model": "\ud800"}, random.Random(0))
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


EDITS: list[Json] = [
    {"spec.model.name": "other"},
    {"spec.model.artifactRef": {"name": "a"}},
    {"spec.engine.image": "other"},
    {"spec.kvCache": {"poolRef": {"name": "tcp-binding"}}},
    {"spec.kvCache": {"poolRef": {"name": "rdma-binding"}, "connector": "Mooncake"}},
    {"spec.kvTransfer": {"protocol": "RDMA"}},
    {"spec.router": {"name": "llm-d-router"}},
    {"spec.router": {"name": "vllm-router", "replicas": 2}},
    {"spec.router": None},
    {"spec.roles[0].name": "renamed"},
    {"spec.roles[0].kind": "Decode"},
    {"spec.roles[0].kind": "Server"},
    {"spec.roles[0].kind": None},
    {"spec.roles[0].replicas": 2},
    {"spec.roles[0].size": 2},
    {"spec.roles[0].instanceType": "a100-8x"},
    {"spec.roles[0].resources": {"accelerator": "2000m"}},
    {"spec.roles[0].resources": None},
    {"spec.roles[0].command": ["x"]},
    {"spec.roles[0].command": []},
    {"spec.roles[0].elasticEp": {"width": 3}},
    {"spec.roles[0].elasticEp": None},
    {"spec.roles[1]": {"name": "added", "instanceType": "h20-8x"}},
    {"metadata.labels": {"a": "b"}},
]


def facts(document: ModelDeployment) -> Json:
    """What section 2 freezes, by the rule that says so, read off the defaulted document as JSON."""
    spec = encode(default(document, world()))["spec"]
    roles = {role["name"]: role for role in spec["roles"]}
    for role in roles.values():
        if "accelerator" in role.get("resources", {}):
            role["resources"]["accelerator"] = Quantity(role["resources"]["accelerator"])
    kept = ("size", "instanceType", "resources", "command")
    return {
        "identity-model": spec["model"],
        "identity-engine": spec["engine"]["name"],
        "identity-kv-cache": spec.get("kvCache"),
        "identity-role-set": set(roles),
        "identity-role-kind": {name: role["kind"] for name, role in roles.items()},
        "identity-elastic-role": {
            name: ("elasticEp" in role, [role.get(field) or None for field in kept]) for name, role in roles.items()
        },
        "router-name": spec.get("router", {}).get("name"),
    }


def frozen_rules(old: Json, new: Json) -> set[str]:
    """The rules that have to speak, found by comparing the facts of both sides."""
    both = old["identity-role-set"] & new["identity-role-set"]
    shapes = [(old["identity-elastic-role"][one], new["identity-elastic-role"][one]) for one in both]
    routers = (old["router-name"], new["router-name"])
    differ = {
        "router-name": None not in routers and routers[0] != routers[1],
        "identity-role-kind": any(old["identity-role-kind"][one] != new["identity-role-kind"][one] for one in both),
        "identity-elastic-role": any(elastic and before != after for (elastic, before), (_, after) in shapes),
    }
    for rule in ("identity-model", "identity-engine", "identity-kv-cache", "identity-role-set"):
        differ[rule] = old[rule] != new[rule]
    return {rule for rule, does in differ.items() if does}


@settings(max_examples=300, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(st.data())
def test_a_frozen_field_differs_exactly_where_an_identity_rule_says_so(data: st.DataObject) -> None:
    base = data.draw(st.sampled_from(["server", "pair", "elastic"]))
    documents: list[ModelDeployment] = []
    for _ in range(2):
        edits: Json = {}
        for edit in data.draw(st.lists(st.sampled_from(EDITS), max_size=4)):
            edits |= edit
        document = decode(edited(base, edits)).document
        assert isinstance(document, ModelDeployment)
        verdict = review(document, bindings=world(), settings=Settings())
        assume(verdict.accepted)
        documents.append(document)
    old, new = documents
    verdict = review(new, old=old, bindings=world(), settings=Settings())
    found = {refusal.rule for refusal in verdict.refusals} & set(facts(old))
    assert found == frozen_rules(facts(old), facts(new))


OBJECT_EDITS: dict[str, list[tuple[Json, str | None]]] = {
    "instance-type": [
        ({"spec.displayName": "x", "spec.inactive": True}, None),
        ({"spec.os": "windows"}, "spec.os"),
        ({"spec.localStorage": "1Gi"}, "spec.localStorage"),
        ({"spec.unitResources.ram": "1Gi"}, "spec.unitResources.ram"),
    ],
    "pool-binding": [
        ({"spec.quota.ceiling": "1Gi"}, None),
        ({"spec.domain.dtype": "bf16"}, "spec.domain.dtype"),
        ({"spec.domain.blockSize": 1}, "spec.domain.blockSize"),
        ({"spec.poolRef.name": "tcp-pool"}, "spec.poolRef.name"),
    ],
    "pool": [({"spec.quota.total": "1Gi"}, None), ({"spec.backends": ["tcp-backend"]}, "spec.backends")],
    "hub-artifact": [
        ({"metadata.labels": {"a": "b"}}, None),
        ({"spec.source.huggingFace.revision": "v1"}, "spec.source"),
        ({"spec.allowPatterns": ["*"]}, "spec.allowPatterns"),
    ],
}


@given(st.data())
def test_a_frozen_field_of_an_object_is_refused_at_its_path_alone(data: st.DataObject) -> None:
    base = data.draw(st.sampled_from(sorted(OBJECT_EDITS)))
    chosen = data.draw(st.lists(st.sampled_from(OBJECT_EDITS[base]), unique_by=str))
    new = edited(base, {path: value for edit, _ in chosen for path, value in edit.items()})
    verdict = review(new, old=edited(base, {}), bindings=world(), settings=Settings())
    assert {refusal.path for refusal in verdict.refusals} == {path for _, path in chosen if path}


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
