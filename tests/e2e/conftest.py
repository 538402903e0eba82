"""Fixtures of the tests on the real engine and the real control plane."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.cluster import Sandbox
from tests.e2e.case import Case
from tests.e2e.engine import Stack


@pytest.fixture
def new_stack(sandbox: Sandbox, tmp_path: Path) -> Callable[[str], Stack]:
    """Makes stacks, each with a directory and a state of its own."""
    return lambda name: Stack(tmp_path / name, sandbox.environment(tmp_path / name))


@pytest.fixture
def new_case(sandbox: Sandbox, new_stack: Callable[[str], Stack]) -> Iterator[Callable[..., Case]]:
    """Makes cases; their stacks are destroyed afterwards."""
    made: list[Case] = []

    def make(**options: object) -> Case:
        made.append(Case(new_stack(f"case{len(made)}"), sandbox, **options))  # pyright: ignore[reportArgumentType]
        return made[-1]

    yield make
    for case in made:
        case.stack.cancel()
        case.stack.destroy()
