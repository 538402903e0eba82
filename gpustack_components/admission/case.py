"""One write under review: the new document, the stored one, and what the rules ask of each role (api sheet 2.9)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from gpustack_components.api.command_line.flags import own_port, scheme
from gpustack_components.api.command_line.parallelism import Parallelism, read_parallelism
from gpustack_components.api.instance_type import InstanceType
from gpustack_components.api.model_deployment import ModelDeployment, ModelDeploymentSpec, Role
from gpustack_components.bindings import shape
from gpustack_components.bindings.catalog import Bindings
from gpustack_components.bindings.listen import (
    BOOTSTRAP_PORT,
    DEFAULT_PORT,
    EVENTS_PORT,
    REPLAY_PORT,
    role_tokens,
)
from gpustack_components.bindings.settings import Settings


@dataclass(frozen=True)
class RoleCase:
    """One role of one side, with the readings several rules share."""

    spec: ModelDeploymentSpec
    """The spec the role stands in."""
    role: Role
    """The role itself."""
    index: int
    """Its position in the list it stands in."""

    @property
    def path(self) -> str:
        """Field path of the role."""
        return f"spec.roles[{self.index}]"

    @property
    def name(self) -> str:
        """The role's name."""
        return self.role.name

    @cached_property
    def kind(self) -> str:
        """Effective kind."""
        return shape.kind(self.role)

    @cached_property
    def takes_over(self) -> bool:
        """Whether the role owns its whole command line."""
        return shape.takes_over(self.role)

    @property
    def stream_path(self) -> str:
        """Field path of the arguments that count."""
        return f"{self.path}.{'command' if self.takes_over else 'extraArgs'}"

    @cached_property
    def stream(self) -> Sequence[str]:
        """The arguments that count: `command` of a take-over role, else `extraArgs`."""
        return role_tokens(self.role)

    @cached_property
    def parallelism(self) -> Parallelism:
        """What those arguments and the role's variables declare."""
        return read_parallelism(self.spec.engine.name, self.stream, self.role.env or ())

    @cached_property
    def elastic_parallelism(self) -> Parallelism:
        """What `extraArgs` and the variables declare, also beside a `command`, which an elastic role may not have."""
        return read_parallelism(self.spec.engine.name, self.role.extra_args, self.role.env or ())

    @cached_property
    def own_port(self) -> int | None:
        """The role's own `--port`, when readable."""
        return own_port(self.spec.engine.name, self.stream)

    @cached_property
    def scheme(self) -> Literal["HTTP", "HTTPS"]:
        """How the engine's own listener speaks."""
        return scheme(self.spec.engine.name, self.stream)

    @cached_property
    def proxied(self) -> bool:
        """Whether the routing proxy fronts it: a managed direct decoder."""
        return shape.has_proxy(self.spec, self.role)

    @property
    def serving_port(self) -> int:
        """The port callers use."""
        return self.role.ports[0].port if self.role.ports else DEFAULT_PORT

    @property
    def serving_protocol(self) -> str:
        """Transport protocol of that port."""
        return (self.role.ports[0].protocol or "TCP") if self.role.ports else "TCP"

    @property
    def target_port(self) -> int:
        """The port a router dials."""
        if self.proxied or self.role.ports:
            return self.serving_port
        return self.own_port or DEFAULT_PORT

    @cached_property
    def reserved_ports(self) -> tuple[int, ...]:
        """Ports of listeners that are put into this role beside the engine (6.6); none on a take-over role."""
        if self.takes_over:
            return ()
        router, prefills = self.spec.router, self.kind == "Prefill" and shape.is_pair(self.spec)
        if self.spec.engine.name == "SGLang":
            return (BOOTSTRAP_PORT,) if prefills and (router or self.spec.kv_cache) else ()
        if router is None:
            return ()
        events = (EVENTS_PORT, REPLAY_PORT) if router.name == shape.PICKER and self.kind != "Decode" else ()
        return (*events, BOOTSTRAP_PORT) if prefills else events

    @property
    def elastic(self) -> bool:
        """Whether the role carries the elastic profile."""
        return self.role.elastic_ep is not None


@dataclass(frozen=True)
class Side:
    """One state of a deployment: as submitted, or as stored."""

    document: ModelDeployment
    """The document, defaulted as far as its types are known."""

    @property
    def spec(self) -> ModelDeploymentSpec:
        """Its spec."""
        return self.document.spec

    @property
    def name(self) -> str:
        """The deployment's name."""
        return self.document.metadata.name or ""

    @property
    def namespace(self) -> str | None:
        """The deployment's namespace as written."""
        return self.document.metadata.namespace

    @cached_property
    def roles(self) -> tuple[RoleCase, ...]:
        """Its roles in order."""
        spec = self.document.spec
        return tuple(RoleCase(spec, role, index) for index, role in enumerate(spec.roles))

    @cached_property
    def by_name(self) -> dict[str, RoleCase]:
        """Its roles by name."""
        return {role.name: role for role in self.roles}


@dataclass(frozen=True, slots=True)
class Unjudged:
    """Rules that could not be judged, and what is missing for it."""

    rules: tuple[str, ...]
    """Ids of the rules left open."""
    path: str
    """The field whose referent is unknown; empty for the document as a whole."""
    reason: str
    """What is missing and how to give it, in one sentence."""

    def __str__(self) -> str:
        place = f"{self.path}: " if self.path else ""
        return f"{place}{self.reason} (not judged: {', '.join(self.rules)})"


@dataclass(frozen=True)
class Case:
    """Everything one review may look at."""

    new: Side
    """The submitted document."""
    old: Side | None
    """The stored document; None on create."""
    bindings: Bindings
    """The other objects."""
    settings: Settings
    """The settings."""
    writer: str | None = None
    """Name of the scaler that writes, when one does."""
    unjudged: list[Unjudged] = field(default_factory=list[Unjudged])
    """What the checks had to leave open, collected as they run."""

    @property
    def spec(self) -> ModelDeploymentSpec:
        """The submitted spec."""
        return self.new.spec

    @property
    def engine(self) -> str:
        """The engine's name."""
        return self.new.spec.engine.name

    @property
    def deleting(self) -> bool:
        """Whether the object is being deleted; rules that read other objects then decline (section 8)."""
        return self.new.document.metadata.deletion_timestamp is not None

    def stored(self, role: RoleCase) -> RoleCase | None:
        """The stored role of the same name; None when there is none, or on create."""
        return self.old.by_name.get(role.name) if self.old else None

    def instance_type(self, role: RoleCase) -> InstanceType | None:
        """The InstanceType the role names; None when it is not known."""
        return self.bindings.instance_type(role.role.instance_type)

    def leave_open(self, rules: tuple[str, ...], path: str, reason: str) -> None:
        """Say that rules could not be judged; what is missing at one field is said once."""
        for position, gap in enumerate(self.unjudged):
            if (gap.path, gap.reason) == (path, reason):
                self.unjudged[position] = Unjudged(tuple(dict.fromkeys((*gap.rules, *rules))), path, reason)
                return
        self.unjudged.append(Unjudged(rules, path, reason))

    def leave_type_open(self, rules: tuple[str, ...], role: RoleCase) -> None:
        """Say that rules could not be judged because the role's InstanceType may exist elsewhere."""
        self.leave_open(
            rules,
            f"{role.path}.instanceType",
            f'InstanceType "{role.role.instance_type}" is not among the given documents; add it, or read it from the '
            "cluster",
        )
