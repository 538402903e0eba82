"""A deployment's lab on the live cluster, and the profile for long runs of the state machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.rollout.lab import Lab

settings.register_profile("long", max_examples=100_000)


@pytest.fixture
def lab(kubeconfig: Path, namespace: str) -> Iterator[Lab]:
    """A namespace, a queue to be opened, and a deployment in it."""
    of = Lab(kubeconfig, namespace)
    yield of
    of.close()
