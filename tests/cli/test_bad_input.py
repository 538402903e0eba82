"""Input nobody can use ends with a sentence and exit code 2 at every command that reads files, never a traceback."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

READERS = (("check",), ("render",), ("plan", "--observed", "OBSERVED"))

UNUSABLE = {
    "broken YAML": (b"spec: [1, 2\nkind: x", "broken.yaml:"),
    "broken JSON": (b'{"kind": "ModelDeployment",', "broken.yaml:"),
    "binary": (b"\x7fELF\x00\x01\x02", "looks like a binary file"),
    "not UTF-8": (b"kind: ModelDeployment\nmetadata: {name: caf\xe9}\n", "broken.yaml:2: not UTF-8 text (byte 0xe9)"),
    "a Python object tag": (b"!!python/object/apply:os.system ['true']\n", "broken.yaml:"),
    "empty": (b"", "broken.yaml"),
    "only comments": (b"# nothing\n---\n", "broken.yaml"),
}


@pytest.mark.parametrize("command", READERS, ids=lambda command: command[0])
@pytest.mark.parametrize("content, sentence", UNUSABLE.values(), ids=UNUSABLE)
def test_unusable_file_ends_with_a_sentence(
    cli, tmp_path: Path, command: tuple[str, ...], content: bytes, sentence: str
) -> None:
    (tmp_path / "broken.yaml").write_bytes(content)
    (tmp_path / "observed.yaml").write_text("apiVersion: v1\nkind: List\nitems: []\n")
    words = [str(tmp_path / "observed.yaml") if word == "OBSERVED" else word for word in command]
    ran = cli(*words, "-f", str(tmp_path / "broken.yaml"))
    assert ran.code == 2
    assert sentence in ran.err
    assert ran.out == ""
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "name, sentence",
    [
        ("absent.yaml", "absent.yaml: no such file"),
        ("", "the folder holds no manifest (.yaml, .yml, .json); name a file or a glob"),
        ("none-*.yaml", "none-*.yaml: no file matches, looked from "),
        ("a\0b", "is no file name"),
        ("n" * 300, "cannot be read: File name too long"),
    ],
)
def test_a_name_that_is_no_readable_file(cli, tmp_path: Path, name: str, sentence: str) -> None:
    ran = cli("check", "-f", f"{tmp_path}/{name}")
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err


def test_every_unreadable_file_is_named(cli, tmp_path: Path, minimal: Path) -> None:
    (empty := tmp_path / "empty").mkdir()
    ran = cli("check", "-f", f"{tmp_path}/one.yaml", "-f", str(minimal), "-f", str(empty))
    assert ran.code == 2
    assert "one.yaml: no such file" in ran.err
    assert f"{empty}: the folder holds no manifest" in ran.err


def test_a_folder_or_a_glob_stands_for_its_files(cli, tmp_path: Path, minimal_text: str) -> None:
    folder = tmp_path / "deployments"
    (folder / "inner.yaml").mkdir(parents=True)
    (folder / "notes.txt").write_text("not read")
    for index, suffix in enumerate(("yaml", "yml", "json", "YAML")):
        text = minimal_text.replace("name: qwen", f"name: qwen-{index}")
        if suffix == "json":
            text = json.dumps(yaml.safe_load(text))
        (folder / f"{index}.{suffix}").write_text(text)
    for named in (folder, folder / "[0-3].*", tmp_path / "**" / "*.[yYj]*"):
        ran = cli("check", "-f", str(named), "-f", str(folder / "0.yaml"), "-o", "json")
        assert ran.code == 0, ran.err
        names = [document["metadata"]["name"] for document in json.loads(ran.out)["documents"]]
        assert names == [f"qwen-{index}" for index in range(4)]


def test_standard_input_is_read(cli, minimal_text: str) -> None:
    assert cli("check", "-f", "-", stdin=minimal_text).code == 0


def test_standard_input_twice_is_wrong_usage(cli, minimal_text: str) -> None:
    for words in (
        ("check", "-f", "-", "-f", "-"),
        ("check", "-f", "-", "--old", "-"),
        ("render", "-f", "-", "--settings", "-"),
        ("plan", "-f", "-", "--observed", "-"),
    ):
        ran = cli(*words, stdin=minimal_text)
        assert (ran.code, ran.out) == (2, "")
        assert "read once" in ran.err


def test_closed_standard_input_is_said(cli) -> None:
    done = subprocess.run(["sh", "-c", f"{cli.script} check -f - <&-"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "standard input is closed" in done.stderr


def test_two_different_documents_of_one_name_are_refused(cli, tmp_path: Path, minimal: Path, minimal_text: str) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(minimal_text.replace("replicas: 3", "replicas: 4"))
    ran = cli("check", "-f", str(minimal), "-f", str(other))
    assert ran.code == 1
    assert f"{other}:1: ModelDeployment team-a/qwen" in ran.out
    assert "document-duplicate" in ran.out


def test_the_same_document_twice_counts_once(cli, tmp_path: Path, minimal: Path, minimal_text: str) -> None:
    copy = tmp_path / "copy.yaml"
    copy.write_text(minimal_text)
    ran = cli("check", "-f", str(minimal), "-f", str(copy))
    assert ran.code == 0
    assert ran.out.splitlines()[-1].startswith("1 document: accepted")


def test_a_file_without_any_name_is_wrong_usage(cli) -> None:
    ran = cli("check")
    assert (ran.code, ran.out) == (2, "")
    assert "--file" in ran.err


def test_unknown_option_is_wrong_usage(cli) -> None:
    assert cli("check", "--fil", "x").code == 2


@pytest.mark.parametrize(
    "content, sentence",
    [
        ("- a\n", "settings are a mapping of names to values, found list"),
        ("model-deployment-router-imag: x\n", "did you mean model-deployment-router-image?"),
        ("instance-privileged-allowed: perhaps\n", "expected true or false"),
        ("a: [\n", "not readable as YAML"),
    ],
)
def test_unusable_settings_are_said(cli, tmp_path: Path, minimal: Path, content: str, sentence: str) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text(content)
    ran = cli("check", "-f", str(minimal), "--settings", str(settings))
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err
    assert str(settings) in ran.err


def test_a_manifest_of_ten_megabytes_gets_an_answer(cli, tmp_path: Path, minimal_text: str) -> None:
    big = tmp_path / "big.yaml"
    big.write_text(minimal_text + "".join(f"        - --flag-{index}={'x' * 1000}\n" for index in range(10_000)))
    ran = cli.process("check", "-f", str(big))
    assert ran.code in (0, 1, 2)
    assert "Traceback" not in ran.err
    assert (ran.out + ran.err).strip()
