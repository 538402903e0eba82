"""What a program may pass as bindings: manifests, models, and files that hold them."""

from pathlib import Path

import pulumi
import pytest

from gpustack_components.api.decode import decode
from gpustack_components.components.arguments import as_json
from gpustack_components.components.model_deployment import expanded
from tests.render import build

MODELS = [build.instance_type(), *build.store(), build.artifact()]
FILE = "kind: KVCacheBackend\nmetadata: {name: filed}\nspec: {connection: {managed: {}}}\n"


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.kind)
def test_a_model_is_the_document_it_was_made_from(model: object):
    assert decode(as_json(model)).document == model  # pyright: ignore[reportArgumentType]


def test_files_are_what_they_hold_beside_everything_else(tmp_path: Path):
    (tmp_path / "a.yaml").write_text(FILE)
    (tmp_path / "b.yaml").write_text(FILE.replace("filed", "other"))
    model = build.instance_type()
    found = expanded([str(tmp_path / "*.yaml"), model, {"kind": "KVCachePool"}, tmp_path / "a.yaml"])
    names = [one["metadata"]["name"] for one in found[2:]]  # pyright: ignore
    assert (found[:2], names) == ([model, {"kind": "KVCachePool"}], ["filed", "other"])


@pytest.mark.parametrize("as_list", [False, True])
def test_one_binding_needs_no_list(tmp_path: Path, as_list: bool):
    (tmp_path / "a.yaml").write_text(FILE)
    for one in (str(tmp_path / "a.yaml"), tmp_path / "a.yaml", {"kind": "KVCachePool"}, build.instance_type()):
        assert len(expanded([one] if as_list else one)) == 1


def test_every_file_that_cannot_be_read_is_named():
    with pytest.raises(pulumi.RunError) as refused:
        expanded(["nowhere/*.yaml", "missing.yaml"])
    assert "nowhere/*.yaml: no file matches" in str(refused.value)
    assert "missing.yaml: no such file, looked from " in str(refused.value)


def test_a_resource_that_is_no_binding_object_is_named_with_the_place_it_belongs_to():
    resource = pulumi.Resource.__new__(pulumi.Resource)
    with pytest.raises(pulumi.RunError, match=r"found Resource; .* belongs into depends_on of opts"):
        expanded([build.instance_type(), resource])  # pyright: ignore[reportArgumentType]
