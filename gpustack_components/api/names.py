"""Every name this product derives: Services, Pods, pod groups, queues, the record (api sheet 5, rendering sheet 2).

Names are built, never parsed back. Whether a name is legal is a question of admission; the checks it asks are here.
"""

import re

DNS_LABEL_LENGTH = 63
"""Longest DNS label: a Service name, a hostname, a namespace."""

SUBDOMAIN_LENGTH = 253
"""Longest DNS subdomain: the name of an object."""

DNS_1123_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_1035_LABEL = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
DNS_1123_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

_LABEL = re.compile(DNS_1123_LABEL[:-1] + r"\Z")
_SERVICE = re.compile(DNS_1035_LABEL[:-1] + r"\Z")
_SUBDOMAIN = re.compile(DNS_1123_SUBDOMAIN[:-1] + r"\Z")
_QUALIFIED_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?\Z")

_HASH_PREFIX = "gpustack-fnv64-"
_OFFSET_BASIS = 0xCBF29CE484222325
_PRIME = 0x100000001B3
_MASK = 0xFFFFFFFFFFFFFFFF


def fnv64(text: str) -> str:
    """FNV-1a of the text's UTF-8 bytes as 16 lowercase hexadecimal digits."""
    digest = _OFFSET_BASIS
    for byte in text.encode():
        digest = (digest ^ byte) * _PRIME & _MASK
    return f"{digest:016x}"


def group_name(namespace: str, deployment: str, role: str, ordinal: int) -> str:
    """Kueue's pod group of one replica; always 31 characters."""
    return f"{_HASH_PREFIX}{fnv64(f'{namespace}/{deployment}/{role}/{ordinal}')}"


def entrance(instance_type: str) -> str:
    """The LocalQueue of an InstanceType whose document states no `status.entrance` (bindings sheet 1.4)."""
    return f"{_HASH_PREFIX}{fnv64(instance_type)}"


def role_service(deployment: str, role: str) -> str:
    """The Service of one role; its members' names start with it."""
    return f"{deployment}-{role}"


ROUTER_SERVICE_PORT = 8000
"""The port of the router's Service, whichever router it is (router sheet, section 4)."""


def router_name(deployment: str) -> str:
    """Every object of the router stack bears this name, whichever router it is."""
    return f"{deployment}-router"


def service_host(service: str, namespace: str) -> str:
    """The name by which a Service is reached inside the cluster."""
    return f"{service}.{namespace}.svc"


def router_url(deployment: str, namespace: str) -> str:
    """Where a deployment's router answers inside the cluster: always plain HTTP, whatever the roles speak (router sheet
    14)."""
    return f"http://{service_host(router_name(deployment), namespace)}:{ROUTER_SERVICE_PORT}"


def instance_service(deployment: str, role: str, ordinal: int) -> str:
    """The headless Service of a replica of more than one Pod."""
    return f"{deployment}-{role}-r{ordinal}"


def member_pod(deployment: str, role: str, ordinal: int, member: int) -> str:
    """The Pod and hostname of one member of a replica of more than one Pod; member 0 leads."""
    return f"{deployment}-{role}-r{ordinal}-m{member}"


def leader_address(deployment: str, role: str, ordinal: int) -> str:
    """Where the other members of a replica find its leader."""
    return f"{member_pod(deployment, role, ordinal, 0)}.{instance_service(deployment, role, ordinal)}"


def longest_member_pod(deployment: str, role: str, replicas: int, size: int) -> str:
    """The longest member name a role can produce, the one whose length is judged."""
    return member_pod(deployment, role, max(replicas - 1, 0), size - 1)


def record_name(deployment: str) -> str:
    """The ConfigMap and the Lease of a deployment."""
    return f"{deployment}-modeldeployment"


def is_dns_1123_label(name: str) -> bool:
    """Whether the name can be a hostname or a namespace."""
    return len(name) <= DNS_LABEL_LENGTH and _LABEL.match(name) is not None


def is_dns_1035_label(name: str) -> bool:
    """Whether the name can be a Service's: a DNS label that starts with a letter."""
    return len(name) <= DNS_LABEL_LENGTH and _SERVICE.match(name) is not None


def is_dns_subdomain(name: str) -> bool:
    """Whether the name can be an object's: DNS labels joined by dots."""
    return len(name) <= SUBDOMAIN_LENGTH and _SUBDOMAIN.match(name) is not None


def is_qualified_name(key: str) -> bool:
    """Whether the key can be a label or annotation key: `[<subdomain>/]<name of at most 63 characters>`."""
    prefix, slash, name = key.rpartition("/")
    return (
        (not slash or is_dns_subdomain(prefix))
        and len(name) <= DNS_LABEL_LENGTH
        and _QUALIFIED_PART.match(name) is not None
    )
