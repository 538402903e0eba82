"""What a program passes to ModelDeployment, as one raw document."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pulumi
import pytest

from gpustack_components.api.model_deployment import ModelDeploymentSpec
from gpustack_components.components import arguments

SPEC: dict[str, Any] = {
    "model": {"name": "Qwen/Qwen3-8B"},
    "engine": {"name": "vLLM", "image": "vllm/vllm-openai:v0.25.1"},
    "roles": [{"name": "server", "instance_type": "h20-8x", "extra_args": ["--max-model-len=4096"]}],
}


def compose(**given: Any) -> tuple[dict[str, Any], list[str]]:
    everything: dict[str, Any] = {"document": None, "namespace": None, "spec": None, "metadata": None, **given}
    document, refusals = arguments.compose("qwen", **everything)
    return document, [str(refusal) for refusal in refusals]


def test_the_deployment_is_named_after_the_resource_unless_its_metadata_names_it():
    assert compose(spec=SPEC)[0]["metadata"] == {"name": "qwen", "namespace": "default"}
    named, _ = compose(spec=SPEC, namespace="team-a", metadata={"name": "chat", "labels": {"team_name": "a"}})
    assert named["metadata"] == {"name": "chat", "labels": {"team_name": "a"}, "namespace": "team-a"}


def test_snake_case_and_camel_case_and_the_model_give_the_same_document():
    camel = {**SPEC, "roles": [{"name": "server", "instanceType": "h20-8x", "extraArgs": ["--max-model-len=4096"]}]}
    model = ModelDeploymentSpec.model_validate(camel)
    assert compose(spec=SPEC) == compose(spec=camel) == compose(spec=model)


def test_a_field_given_in_both_spellings_is_refused():
    _, refusals = compose(spec={**SPEC, "kv_cache": {}, "kvCache": {}})
    assert refusals == ["spec.kvCache: is given twice, in snake_case and in camelCase; keep one spelling (arguments)"]


def test_a_whole_manifest_keeps_its_name_and_namespace():
    manifest = {"kind": "ModelDeployment", "metadata": {"name": "chat", "namespace": "team-a"}, "spec": SPEC}
    document, refusals = compose(document=manifest)
    assert document["metadata"] == {"name": "chat", "namespace": "team-a"} and refusals == []
    assert document["apiVersion"] == "worker.gpustack.ai/v1"


def test_two_different_namespaces_are_refused():
    manifest = {"metadata": {"name": "chat", "namespace": "team-a"}, "spec": SPEC}
    _, refusals = compose(document=manifest, namespace="team-b")
    assert refusals == [
        "metadata.namespace: the document says team-a, the argument says team-b; keep one of them (arguments)"
    ]


def test_a_document_and_a_spec_together_are_refused():
    assert any("pass one of them" in one for one in compose(document={"spec": SPEC}, spec=SPEC)[1])


@pytest.mark.parametrize("document", [[], "text", 3])
def test_a_document_that_is_no_mapping_is_refused_with_a_sentence(document: Any):
    _, refusals = compose(document=document)
    assert refusals and "pass the manifest as a dict" in refusals[0]


def with_outputs(path: str) -> dict[str, Any]:
    """The spec with an Output at the path."""
    document: dict[str, Any] = {
        "metadata": {"name": "qwen", "namespace": "default", "labels": {"team": "a"}},
        "spec": {
            "model": {"name": "m"},
            "engine": {"name": "vLLM", "image": "i"},
            "router": {"name": "vllm-router", "replicas": 1},
            "roles": [
                {"name": "server", "replicas": 1, "size": 1, "kind": "Server", "instanceType": "t", "extraArgs": ["x"]}
                | {"env": [{"name": "A", "value": "b"}], "ports": [{"port": 9000}]}
            ],
        },
    }
    target: Any = document
    words = path.replace("[", ".").replace("]", "").split(".")
    *steps, last = [int(word) if word.isdigit() else word for word in words]
    for step in steps:
        target = target[step]
    target[last] = pulumi.Output.from_input("later")
    return document


@pytest.fixture(autouse=True)
def event_loop() -> Iterator[None]:
    """Outputs are made inside an event loop, as in a program."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.mark.parametrize(
    "path",
    [
        "metadata.labels.team",
        "spec.model.name",
        "spec.engine.image",
        "spec.roles[0].extraArgs[0]",
        "spec.roles[0].env[0].value",
    ],
)
def test_words_that_only_end_up_inside_a_pod_may_be_outputs(path: str):
    assert arguments.refused_outputs(with_outputs(path)) == ()
    assert arguments.without_outputs(with_outputs(path)).unknown == (path,)


@pytest.mark.parametrize(
    "path",
    [
        "metadata.name",
        "metadata.namespace",
        "metadata.labels",
        "spec.engine.name",
        "spec.router.name",
        "spec.router.replicas",
        "spec.roles",
        "spec.roles[0]",
        "spec.roles[0].name",
        "spec.roles[0].replicas",
        "spec.roles[0].size",
        "spec.roles[0].kind",
        "spec.roles[0].instanceType",
        "spec.roles[0].extraArgs",
        "spec.roles[0].env[0].name",
        "spec.roles[0].ports[0].port",
    ],
)
def test_what_decides_which_objects_there_are_must_not_be_an_output(path: str):
    (refusal,) = arguments.refused_outputs(with_outputs(path))
    assert refusal.path == path and "pass a plain value" in refusal.message


@pytest.mark.parametrize(("secret", "count"), [(True, 1), (False, 0)])
def test_a_secret_in_a_spec_is_refused_and_an_ordinary_output_is_not(secret: bool, count: int):
    document = with_outputs("spec.roles[0].env[0].value")
    value = pulumi.Output.secret("hunter2") if secret else pulumi.Output.from_input("plain")
    document["spec"]["roles"][0]["env"][0]["value"] = value
    refusals = arguments.secret_refusals(document)
    assert refusals is not None
    found: Any = asyncio.get_event_loop().run_until_complete(refusals.future())
    assert len(found) == count
    for sentence in found:
        assert sentence.startswith("spec.roles[0].env[0].value: ") and "Kubernetes Secret" in sentence
        assert "hunter2" not in sentence


def test_a_spec_without_outputs_is_not_looked_through_for_secrets():
    assert arguments.secret_refusals({"spec": SPEC}) is None
