"""The same rows through the command line: `check -o json` refuses what the review refuses, in the same words."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpustack_components.admission.review import review
from gpustack_components.cli.main import app
from tests.admission.cases import DATA, Case, cases

RUN = CliRunner()

THROUGH_THE_CLI = [
    pytest.param(case, id=case.name) for case in cases() if case.row.get("complete", True) and "writer" not in case.row
]
"""Every case but those about a writer, which no file can state, and about objects that may exist elsewhere."""


def check(folder: Path, case: Case, document: Any) -> tuple[int, list[dict[str, Any]]]:
    """The exit code, and the refusals of the document itself."""
    arguments = ["check", "-o", "json", "-f", str(DATA / "world.yaml"), "-f", _written(folder, "document", document)]
    if case.target is not None:
        arguments += ["-f", _written(folder, "target", case.target)]
    if case.old is not None:
        arguments += ["--old", _written(folder, "old", case.old)]
    if "settings" in case.row:
        arguments += ["--settings", _written(folder, "settings", case.row["settings"])]
    result = RUN.invoke(app, arguments)
    report = json.loads(result.stdout)
    return result.exit_code, [one for one in report["refusals"] if "document.yaml" in one["source"]]


def _written(folder: Path, name: str, value: Any) -> str:
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(value))
    return str(path)


@pytest.mark.parametrize("case", THROUGH_THE_CLI)
def test_check_answers_as_the_review_does(case: Case, tmp_path: Path) -> None:
    code, refusals = check(tmp_path, case, case.document)
    expected = review(case.document, old=case.old, **case.arguments).refusals
    assert [(one["rule"], one["path"], one["message"]) for one in refusals] == [
        (one.rule, one.path, one.message) for one in expected
    ]
    assert code == (1 if case.refused else 0)
    if case.neighbour is not None:
        assert check(tmp_path, case, case.neighbour) == (0, [])
