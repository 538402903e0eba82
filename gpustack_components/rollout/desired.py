"""What the planner needs to know of the wanted state: roles, counts, and one fingerprint per seat (rollout sheet 2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Self

from gpustack_components.api import names
from gpustack_components.api.command_line.owned import SGLANG_GATEWAY
from gpustack_components.api.quantity import Quantity
from gpustack_components.cluster import keys
from gpustack_components.cluster.port import Json

if TYPE_CHECKING:
    from gpustack_components.bindings.resolve import ResolvedDeployment, ResolvedRole


@dataclass(frozen=True, slots=True)
class Hold:
    """A dependency that withholds turnovers for now (sheet 4.8)."""

    kind: Literal["cache", "weights"]
    """`cache` withholds replacing outdated replicas; `weights` withholds creating as well."""
    message: str
    """What is missing, as a clause: `the KV cache pool team-a has no endpoint`."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """How a replica that serves leaves for good: withdrawn and drained before it is deleted (sheet 7.2)."""

    handoff_seconds: float = 30.0
    """What a withdrawn prefill or decode replica is given for transfers that were begun."""
    retry: str = ""
    """The retry directive on the deployment, as written."""


@dataclass(frozen=True, slots=True)
class DesiredRole:
    """One role as it is wanted now."""

    name: str
    replicas: int
    size: int
    """Pods per replica, at least 1."""
    queue: str
    """The LocalQueue its Pods name: the InstanceType's entrance."""
    hashes: tuple[tuple[str, ...], ...]
    """The fingerprint of each seat: `hashes[ordinal][member]`."""
    requests: Mapping[str, Quantity] = field(default_factory=dict[str, Quantity])
    """What one Pod asks of its queue, by resource name; only a forecast reads it."""

    def seat(self, ordinal: int, member: int) -> str | None:
        """The fingerprint a Pod on this seat should carry; None where the role has no such seat."""
        if 0 <= ordinal < len(self.hashes) and 0 <= member < len(self.hashes[ordinal]):
            return self.hashes[ordinal][member]
        return None


@dataclass(frozen=True, slots=True)
class Front:
    """A Service in front of a role, as it is declared."""

    name: str
    role: str
    selector: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Desired:
    """The whole deployment as it is wanted now."""

    namespace: str
    name: str
    roles: tuple[DesiredRole, ...]
    """In the order the document lists them."""
    floor: int = 0
    """Oldest render version that may go on running (sheet 2.2)."""
    holds: tuple[Hold, ...] = ()
    """What withholds turnovers or creates for now."""
    router: str = ""
    """The router's Deployment; empty without a router."""
    engine: str = ""
    """`vLLM` or `SGLang`: whose metrics and flags the Pods have."""
    protocol: Protocol | None = None
    """How replicas that serve leave for good; None: their Pods are deleted at once."""
    fronts: tuple[Front, ...] = ()
    """The Services through which roles are reached, none of them headless."""

    def role(self, name: str) -> DesiredRole | None:
        """The role of that name, or None when the document does not declare it."""
        return next((role for role in self.roles if role.name == name), None)

    def declares(self, role: str, ordinal: int) -> bool:
        """Whether that replica is wanted."""
        found = self.role(role)
        return found is not None and ordinal < found.replicas

    def group_name(self, role: str, ordinal: int) -> str:
        """The name of a replica's Kueue group, and of its Workload."""
        return names.group_name(self.namespace, self.name, role, ordinal)

    def hold(self, kind: Literal["cache", "weights"]) -> Hold | None:
        """The hold of that kind, or None."""
        return next((hold for hold in self.holds if hold.kind == kind), None)

    @classmethod
    def of(cls, resolved: "ResolvedDeployment") -> Self:
        """What a resolved deployment asks for."""
        from gpustack_components.render.fingerprint import fingerprint
        from gpustack_components.render.services import front_services
        from gpustack_components.render.template import template
        from gpustack_components.render.version import floor

        def role_of(role: "ResolvedRole") -> DesiredRole:
            members = range(role.size)
            return DesiredRole(
                name=role.name,
                replicas=role.replicas,
                size=role.size,
                queue=role.entrance,
                hashes=tuple(
                    tuple(fingerprint(resolved, role, ordinal, member) for member in members)
                    for ordinal in range(role.replicas)
                ),
                requests={pair.key: Quantity(pair.value) for pair in template(resolved, role).requests},
            )

        return cls(
            namespace=resolved.namespace,
            name=resolved.name,
            roles=tuple(role_of(role) for role in resolved.roles),
            floor=floor(resolved.min_render_version),
            holds=tuple(Hold("weights", str(hold)) for hold in resolved.holds),
            router=names.router_name(resolved.name) if resolved.declared.spec.router else "",
            engine=resolved.engine,
            protocol=_protocol(resolved),
            fronts=tuple(map(_front, front_services(resolved))),
        )


def _front(service: Json) -> Front:
    selector = service["spec"]["selector"]
    return Front(service["metadata"]["name"], selector[keys.APP_COMPONENT], selector)


def _protocol(resolved: "ResolvedDeployment") -> Protocol | None:
    """None behind the gateway, which sends a Pod requests until it is being deleted: nothing withdraws it earlier."""
    settings, metadata = resolved.settings, resolved.declared.metadata
    router = resolved.declared.spec.router
    if not settings.model_deployment_endpoint_qualification or (router and router.name == SGLANG_GATEWAY):
        return None
    return Protocol(
        handoff_seconds=float(settings.model_deployment_handoff_wait),
        retry=metadata.annotations.get(keys.RETIREMENT_RETRY, ""),
    )
