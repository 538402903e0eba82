"""Fixtures: the installed programs, and a namespace whose Pods answer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.routers import programs as installed
from tests.routers.programs import Programs
from tests.routers.site import Site
from tests.routers.site import site as open_site


@pytest.fixture(scope="session")
def programs() -> Programs:
    """The routers and Envoy, installed on first use."""
    return installed.install()


@pytest.fixture
def site(kubeconfig: Path, namespace: str, tmp_path: Path) -> Iterator[Site]:
    """A namespace of the sandbox in a network of its own."""
    with open_site(kubeconfig, namespace, tmp_path) as found:
        yield found
