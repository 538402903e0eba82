"""What the documentation shows is what the program does: its commands run, its files parse, its links lead somewhere.

A block fenced as `yaml NAME` is saved as NAME; in a block fenced as `console`, every line that starts with `$ ` is run
beside those files, and what follows it is compared with what it prints. A block of another language is not run.
"""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from gpustack_components.cli import reference, rules
from gpustack_components.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = sorted((*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"))
PROGRAMS = sorted(file.parent for file in (ROOT / "Pulumi.yaml", *ROOT.glob("examples/*/Pulumi.yaml")))
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]\n]+\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    language: str
    name: str
    body: str


def blocks(page: Path) -> Iterator[Block]:
    for found in FENCE.finditer(page.read_text()):
        language, _, name = found["info"].strip().partition(" ")
        yield Block(language, name, found["body"])


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if "```console" in page.read_text()], ids=name_of)
def test_console_blocks_print_what_the_page_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        if block.name:
            file = tmp_path / block.name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.body)
    for block in blocks(page):
        if block.language == "console":
            assert run_as_shown(block.body) == block.body


def run_as_shown(body: str) -> str:
    """The block again, with what its commands print now."""
    shown: list[str] = []
    for line in body.splitlines():
        if not line.startswith("$ "):
            continue
        program, *arguments = shlex.split(line.removeprefix("$ "))
        assert program == "gpustack-components", f"{program} is not run by tests; use another language for the block"
        result = CliRunner().invoke(app, arguments, prog_name=program)
        shown += [line, *result.output.splitlines()]
    return "".join(f"{line}\n" for line in shown)


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_pulumi_install_installs_this_checkout_for_a_program(program: Path) -> None:
    options = yaml.safe_load((program / "Pulumi.yaml").read_text())["runtime"]["options"]
    assert options["toolchain"] == "pip"
    assert (program / options["virtualenv"]).resolve() == ROOT / ".venv"
    option, _, path = (program / "requirements.txt").read_text().strip().partition(" ")
    assert (option, (program / path).resolve()) == ("-e", ROOT)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_parse(page: Path) -> None:
    for block in blocks(page):
        if block.language == "yaml":
            list(yaml.safe_load_all(block.body))
        elif block.language == "json":
            json.loads(block.body)
        elif block.language == "python":
            compile(block.body, name_of(page), "exec")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    prose = FENCE.sub("", page.read_text())
    for found in LINK.finditer(prose):
        path, _, anchor = found["target"].partition("#")
        if re.match(r"[a-z]+:", path):
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name_of(page)} links to {found['target']}, which is not there"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), (
                f"{name_of(page)} links to {found['target']}, and there is no such heading"
            )


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_reference_of_commands_is_current() -> None:
    assert (ROOT / "docs/reference/cli.md").read_text() == reference.page()


def test_the_reference_of_rules_is_current() -> None:
    assert (ROOT / "docs/reference/rules.md").read_text() == rules.page(rules.all_rules())


def test_every_command_is_in_the_reference() -> None:
    page = reference.page()
    for command in ("check", "render", "plan", "status", "schema", "explain", "rules"):
        assert f"## {command}\n" in page
