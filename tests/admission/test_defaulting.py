"""The accelerator count that is filled in: the table of api sheet 3.2."""

from typing import Any

import pytest

from gpustack_components.admission.defaulting import default
from gpustack_components.api.decode import decode
from gpustack_components.api.model_deployment import ModelDeployment
from gpustack_components.api.quantity import Quantity
from gpustack_components.bindings.catalog import Bindings
from tests.admission.cases import edited, world


def cards(base: str, edits: dict[str, Any], bindings: Bindings) -> list[Quantity | None]:
    document = decode(edited(base, edits)).document
    assert isinstance(document, ModelDeployment)
    filled = default(document, bindings)
    assert default(filled, bindings) is filled
    return [role.resources.accelerator if role.resources else None for role in filled.spec.roles]


@pytest.mark.parametrize(
    ("base", "edits", "expected"),
    [
        ("server", {"spec.roles[0].resources": None}, [1]),
        ("server", {"spec.roles[0].resources": {}}, [1]),
        ("server", {"spec.roles[0].resources": {"acceleratorSlicedMemoryPercentage": 50}}, [1]),
        ("pair", {"spec.roles[0].resources": None, "spec.roles[1].resources": None}, [1, 1]),
        ("server", {"spec.roles[0].resources.accelerator": 0}, [0]),
        ("server", {"spec.roles[0].resources.accelerator": 4}, [4]),
        ("server", {"spec.roles[0].resources": None, "spec.roles[0].instanceType": "generic-cpu"}, [None]),
        ("server", {"spec.roles[0].resources": None, "spec.roles[0].instanceType": "no-such"}, [None]),
        ("server", {"spec.roles[0].resources": None, "spec.roles[0].extraArgs": ["-tp", "8"]}, [1]),
        ("elastic", {"spec.roles[0].resources": None, "spec.roles[0].extraArgs": ["-tp", "8"]}, [8]),
        ("elastic", {"spec.roles[0].resources": None}, [1]),
        ("elastic", {"spec.roles[0].extraArgs": ["-tp", "2"]}, [1]),
        ("elastic", {"spec.roles[0].resources": None, "spec.roles[0].extraArgs": ["-tp", "bad"]}, [None]),
        (
            "server",
            {"spec.roles[0].resources": None, "metadata.deletionTimestamp": "2026-01-01T00:00:00Z"},
            [None],
        ),
    ],
)
def test_the_count_that_is_filled_in(base: str, edits: dict[str, Any], expected: list[int | None]) -> None:
    assert cards(base, edits, world()) == expected


def test_what_else_was_asked_is_kept() -> None:
    document = decode(edited("server", {"spec.roles[0].resources": {"interface": 2}})).document
    assert isinstance(document, ModelDeployment)
    resources = default(document, world()).spec.roles[0].resources
    assert resources is not None
    assert (resources.accelerator, resources.interface) == (1, 2)
