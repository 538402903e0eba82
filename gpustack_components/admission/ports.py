"""Ports: what a role declares, what its engine listens on, and the listeners put in beside it (api sheet 4.7, 6.6)."""

from collections.abc import Iterator

from gpustack_components.admission.case import Case, RoleCase
from gpustack_components.admission.rule import Rule
from gpustack_components.api.refusal import Refusal

_SUBJECT = "ports"

RESERVED_PORT = Rule(
    id="reserved-port",
    subject=_SUBJECT,
    layer="webhook",
    when="a declared port is taken by a listener that is put into the role: KV events 5557, their replay 5558, "
    "bootstrap 8998",
    way_out="Declare another port; a role with its own `command` gets no such listener.",
    source="api-and-admission 6.2, 6.6; router 2",
    paths=("spec.router", "spec.roles[].ports"),
)
LISTEN_PORT = Rule(
    id="listen-port",
    subject=_SUBJECT,
    layer="webhook",
    when="the role's own `--port` differs from its first `ports` entry",
    way_out="Give both the same number, or drop one of them.",
    source="api-and-admission 4.7, 6.3, 6.6",
    paths=("spec.roles[].extraArgs", "spec.roles[].command"),
    needs=frozenset(("object", "previous")),
)
RESERVED_LISTEN_PORT = Rule(
    id="reserved-listen-port",
    subject=_SUBJECT,
    layer="webhook",
    when="a role that declares no `ports` passes a `--port` that a listener put into the role takes",
    way_out="Pass another port.",
    source="api-and-admission 6.3, 6.6; router 2",
    paths=("spec.router", "spec.roles[].extraArgs"),
    needs=frozenset(("object", "previous")),
)

RULES = (RESERVED_PORT, LISTEN_PORT, RESERVED_LISTEN_PORT)


def _taken(case: Case, role: RoleCase) -> str:
    """Which ports are reserved on the role, and by whom."""
    reserved = ", ".join(str(port) for port in role.reserved_ports)
    behind = f" behind {case.spec.router.name}" if case.spec.router else ""
    return f"{case.engine} {role.kind} role{behind} (reserved: {reserved})"


def judge_reserved_ports(case: Case, role: RoleCase) -> Iterator[Refusal]:
    """Declared ports against the role's reserved ones."""
    for position, port in enumerate(role.role.ports):
        if port.port in role.reserved_ports:
            yield RESERVED_PORT.refuse(
                "spec.router" if case.spec.router else f"{role.path}.ports",
                f"port {port.port} of {role.path}.ports[{position}] is taken by a listener of its own on a "
                f"{_taken(case, role)}; declare another port",
                port.port,
            )


def judge_listen_ports(case: Case) -> Iterator[Refusal]:
    """`--port` against the first declared port. A stored role is judged only when its ports or arguments change."""
    for role in case.new.roles:
        declared, own = role.role.ports, role.own_port
        if not declared or own is None or own == declared[0].port or role.proxied:
            continue
        stored = case.stored(role)
        if stored is not None and stored.role.ports == declared and stored.stream == role.stream:
            continue
        yield LISTEN_PORT.refuse(
            role.stream_path,
            f"--port {own} in {role.stream_path} and {declared[0].port} in {role.path}.ports[0] name different ports, "
            "so the Service would dial a port nobody listens on; give both the same number, or drop one of them",
            own,
        )


def judge_reserved_listen_ports(case: Case) -> Iterator[Refusal]:
    """`--port` of a role without `ports` against its reserved ports. A collision the stored role had is left alone."""
    for role in case.new.roles:
        if not _collides(role):
            continue
        stored = case.stored(role)
        if stored is not None and _collides(stored) and stored.own_port == role.own_port:
            continue
        yield RESERVED_LISTEN_PORT.refuse(
            "spec.router" if case.spec.router else f"{role.path}.extraArgs",
            f"--port {role.own_port} in {role.path}.extraArgs is taken by a listener of its own on a "
            f"{_taken(case, role)}; pass another port",
            role.own_port,
        )


def _collides(role: RoleCase) -> bool:
    return not role.role.ports and role.own_port is not None and role.own_port in role.reserved_ports
