"""`render`: objects in apply order, the Pods asked for, refusals and failures, and output that never piles up."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml


@pytest.fixture
def pair(tmp_path: Path, minimal_text: str, h20_text: str) -> Path:
    """The smallest deployment with two Pods in each replica, and its InstanceType, in one file."""
    path = tmp_path / "pair.yaml"
    path.write_text(minimal_text.replace("replicas: 3", "replicas: 3\n      size: 2") + "---\n" + h20_text)
    return path


def kinds(objects: list[dict]) -> list[str]:
    return [obj["kind"] for obj in objects]


def test_objects_come_in_apply_order(cli, pair: Path) -> None:
    ran = cli("render", "-f", str(pair))
    assert ran.code == 0, ran.err
    objects = list(yaml.safe_load_all(ran.out))
    replica = ["Service", "Pod", "Pod"]
    assert kinds(objects) == ["LocalQueue", "Service", "Service", *replica, *replica, *replica]


def test_json_is_one_list_with_the_same_objects(cli, pair: Path) -> None:
    as_yaml = list(yaml.safe_load_all(cli("render", "-f", str(pair)).out))
    listed = json.loads(cli("render", "-f", str(pair), "-o", "json").out)
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "List")
    assert listed["items"] == as_yaml


def test_one_pod_can_be_asked_for(cli, pair: Path) -> None:
    words = ("render", "-f", str(pair), "--role", "server", "--ordinal", "2", "--member", "1", "-o", "json")
    [pod] = json.loads(cli(*words).out)["items"]
    assert pod["metadata"]["name"] == "qwen-server-r2-m1"


@pytest.mark.parametrize("narrowing, count", [((), 6), (("--ordinal", "1"), 2)], ids=["role", "replica"])
def test_the_pods_of_a_role_or_replica_can_be_asked_for(
    cli, pair: Path, narrowing: tuple[str, ...], count: int
) -> None:
    objects = json.loads(cli("render", "-f", str(pair), "--role", "server", *narrowing, "-o", "json").out)["items"]
    assert kinds(objects) == ["Pod"] * count


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("--role", "decode"), "no deployment of the files has that role; they have server"),
        (("--role", "server", "--ordinal", "3"), "role server has 3 replicas, ordinals 0 to 2"),
        (("--role", "server", "--ordinal", "0", "--member", "2"), "has 2 Pods, members 0 to 1"),
        (("--ordinal", "0"), "--ordinal needs --role"),
        (("--role", "server", "--member", "0"), "--member needs --ordinal"),
        (("--kubernetes-version", "newest"), "is no version"),
    ],
)
def test_a_seat_or_version_that_does_not_exist_is_said(cli, pair: Path, words: tuple[str, ...], sentence: str) -> None:
    ran = cli("render", "-f", str(pair), *words)
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err


def test_a_negative_ordinal_is_wrong_usage(cli, pair: Path) -> None:
    assert cli("render", "-f", str(pair), "--role", "server", "--ordinal", "-1").code == 2


def test_refused_input_gives_the_refusals_of_check(cli, tmp_path: Path, minimal_text: str) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(minimal_text.replace("replicas: 3", "replicas: 0"))
    ran = cli("render", "-f", str(wrong), "-o", "json")
    assert ran.code == 1
    assert ran.out == cli("check", "-f", str(wrong), "-o", "json").out
    as_text = cli("render", "-f", str(wrong))
    assert (as_text.code, as_text.out) == (1, "")
    assert "role-replicas-bound" in as_text.err


def test_what_cannot_be_rendered_is_said_with_exit_code_3(cli, minimal: Path) -> None:
    ran = cli("render", "-f", str(minimal))
    assert (ran.code, ran.out) == (3, "")
    assert "role server: InstanceType h20-8x is not known" in ran.err


def test_files_without_a_deployment_render_nothing(cli, h20: Path) -> None:
    ran = cli("render", "-f", str(h20))
    assert (ran.code, ran.out) == (2, "")
    assert "declare no ModelDeployment" in ran.err


def test_two_deployments_share_one_local_queue(cli, pair: Path, tmp_path: Path, minimal_text: str) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(minimal_text.replace("name: qwen\n", "name: other\n"))
    objects = json.loads(cli("render", "-f", str(pair), "-f", str(other), "-o", "json").out)["items"]
    assert kinds(objects).count("LocalQueue") == 1


def test_the_output_is_the_same_bytes_every_time(cli, pair: Path) -> None:
    for form in ("yaml", "json"):
        outputs = {
            cli.process("render", "-f", str(pair), "-o", form, env={"PYTHONHASHSEED": seed}).out for seed in ("1", "2")
        }
        assert len(outputs) == 1


@pytest.mark.parametrize(
    "value",
    ["1e3", "y", "0o17", "1_000", "null", "~", "", "on", ".inf", "0x1f", "+1", "12:30:45", "=", "a\nb\n", "#x", "é"],
)
def test_texts_stay_texts_in_yaml(cli, tmp_path: Path, minimal_text: str, h20: Path, value: str) -> None:
    odd = tmp_path / "odd.yaml"
    env = f"      env:\n        - name: ODD\n          value: {json.dumps(value)}\n"
    odd.write_text(minimal_text + env)
    words = ("render", "-f", str(odd), "-f", str(h20), "--role", "server", "--ordinal", "0")
    ran = cli(*words)
    assert ran.code == 0, ran.err
    [entry] = [one for one in yaml.safe_load(ran.out)["spec"]["containers"][0]["env"] if one["name"] == "ODD"]
    assert entry["value"] == value
    line = next(line for line in ran.out.split("name: ODD\n")[1].splitlines() if "value:" in line)
    if value in ("1e3", "y", "0o17", "on", "1_000", "+1"):
        assert line.strip() == f'value: "{value}"'


def test_a_large_deployment_streams(cli, tmp_path: Path, minimal_text: str, h20: Path) -> None:
    """The first Pods are out before the last are made: a reader that stops early stops the command early."""
    large = tmp_path / "large.yaml"
    large.write_text(minimal_text.replace("replicas: 3", "replicas: 1024\n      size: 8"))
    ends = subprocess.run(
        [
            "bash",
            "-c",
            f"{cli.script} render -f {large} -f {h20} -o json | head -c 20000 | wc -c; echo ${{PIPESTATUS[0]}}",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ends.stdout.split() == ["20000", "141"]
    assert ends.stderr == ""
