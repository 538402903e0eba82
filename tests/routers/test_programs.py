"""What stands between a newcomer and the routers' tests."""

from pathlib import Path

import pytest

from tests.routers import programs


def test_it_says_what_cannot_be_installed_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(programs.Unavailable) as failure:
        programs.install()
    message = str(failure.value)
    assert "vllm-router==0.1.17" in message
    assert "make PyPI (or a mirror with them) reachable to pip" in message
    assert "No matching distribution found" in message
    assert not list(tmp_path.rglob("installed")), "the next run tries again"
