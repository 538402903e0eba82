"""Which engine Pods a router finds: one per replica, its leader, and never a router (router sheet 6.4, 8)."""

from collections.abc import Iterable, Mapping

from gpustack_components.bindings.resolve import ResolvedDeployment, ResolvedRole
from gpustack_components.bindings.shape import can_qualify, is_pair
from gpustack_components.cluster import keys
from gpustack_components.render.services import eligible_label, every_member_serves, master_label

LEADER = "0"
"""Member index of a replica's leader."""


def is_split(resolved: ResolvedDeployment) -> bool:
    """Whether the router tells prefill from decode: both kinds are declared."""
    return is_pair(resolved.declared.spec)


def endpoint_selector(resolved: ResolvedDeployment) -> str:
    """The picker's label selector over all roles; the order of its terms is part of its configuration's hash."""
    terms = {**_everyone(resolved), **_leaders(resolved, resolved.roles), **_master(resolved)}
    wanted = [f"{key}={value}" for key, value in {**terms, **_eligible(resolved, resolved.roles)}.items()]
    return ",".join((*wanted, f"!{keys.ROUTER}"))


def shared_labels(resolved: ResolvedDeployment) -> Mapping[str, str]:
    """Labels by which an argv router finds the Pods of all roles. No term can exclude routers; they have no member
    index, and no eligibility either."""
    return {
        **_everyone(resolved),
        **_leaders(resolved, resolved.roles),
        **_master(resolved),
        **_eligible(resolved, resolved.roles),
    }


def role_labels(resolved: ResolvedDeployment, role: ResolvedRole) -> Mapping[str, str]:
    """Labels by which one role's Pods are found: what status publishes and an argv router of a pair selects."""
    return {
        **_everyone(resolved),
        keys.APP_COMPONENT: role.name,
        keys.ROLE_KIND: role.kind.lower(),
        **_leaders(resolved, [role]),
        **_master(resolved),
        **_eligible(resolved, [role]),
    }


def _everyone(resolved: ResolvedDeployment) -> dict[str, str]:
    return {keys.APP_NAME: keys.APP_NAME_VALUE, keys.APP_INSTANCE: resolved.name}


def _leaders(resolved: ResolvedDeployment, roles: Iterable[ResolvedRole]) -> dict[str, str]:
    """Leaders only, unless eligibility names the members that serve and some role has several of them."""
    many = any(every_member_serves(role) for role in roles)
    return {} if many and _eligible(resolved, roles) else {keys.MEMBER_INDEX: LEADER}


def _eligible(resolved: ResolvedDeployment, roles: Iterable[ResolvedRole]) -> dict[str, str]:
    """The eligibility term, where the setting asks for it and all of these roles can qualify."""
    return eligible_label(resolved) if all(can_qualify(role.declared) for role in roles) else {}


def _master(resolved: ResolvedDeployment) -> dict[str, str]:
    """What singles out the one Pod of an elastic role that serves HTTP; such a role is its deployment's only one."""
    found = {}
    for role in resolved.roles:
        if role.declared.elastic_ep is not None:
            found = {keys.APP_COMPONENT: role.name, **master_label(role)}
    return found
