"""`render --explain`, `--diff` and `--graph`: for people and for tools, with the exit codes of `render`."""

import json
import subprocess
from pathlib import Path

import pytest

PAIR = """\
apiVersion: worker.gpustack.ai/v1
kind: ModelDeployment
metadata: {name: pd, namespace: team-a}
spec:
  model: {name: Qwen/Qwen3-8B}
  engine: {name: vLLM, image: "vllm/vllm-openai:v0.25.1"}
  router: {name: llm-d-router}
  roles:
    - {name: prefill, kind: Prefill, replicas: 2, instanceType: h20-8x, resources: {accelerator: 2}}
    - {name: decode, kind: Decode, replicas: 2, size: 2, instanceType: h20-8x, resources: {accelerator: 2}}
"""


@pytest.fixture
def before(tmp_path: Path, h20_text: str) -> Path:
    """A routed pair and its InstanceType, before any edit."""
    path = tmp_path / "before.yaml"
    path.write_text(f"{PAIR}---\n{h20_text}")
    return path


def edited(before: Path, *edits: tuple[str, str], name: str = "after.yaml") -> str:
    text = before.read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    after = before.with_name(name)
    after.write_text(text)
    return str(after)


def explained(cli, *words: str) -> list[dict]:
    ran = cli("render", "--explain", "-o", "json", *words)
    assert ran.code == 0, ran.err
    return json.loads(ran.out)["pods"]


def differing(cli, after: str, old: str) -> list[dict]:
    ran = cli("render", "-f", after, "--diff", old, "-o", "json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)["deployments"]


def test_explain_accounts_for_everything_in_the_pod_that_is_rendered(cli, before: Path) -> None:
    seat = ("-f", str(before), "--role", "decode", "--ordinal", "1", "--member", "1")
    [pod] = json.loads(cli("render", *seat, "-o", "json").out)["items"]
    [reasons] = explained(cli, *seat)
    assert {key: reasons[key] for key in ("namespace", "deployment", "role", "ordinal", "member")} == {
        "namespace": "team-a",
        "deployment": "pd",
        "role": "decode",
        "ordinal": 1,
        "member": 1,
    }
    main = next(one for one in pod["spec"]["containers"] if one["name"] == "main")
    parts = {
        part: [one for one in reasons["explained"] if one["part"] == part]
        for part in ("argument", "env", "label", "annotation", "limit")
    }
    assert " ".join(one["value"] for one in parts["argument"]) == " ".join(main["command"])
    assert [one["name"] for one in parts["env"]] == [one["name"] for one in main["env"]]
    assert {one["name"]: one["value"] for one in parts["label"]} == pod["metadata"]["labels"]
    assert {one["name"]: one["value"] for one in parts["annotation"]} == pod["metadata"]["annotations"]
    assert {one["name"]: one["value"] for one in parts["limit"]} == main["resources"]["limits"]
    assert all(one["rule"] for one in reasons["explained"])


def test_explain_shows_the_first_pod_of_every_role_unless_told_otherwise(cli, before: Path) -> None:
    pods = explained(cli, "-f", str(before))
    assert [(pod["role"], pod["ordinal"], pod["member"]) for pod in pods] == [("prefill", 0, 0), ("decode", 0, 0)]


def test_explain_is_a_table_whose_lines_name_rule_and_field(cli, before: Path) -> None:
    ran = cli("render", "-f", str(before), "--explain", "--role", "prefill")
    head, columns, *rows = ran.out.splitlines()
    assert (ran.code, head) == (0, "team-a/pd prefill/0 member 0")
    assert columns.split() == ["PART", "NAME", "RULE", "FROM", "VALUE"]
    image = next(row for row in rows if row.startswith("container field  image "))
    assert "image (15.4)" in image and "spec.engine.image" in image and image.endswith("vllm/vllm-openai:v0.25.1")
    at = columns.index("VALUE")
    assert {row[at - 2 : at] for row in rows} == {"  "}
    assert all(len(row) <= at + 100 for row in rows)
    assert any(row.endswith("...") for row in rows)


def test_diff_shows_the_change_and_what_it_rolls(cli, before: Path) -> None:
    after = edited(before, ("size: 2,", "size: 2, env: [{name: A, value: b}],"))
    ran = cli("render", "-f", after, "--diff", str(before))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "team-a/pd",
        "  decode: rolls 2 replicas, one at a time",
        "    + env A: b  [own variable (5.1); spec.roles[1].env[0]]",
    ]
    [deployment] = differing(cli, after, str(before))
    assert (deployment["declared"], deployment["rolls"]) == ("both", True)
    [role] = deployment["roles"]
    assert (role["role"], role["rolls"], role["replicas"]) == ("decode", True, {"before": 2, "after": 2})
    assert role["changes"] == [
        {
            "part": "env",
            "name": "A",
            "before": None,
            "after": "b",
            "rule": "own variable (5.1)",
            "field": "spec.roles[1].env[0]",
        }
    ]
    back = cli("render", "-f", str(before), "--diff", after)
    assert back.out.splitlines()[-1] == "    - env A: b  [own variable (5.1); spec.roles[1].env[0]]"


def test_diff_of_a_count_rolls_nothing(cli, before: Path) -> None:
    after = edited(before, ("replicas: 2, size", "replicas: 5, size"))
    assert cli("render", "-f", after, "--diff", str(before)).out == (
        "team-a/pd\n  decode: 2 -> 5 replicas; rolls nothing\n"
    )


def test_diff_of_a_router_edit_shows_its_objects_and_rolls_no_replica(cli, before: Path) -> None:
    routed = "router: {name: llm-d-router}"
    after = edited(before, (routed, "router: {name: llm-d-router, replicas: 3, requestTimeoutSeconds: 60}"))
    ran = cli("render", "-f", after, "--diff", str(before))
    assert ran.out.startswith("team-a/pd\n  no engine Pod changes and no replica rolls\n")
    assert "\n  router: 1 -> 3 Pods; its Pods are replaced, and no engine replica\n" in ran.out
    assert "routes[0].route.timeout: 86400s -> 60s" in ran.out
    assert "spec.router.requestTimeoutSeconds" in ran.out
    [one] = differing(cli, after, str(before))
    assert (one["rolls"], one["roles"]) == (False, [])
    router = one["router"]
    assert (router["rolls"], router["replicas"]) == (True, {"before": 1, "after": 3})
    assert {"spec.router.replicas", "spec.router.requestTimeoutSeconds"} <= {
        each["field"] for each in router["changes"]
    }


def test_diff_of_router_copies_alone_replaces_none(cli, before: Path) -> None:
    after = edited(before, ("router: {name: llm-d-router}", "router: {name: llm-d-router, replicas: 2}"))
    assert (
        "  router: 1 -> 2 Pods; no Pod of it is replaced, and no engine replica\n"
        in cli("render", "-f", after, "--diff", str(before)).out
    )


def test_diff_of_a_router_that_goes_shows_it_beside_the_roles_it_rolls(cli, before: Path) -> None:
    after = edited(before, ("  router: {name: llm-d-router}\n", ""))
    ran = cli("render", "-f", after, "--diff", str(before))
    assert "  router: 1 router Pod leaves\n" in ran.out
    assert "decode: rolls 2 replicas" in ran.out
    back = cli("render", "-f", str(before), "--diff", after)
    assert "  router: 1 router Pod is created\n" in back.out


def test_explain_shows_the_router_unless_one_role_is_asked_for(cli, before: Path) -> None:
    ran = cli("render", "-f", str(before), "--explain", "-o", "json")
    [router] = json.loads(ran.out)["routers"]
    assert (router["namespace"], router["deployment"], router["router"]) == ("team-a", "pd", "llm-d-router")
    found = {(each["part"], each["name"]): each["field"] for each in router["explained"]}
    threshold = ("document", "epp.yaml plugins[prefix-based-pd-decider].parameters.nonCachedTokens")
    assert found[threshold] == "spec.router.disaggregationThresholdTokens"
    assert found["container", "epp"] == "setting model-deployment-router-image"
    assert "team-a/pd router (llm-d-router)\n" in cli("render", "-f", str(before), "--explain").out
    only = cli("render", "-f", str(before), "--explain", "--role", "decode", "-o", "json")
    assert json.loads(only.out)["routers"] == []


def test_diff_of_no_edit_says_so(cli, before: Path) -> None:
    ran = cli("render", "-f", str(before), "--diff", str(before))
    assert (ran.code, ran.out) == (0, "team-a/pd\n  no Pod changes and nothing rolls\n")
    assert differing(cli, str(before), str(before))[0]["roles"] == []


def test_diff_of_long_values_shows_where_they_part(cli, before: Path) -> None:
    after = edited(before, ("v0.25.1", "v0.26.0"))
    ran = cli("render", "-f", after, "--diff", str(before))
    line = next(line for line in ran.out.splitlines() if "gpustack-compile-cache" in line)
    old, new = line.split(": ", 1)[1].split("  [")[0].split(" -> ")
    assert old.startswith("...") and new.startswith("...") and old != new


def test_diff_tells_deployments_that_come_and_go(cli, before: Path) -> None:
    other = edited(before, ("{name: pd,", "{name: other,"))
    ran = cli("render", "-f", other, "--diff", str(before))
    assert ran.out.splitlines() == [
        "team-a/other is new",
        "  prefill: 2 replicas are created",
        "  decode: 2 replicas are created",
        "",
        "team-a/pd is no longer declared",
        "  prefill: 2 replicas leave",
        "  decode: 2 replicas leave",
    ]
    assert [one["declared"] for one in differing(cli, other, str(before))] == ["new", "gone"]


def test_diff_of_a_binding_rolls_the_roles_that_depend_on_it(cli, before: Path) -> None:
    after = edited(before, ("manufacturer: nvidia", "manufacturer: amd"))
    assert [role["rolls"] for role in differing(cli, after, str(before))[0]["roles"]] == [True, True]


def test_objects_the_old_file_leaves_out_are_taken_from_the_new_ones(cli, before: Path) -> None:
    alone = before.with_name("alone.yaml")
    alone.write_text(PAIR)
    assert differing(cli, str(before), str(alone))[0]["roles"] == []


def test_diff_reads_the_same_files_at_a_git_revision(cli, before: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(before.parent)
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.com")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "before")):
        subprocess.run((*git, *words), check=True)
    edited(before, ("replicas: 2, size", "replicas: 1, size"), name="before.yaml")
    for old in ("git:HEAD", "git:HEAD:before.yaml"):
        [role] = differing(cli, "before.yaml", old)[0]["roles"]
        assert (role["role"], role["replicas"]) == ("decode", {"before": 2, "after": 1})


def test_diff_of_a_frozen_field_is_refused_as_check_does(cli, before: Path) -> None:
    after = edited(before, ("name: Qwen/Qwen3-8B", "name: Qwen/Qwen3-32B"))
    ran = cli("render", "-f", after, "--diff", str(before), "-o", "json")
    assert ran.code == 1
    assert json.loads(ran.out) == json.loads(cli("check", "-f", after, "--old", str(before), "-o", "json").out)


def test_an_earlier_document_that_cannot_be_read_or_rendered_is_said(cli, before: Path, minimal_text: str) -> None:
    old = before.with_name("old.yaml")
    old.write_text(minimal_text.replace("name: qwen", "name: pd").replace("replicas: 3", "replicas: many"))
    ran = cli("render", "-f", str(before), "--diff", str(old))
    assert (ran.code, ran.out) == (2, "")
    assert f"{old}:1: spec.roles[0].replicas" in ran.err
    old.write_text(minimal_text.replace("instanceType: h20-8x", "instanceType: sold"))
    ran = cli("render", "-f", str(before), "--diff", str(old))
    assert (ran.code, ran.out) == (3, "")
    assert "before the edit: role server: InstanceType sold is not known" in ran.err


def test_graph_draws_the_deployment(cli, before: Path) -> None:
    ran = cli("render", "-f", str(before), "--graph")
    assert (ran.code, ran.err) == (0, "")
    assert "callers -> pd-router:8000 (llm-d-router) -> prefill, decode" in ran.out
    assert "pulls from prefill by MooncakeConnector over tcp" in ran.out
    assert "warning" not in ran.out


def test_graph_warns_of_a_leg_that_is_missing(cli, before: Path) -> None:
    unrouted = edited(before, ("  router: {name: llm-d-router}\n", ""))
    ran = cli("render", "-f", unrouted, "--graph")
    sentence = "nothing routes between prefill and decode: no request is ever split; set spec.router"
    assert (ran.code, ran.out.splitlines()[-2:]) == (0, ["", f"warning: {sentence}"])
    [drawn] = json.loads(cli("render", "-f", unrouted, "--graph", "-o", "json").out)["deployments"]
    assert drawn["warnings"] == [sentence]
    assert ran.out == f"{drawn['diagram']}\nwarning: {sentence}\n"


def test_graph_draws_every_deployment_of_the_files(cli, before: Path) -> None:
    other = edited(before, ("{name: pd,", "{name: other,"))
    ran = cli("render", "-f", str(before), "-f", other, "--graph")
    assert [line for line in ran.out.splitlines() if line.startswith("team-a/")] == [
        "team-a/pd: vLLM, llm-d-router, no store",
        "team-a/other: vLLM, llm-d-router, no store",
    ]


HELD = """\
apiVersion: worker.gpustack.ai/v1
kind: ModelArtifact
metadata: {name: weights, namespace: team-a}
spec: {source: {huggingFace: {repository: Qwen/Qwen3-8B}}}
"""


def test_pods_that_are_held_have_nothing_to_explain_and_are_drawn_with_the_reason(cli, before: Path) -> None:
    held = edited(before, ("model: {name: Qwen/Qwen3-8B}", "model: {name: /models, artifactRef: {name: weights}}"))
    artifact = before.with_name("artifact.yaml")
    artifact.write_text(HELD)
    files = ("-f", held, "-f", str(artifact))
    for view in (("--explain",), ("--diff", held)):
        ran = cli("render", *files, *view)
        assert (ran.code, ran.out) == (3, "")
        assert "its Pods are not rendered yet" in ran.err
    drawn = cli("render", *files, "--graph")
    assert (drawn.code, drawn.out.splitlines()[0]) == (0, "team-a/pd: vLLM, llm-d-router, no store")
    assert "its Pods are not rendered yet" in drawn.err


@pytest.mark.parametrize("view", [("--explain",), ("--graph",), ("--diff", "git:HEAD:x.yaml")], ids=str)
@pytest.mark.parametrize("edit, code", [(("replicas: 2, size", "replicas: 0, size"), 1), (("h20-8x", "h21"), 3)])
def test_views_end_as_render_ends(cli, before: Path, view: tuple[str, ...], edit: tuple[str, str], code: int) -> None:
    alone = before.with_name("alone.yaml")
    alone.write_text(PAIR)
    wrong = edited(alone, edit)
    shown = [str(alone) if word.startswith("git:") else word for word in view]
    ran = cli("render", "-f", wrong, *shown)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("--explain", "--graph"), "--explain and --graph: are views of their own"),
        (("--graph", "-o", "yaml"), "--graph with -o yaml: prints text or json"),
        (("-o", "text"), "objects are printed as yaml or json"),
        (("--graph", "--role", "decode"), "--graph with --role: shows whole deployments"),
        (("--diff", "old.yaml", "--role", "decode"), "--diff with --role: shows whole deployments"),
        (("--diff", "nowhere.yaml"), "nowhere.yaml: no such file"),
        (("--explain", "--ordinal", "1"), "--ordinal needs --role"),
        (("--explain", "--role", "decode", "--ordinal", "2"), "role decode has 2 replicas, ordinals 0 to 1"),
    ],
)
def test_views_that_do_not_go_together_are_said(cli, before: Path, words: tuple[str, ...], sentence: str) -> None:
    ran = cli("render", "-f", str(before), *words)
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err


def test_one_standard_input_is_read_once(cli, before: Path) -> None:
    ran = cli("render", "-f", "-", "--diff", "-", stdin=before.read_text())
    assert ran.code == 2
    assert "can be read once only" in ran.err


def test_diff_shows_an_edit_of_the_oldest_render_version_that_may_run_on(cli, before: Path) -> None:
    asked = (
        "namespace: team-a}",
        'namespace: team-a, annotations: {modeldeployment.gpustack.ai/min-render-version: "9"}}',
    )
    after = edited(before, asked)
    ran = cli("render", "-f", after, "--diff", str(before))
    assert ran.out.splitlines() == [
        "team-a/pd",
        "  min-render-version 1 -> 1 (9 is above this release's render version, so 1 counts): rolls nothing",
        "  no Pod changes and nothing rolls",
    ]
    [deployment] = differing(cli, after, str(before))
    assert deployment["renderVersionFloor"] == {"before": 1, "after": 1, "stated": "9", "current": 1}
