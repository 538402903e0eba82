"""The router: which engine it fronts, which flags are its own, what it needs of the roles (router sheet 2, 3, 5)."""

from collections.abc import Iterator

from gpustack_components.admission.case import Case
from gpustack_components.admission.rule import Rule
from gpustack_components.api.command_line.flags import entry_name
from gpustack_components.api.command_line.owned import LLM_D_ROUTER, ROUTER_ARGUMENTS, ROUTER_ENGINES, SGLANG, VLLM
from gpustack_components.api.model_deployment import Router
from gpustack_components.api.refusal import Refusal

_SUBJECT = "router"
_METRIC = "queued requests"
_METRIC_ENGINES = frozenset((VLLM, SGLANG))
"""Engines whose metrics the picker of llm-d-router knows by name."""

ROUTER_ARGUMENT = Rule(
    id="router-argument",
    subject=_SUBJECT,
    layer="webhook",
    when="an entry of `router.extraArgs` names, exactly, a flag reserved for what is rendered for that router",
    way_out="Remove the entry.",
    source="api-and-admission 4.10, 6.2; router 3",
    paths=("spec.router.extraArgs[]",),
)
ROUTER_THRESHOLD = Rule(
    id="router-threshold",
    subject=_SUBJECT,
    layer="webhook",
    when=f"`disaggregationThresholdTokens` is set, 0 included, on a router other than {LLM_D_ROUTER}",
    way_out=f"Remove it, or use {LLM_D_ROUTER}.",
    source="api-and-admission 6.2; router 2",
    paths=("spec.router.disaggregationThresholdTokens",),
)
ROUTER_ENGINE = Rule(
    id="router-engine",
    subject=_SUBJECT,
    layer="webhook",
    when="the router does not front the deployment's engine",
    way_out=f"Use {LLM_D_ROUTER}, or the router made for the engine.",
    source="api-and-admission 4.10, 6.2; router 2",
    paths=("spec.router.name",),
)
ROUTER_ENGINE_METRICS = Rule(
    id="router-engine-metrics",
    subject=_SUBJECT,
    layer="webhook",
    when=f"{LLM_D_ROUTER} knows no metric names of the engine; no engine the API accepts today is refused by it",
    way_out="Use another engine or another router.",
    source="api-and-admission 6.2; router 2",
    paths=("spec.engine",),
)
ROUTER_PORT_PROTOCOL = Rule(
    id="router-port-protocol",
    subject=_SUBJECT,
    layer="webhook",
    when="a router is set and the first port of a role is not TCP",
    way_out="Put a TCP port first, or remove the router.",
    source="api-and-admission 6.2; router 2",
    paths=("spec.router",),
)
ROUTER_TLS = Rule(
    id="router-tls",
    subject=_SUBJECT,
    layer="webhook",
    when="a router is set and the arguments of a role turn TLS on; a role with its own `command` is no exception",
    way_out="Serve plain HTTP behind the router, or remove the router.",
    source="api-and-admission 6.2; router 2",
    paths=("spec.router",),
)
ROUTER_PORT_UNIFORM = Rule(
    id="router-port-uniform",
    subject=_SUBJECT,
    layer="webhook",
    when="a router is set and the roles do not all serve on one port",
    way_out="Give every role the same first port, or the same `--port`.",
    source="api-and-admission 6.2; router 2, 5",
    paths=("spec.router",),
)
ROUTER_DECODE_PORT = Rule(
    id="router-decode-port",
    subject=_SUBJECT,
    layer="webhook",
    when=f"behind {LLM_D_ROUTER}, the `--port` of a managed Decode role is the port its routing proxy takes",
    way_out="Remove `--port`, or give the engine any other number.",
    source="api-and-admission 6.2; router 2, 5",
    paths=("spec.router",),
)

RULES = (
    ROUTER_ARGUMENT,
    ROUTER_THRESHOLD,
    ROUTER_ENGINE,
    ROUTER_ENGINE_METRICS,
    ROUTER_PORT_PROTOCOL,
    ROUTER_TLS,
    ROUTER_PORT_UNIFORM,
    ROUTER_DECODE_PORT,
)


def judge_router(case: Case) -> Iterator[Refusal]:
    """Everything about `spec.router`; nothing without one."""
    router = case.spec.router
    if router is not None:
        yield from _judge_block(case, router)
        yield from _judge_roles(case, router)


def _judge_block(case: Case, router: Router) -> Iterator[Refusal]:
    owned = ROUTER_ARGUMENTS.get(router.name, frozenset())
    for position, entry in enumerate(router.extra_args):
        flag = entry_name(entry)
        if flag in owned:
            yield ROUTER_ARGUMENT.refuse(
                f"spec.router.extraArgs[{position}]",
                f"{flag} is reserved for what is rendered for {router.name}; remove the entry",
                entry,
            )
    threshold = router.disaggregation_threshold_tokens
    if threshold is not None and router.name != LLM_D_ROUTER:
        yield ROUTER_THRESHOLD.refuse(
            "spec.router.disaggregationThresholdTokens",
            f"{router.name} splits no request by its length, only {LLM_D_ROUTER} does; remove the field, or use "
            f"{LLM_D_ROUTER}",
            threshold,
        )
    engines = ROUTER_ENGINES.get(router.name, ())
    if case.engine not in engines:
        fitting = [name for name, fronted in ROUTER_ENGINES.items() if case.engine in fronted]
        way_out = f"use {' or '.join(fitting)}" if fitting else "remove the router"
        yield ROUTER_ENGINE.refuse(
            "spec.router.name",
            f"{router.name} fronts {' and '.join(engines)}, not {case.engine}; {way_out}",
            router.name,
        )
    if router.name == LLM_D_ROUTER and case.engine not in _METRIC_ENGINES:
        yield ROUTER_ENGINE_METRICS.refuse(
            "spec.engine",
            f"{router.name} knows no metric for {_METRIC} of {case.engine}; use another engine or another router",
            case.engine,
        )


def _judge_roles(case: Case, router: Router) -> Iterator[Refusal]:
    for role in case.new.roles:
        if role.serving_protocol != "TCP":
            yield ROUTER_PORT_PROTOCOL.refuse(
                "spec.router",
                f'{router.name} dials TCP, and role "{role.name}" serves {role.serving_protocol} '
                f"({role.path}.ports[0]); put a TCP port first, or remove the router",
                role.serving_protocol,
            )
    for role in case.new.roles:
        if role.scheme == "HTTPS":
            yield ROUTER_TLS.refuse(
                "spec.router",
                f'{router.name} reaches plaintext engines only, and role "{role.name}" turns TLS on in '
                f"{role.stream_path}; serve plain HTTP behind the router, or remove the router",
                "HTTPS",
            )
    ports = sorted({role.target_port for role in case.new.roles})
    if len(ports) > 1:
        yield ROUTER_PORT_UNIFORM.refuse(
            "spec.router",
            f"{router.name} dials one port on every role, and these serve on {' and '.join(map(str, ports))}; give "
            "every role the same first port, or the same --port",
            ports,
        )
    for role in case.new.roles:
        if role.proxied and role.own_port == role.serving_port:
            yield ROUTER_DECODE_PORT.refuse(
                "spec.router",
                f'role "{role.name}" passes --port {role.own_port}, the port its routing proxy serves on; remove '
                "--port, or give the engine any other number",
                role.own_port,
            )
