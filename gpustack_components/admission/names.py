"""Names a deployment's objects would get: Services, routers, members of a replica (api sheet 5)."""

import re
from collections.abc import Iterator

from gpustack_components.admission.case import Case, RoleCase
from gpustack_components.admission.rule import Rule
from gpustack_components.api import names
from gpustack_components.api.refusal import Refusal

_SUBJECT = "names"

ROLE_SERVICE_NAME = Rule(
    id="role-service-name",
    subject=_SUBJECT,
    layer="webhook",
    when="`<deployment>-<role>`, the name of the role's Service, is no DNS-1035 label of at most 63 characters",
    way_out="Shorten or respell the role or the deployment; a role that the stored object already had is left alone.",
    source="api-and-admission 5, 6.2",
    paths=("spec.roles[].name",),
    needs=frozenset(("object", "previous")),
)
ROUTER_SERVICE_NAME = Rule(
    id="router-service-name",
    subject=_SUBJECT,
    layer="review",
    when="`<deployment>-router`, the name of the router's Service, is no DNS-1035 label of at most 63 characters",
    way_out="Give the deployment a shorter name; a router that the stored object already had is left alone.",
    source="router 4, 13",
    paths=("spec.router",),
    needs=frozenset(("object", "previous")),
)
SERVICE_NAME_COLLISION = Rule(
    id="service-name-collision",
    subject=_SUBJECT,
    layer="webhook",
    when="two objects of the deployment would bear one Service name: a role's, a replica's, or the router's",
    way_out="Rename the later role.",
    source="api-and-admission 5, 6.2",
    paths=("spec.roles[].name",),
)
MEMBER_NAME = Rule(
    id="member-name",
    subject=_SUBJECT,
    layer="webhook",
    when="the longest `<deployment>-<role>-r<ordinal>-m<member>` of a role with `size` above 1 is no hostname",
    way_out="Shorten the role's name, shorten the deployment's name, or declare fewer replicas.",
    source="api-and-admission 5, 6.2",
    paths=("spec.roles[]",),
)

RULES = (ROLE_SERVICE_NAME, ROUTER_SERVICE_NAME, SERVICE_NAME_COLLISION, MEMBER_NAME)

_LONGEST_ROUTED = names.DNS_LABEL_LENGTH - len(names.router_name(""))
_INSTANCE = re.compile(r"(.+)-r(0|[1-9][0-9]*)\Z")


def judge_role_services(case: Case) -> Iterator[Refusal]:
    """Each role's Service name, unless the stored object already had the role."""
    for role in case.new.roles:
        name = names.role_service(case.new.name, role.name)
        if names.is_dns_1035_label(name) or case.stored(role):
            continue
        yield ROLE_SERVICE_NAME.refuse(
            f"{role.path}.name",
            f'the role\'s Service would be named "{name}" ({len(name)} characters), which is no DNS-1035 label: '
            f"{_why_no_service(name)}; {_respell(case, role)}",
            role.name,
        )


def judge_router_service(case: Case) -> Iterator[Refusal]:
    """The router's Service name, unless the stored object already had a router."""
    if case.spec.router is None or (case.old is not None and case.old.spec.router is not None):
        return
    name = names.router_name(case.new.name)
    if not names.is_dns_1035_label(name):
        yield ROUTER_SERVICE_NAME.refuse(
            "spec.router",
            f'the router\'s Service would be named "{name}" ({len(name)} characters), which is no DNS-1035 label: '
            f"{_why_no_service(name)}; respell the deployment's name, in {_LONGEST_ROUTED} characters at most",
            case.new.name,
        )


def _why_no_service(name: str) -> str:
    if len(name) > names.DNS_LABEL_LENGTH:
        return f"it may have {names.DNS_LABEL_LENGTH} characters at most"
    if "." in name:
        return "it may hold no dot"
    if not name[0].isalpha():
        return "it has to start with a letter"
    return "it may hold lowercase letters, digits and dashes only, and no dash at either end"


def _respell(case: Case, role: RoleCase) -> str:
    return f'shorten or respell the role "{role.name}" or the deployment "{case.new.name}"'


def judge_collisions(case: Case) -> Iterator[Refusal]:
    """Names two objects would share, each on the claimant that comes later.

    A replica's Service is `<role Service>-r<ordinal>`, so it can only meet the Service of a role of that name: looking
    at the role names answers the question without building a thousand names.
    """
    deployment = case.new.name
    sized = {role.name: role for role in case.new.roles if role.role.size > 1}
    for role in case.new.roles:
        service = names.role_service(deployment, role.name)
        if case.spec.router is not None and service == names.router_name(deployment):
            yield SERVICE_NAME_COLLISION.refuse(
                f"{role.path}.name",
                f"the role's Service would be named \"{service}\", as spec.router's own objects are; rename the role",
                role.name,
            )
        match = _INSTANCE.match(role.name)
        owner = sized.get(match[1]) if match else None
        if match is None or owner is None or int(match[2]) >= owner.role.replicas:
            continue
        replica = f"replica {match[2]} of role {owner.name}"
        first, later = (f"role {role.name}", owner) if role.index < owner.index else (replica, role)
        second = replica if later is owner else f"role {role.name}"
        yield SERVICE_NAME_COLLISION.refuse(
            f"{later.path}.name",
            f'"{service}" would name the Service of {first} and of {second}; rename role {later.name}',
            later.name,
        )


def judge_members(case: Case) -> Iterator[Refusal]:
    """The longest member name of each role of several Pods."""
    for role in case.new.roles:
        if role.role.size <= 1:
            continue
        name = names.longest_member_pod(case.new.name, role.name, role.role.replicas, role.role.size)
        if names.is_dns_1123_label(name):
            continue
        reason = (
            f"a hostname has {names.DNS_LABEL_LENGTH} characters at most"
            if len(name) > names.DNS_LABEL_LENGTH
            else "a hostname holds lowercase letters, digits and dashes only"
        )
        yield MEMBER_NAME.refuse(
            role.path,
            f'its members go up to "{name}" ({len(name)} characters), and {reason}; shorten the role "{role.name}", '
            f'shorten the deployment "{case.new.name}", or declare fewer replicas than {role.role.replicas}',
        )
