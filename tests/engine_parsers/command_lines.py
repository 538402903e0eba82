"""Which command lines are shown to the real parsers: every spelled form of every flag we read (api sheet 4)."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from gpustack_components.api.command_line.flags import HOST, PORT, SSL_CERT_REQS, SSL_CERTFILE, SSL_KEYFILE
from gpustack_components.api.command_line.owned import (
    ARTIFACT_ARGUMENTS,
    KV_CACHE_DTYPE,
    OWNED_ARGUMENTS,
    ROUTER_ARGUMENTS,
    SERVED_MODEL_NAME,
    SGLANG,
    VLLM,
)
from gpustack_components.api.command_line.parallel_flags import FLAGS, Flag
from gpustack_components.cluster.keys import CLIENT_CONFIG
from tests.render import build, seeds, test_command_lines, test_shapes

Line = tuple[str, ...]

DATA = Path(__file__).parents[1] / "data"
ROUTERS = ("vllm-router", "sglang-gateway")
"""Routers whose parser is on a package registry; llm-d-router is a Go program and has none."""

INTEGERS = ("0", "-1", "-2", "-.5", "", " 3 ", "1_0", "+3", "03", "_3", "3_", "3__0", "4.5", "two", "0x2", "1e1", "٣")
HUGE = ("9223372036854775807", "9223372036854775808", "12345678901234567890123456")
POD_IP = "10.0.0.9"
"""What the kubelet puts where a variable refers to the Pod's address."""
_TRANSFER = '{"kv_connector":"MooncakeConnector","kv_role":"kv_both"}'
_VALUES = {
    HOST: "127.0.0.1",
    SSL_KEYFILE: "/k.pem",
    SSL_CERTFILE: "/c.pem",
    "--kv-transfer-config": _TRANSFER,
    "--kv-events-config": '{"enable_kv_cache_events":true}',
    KV_CACHE_DTYPE: "auto",
    "--hicache-storage-backend": "mooncake",
    "--hicache-storage-backend-extra-config": "{}",
    "--disaggregation-mode": "prefill",
    "--disaggregation-transfer-backend": "mooncake",
    "--master-addr": "10.0.0.1",
    "--dist-init-addr": "10.0.0.1:5000",
    "--data-parallel-address": "10.0.0.1",
    "--data-parallel-backend": "mp",
    "--kv-connector": "mooncake",
    "--selector": "app=x",
    "--prefill-selector": "app=x",
    "--decode-selector": "app=x",
}
_NUMBERS = {PORT, SSL_CERT_REQS, "--disaggregation-bootstrap-port", "--prometheus-port", "--service-discovery-port"}
_SWITCHES = {"--service-discovery", "--vllm-pd-disaggregation", "--pd-disaggregation"}


def strict_flags(engine: str) -> tuple[str, ...]:
    """Flags that are judged by `resolve_flag`: owned, owned beside an artifact, the dtype and the served name."""
    return (*OWNED_ARGUMENTS[engine], *ARTIFACT_ARGUMENTS[engine], KV_CACHE_DTYPE, SERVED_MODEL_NAME)


def listen_flags(engine: str) -> tuple[str, ...]:
    """Flags that say where the engine listens and how."""
    return (HOST, PORT, SSL_KEYFILE, SSL_CERTFILE, *((SSL_CERT_REQS,) if engine == VLLM else ()))


def value_of(flag: str) -> str:
    """A value the flag takes."""
    return "2" if flag in _NUMBERS else _VALUES.get(flag, "1" if flag.startswith("--data-parallel") else "2")


def lines(engine: str) -> list[Line]:
    """Every command line for an engine's parser, each once."""
    return list(dict.fromkeys((*_of_tables(engine), *_of_other_flags(engine), *_of_cases(engine))))


def _of_tables(engine: str) -> Iterator[Line]:
    degrees = [flag for flag in FLAGS[engine] if flag.kind == "degree"]
    for flag in FLAGS[engine]:
        yield from _forms(engine, flag)
    for flag in degrees:
        for number in ("1", "0", "-1"):
            yield (flag.name, number)
        yield (flag.name, "2", f"{(*flag.aliases, flag.name)[0]}=4")
        yield ("--", flag.name, "2")
    yield (degrees[0].name, "2", "--", f"{degrees[0].name}=4")
    for number in (*INTEGERS, *HUGE):
        yield (degrees[0].name, number)
        yield (f"{degrees[0].name}={number}",)


def _forms(engine: str, flag: Flag) -> Iterator[Line]:
    value = (value_of(flag.name),) if flag.takes_value else ()
    joined = value[0] if value else "true"
    for spelling in (flag.name, *flag.aliases, *filter(None, (flag.abbreviation,))):
        yield (spelling, *value)
        yield (f"{spelling}={joined}",)
        yield (f"{spelling}{value[0] if value else 'x'}",)
        if spelling.startswith("--"):
            yield from _long_forms(spelling, value)
    yield (flag.name,)
    if flag.kind == "degree":
        yield (flag.name, FLAGS[engine][1].name, "2")
        yield from ((alias,) for alias in flag.aliases)
    if not flag.takes_value:
        for negative in (f"--no-{flag.name[2:]}", flag.name.replace("--enable-", "--disable-")):
            yield from ((negative,), (flag.name, negative))


def _long_forms(flag: str, value: Line) -> Iterator[Line]:
    yield (underscored(flag), *value)
    yield (f"{underscored(flag)}={value[0] if value else 'true'}",)
    yield (f"{flag}.x", *(value or ("2",)))
    for length in range(len("--x"), len(flag)):
        yield (flag[:length], *value)


def underscored(flag: str) -> str:
    """The flag with underscores between its words."""
    return "--" + flag[2:].replace("-", "_")


def _of_other_flags(engine: str) -> Iterator[Line]:
    for flag in (*listen_flags(engine), *strict_flags(engine)):
        value = value_of(flag)
        yield from ((flag, value), (f"{flag}={value}",), (flag,), (flag, value, flag, value), ("--", flag, value))
        yield from _long_forms(flag, (value,))
    for number in (*INTEGERS, *HUGE):
        yield (PORT, number)
    yield from ((PORT, "9100", "--por", "9200"), (f"{PORT}=9100", PORT), (PORT, HOST), ("-port", "9100"))
    yield from ((SERVED_MODEL_NAME, "a", "b"), (SERVED_MODEL_NAME, "a", f"{SERVED_MODEL_NAME}=b"))
    yield from ((SERVED_MODEL_NAME, "a", "-1"), (SERVED_MODEL_NAME, "a", PORT, "9100"), (SERVED_MODEL_NAME, ""))
    yield from ((f"{KV_CACHE_DTYPE}-skip-layers", "1"), ("--kv-transfer-config.kv_role", "kv_both"))
    yield from (("--kv_transfer_config.kv_connector=MooncakeConnector", "--kv-transfer-config.kv_role", "kv_both"),)


def _of_cases(engine: str) -> Iterator[Line]:
    name = "vllm" if engine == VLLM else "sglang"
    for case in yaml.safe_load((DATA / f"engine_parsers/{name}.yaml").read_text())["cases"]:
        if "env" not in case:
            yield tuple(case["args"])
    for table in yaml.safe_load((DATA / "command_line.yaml").read_text()).values():
        for case in table:
            args = case.get("args", [case.get("entry")])
            if case["engine"] == engine and args[:1] != ["vllm"]:
                yield tuple(args)


def variables() -> list[dict[str, Any]]:
    """Rows of VLLM_DP_SIZE beside arguments (4.9)."""
    rows: list[dict[str, Any]] = []
    for args in ([], ["-dp", "1"], ["-dp", "4"], ["-dpl", "0"], ["-dpl", "1"], ["-dp", "4", "-dpl", "0"]):
        rows += ({"args": args, "env": {"VLLM_DP_SIZE": value}} for value in ("2", " 3 ", "1_0", "two", "0", "-1", ""))
    return rows


def router_lines(router: str) -> list[Line]:
    """Every spelled form of a router's owned flags."""
    found: list[Line] = []
    for flag in sorted(ROUTER_ARGUMENTS[router]):
        value = () if flag in _SWITCHES else (value_of(flag),)
        found += ((flag, *value), (f"{flag}={''.join(value) or 'true'}",), (underscored(flag), *value))
        found += ((flag[:length], *value) for length in range(len("--x"), len(flag)))
    return list(dict.fromkeys(found))


def pods(engine: str) -> dict[str, Any]:
    """A Pod of every golden shape, every case of a command line and every seed, by its name."""
    found: dict[str, Any] = {}
    for case in test_shapes.RENDERED:
        resolved = test_shapes.outcome(case).resolved
        if case["engine"] == engine and resolved is not None:
            replica = build.render_replica(resolved, case["kind"].lower(), 0)
            found[f"shape {case['name']}"] = replica.members[0]
    for case in test_command_lines.CASES:
        if case["engine"] == engine:
            found[f"command line {case['name']}"] = test_command_lines.rendered(case)
    for name, document in seeds.SEEDS.items():
        resolved = seeds.resolution(name).resolved
        if document.spec.engine.name == engine and resolved is not None:
            for role in resolved.roles:
                for index, pod in enumerate(build.render_replica(resolved, role.name, 0).members):
                    found[f"seed {name} {role.name} {index}"] = pod
    return found


def rendered(engine: str) -> dict[str, Line]:
    """The command of `main` in each of these Pods, unless its author wrote it."""
    found = {name: tuple(build.main(pod)["command"]) for name, pod in pods(engine).items()}
    start = ("vllm", "serve") if engine == VLLM else ("python3", "-m", "sglang.launch_server")
    return {name: line for name, line in found.items() if line[: len(start)] == start}


def stores(engine: str) -> list[dict[str, Any]]:
    """What the store clients of these Pods are configured with, each once: vLLM's file, SGLang's variables."""
    found: list[dict[str, Any]] = []
    for pod in pods(engine).values():
        if engine == VLLM:
            configured = json.loads(pod["metadata"]["annotations"].get(CLIENT_CONFIG, "{}"))
        else:
            variables = {name: value for name, value in build.environment(pod).items() if name.startswith("MOONCAKE_")}
            configured = {name: POD_IP if isinstance(value, dict) else value for name, value in variables.items()}
        if configured and configured not in found:
            found.append(configured)
    return found


def documents(commands: Iterable[Line]) -> list[tuple[str, str]]:
    """Every JSON document that the commands hand to vLLM, each once."""
    flags = OWNED_ARGUMENTS[VLLM]
    found = ((flag, line[line.index(flag) + 1]) for line in commands for flag in flags if flag in line)
    return sorted({(flag, json.dumps(json.loads(text), sort_keys=True)) for flag, text in found})


def router_commands(router: str) -> dict[str, Line]:
    """The worked example of router sheet 8, for a pair and for servers alone."""
    start = ["--host=0.0.0.0", "--port=8081", "--prometheus-host=0.0.0.0", "--prometheus-port=9090"]
    start += ["--request-timeout-secs=90", *(["--kv-connector=mooncake"] if router == "vllm-router" else [])]
    start += ["--service-discovery", "--service-discovery-namespace=team-a", "--service-discovery-port=8000"]
    common = ["app.kubernetes.io/instance=qwen", "app.kubernetes.io/name=model-deployment"]
    member = "modeldeployment.gpustack.ai/member-index=0"
    pair = ["--vllm-pd-disaggregation" if router == "vllm-router" else "--pd-disaggregation"]
    for kind in ("prefill", "decode"):
        labels = [f"app.kubernetes.io/component={kind}", *common, member]
        pair += [f"--{kind}-selector", *labels, f"modeldeployment.gpustack.ai/role-kind={kind}"]
    end = ["--policy", "round_robin"]
    return {
        "pair": (*start, *pair, *end),
        "servers": (*start, "--selector", *common, member, *end),
    }


def question(name: str) -> Any:
    """What the probe of `vllm`, `sglang` or `routers` is asked."""
    if name == "routers":
        return {
            router: {"lines": router_lines(router), "commands": list(router_commands(router).values())}
            for router in ROUTERS
        }
    engine = VLLM if name == "vllm" else SGLANG
    commands = list(dict.fromkeys(rendered(engine).values()))
    asked: dict[str, Any] = {"lines": lines(engine), "commands": commands}
    asked["stores"] = stores(engine)
    return asked | ({"variables": variables(), "documents": documents(commands)} if engine == VLLM else {})
