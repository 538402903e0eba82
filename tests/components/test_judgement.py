"""What a program's request is judged by: the objects it declares beside the deployment."""

from gpustack_components.api.encode import encode
from gpustack_components.components.judgement import review_only
from gpustack_components.components.request import Request
from tests.render import build


def test_two_objects_of_one_name_are_refused_once_also_while_something_is_not_known() -> None:
    one, other = build.instance_type(), build.instance_type(manufacturer="amd")
    document = encode(build.deployment())
    for unknown in ((), ("spec.engine.image",)):
        twice = Request(document, (encode(one), encode(other)), unknown=unknown)
        assert [(found.rule, found.path) for found in review_only(twice).refusals] == [("binding-conflict", "bindings")]
        same = Request(document, (encode(one), encode(one)), unknown=unknown)
        assert review_only(same).refusals == ()


def test_an_object_that_a_deployment_stands_on_meets_its_own_rules_unless_the_value_is_not_known_yet() -> None:
    document, declared = encode(build.deployment()), encode(build.instance_type())
    del declared["spec"]["acceleratorGroup"]
    found = review_only(Request(document, (declared,))).refusals
    assert [one.path for one in found] == ["bindings[0].spec.acceleratorGroup"]
    hidden = Request(document, (declared,), unknown=("bindings[0].spec.acceleratorGroup",))
    assert review_only(hidden).refusals == ()
