"""Binding objects by kind and name (bindings sheet 0)."""

from gpustack_components.api.kv_cache import KVCachePoolBinding
from gpustack_components.api.model_artifact import ModelArtifact
from gpustack_components.bindings.catalog import Bindings
from tests.render import build


def test_objects_are_found_by_kind_and_name_and_namespaced_ones_in_their_namespace_only() -> None:
    known = Bindings.of([build.instance_type("a"), build.instance_type("b"), *build.store(), build.artifact()])
    assert [known.instance_type(name) is not None for name in ("a", "b", "c")] == [True, True, False]
    assert isinstance(known.pool_binding("team-a", "cache"), KVCachePoolBinding)
    assert known.pool_binding("team-b", "cache") is None
    assert known.pool("shared-dram") is not None and known.backend("mooncake") is not None
    assert isinstance(known.artifact("team-a", "weights"), ModelArtifact)
    assert known.artifact(None, "weights") is None
    assert not known.complete and Bindings.of([], complete=True).complete


def test_no_namespace_and_the_default_one_are_the_same() -> None:
    document = build.artifact()
    assert isinstance(document, ModelArtifact)
    moved = document.model_copy(update={"metadata": document.metadata.model_copy(update={"namespace": None})})
    known = Bindings.of([moved])
    assert known.artifact("default", "weights") is moved and known.artifact(None, "weights") is moved


def test_documents_of_other_kinds_are_passed_over() -> None:
    assert Bindings.of([build.deployment(), object()]) == Bindings.of([])


def test_the_same_object_twice_is_fine_and_two_of_one_name_are_a_conflict() -> None:
    one, same, other = build.instance_type(), build.instance_type(), build.instance_type(manufacturer="amd")
    assert Bindings.of([one, same]).conflicts == ()
    clashing = Bindings.of([one, other])
    assert clashing.conflicts == ("InstanceType h20-8x",)
    assert clashing.instance_type("h20-8x") is one


def test_the_chain_behind_a_binding_is_followed_or_broken() -> None:
    binding, pool, backend = build.store()
    assert Bindings.of([binding, pool, backend]).backend_behind("team-a", "cache") is backend
    for missing in ([pool, backend], [binding, backend], [binding, pool]):
        assert Bindings.of(missing).backend_behind("team-a", "cache") is None


def test_objects_laid_over_others_go_before_their_namesakes() -> None:
    mine, theirs = build.instance_type(), build.instance_type(manufacturer="amd")
    others = Bindings.of([theirs, build.instance_type("b"), *build.store(), build.artifact()], complete=True)
    joined = Bindings.of([mine]).over(others)
    assert joined.instance_type("h20-8x") is mine and joined.instance_type("b") is others.instance_type("b")
    assert joined.backend_behind("team-a", "cache") is not None and joined.artifact("team-a", "weights") is not None
    assert joined.complete and joined.conflicts == ()
