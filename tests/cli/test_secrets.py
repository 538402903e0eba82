"""No secret value appears anywhere in the output: pasted in the place of a reference it is not repeated, and a Secret
that is referred to is never read."""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpustack_components.api.encode import encode
from gpustack_components.cli import status as status_command
from gpustack_components.cli.output import TableYamlOrJson
from gpustack_components.cli.standing import call_lines, find
from gpustack_components.cli.standing_text import plain_lines
from gpustack_components.cluster.port import Json, Kind, Listing
from gpustack_components.components.preview import prepare, preview, recheck
from gpustack_components.components.request import Request
from gpustack_components.rollout.contract import Timeouts, Wanted
from gpustack_components.rollout.converge import converge, teardown
from tests.components.test_live_bindings import OWNER, Operated
from tests.render import build
from tests.rollout.simulation.view import SimulatedView

MARKER = "hf_S3cretS3cretS3cret"
ROLE = encode(build.deployment())["spec"]["roles"][0]
WRONG_SHAPES: tuple[Any, ...] = (
    MARKER,
    [MARKER],
    [[MARKER]],
    {"value": MARKER},
    {"name": "s", "value": MARKER},
    {"name": "s", "key": "k", "token": MARKER},
    {"name": [MARKER]},
    {"name": {"token": MARKER}},
    {"secretKeyRef": MARKER},
    {"token": {"deep": [{"er": MARKER}]}},
)
"""What somebody writes who pastes a secret where its reference belongs."""
PLACES: tuple[tuple[str | int, ...], ...] = (
    ("env",),
    ("env", 0),
    ("env", 0, "value"),
    ("env", 0, "valueFrom"),
    ("env", 0, "valueFrom", "secretKeyRef"),
    ("env", 0, "valueFrom", "secretKeyRef", "token"),
    ("env", 0, "secret"),
    ("imagePullSecrets",),
    ("imagePullSecrets", 0),
    ("imagePullSecrets", 0, "auth"),
    ("additionalVolumes", 0, "secret"),
    ("additionalVolumes", 0, "secret", "data"),
    ("additionalVolumes", 0, "secretRef"),
    ("apiKey",),
    ("token",),
    ("hub_password",),
)
SOURCE_PLACES: tuple[tuple[str | int, ...], ...] = (
    ("huggingFace", "secretRef"),
    ("huggingFace", "secretRef", "token"),
    ("huggingFace", "token"),
    ("modelScope", "secretRef"),
    ("image", "credentials"),
)


def planted(base: Any, place: tuple[str | int, ...], value: Any) -> Any:
    """`base` with a value at a place, which is made where it is not there."""
    if not place:
        return value
    step, *rest = place
    if isinstance(step, int):
        entries = base if isinstance(base, list) else []
        return [planted(entries[0] if entries else {}, tuple(rest), value), *entries[1:]]
    fields = base if isinstance(base, dict) else {}
    return {**fields, step: planted(fields.get(step), tuple(rest), value)}


@st.composite
def pasted(draw: st.DrawFn) -> list[Json]:
    """A deployment and an artifact with secrets pasted into some places."""
    role, source = {**ROLE, "env": [{"name": "A", "value": "b"}]}, {"huggingFace": {"repository": "Q/Q"}}
    for place in draw(st.lists(st.sampled_from(PLACES), max_size=4, unique=True)):
        role = planted(role, place, draw(st.sampled_from(WRONG_SHAPES[:1] + WRONG_SHAPES)))
    for place in draw(st.lists(st.sampled_from(SOURCE_PLACES), max_size=2, unique=True)):
        source = planted(source, place, draw(st.sampled_from(WRONG_SHAPES)))
    document = build.merged(encode(build.deployment()), {"spec": {"roles": [role]}})
    artifact = {"metadata": {"name": "weights", "namespace": "team-a"}, "spec": {"source": source}}
    typed = {"apiVersion": "worker.gpustack.ai/v1"}
    return [document, {**typed, "kind": "ModelArtifact", **artifact}, encode(build.instance_type())]


def literal(document: Json) -> bool:
    """Whether a variable's value is the secret itself in a well-formed document: then the Pod has to carry it."""
    variables = document["spec"]["roles"][0].get("env")
    return isinstance(variables, list) and any(
        isinstance(one, dict) and isinstance(one.get("name"), str) and one.get("value") == MARKER for one in variables
    )


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents=pasted(), form=st.sampled_from(["text", "json"]))
def test_a_secret_pasted_in_the_place_of_its_reference_is_not_repeated(
    cli: Callable[..., Any], tmp_path: Any, documents: list[Json], form: str
) -> None:
    file = tmp_path / "documents.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    for command in (
        ("check", "-f", str(file)),
        ("check", "-f", str(file), "--old", str(file)),
        ("render", "-f", str(file), "--graph"),
        ("render", "-f", str(file), "--explain"),
        ("render", "-f", str(file), "--diff", str(file)),
        ("plan", "-f", str(file), "--observed", str(tmp_path / "none.json")),
    ):
        (tmp_path / "none.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": []}))
        as_json = ("-o", "json") if form == "json" and "--graph" not in command else ()
        ran = cli(*command, *as_json)
        carried = (command[0] == "check" and as_json) or "--explain" in command
        accepted = carried and literal(documents[0])
        assert MARKER not in ran.err
        assert accepted or MARKER not in ran.out, ran.out


LITERALS: dict[str, dict[str, Any]] = {
    "a variable": {"env": [{"name": "HF_TOKEN", "value": MARKER}]},
    "a key": {"env": [{"name": "MODELS_API_KEY", "value": MARKER}, {"name": "SOME_ACCESS_KEY", "value": MARKER}]},
    "the user of a URL": {"env": [{"name": "HTTPS_PROXY", "value": f"http://me:{MARKER}@proxy:3128"}]},
    "a flag": {"extraArgs": ["--api-key", MARKER, MARKER, "--max-model-len=8192"]},
    "a flag in one word": {"extraArgs": [f"--hf_token={MARKER}"]},
    "a document": {"extraArgs": ["--additional-config", json.dumps({"hub": {"password": MARKER}})]},
    "a line of a shell": {
        "command": ["sh", "-c", f"export HUB_TOKEN={MARKER}; vllm serve x --api-key {MARKER} --port 8000"]
    },
}
"""Secrets written out in a deployment that is accepted, where their names tell what they are."""


def secretive(names: Iterable[str], *, routed: bool = False) -> list[Json]:
    """A deployment that writes these out, and its type."""
    role: dict[str, Any] = {**ROLE}
    for name in names:
        role |= {key: [*role.get(key, []), *value] for key, value in LITERALS[name].items()}
    router = {"name": "vllm-router", "extraArgs": ["--api-key", MARKER]} if routed else None
    document = build.merged(encode(build.deployment()), {"spec": {"roles": [role], "router": router}})
    return [document, encode(build.instance_type())]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=st.sets(st.sampled_from([*LITERALS])), after=st.sets(st.sampled_from([*LITERALS])), routed=st.booleans())
def test_a_secret_written_out_is_in_the_manifests_that_carry_it_and_in_no_view_of_them(
    cli: Callable[..., Any], tmp_path: Any, before: set[str], after: set[str], routed: bool
) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(yaml.safe_dump_all(secretive(sorted(before), routed=routed)))
    new.write_text(yaml.safe_dump_all(secretive(sorted(after), routed=True)))
    carried = cli("render", "-f", str(new))
    assert carried.code == 0 and MARKER in carried.out
    for view in (("--explain",), ("--diff", str(old)), ("--graph",)):
        for form in ("text", "json"):
            ran = cli("render", "-f", str(new), *view, "-o", form)
            assert ran.code == 0, ran.err
            assert MARKER not in ran.out + ran.err, ran.out
            shown = "(not shown: it may be a secret)" in ran.out
            assert shown or "--explain" not in view, ran.out


def test_status_and_plan_repeat_no_secret_of_what_stands(
    cli: Callable[..., Any], tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    [document, _] = secretive(["a variable", "the user of a URL", "a flag"])
    cluster = Guarded()
    judgement = prepare(Request(document, owner=OWNER), cluster)
    assert judgement.resolved is not None and judgement.document is not None, judgement.sentences
    wanted = Wanted.of(judgement.resolved, encode(judgement.document), owner=OWNER, holder="test")
    view = SimulatedView(cluster, build.NAMESPACE, "qwen", Random(1))
    converge(cluster, wanted, view=view, timeouts=Timeouts(lease=0), progress=print, clock=cluster.clock)
    pods = [obj for (kind, _), obj in cluster.objects.items() if kind == "Pod"]
    assert MARKER in json.dumps(pods, default=str)
    for closely in (False, True):
        found = find(cluster, build.NAMESPACE, "qwen", closely=closely)
        for form in TableYamlOrJson:
            status_command._show(found, call_lines(found), closely, form)
        for line in plain_lines(found, closely, datetime.now(UTC)):
            print(line)
    shown = capsys.readouterr()
    assert "qwen" in shown.out and MARKER not in shown.out + shown.err, shown.out
    assert "Secret" not in cluster.asked

    items = [
        {"apiVersion": "v1", "kind": kind, **obj, "metadata": {"uid": name, **obj["metadata"]}}
        for (kind, name), obj in cluster.objects.items()
    ]
    snapshot = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, default=str)
    (tmp_path / "observed.json").write_text(snapshot)
    edited = secretive(["a variable", "a key", "a flag in one word"])
    (tmp_path / "edited.yaml").write_text(yaml.safe_dump_all(edited))
    for form in ("text", "json"):
        files = ("-f", str(tmp_path / "edited.yaml"), "--observed", str(tmp_path / "observed.json"))
        ran = cli("plan", *files, "-o", form)
        assert ran.code == 0, ran.err + ran.out
        assert "server" in ran.out and MARKER not in ran.out + ran.err, ran.out


def test_a_broken_file_is_refused_without_what_it_holds(cli: Callable[..., Any], tmp_path: Any) -> None:
    broken = (
        f'kind: ModelDeployment\nspec:\n  env: [{{name: A, value: "{MARKER}}}]\n',
        f"kind: ModelDeployment\nspec: {{token: {MARKER}, token: {MARKER}}}\n",
        f"kind: X\ntoken: {MARKER}: x\n",
        f"{MARKER}\n",
        f"kind: X\ntoken: !!binary {MARKER}\n",
        f'{{"token": "{MARKER}',
        f'{{"token": "{MARKER}" "x"}}',
    )
    for text in broken:
        (tmp_path / "broken.yaml").write_text(text)
        ran = cli("check", "-f", str(tmp_path / "broken.yaml"))
        assert ran.code != 0
        assert MARKER not in ran.out + ran.err, ran.out + ran.err


class Guarded(Operated):
    """A simulated cluster with Secrets in it that says which kinds were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[str] = set()
        for name in ("hub", "key", "files", "registry"):
            data = {"token": MARKER, "k": MARKER, ".dockerconfigjson": MARKER}
            self.objects["Secret", name] = {"kind": "Secret", "metadata": {"name": name}, "data": data}
        source = {"huggingFace": {"repository": "Q/Q", "secretRef": {"name": "hub"}}}
        self.keep(encode(build.artifact(source)))  # pyright: ignore[reportArgumentType]

    def get(self, kind: Kind, namespace: str | None, name: str) -> Json | None:
        self.asked.add(kind.kind)
        return super().get(kind, namespace, name)

    def list(self, kind: Kind, namespace: str | None, selector: str = "", *, field_selector: str = "") -> Listing:
        self.asked.add(kind.kind)
        return super().list(kind, namespace, selector, field_selector=field_selector)


def test_secrets_that_a_deployment_refers_to_are_never_read_and_in_nothing_that_is_written_or_said() -> None:
    role = {
        **ROLE,
        "replicas": 2,
        "imagePullSecrets": [{"name": "registry"}],
        "additionalVolumes": [{"mountPath": "/secrets", "secret": {"name": "files"}, "readOnly": True}],
    }
    changes = {"spec": {"roles": [role], "model": {"artifactRef": {"name": "weights"}}}}
    request = Request(build.merged(encode(build.deployment()), changes), owner=OWNER)
    cluster, said = Guarded(), list[str]()
    said += [*(shown := preview(request, None, lambda: cluster)).plan, str(shown)]
    judgement = prepare(request, cluster)
    assert judgement.resolved is not None and judgement.document is not None, judgement.sentences
    wanted = Wanted.of(judgement.resolved, encode(judgement.document), owner=OWNER, holder="test")
    common = {"timeouts": Timeouts(lease=0), "progress": said.append, "clock": cluster.clock}
    outcome = converge(cluster, wanted, view=SimulatedView(cluster, build.NAMESPACE, "qwen", Random(1)), **common)
    assert outcome.phase == "Converged"
    said += [str(recheck(request, cluster)), str(outcome)]
    standing = {key: obj for key, obj in cluster.objects.items() if key[0] != "Secret"}
    pods = [obj for (kind, _), obj in standing.items() if kind == "Pod"]
    assert "HF_TOKEN" in build.environment(pods[0])
    assert MARKER not in json.dumps(list(standing.values()), default=str)
    view = SimulatedView(cluster, build.NAMESPACE, "qwen", Random(2))
    gone = teardown(cluster, build.NAMESPACE, "qwen", owner=OWNER, holder="test", view=view, **common)
    assert gone.phase == "Deleted" and MARKER not in "\n".join([*said, str(gone)])
    assert {"Pod", "ConfigMap"} <= cluster.asked and "Secret" not in cluster.asked
