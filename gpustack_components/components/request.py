"""The property bag of the Rollout resource: what the component puts in, what the provider reads and gives back.

The keys are part of users' state and never change once released.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from gpustack_components.cluster.readings import at
from gpustack_components.components.arguments import API_VERSION, KIND
from gpustack_components.components.plain import Json, known

METADATA = "metadata"
SPEC = "spec"
BINDINGS = "bindings"
SETTINGS = "settings"
TIMEOUTS = "timeouts"
ADOPT = "adopt"
OWNER = "owner"
RESOURCE_URN = "resourceUrn"
REFUSED = "refused"
KUBECONFIG = "kubeconfig"
CONTEXT = "context"
PLAN = "plan"
OBSERVED = "observed"
REFUSED_UPDATES = "refusedUpdates"
"""Inside `observed`: what the comparison with the stored deployment refused; absent when nothing was."""

PHASE = "phase"
REASONS = "reasons"
READY = "ready"
ENDPOINT = "endpoint"
GENERATION = "generation"

CONVERGED = "Converged"
INCOMPLETE = "Incomplete"

JUDGED = (METADATA, SPEC, BINDINGS, SETTINGS, TIMEOUTS, ADOPT, OWNER)
"""The inputs whose change is a change of the deployment."""
KEPT = (*JUDGED, RESOURCE_URN, KUBECONFIG, CONTEXT)
"""The inputs that outputs repeat under the same key: `delete` and `refresh` receive outputs only.

The engine keeps a value secret in outputs when the input of the same key is secret, so a kubeconfig is in state as
ciphertext only.
"""


@dataclass(frozen=True, slots=True)
class Request:
    """One deployment as a stack asks for it."""

    document: Json
    """The raw ModelDeployment, words in the place of what is not known yet."""
    bindings: tuple[Json, ...] = ()
    """Raw documents of the objects it depends on."""
    settings: Json = field(default_factory=dict[str, Any])
    """Settings by their dashed names (bindings sheet 7)."""
    timeouts: Json = field(default_factory=dict[str, Any])
    """`admission`, `ready`, `drain`, `lease` as a person writes them."""
    adopt: tuple[str, ...] = ()
    """Former owners whose record may be taken over."""
    owner: str = ""
    """Whose the deployment is: `pulumi stack acme/llm/prod`."""
    resource_urn: str = ""
    """The resource's own address, where lines about it are shown."""
    refused: tuple[str, ...] = ()
    """Refusals that only the program could find, as sentences."""
    kubeconfig: str | None = None
    """Text or path of the kubeconfig given to the component; None: stack configuration, then the ambient one."""
    context: str | None = None
    """Context in it; None: its current one."""
    unknown: tuple[str, ...] = ()
    """Paths in the document whose values are not known yet."""

    @classmethod
    def of(cls, props: Mapping[str, Any], is_unknown: Callable[[Any], bool]) -> Self:
        """Read a property bag; what is not known yet is named, never guessed."""
        document: Json = {"apiVersion": API_VERSION, "kind": KIND}
        unknown: list[str] = []
        for key in (METADATA, SPEC):
            part = known(props.get(key), is_unknown, key)
            unknown.extend(part.unknown)
            if part.value is not None:
                document[key] = part.value
        rest = {key: known(value, is_unknown, key) for key, value in props.items() if key not in (METADATA, SPEC)}
        unknown.extend(path for key in (BINDINGS, SETTINGS, TIMEOUTS) if key in rest for path in rest[key].unknown)

        def read(key: str, default: Any) -> Any:
            found = rest.get(key)
            return default if found is None or found.value is None or found.unknown == (key,) else found.value

        return cls(
            document=document,
            bindings=tuple(read(BINDINGS, ())),
            settings=read(SETTINGS, {}),
            timeouts=read(TIMEOUTS, {}),
            adopt=tuple(read(ADOPT, ())),
            owner=read(OWNER, ""),
            resource_urn=read(RESOURCE_URN, ""),
            refused=tuple(read(REFUSED, ())),
            kubeconfig=read(KUBECONFIG, None),
            context=read(CONTEXT, None),
            unknown=tuple(unknown),
        )

    @property
    def name(self) -> str:
        """The deployment's name; empty when it is not known."""
        return self._identity("name")

    @property
    def namespace(self) -> str:
        """The deployment's namespace."""
        return self._identity("namespace") or "default"

    @property
    def label(self) -> str:
        """Namespace and name, for sentences."""
        return f"{self.namespace}/{self.name}"

    def _identity(self, key: str) -> str:
        value = at(self.document, METADATA, key)
        return value if isinstance(value, str) else ""


def kept(props: Mapping[str, Any]) -> Json:
    """The inputs that outputs repeat."""
    return {key: props[key] for key in KEPT if props.get(key) is not None}
