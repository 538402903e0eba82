"""Services of a deployment: the deployment-wide one, one per role, a headless one per replica of several Pods
(router sheet 13)."""

from typing import Any

from gpustack_components.api.names import instance_service, role_service, service_host
from gpustack_components.bindings.listen import KV_EVENTS, KV_REPLAY, Port
from gpustack_components.bindings.resolve import ResolvedDeployment, ResolvedRole
from gpustack_components.bindings.shape import can_qualify
from gpustack_components.cluster import keys
from gpustack_components.cluster.port import Json


def front_services(resolved: ResolvedDeployment) -> tuple[Json, ...]:
    """The deployment-wide Service, which fronts the first role only, then one per role in spec order."""
    first = resolved.roles[0]
    return (
        _service(resolved, first, resolved.name, _labels(resolved), _front_ports(first)),
        *(role_service_manifest(resolved, role) for role in resolved.roles),
    )


def role_service_manifest(resolved: ResolvedDeployment, role: ResolvedRole) -> Json:
    """The Service of one role: its own ports, and the KV event ports where it publishes."""
    name = role_service(resolved.name, role.name)
    events = [_port(p, p.number) for p in (KV_EVENTS, KV_REPLAY) if role.publish and p not in role.listening.external]
    return _service(resolved, role, name, _role_labels(resolved, role), [*_front_ports(role), *events])


def instance_service_manifest(resolved: ResolvedDeployment, role: ResolvedRole, ordinal: int) -> Json:
    """The headless Service through which the members of one replica find each other, before they are ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": instance_service(resolved.name, role.name, ordinal),
            "namespace": resolved.namespace,
            "labels": {**_role_labels(resolved, role), keys.POD_ORDINAL: str(ordinal)},
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {**_selector(resolved, role), keys.POD_ORDINAL: str(ordinal)},
            "ports": _front_ports(role),
        },
    }


def role_address(resolved: ResolvedDeployment, role: ResolvedRole) -> str:
    """The URL of one role's Service (router sheet 13)."""
    scheme, port = role.listening.scheme.lower(), role.listening.external[0].number
    return f"{scheme}://{service_host(role_service(resolved.name, role.name), resolved.namespace)}:{port}"


def _service(
    resolved: ResolvedDeployment, role: ResolvedRole, name: str, labels: dict[str, str], ports: list[dict[str, Any]]
) -> Json:
    selector = {**_selector(resolved, role), **master_label(role)}
    if role.size > 1 and not every_member_serves(role):
        selector[keys.MEMBER_INDEX] = "0"
    if can_qualify(role.declared):
        selector |= eligible_label(resolved)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": resolved.namespace, "labels": labels},
        "spec": {"type": "ClusterIP", "selector": selector, "ports": ports},
    }


def every_member_serves(role: ResolvedRole) -> bool:
    """Whether each member answers for ranks of its own: external data parallelism of a server (router sheet 13).

    Halves of a pair and take-over roles are fronted by their leader whatever their flags say.
    """
    return role.kind == "Server" and not role.take_over and role.parallelism.balance().every_member_serves


def eligible_label(resolved: ResolvedDeployment) -> dict[str, str]:
    """The label of members that may be selected, where the setting has Services and routers ask for it (router sheet
    6.4); nothing where it does not."""
    asked = resolved.settings.model_deployment_endpoint_qualification
    return {keys.ENDPOINT_ELIGIBLE: "true"} if asked else {}


def master_label(role: ResolvedRole) -> dict[str, str]:
    """What tells the master of an elastic role, the one Pod that serves HTTP, from its workers; nothing on others."""
    return {keys.POD_ORDINAL: "0"} if role.declared.elastic_ep is not None else {}


def _front_ports(role: ResolvedRole) -> list[dict[str, Any]]:
    """The external ports; the first targets what the role serves on, which its own `--port` may have moved."""
    first, *others = role.listening.external
    return [_port(first, role.listening.serving.number), *(_port(port, port.number) for port in others)]


def _port(port: Port, target: int) -> dict[str, Any]:
    return {"name": port.name, "port": port.number, "targetPort": target, "protocol": port.protocol}


def _selector(resolved: ResolvedDeployment, role: ResolvedRole) -> dict[str, str]:
    return {
        keys.APP_NAME: keys.APP_NAME_VALUE,
        keys.APP_INSTANCE: resolved.name,
        keys.APP_COMPONENT: role.name,
    }


def _labels(resolved: ResolvedDeployment) -> dict[str, str]:
    return {
        keys.APP_NAME: keys.APP_NAME_VALUE,
        keys.APP_INSTANCE: resolved.name,
        keys.APP_PART_OF: keys.PART_OF_VALUE,
    }


def _role_labels(resolved: ResolvedDeployment, role: ResolvedRole) -> dict[str, str]:
    return {**_labels(resolved), keys.APP_COMPONENT: role.name}
