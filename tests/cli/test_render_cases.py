"""Every case of `tests/data/rendering` that is a deployment, through the command line: `render -o json` prints what the
library renders, and fails where it fails, in the same words.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpustack_components.admission.defaulting import default
from gpustack_components.api.encode import encode
from gpustack_components.api.model_deployment import ModelDeployment
from gpustack_components.bindings.catalog import Bindings
from gpustack_components.render.objects import render_all
from tests.render import build, test_command_lines, test_listening, test_resources, test_shapes, test_transports

Json = dict[str, Any]

REFUSED = {
    "probes: own-port-beside-another-declared-one": {"listen-port"},
    "probes: proxied-over-tls": {"router-tls"},
    "probes: proxied-udp": {"router-port-protocol"},
    "ports: proxied-own-port-is-the-external-one": {"router-decode-port"},
    "ports: publisher-port-declared": {"reserved-port"},
    "ports: publisher-port-declared-under-its-own-name": {"reserved-port"},
    "ports: udp-on-a-connectors-number": {"reserved-port"},
    "ports: udp-on-a-connectors-number-under-its-name": {"reserved-port"},
    "ports: own-port-on-a-connectors-number": {"reserved-listen-port"},
    "resources: 17": {"instance-type-not-ready"},
    "resources: 18": {"partition-profile"},
    "command lines: ascend-documents-carry-both-degrees": {"parallel-width"},
}
"""Cases that no admitted document reaches, with the rules that refuse them."""


@dataclass(frozen=True)
class Given:
    """What a case hands to the resolver."""

    document: ModelDeployment
    bound: list[Any]
    settings: Json


def cases() -> Iterator[tuple[str, Callable[[], object]]]:
    """The cases by file and name, each with what runs it through the library."""
    yield from ((f"shapes: {case['name']}", lambda case=case: test_shapes.outcome(case)) for case in test_shapes.CASES)
    for file in ("probes", "ports"):
        yield from (
            (f"{file}: {case['name']}", lambda case=case: test_listening.outcome(case)) for case in build.cases(file)
        )
    yield from (
        (f"resources: {position}", lambda case=case: test_resources.outcome(case))
        for position, case in enumerate(test_resources.CASES)
    )
    yield from (
        (f"command lines: {case['name']}", lambda case=case: test_command_lines.rendered(case))
        for case in test_command_lines.CASES
    )
    for table in ("forced-tcp", "leg-protocol"):
        yield from (
            (f"transports: {table} {position} {engine}", lambda e=engine, c=case: test_transports.pair_pods(e, c))
            for position, case in enumerate(test_transports.TABLES[table])
            for engine in ("vLLM", "SGLang")
        )


CASES = dict(cases())


def given(name: str, monkeypatch: pytest.MonkeyPatch) -> Given:
    """What the case hands to `build.resolution`, written down on its way."""
    seen: list[Given] = []
    resolution = build.resolution

    def listen(document: ModelDeployment, bound: Any = (), **options: Any) -> Any:
        known = list(bound)
        if not any(isinstance(one, build.InstanceType) for one in known):
            known.append(build.instance_type())
        seen.append(Given(document, known, dict(options.get("settings", {}))))
        return resolution(document, known, **options)

    with monkeypatch.context() as patched:
        patched.setattr(build, "resolution", listen)
        CASES[name]()
    return seen[0]


def _live(document: Any) -> Json:
    """A binding object as a cluster holds it: nobody asks any more whether it may be created so."""
    encoded = encode(document)
    return {**encoded, "metadata": {**encoded["metadata"], "resourceVersion": "1"}}


@pytest.mark.parametrize("name", CASES)
def test_a_case_renders_as_the_library_does(cli, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = given(name, monkeypatch)
    words: list[str] = []
    for position, one in enumerate((case.document, *case.bound)):
        file = tmp_path / f"{position}.json"
        file.write_text(json.dumps(encode(one) if one is case.document else _live(one)))
        words += ["-f", str(file)]
    if case.settings:
        (tmp_path / "settings.yaml").write_text(json.dumps(case.settings))
        words += ["--settings", str(tmp_path / "settings.yaml")]
    ran = cli("render", *words, "-o", "json")

    if name in REFUSED:
        assert ran.code == 1
        assert {one["rule"] for one in json.loads(ran.out)["refusals"]} == REFUSED[name]
        return
    stored = default(case.document, Bindings.of(case.bound))
    expected = build.resolution(stored, case.bound, settings=case.settings)
    if expected.resolved is None:
        assert (ran.code, ran.out) == (3, "")
        assert all(str(failure) in ran.err for failure in expected.failures)
        return
    assert ran.code == 0, ran.out + ran.err
    assert json.loads(ran.out)["items"] == json.loads(json.dumps(list(render_all(expected.resolved))))
