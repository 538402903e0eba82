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
