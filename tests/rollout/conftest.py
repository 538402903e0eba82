"""Makes the helpers of this folder importable by its tests, and a deployment's lab on the live cluster."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))

if TYPE_CHECKING:
    from lab import Lab


@pytest.fixture
def lab(kubeconfig: Path, namespace: str) -> "Iterator[Lab]":
    """A namespace, a queue to be opened, and a deployment in it."""
    from lab import Lab

    of = Lab(kubeconfig, namespace)
    yield of
    of.close()
