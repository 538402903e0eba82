"""`check`: the contract other tools read, the text people read, and what the edit of a document may change."""

import json
import subprocess
from pathlib import Path

import pytest


def report(ran) -> dict:
    return json.loads(ran.out)


def test_the_json_report_has_exactly_the_contract_s_keys(cli, minimal: Path) -> None:
    accepted = report(cli("check", "-f", str(minimal), "-o", "json"))
    assert list(accepted) == ["refused", "refusals", "warnings", "documents"]
    assert accepted["refused"] is False
    assert accepted["refusals"] == []


def test_a_refusal_in_json_says_rule_path_message_value_and_document(cli, tmp_path: Path, minimal_text: str) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(minimal_text.replace("replicas: 3", "replicas: 2000"))
    ran = cli("check", "-f", str(wrong), "-o", "json")
    assert ran.code == 1
    [refusal] = report(ran)["refusals"]
    assert list(refusal) == ["rule", "path", "message", "value", "transient", "document", "source"]
    assert refusal["rule"] == "role-replicas-bound"
    assert refusal["path"] == "spec.roles[0].replicas"
    assert refusal["value"] == 2000
    assert refusal["transient"] is False
    assert refusal["document"] == "team-a/qwen"
    assert refusal["source"] == f"{wrong}:1"


def test_documents_come_back_defaulted(cli, minimal: Path, h20: Path) -> None:
    documents = report(cli("check", "-f", str(minimal), "-f", str(h20), "-o", "json"))["documents"]
    assert [document["kind"] for document in documents] == ["ModelDeployment", "InstanceType"]
    [role] = documents[0]["spec"]["roles"]
    assert (role["kind"], role["size"], role["startupTimeoutSeconds"]) == ("Server", 1, 1800)


def test_the_accelerator_count_is_defaulted_from_the_instance_type(
    cli, tmp_path: Path, minimal_text: str, h20: Path
) -> None:
    bare = tmp_path / "bare.yaml"
    bare.write_text(minimal_text.split("      resources:")[0])
    [deployment, _] = report(cli("check", "-f", str(bare), "-f", str(h20), "-o", "json"))["documents"]
    assert deployment["spec"]["roles"][0]["resources"] == {"accelerator": 1}


def test_all_refusals_of_all_documents_are_told_in_the_order_of_the_input(
    cli, tmp_path: Path, minimal_text: str
) -> None:
    two = tmp_path / "two.yaml"
    first = minimal_text.replace("name: vLLM", "name: TGI").replace("replicas: 3", "replicas: 0")
    second = minimal_text.replace("name: qwen\n", "name: second\n").replace("    image:", "    version: v1\n    image:")
    two.write_text(first + "---\n" + second)
    ran = cli("check", "-f", str(two), "-o", "json")
    assert ran.code == 1
    found = [(refusal["document"], refusal["rule"]) for refusal in report(ran)["refusals"]]
    assert found == [
        ("team-a/qwen", "schema-enum"),
        ("team-a/qwen", "role-replicas-bound"),
        ("team-a/second", "unknown-field"),
    ]


def test_the_text_report_groups_by_document_and_ends_with_a_summary(cli, tmp_path: Path, minimal_text: str) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("# ours\n---\n" + minimal_text.replace("replicas: 3", "replicas: 0"))
    ran = cli("check", "-f", str(wrong))
    first, second, last = ran.out.splitlines()
    assert first == f"{wrong}:3: ModelDeployment team-a/qwen"
    assert second.startswith("  refused  spec.roles[0].replicas: ")
    assert second.endswith("(role-replicas-bound)")
    assert last == "1 document: refused (1 refusal)"


def test_the_report_is_the_same_bytes_every_time(cli, minimal: Path, h20: Path) -> None:
    words = ("check", "-f", str(minimal), "-f", str(h20), "-o", "json")
    seeds = {cli.process(*words, env={"PYTHONHASHSEED": seed}).out for seed in ("1", "2", "3")}
    assert len(seeds) == 1


def test_json_manifests_are_read(cli, tmp_path: Path, minimal: Path) -> None:
    documents = report(cli("check", "-f", str(minimal), "-o", "json"))["documents"]
    path = tmp_path / "qwen.json"
    path.write_text(json.dumps(documents[0]))
    assert report(cli("check", "-f", str(path), "-o", "json"))["documents"] == documents


@pytest.mark.parametrize(
    "kind, code",
    [("kind: ModelDeploymnt", 1), ("kind: 7", 1), ("notkind: ModelDeployment", 1)],
    ids=["misspelt", "number", "none"],
)
def test_a_document_of_an_unknown_kind_is_refused_with_its_place(
    cli, tmp_path: Path, minimal_text: str, kind: str, code: int
) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(minimal_text.replace("kind: ModelDeployment", kind))
    ran = cli("check", "-f", str(path))
    assert ran.code == code
    assert f"{path}:1" in ran.out
    assert "kind" in ran.out


@pytest.mark.parametrize("value", [".nan", ".inf", "1e400", "[.nan]", '"\\ud800"', "{a: .nan}"])
def test_the_report_is_json_whatever_the_value(cli, tmp_path: Path, minimal_text: str, value: str) -> None:
    odd = tmp_path / "odd.yaml"
    odd.write_text(minimal_text.replace("replicas: 3", f"replicas: {value}"))
    ran = cli("check", "-f", str(odd), "-o", "json")
    assert ran.code in (1, 2)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    if ran.code == 1:
        json.loads(ran.out, parse_constant=refuse)


def test_a_name_cannot_send_codes_to_the_terminal(cli, tmp_path: Path, minimal_text: str) -> None:
    odd = tmp_path / "odd.yaml"
    odd.write_text(minimal_text.replace("name: qwen\n", 'name: "\\e[2Jqwen"\n'))
    ran = cli("check", "-f", str(odd))
    assert ran.code == 1
    assert "\x1b" not in ran.out


class TestOld:
    """`--old`: update rules against the document as it was."""

    @pytest.fixture
    def renamed(self, tmp_path: Path, minimal_text: str) -> Path:
        path = tmp_path / "renamed.yaml"
        path.write_text(minimal_text.replace("Qwen/Qwen3-8B", "Qwen/Qwen3-32B"))
        return path

    def test_a_frozen_field_is_refused_only_with_the_old_document(self, cli, minimal: Path, renamed: Path) -> None:
        assert cli("check", "-f", str(renamed)).code == 0
        ran = cli("check", "-f", str(renamed), "--old", str(minimal), "-o", "json")
        assert ran.code == 1
        assert [refusal["rule"] for refusal in report(ran)["refusals"]] == ["identity-model"]

    def test_the_same_document_is_no_edit(self, cli, minimal: Path) -> None:
        assert cli("check", "-f", str(minimal), "--old", str(minimal)).code == 0

    def test_a_document_the_old_file_does_not_hold_is_new(
        self, cli, tmp_path: Path, minimal: Path, renamed: Path, minimal_text: str
    ) -> None:
        other = tmp_path / "other.yaml"
        other.write_text(minimal_text.replace("name: qwen\n", "name: other\n"))
        assert cli("check", "-f", str(renamed), "--old", str(other)).code == 0

    def test_a_namespace_left_out_is_the_default_namespace(self, cli, tmp_path: Path, minimal_text: str) -> None:
        old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
        old.write_text(minimal_text.replace("team-a", "default"))
        new.write_text(minimal_text.replace("  namespace: team-a\n", "").replace("Qwen3-8B", "Qwen3-32B"))
        assert cli("check", "-f", str(new), "--old", str(old)).code == 1


class TestOldInGit:
    """`--old git:REF:path` and `--old git:REF`, in a real repository."""

    @pytest.fixture
    def repository(self, tmp_path: Path, minimal_text: str, monkeypatch: pytest.MonkeyPatch) -> Path:
        folder = tmp_path / "repository" / "deployments"
        folder.mkdir(parents=True)
        self.git(folder.parent, "init", "-q", "-b", "main")
        (folder / "qwen.yaml").write_text(minimal_text)
        self.git(folder, "add", ".")
        self.git(folder, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "Serve qwen")
        (folder / "qwen.yaml").write_text(minimal_text.replace("Qwen/Qwen3-8B", "Qwen/Qwen3-32B"))
        monkeypatch.chdir(folder)
        return folder

    @staticmethod
    def git(folder: Path, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)

    @pytest.mark.parametrize("old", ["git:main:qwen.yaml", "git:HEAD:./qwen.yaml", "git:main"])
    def test_the_old_document_is_read_from_the_revision(self, cli, repository: Path, old: str) -> None:
        ran = cli("check", "-f", "qwen.yaml", "--old", old)
        assert ran.code == 1
        assert "identity-model" in ran.out

    def test_the_path_is_relative_to_the_current_directory(
        self, cli, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(repository.parent)
        assert cli("check", "-f", "deployments/qwen.yaml", "--old", "git:main:deployments/qwen.yaml").code == 1
        assert cli("check", "-f", str(repository / "qwen.yaml"), "--old", "git:main").code == 1

    def test_a_document_whose_file_was_renamed_is_found_in_its_folder(self, cli, repository: Path) -> None:
        (repository / "qwen.yaml").rename(repository / "renamed.yaml")
        (repository / "inner").mkdir()
        for named in (
            ".",
            "*.yaml",
            str(repository),
            f"{repository}/*.yaml",
            f"{repository.parent}/**/*.yaml",
            "**/*.yaml",
        ):
            ran = cli("check", "-f", named, "--old", "git:main")
            assert ran.code == 1, (named, ran.out, ran.err)
            assert "identity-model" in ran.out
        assert cli("check", "-f", "renamed.yaml", "--old", "git:main").code == 0, "a file alone may be a new one"

    def test_brackets_in_the_name_of_a_folder_are_no_glob(
        self, cli, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        odd = repository.parent / "odd[1]"
        repository.rename(odd)
        self.git(odd.parent, "add", ".")
        self.git(
            odd.parent, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "Serve larger qwen"
        )
        text = (odd / "qwen.yaml").read_text()
        (odd / "qwen.yaml").write_text(text.replace("Qwen/Qwen3-32B", "Qwen/Qwen3-8B"))
        monkeypatch.chdir(odd.parent)
        for named in ("odd[1]", "odd[1]/", "odd[1]/qwen.yaml", str(odd)):
            assert cli("check", "-f", named, "--old", "git:main").code == 1, named
        monkeypatch.chdir(odd)
        for named in (".", "*.yaml", "q[w]en.yaml", f"//{odd.parent}/*/*.yaml"):
            assert cli("check", "-f", named, "--old", "git:main").code == 1, named

    def test_a_folder_or_a_glob_is_compared_file_by_file(self, cli, repository: Path) -> None:
        for named in (".", "*.yaml", str(repository)):
            ran = cli("check", "-f", named, "--old", "git:main")
            assert ran.code == 1
            assert "identity-model" in ran.out

    def test_a_file_the_revision_does_not_hold_is_new(self, cli, repository: Path, minimal_text: str) -> None:
        (repository / "new.yaml").write_text(minimal_text.replace("name: qwen\n", "name: new\n"))
        assert cli("check", "-f", "new.yaml", "--old", "git:main").code == 0

    @pytest.mark.parametrize(
        "old, sentence",
        [
            ("git:nowhere:qwen.yaml", "no revision 'nowhere'"),
            ("git:main:absent.yaml", "revision 'main' holds no file 'absent.yaml'"),
            ("git::qwen.yaml", "is no Git revision"),
            ("git:--help:qwen.yaml", "is no Git revision"),
        ],
    )
    def test_what_git_cannot_give_is_said(self, cli, repository: Path, old: str, sentence: str) -> None:
        ran = cli("check", "-f", "qwen.yaml", "--old", old)
        assert (ran.code, ran.out) == (2, "")
        assert sentence in ran.err

    def test_outside_a_repository_that_is_said(
        self, cli, tmp_path: Path, minimal: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
        ran = cli("check", "-f", str(minimal), "--old", "git:main:qwen.yaml")
        assert ran.code == 2
        assert "not inside a Git work tree" in ran.err

    def test_without_git_that_is_said(self, cli, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(repository))
        ran = cli("check", "-f", "qwen.yaml", "--old", "git:main")
        assert ran.code == 2
        assert "git is not on PATH" in ran.err
