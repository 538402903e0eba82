"""Whatever bytes arrive, a command answers with an exit code of the contract and a sentence, never with a traceback."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from gpustack_components.cli.main import app

PIECES = [
    "apiVersion: worker.gpustack.ai/v1",
    "kind: ModelDeployment",
    "kind: List",
    "kind: Pod",
    "items:",
    "metadata:",
    "  name: qwen",
    "spec:",
    "  roles:",
    "  - name: x",
    "---",
    "{",
    "}",
    "[",
    "]",
    "&a",
    "*a",
    "!!binary x",
    "- ",
    ": ",
    "\t",
    "'",
    '"',
    "%TAG",
    "\x85",
]
INPUTS = st.one_of(
    st.binary(max_size=200), st.lists(st.sampled_from(PIECES), max_size=12).map("\n".join).map(str.encode)
)


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployment and its InstanceType in one file."""
    folder = Path(__file__).parents[1] / "data"
    path = tmp_path_factory.mktemp("documents") / "all.yaml"
    seed = (folder / "seeds" / "deployment-minimal.yaml").read_text()
    renamed = seed.replace("gpustack-nvidia-a10g-linux-amd64", "h20-8x")
    path.write_text(f"{(folder / 'minimum_bindings.yaml').read_text()}\n---\n{renamed}")
    return path


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(manifest=INPUTS)
def test_any_manifest_gets_an_answer(manifest: bytes) -> None:
    ran = CliRunner().invoke(app, ["check", "-f", "-"], input=manifest)
    assert ran.exit_code in (0, 1, 2), ran.stderr
    assert "Traceback" not in ran.output
    assert ran.output.strip()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(snapshot=INPUTS)
def test_any_snapshot_gets_an_answer(documents: Path, snapshot: bytes) -> None:
    ran = CliRunner().invoke(app, ["plan", "-f", str(documents), "--observed", "-"], input=snapshot)
    assert ran.exit_code in (0, 2), ran.stderr
    assert "Traceback" not in ran.output
    assert ran.output.strip()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(before=INPUTS)
def test_any_earlier_document_gets_an_answer(documents: Path, before: bytes) -> None:
    ran = CliRunner().invoke(app, ["render", "-f", str(documents), "--diff", "-"], input=before)
    assert ran.exit_code in (0, 1, 2, 3), ran.stderr
    assert "Traceback" not in ran.output
    assert ran.output.strip()
