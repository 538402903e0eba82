"""Where a role listens: container ports, serving port, engine port, probe target (rendering sheet 3.4, 3.5, 6, 7)."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gpustack_components.api.command_line.flags import (
    HOST,
    PORT,
    SSL_CERT_REQS,
    names_flag,
    own_port,
    scheme,
    ssl_cert_reqs,
)
from gpustack_components.bindings.failure import RenderFailure
from gpustack_components.bindings.shape import takes_over

if TYPE_CHECKING:
    from gpustack_components.api.model_deployment import Role

DEFAULT_PORT = 8000
"""Port a role serves on when it declares none and names none."""
PROXIED_PORT = 8200
"""First port tried for an engine behind the routing proxy."""
BOOTSTRAP_PORT = 8998
"""Where a prefiller's bootstrap server listens."""
EVENTS_PORT = 5557
"""Where a publishing role sends KV events."""
REPLAY_PORT = 5558
"""Where a publishing role replays missed KV events."""

HEALTH_PATH = "/health"
"""What probes read on an engine."""
PROXIED_HEALTH_PATH = "/v1/models"
"""Read through the routing proxy, which itself answers `/health` in every state."""

_LARGEST_PORT = 65535
_CERTIFICATE_OPTIONAL = (0, 1)
_LEGAL_NAME = re.compile(r"(?=[a-z0-9-]{1,15}\Z)(?!.*--)(?=.*[a-z])[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z")

Scheme = Literal["HTTP", "HTTPS"]
"""How a listener speaks."""


@dataclass(frozen=True, slots=True)
class Port:
    """One named port of a container."""

    name: str
    """Port name; unique in its container."""
    number: int
    """Port number."""
    protocol: str = "TCP"
    """`TCP`, `UDP` or `SCTP`."""


MODEL_SERVER = "model-server"
"""Name of the engine's own port behind the routing proxy."""
VLLM_BOOTSTRAP = Port("mc-bootstrap", BOOTSTRAP_PORT)
"""Bootstrap port of a vLLM prefiller's leg."""
SGLANG_BOOTSTRAP = Port("bootstrap", BOOTSTRAP_PORT)
"""Bootstrap port of an SGLang prefiller."""
KV_EVENTS = Port("kv-events", EVENTS_PORT)
"""Port of a publishing role's events."""
KV_REPLAY = Port("kv-replay", REPLAY_PORT)
"""Port of a publishing role's replay."""
_OWN_NAMES = frozenset((MODEL_SERVER, VLLM_BOOTSTRAP.name, SGLANG_BOOTSTRAP.name, KV_EVENTS.name, KV_REPLAY.name))


@dataclass(frozen=True, slots=True)
class Probe:
    """What startup, readiness and liveness ask."""

    path: str
    """Path of the request."""
    port: int
    """Port of the request."""
    scheme: Scheme
    """Scheme of the request."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Everything about ports of one role."""

    external: tuple[Port, ...]
    """Ports callers use: the declared ones, or `http` 8000. The first is the role's own."""
    serving: Port
    """What the Service's first port targets, routers dial and probes read."""
    engine: int
    """Port the engine itself listens on; differs from `serving` behind the routing proxy only."""
    container: tuple[Port, ...]
    """Ports of `main` in order: declared (or default), then the connectors'."""
    scheme: Scheme
    """How the engine's own listener speaks."""
    probe: Probe | None
    """What the probes ask; None when there are none."""
    own_port: int | None
    """The role's own `--port`; None when it names none that can be one."""


def role_tokens(role: "Role") -> tuple[str, ...]:
    """The arguments the role's engine is started with as far as its author wrote them: `command` alone when it
    takes over."""
    return tuple(role.command or ()) if takes_over(role) else tuple(role.extra_args or ())


def listen(engine: str, role: "Role", *, proxied: bool, connectors: tuple[Port, ...]) -> Listening | RenderFailure:
    """Lay out the role's ports, or say which two cannot stand together."""
    tokens = role_tokens(role)
    own = _usable(own_port(engine, tokens))
    names_port = names_flag(engine, tokens, PORT)
    declared = _declared(role, connectors)
    external = declared or (Port("http", DEFAULT_PORT),)
    engine_scheme: Scheme = scheme(engine, tokens)
    if proxied:
        behind = _behind_proxy(role.name, external, own, unreadable=names_port and own is None)
        if isinstance(behind, RenderFailure):
            return behind
        serving, engine_port = external[0], behind
        main = (Port(MODEL_SERVER, engine_port), *external[1:])
    else:
        serving = external[0] if declared else Port("http", own if own is not None else DEFAULT_PORT)
        engine_port = serving.number
        main = (serving, *external[1:])
    container = _with_connectors(role.name, main, () if takes_over(role) else connectors)
    if isinstance(container, RenderFailure):
        return container
    probe: Probe | None = None
    if not takes_over(role) and serving.protocol == "TCP":
        if proxied:
            probe = Probe(PROXIED_HEALTH_PATH, serving.number, "HTTP")
        elif not _unprobed(engine, tokens, engine_scheme, serving.number, own, names_port=names_port):
            probe = Probe(HEALTH_PATH, serving.number, engine_scheme)
    return Listening(external, serving, engine_port, container, engine_scheme, probe, own)


def _usable(port: int | None) -> int | None:
    return port if port is not None and 1 <= port <= _LARGEST_PORT else None


def _unprobed(
    engine: str, tokens: tuple[str, ...], engine_scheme: Scheme, serving: int, own: int | None, *, names_port: bool
) -> bool:
    if names_flag(engine, tokens, HOST):
        return True
    if names_port and own != serving:
        return True
    asks_certificate = names_flag(engine, tokens, SSL_CERT_REQS) if engine == "vLLM" else False
    return engine_scheme == "HTTPS" and asks_certificate and ssl_cert_reqs(engine, tokens) not in _CERTIFICATE_OPTIONAL


def _declared(role: "Role", connectors: tuple[Port, ...]) -> tuple[Port, ...]:
    """The declared ports under their own names where those are legal and free, else under `<protocol>-<port>`."""
    derived = [f"{(port.protocol or 'TCP').lower()}-{port.port}" for port in role.ports or ()]
    taken = set(derived)
    ports: list[Port] = []
    for port, fallback in zip(role.ports or (), derived, strict=True):
        protocol, name = port.protocol or "TCP", port.name or ""
        reserved = name in _OWN_NAMES and Port(name, port.port, protocol) not in connectors
        usable = bool(_LEGAL_NAME.match(name)) and name not in taken and not reserved
        ports.append(Port(name if usable else fallback, port.port, protocol))
        taken.add(name)
    return tuple(ports)


def _behind_proxy(role: str, external: tuple[Port, ...], own: int | None, *, unreadable: bool) -> int | RenderFailure:
    numbers = {port.number for port in external}
    if unreadable:
        return RenderFailure(
            role,
            "--port has no readable number, so the engine cannot be moved behind the routing proxy; give it a number",
        )
    if own is not None:
        if own in numbers:
            return RenderFailure(
                role,
                f"--port {own} is also a port of the routing proxy or the Service; "
                "give the engine another port, or leave --port out",
            )
        return own
    number = PROXIED_PORT
    while number in numbers:
        number += 1
    return number


def _with_connectors(
    role: str, main: tuple[Port, ...], connectors: tuple[Port, ...]
) -> tuple[Port, ...] | RenderFailure:
    ports = list(main)
    for connector in connectors:
        clash = next((p for p in main if p.number == connector.number), None)
        if clash is None:
            ports.append(connector)
        elif clash.name != connector.name:
            return RenderFailure(
                role,
                f"port {connector.number} is {clash.name} of the role and {connector.name} of its transfer connector; "
                "declare another port",
            )
    return tuple(ports)
