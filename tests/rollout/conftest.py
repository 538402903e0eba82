"""A deployment's lab on the live cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rollout.lab import Lab


@pytest.fixture
def lab(kubeconfig: Path, namespace: str) -> Iterator[Lab]:
    """A namespace, a queue to be opened, and a deployment in it."""
    of = Lab(kubeconfig, namespace)
    yield of
    of.close()
