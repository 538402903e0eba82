"""Building parts of the toolchain, with the real Go compiler and a part so small that it takes a second."""

import dataclasses
import io
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import parts
from sandbox.build import build
from sandbox.errors import SandboxError
from sandbox.parts import Copied, Part, Stamp
from sandbox.progress import Progress, Silent

MAIN = 'package main\n\nimport "fmt"\n\nvar version = "none"\n\nfunc main() { fmt.Println(version) }\n'


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("GPUSTACK_SANDBOX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def part(tmp_path: Path) -> Part:
    """A program that prints its version, and no dependencies."""
    source = tmp_path / "modules" / "tiny"
    source.mkdir(parents=True)
    (source / "go.mod").write_text("module example.com/tiny\n\ngo 1.21\n")
    (source / "main.go").write_text(MAIN)
    return Part("tiny", "tiny", ".", modules=tmp_path / "modules")


def output(part: Part, places: dict[str, Path]) -> str:
    """What the built program prints."""
    return subprocess.run([places[part.name] / "bin" / part.binary], capture_output=True, text=True, check=True).stdout


def test_a_part_is_built_once(part: Part) -> None:
    said = io.StringIO()
    first = build([part], progress=Progress(said))
    assert output(part, first) == "none\n"
    assert "[1/1] tiny" in said.getvalue()
    said.truncate(0)
    assert build([part], progress=Progress(said)) == first
    assert not said.getvalue().strip("\0")


def test_an_edit_is_built_beside_the_older_build(part: Part) -> None:
    before = build([part], progress=Silent())
    (part.source / "main.go").write_text(MAIN.replace("none", "edited"))
    after = build([part], progress=Silent())
    assert after != before
    assert output(part, after) == "edited\n"
    assert output(part, before) == "none\n"


@pytest.mark.parametrize("file", ["go.mod", "go.sum", "main.go"])
def test_the_cache_is_keyed_by_every_pin_and_source(part: Part, file: str) -> None:
    before = part.key("go1.26.0")
    with (part.source / file).open("a") as opened:
        opened.write("\n// more\n")
    assert part.key("go1.26.0") != before


def test_the_cache_is_keyed_by_compiler_flags_and_copied_files(part: Part) -> None:
    copied = dataclasses.replace(part, copied=(Copied("example.com/other", ("a",), "bin"),))
    other_package = dataclasses.replace(part, package="./other")
    keys = {part.key("go1.26.0"), part.key("go1.27.0"), copied.key("go1.26.0"), other_package.key("go1.26.0")}
    assert len(keys) == 4


def test_a_pinned_version_is_written_into_the_program(part: Part) -> None:
    (part.source / "go.mod").write_text(
        "module example.com/tiny\n\ngo 1.21\n\nrequire example.com/pinned v1.35.4 // indirect\n"
    )
    stamped = dataclasses.replace(part, versions=(Stamp("example.com/pinned", "main.version"),))
    assert stamped.pinned("example.com/pinned") == "v1.35.4"
    assert "-X main.version=v1.35.4" in " ".join(stamped.build_command(Path("out")))
    with pytest.raises(SandboxError, match=r"does not require example\.com/absent"):
        stamped.pinned("example.com/absent")


def test_a_failed_build_names_the_part_the_reason_and_its_log(part: Part, cache: Path) -> None:
    (part.source / "main.go").write_text("package main\n\nfunc main() { undefinedThing() }\n")
    with pytest.raises(SandboxError) as raised:
        build([part], progress=Silent())
    message = str(raised.value)
    assert message.startswith("tiny could not be built")
    assert "undefined: undefinedThing" in message
    log = Path(message.rpartition("Its log: ")[2])
    assert "undefinedThing" in log.read_text()
    assert not [path for path in cache.iterdir() if path.is_dir()]


def test_parts_built_before_a_failure_stay(part: Part, cache: Path) -> None:
    broken = dataclasses.replace(part, name="broken")
    broken.source.mkdir()
    (broken.source / "go.mod").write_text("module example.com/broken\n\ngo 1.21\n")
    with pytest.raises(SandboxError, match="broken could not be built"):
        build([part, broken], progress=Silent())
    assert [path.name.partition("-")[0] for path in cache.iterdir() if path.is_dir()] == ["tiny"]


def test_concurrent_builders_build_once(part: Part, cache: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from sandbox.build import build; from sandbox.parts import Part;"
        "build([Part('tiny', 'tiny', '.', modules=Path(sys.argv[1]))])"
    )
    argv = [sys.executable, "-c", code, str(part.modules)]
    builders = [subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = [builder.communicate(timeout=120)[1] for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0, 0], said
    assert "".join(said).count("done in") == 1
    assert len([path for path in cache.iterdir() if path.is_dir()]) == 1


def test_without_go_the_way_out_is_said(part: Part, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match=r"go was not found.*go\.dev"):
        build([dataclasses.replace(part, name="another")], progress=Silent())


def test_every_real_part_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUSTACK_SANDBOX_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert parts.cache_directory() == Path("/elsewhere/gpustack-components/sandbox")
    assert len(parts.PARTS) == 5
    for part in parts.PARTS:
        assert (part.source / "go.sum").is_file(), part.name
        for stamp in part.versions:
            assert part.pinned(stamp.module).startswith("v")
