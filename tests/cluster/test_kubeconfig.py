"""Which cluster is meant, and what is said when none can be found."""

import re
import stat
from pathlib import Path

import pytest

from gpustack_components.cluster.client import connect
from gpustack_components.cluster.errors import KubeconfigError
from gpustack_components.cluster.kubeconfig import locate, read
from gpustack_components.cluster.port import Unauthorized
from tests.cluster.kubeconfigs import kubeconfig


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return tmp_path


def test_the_argument_may_be_a_path_or_the_text(home: Path) -> None:
    path = home / "here.yaml"
    path.write_text(kubeconfig("https://file.example:6443"))
    assert connect(str(path)).server == "https://file.example:6443"
    assert connect("~/here.yaml").server == "https://file.example:6443"
    assert connect(kubeconfig("https://text.example:6443")).server == "https://text.example:6443"


def test_the_argument_wins_over_the_environment_which_wins_over_the_home_directory(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".kube").mkdir()
    (home / ".kube/config").write_text(kubeconfig("https://home.example"))
    assert connect().server == "https://home.example"
    (home / "env.yaml").write_text(kubeconfig("https://env.example"))
    monkeypatch.setenv("KUBECONFIG", str(home / "env.yaml"))
    assert connect().server == "https://env.example"
    assert connect(kubeconfig("https://argument.example")).server == "https://argument.example"


def test_several_files_merge_as_kubectl_merges_them_the_first_one_winning(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "one").write_text(kubeconfig("https://one.example", name="one"))
    (home / "two").write_text(kubeconfig("https://two.example", name="two"))
    (home / "shadow").write_text(kubeconfig("https://shadow.example", name="one"))
    monkeypatch.setenv("KUBECONFIG", f"{home}/absent:{home}/one:{home}/two:{home}/shadow")
    assert connect().server == "https://one.example"
    assert connect(context="two").server == "https://two.example"


def test_relative_files_are_found_beside_the_kubeconfig_that_names_them(home: Path) -> None:
    (home / "sub").mkdir()
    (home / "sub/ca.crt").write_text("x")
    path = home / "sub/config"
    path.write_text(kubeconfig("https://a.example", cluster={"certificate-authority": "ca.crt"}))
    access = read(locate(str(path)))
    assert access.config["clusters"][0]["cluster"]["certificate-authority"] == str(home / "sub/ca.crt")


def test_an_impersonated_user_is_sent_along(home: Path) -> None:
    access = read(locate(kubeconfig("https://a.example", user={"token": "t", "as": "jane"})))
    assert access.impersonation == {"Impersonate-User": "jane"}


TWO = kubeconfig("https://a.example", name="dev").replace('"current-context": "dev"', '"current-context": ""')


@pytest.mark.parametrize(
    ("text", "context", "words"),
    [
        ("a: [1\nb: 2", None, "not valid YAML at line 2"),
        ("\n\n- 1\n- 2", None, "is not a kubeconfig"),
        ("# nothing\n", None, "is empty"),
        (TWO, None, "current-context is empty. Name one of: dev."),
        (TWO, "prod", "There is no context prod in the kubeconfig text. Its contexts: dev."),
        (kubeconfig("ftp://a.example"), None, "no usable server address"),
        (kubeconfig("https://a.example").replace('"cluster": "here"', '"cluster": "gone"'), None, "names cluster gone"),
        (kubeconfig("https://a.example").replace('"user": "here"', '"user": "gone"'), None, "names user gone"),
        (kubeconfig("https://a.example", cluster={"certificate-authority": "/no/ca"}), None, "/no/ca, which does not"),
        (kubeconfig("https://a.example", user={"client-certificate-data": "eA==", "client-key-data": "eA=="}), None,
         "certificate or key in the kubeconfig cannot be read"),
        (kubeconfig("https://a.example", user={"as": "jane", "as-groups": ["x"]}), None, "impersonates groups"),
        ("apiVersion: v1\nclusters: [{name: a}]\ncontexts: []\nusers: []", None, "every entry of clusters needs"),
    ],
)  # fmt: skip
def test_a_wrong_kubeconfig_is_named_with_the_way_out(home: Path, text: str, context: str | None, words: str) -> None:
    with pytest.raises(KubeconfigError, match=re.escape(words)):
        connect(text, context)


def test_a_missing_file_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KubeconfigError, match="/no/such/file does not exist"):
        connect("/no/such/file")
    with pytest.raises(KubeconfigError, match=r"no kubeconfig given, KUBECONFIG not set, and no .*/.kube/config"):
        connect()
    monkeypatch.setenv("KUBECONFIG", "/no/such/file")
    with pytest.raises(KubeconfigError, match="KUBECONFIG names /no/such/file, which does not exist"):
        connect()
    with pytest.raises(KubeconfigError, match="Does this run in a Pod"):
        connect(in_cluster=True)


def test_no_credential_is_ever_part_of_a_sentence(home: Path) -> None:
    secret = "c2VjcmV0LXRva2Vu" * 100
    with pytest.raises(KubeconfigError) as caught:
        connect(secret)
    assert secret[:20] not in str(caught.value)
    broken = kubeconfig("https://a.example", user={"token": "s3cret"})[:-1] + "\n: ]"
    with pytest.raises(KubeconfigError) as caught:
        connect(broken)
    assert "s3cret" not in str(caught.value)
    access = read(locate(kubeconfig("https://a.example", user={"token": "s3cret"})))
    assert "s3cret" not in repr(access)


def plugin(home: Path, script: str) -> dict[str, object]:
    path = home / "login"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), "interactiveMode": "Never"}}


def test_a_login_command_that_fails_is_named_with_its_own_words(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = kubeconfig("https://a.example", user=plugin(home, "echo session expired, run login >&2; exit 3"))
    with pytest.raises(
        Unauthorized, match=r"login command of context here .*login.* gave no credentials: .*session expired"
    ):
        connect(text)
    assert capfd.readouterr() == ("", "")


def test_client_keys_do_not_stay_on_disk(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import base64
    import tempfile

    from tests.cluster.certificates import Authority

    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    pair = Authority().issue("jane")
    user = {
        "client-certificate-data": base64.b64encode(pair.certificate).decode(),
        "client-key-data": base64.b64encode(pair.key).decode(),
    }
    for _ in range(2):
        connect(kubeconfig("https://a.example", user=user))
        assert list(scratch.rglob("*")) == []
