"""What holds of decoding for every input: no exception, one answer, and a way back.

`FUZZ=100000 .venv/bin/pytest tests/api/test_properties.py -k mutated` spoils the seed manifests that many times.
"""

import copy
import json
import os
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpustack_components.api.decode import KINDS, Decoded, decode
from gpustack_components.api.encode import encode
from gpustack_components.api.load import load_text

SPOILED = int(os.environ.get("FUZZ", "2000"))
SEEDS = sorted((Path(__file__).parents[1] / "data" / "seeds").glob("**/*.yaml"))
relaxed = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))

_FIELDS = [
    "apiVersion",
    "kind",
    "metadata",
    "spec",
    "status",
    "name",
    "namespace",
    "labels",
    "annotations",
    "model",
    "engine",
    "image",
    "kvCache",
    "poolRef",
    "kvTransfer",
    "protocol",
    "router",
    "roles",
    "replicas",
    "size",
    "instanceType",
    "resources",
    "accelerator",
    "interface",
    "ports",
    "port",
    "env",
    "value",
    "extraArgs",
    "command",
    "additionalVolumes",
    "mountPath",
    "subPath",
    "shmSize",
    "elasticEp",
    "width",
    "headInstanceType",
    "topology",
    "source",
    "image",
    "reference",
    "connection",
    "managed",
    "leader",
    "members",
    "quota",
    "total",
    "ceiling",
    "domain",
    "blockSize",
    "dtype",
    "backends",
    "algorithm",
    "ratios",
    "targetRef",
    "detail",
    "entrance",
    "conditions",
    "resourceVersion",
    "items",
]
_anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=10**400)
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["vLLM", "Server", "TCP", "64Gi", "\ud800", *KINDS])
    | st.binary(max_size=2)
    | st.builds(object),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(
            st.sampled_from(_FIELDS) | st.text(max_size=4) | st.integers() | st.none() | st.just("\udfff"),
            inner,
            max_size=6,
        )
    ),
    max_leaves=30,
)
_documents = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(list(KINDS)),
        "apiVersion": st.just("worker.gpustack.ai/v1"),
        "spec": _anything,
        "metadata": _anything,
    },
    optional={"status": _anything},
)

_name = st.from_regex(r"[a-z]([-a-z0-9]{0,6}[a-z0-9])?", fullmatch=True)
_text = st.text(st.characters(codec="utf-8"), max_size=8)
_quantity = (
    st.integers(0, 10**6)
    | st.integers(1, 999).map(str)
    | st.builds("{}{}".format, st.integers(0, 99), st.sampled_from(["m", "Gi", "e3"]))
)
_ref = st.fixed_dictionaries({"name": _name})


def _unique(
    entries: st.SearchStrategy[dict[str, Any]], *keys: str, **bounds: int
) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(entries, unique_by=lambda entry: tuple(entry.get(key, "TCP") for key in keys), **bounds)


_role = st.fixed_dictionaries(
    {"name": _name, "instanceType": _name},
    optional={
        "kind": st.sampled_from(["Server", "Prefill", "Decode", "Encode"]),
        "replicas": st.integers(1, 1024) | st.integers(1, 1024).map(float),
        "size": st.integers(1, 64),
        "resources": st.fixed_dictionaries(
            {}, optional={"accelerator": _quantity, "interface": _quantity, "acceleratorPartitionedProfile": _name}
        ),
        "topology": st.fixed_dictionaries({}, optional={"requiredLevel": _text}),
        "privileged": st.booleans(),
        "ports": _unique(
            st.fixed_dictionaries(
                {"port": st.integers(1, 65535)}, optional={"protocol": st.sampled_from(["TCP", "UDP"])}
            ),
            "port",
            "protocol",
            max_size=3,
        ),
        "additionalVolumes": st.lists(
            st.fixed_dictionaries(
                {"mountPath": _name.map("/".__add__)},
                optional={
                    "secret": _ref,
                    "hostPath": st.fixed_dictionaries({"path": _name}),
                    "readOnly": st.booleans(),
                },
            ),
            max_size=2,
        ),
        "shmSize": _quantity,
        "command": st.lists(_text, max_size=3),
        "extraArgs": st.lists(_text, max_size=3),
        "env": _unique(st.fixed_dictionaries({"name": _name, "value": _text}), "name", max_size=3),
        "terminationGracePeriodSeconds": st.integers(15, 3600),
        "elasticEp": st.fixed_dictionaries({"width": st.integers(2, 64)}),
    },
)
_deployments = st.fixed_dictionaries(
    {
        "apiVersion": st.just("worker.gpustack.ai/v1"),
        "kind": st.just("ModelDeployment"),
        "metadata": st.fixed_dictionaries(
            {"name": _name}, optional={"namespace": _name, "labels": st.dictionaries(_name, _text, max_size=2)}
        ),
        "spec": st.fixed_dictionaries(
            {
                "model": st.fixed_dictionaries({"name": _name}, optional={"artifactRef": _ref}),
                "engine": st.fixed_dictionaries({"name": st.sampled_from(["vLLM", "SGLang"]), "image": _name}),
                "roles": _unique(_role, "name", min_size=1, max_size=3),
            },
            optional={
                "kvCache": st.fixed_dictionaries({"poolRef": _ref}),
                "kvTransfer": st.fixed_dictionaries({}, optional={"protocol": st.sampled_from(["Auto", "RDMA"])}),
                "router": st.fixed_dictionaries(
                    {"name": st.sampled_from(["llm-d-router", "vllm-router"])}, optional={"replicas": st.integers(1, 9)}
                ),
            },
        ),
    }
)


def as_text(decoded: Decoded) -> list[str]:
    return [str(refusal) for refusal in decoded.refusals]


@relaxed
@given(_anything | _documents, st.booleans())
def test_decoding_never_raises_and_always_answers(raw: Any, stored: bool) -> None:
    decoded = decode(raw, stored=stored)
    assert (decoded.document is None) == bool(decoded.refusals)
    for refusal in decoded.refusals:
        assert refusal.rule
        assert refusal.message
        assert "\n" not in str(refusal)
        str(refusal).encode()
        json.dumps(refusal.value)


@relaxed
@given(_documents)
def test_decoding_leaves_its_input_alone_and_answers_the_same_twice(raw: dict[str, Any]) -> None:
    before = repr(raw)
    assert as_text(decode(raw)) == as_text(decode(raw))
    assert repr(raw) == before


@relaxed
@given(_deployments)
def test_a_legal_deployment_is_accepted_and_comes_back_equal(raw: dict[str, Any]) -> None:
    document = decode(raw).document
    assert document is not None, as_text(decode(raw))
    encoded = encode(document)
    again = decode(json.loads(json.dumps(encoded))).document
    assert again == document
    assert again is not None
    assert encode(again) == encoded


@relaxed
@given(
    _deployments,
    st.randoms(use_true_random=False),
    st.sampled_from(["replicas", "size", "nonsense", "extra", "kind", "image"]),
)
def test_refusals_do_not_depend_on_the_order_of_keys(raw: dict[str, Any], random: Any, spoiled: str) -> None:
    raw["spec"]["engine"][spoiled] = {}
    for role in raw["spec"]["roles"]:
        role[spoiled] = ()
        role["surplus"] = 1

    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            entries = list(value.items())
            random.shuffle(entries)
            return {key: shuffled(inner) for key, inner in entries}
        return [shuffled(inner) for inner in value] if isinstance(value, list) else value

    assert as_text(decode(shuffled(copy.deepcopy(raw)))) == as_text(decode(raw))


def test_documents_without_end_are_refused() -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    endless: list[Any] = []
    endless += [endless, endless]
    for value in (deep, endless, {"a": endless}, [0] * 2_000_000):
        assert "schema-bounds" in {
            refusal.rule for refusal in decode({"kind": "ModelDeployment", "spec": value}).refusals
        }


@pytest.mark.timeout(7200)
def test_mutated_seed_manifests_are_answered_and_accepted_ones_come_back_equal() -> None:
    chance = random.Random(20260101)
    originals = [pickle.dumps(raw.value) for path in SEEDS for raw in load_text(path.read_text(), str(path))]
    accepted = 0
    for _ in range(SPOILED):
        document = pickle.loads(chance.choice(originals))
        for _ in range(chance.randint(1, 3)):
            _mutate(document, chance)
        decoded = decode(document)
        assert (decoded.document is None) == bool(decoded.refusals), document
        if decoded.document is not None:
            accepted += 1
            assert decode(encode(decoded.document)).document == decoded.document, document
        json.dumps([refusal.value for refusal in decoded.refusals])
    assert 0 < accepted < SPOILED


def _mutate(document: Any, chance: random.Random) -> None:
    place = document
    while isinstance(place, dict | list) and place:
        key = chance.choice(list(place)) if isinstance(place, dict) else chance.randrange(len(place))
        if isinstance(place[key], dict | list) and place[key] and chance.random() < 0.8:
            place = place[key]
            continue
        kind = chance.randrange(6)
        if kind == 0:
            del place[key]
        elif kind == 1 and isinstance(place, dict):
            place[chance.choice([*_FIELDS, "x", "a.b", 7])] = copy.deepcopy(chance.choice(_ODD))
        elif kind == 2 and isinstance(place, list):
            place.append(copy.deepcopy(place[key]))
        elif kind == 3 and isinstance(place[key], str) and place[key]:
            cut = chance.randrange(len(place[key]))
            place[key] = (
                place[key][:cut] + chance.choice(["", "-", "/", "A", "\n", "9", "\ud800"]) + place[key][cut + 1 :]
            )
        elif kind == 4:
            place[key] = [place[key]]
        else:
            place[key] = copy.deepcopy(chance.choice(_ODD))
        return


_ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1.0,
    2.5,
    2**31,
    2**64,
    10**500,
    float("nan"),
    float("inf"),
    "",
    "x",
    "1",
    "64Gi",
    [],
    {},
    [None],
    {"name": "a"},
    b"x",
    (),
]
