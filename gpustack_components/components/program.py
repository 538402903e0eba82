"""What one run of a program shares: the objects that belong to no deployment, and what was found in the cluster.

A LocalQueue serves every deployment of its namespace and entrance, so there is one per cluster, namespace and
entrance, made by whoever asks first and child of none. One that exists without this stack's mark is used as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pulumi
from pulumi.runtime.settings import get_root_resource

from gpustack_components.cluster import keys, readings
from gpustack_components.cluster.binding_objects import Reading, operator_runs, read_named
from gpustack_components.cluster.port import LOCAL_QUEUE, NAMESPACE, SERVICE, Cluster, ClusterError, Forbidden
from gpustack_components.components.config import adopted, configured_cluster, unknown
from gpustack_components.components.request import Request

if TYPE_CHECKING:
    import pulumi_kubernetes


def stack_owner() -> str:
    """Whose the objects of this run are, e.g. `pulumi stack acme/llm/prod`."""
    return f"pulumi stack {pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"


@dataclass(eq=False)
class Target:
    """The cluster of a deployment, as the program names it. One object per distinct cluster and run."""

    kubeconfig: "str | pulumi.Output[str] | None" = None
    """Text or path given as an argument; None: stack configuration, then the ambient one."""
    context: str | None = None
    """Context given as an argument."""

    @property
    def given(self) -> bool:
        """Whether an argument named the cluster."""
        return self.kubeconfig is not None or self.context is not None

    @cached_property
    def cluster(self) -> Cluster | None:
        """A connection, contacting nobody yet; None while the kubeconfig is an Output. Raises `ClusterError`."""
        from gpustack_components.cluster.client import connect
        from gpustack_components.components.observation import HASTE

        if isinstance(self.kubeconfig, pulumi.Output):
            return None
        kubeconfig, context = (self.kubeconfig, self.context) if self.given else configured_cluster()
        return connect(kubeconfig, context, patience=HASTE)

    @property
    def operator(self) -> bool:
        """Whether the operator's CRDs are served; False where this may not be read. Raises `ClusterError`."""
        if isinstance(self._operator, ClusterError):
            raise self._operator
        return self._operator

    @cached_property
    def _operator(self) -> bool | ClusterError:
        """Asked once: a cluster that does not answer keeps no second deployment waiting."""
        try:
            return self.cluster is not None and operator_runs(self.cluster)
        except ClusterError as failure:
            return failure

    def observe(self, asked: Request) -> Reading | None:
        """The binding objects that a request refers to; None where no operator keeps any, or the cluster is not known
        yet. Never raises: what cannot be read is said in the answer."""
        try:
            if self.cluster is None or not self.operator:
                return None
            return read_named(self.cluster, asked.document, asked.bindings, asked.unknown)
        except ClusterError as failure:
            return Reading(unread=(f"the cluster could not be read: {failure}",))


@dataclass(frozen=True, slots=True)
class Survey:
    """What stands in a namespace before the program declares anything.

    Empty when nobody answered, or when who answers is not known before the update: then every queue is ours to make.
    """

    operator: bool = False
    """Whether the operator runs, which makes every queue itself."""
    queues: Mapping[str, str] = field(default_factory=dict[str, str])
    """Owner mark of every LocalQueue by name; empty text: no mark."""
    exists: bool = True
    """False when the namespace is known not to exist."""
    services: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Names of the Services that stand, by the deployment they belong to."""


def survey(target: Target, namespace: str) -> Survey:
    """Look at a namespace once. Never raises: what cannot be read is left to the rollout, which says so."""
    try:
        if target.cluster is None:
            return Survey()
        exists = _exists(target.cluster, namespace)
        if not exists:
            return Survey(operator=target.operator, exists=False)
        services = _services(target.cluster, namespace)
        if target.operator:
            return Survey(operator=True, services=services)
        queues = target.cluster.list(LOCAL_QUEUE, namespace).items
    except ClusterError:
        return Survey()
    owners = {readings.name(one): readings.annotation(one, keys.OWNER) or "" for one in queues}
    return Survey(queues=owners, services=services)


def _services(cluster: Cluster, namespace: str) -> Mapping[str, frozenset[str]]:
    """The names of the deployments' Services; none where they may not be read. Raises `ClusterError`."""
    found: dict[str, frozenset[str]] = {}
    try:
        standing = cluster.list(SERVICE, namespace, keys.DEPLOYMENTS).items
    except Forbidden:
        return found
    for service in standing:
        deployment = readings.label(service, keys.APP_INSTANCE) or ""
        found[deployment] = found.get(deployment, frozenset()) | {readings.name(service)}
    return found


def _exists(cluster: Cluster, namespace: str) -> bool:
    """Whether a namespace exists; one that may not be read does. Raises `ClusterError`."""
    try:
        return cluster.get(NAMESPACE, None, namespace) is not None
    except Forbidden:
        return True


@dataclass(eq=False)
class Program:
    """The shared objects of one run."""

    owner: str
    """The mark this run puts on shared objects."""
    adopted: Sequence[str] = ()
    """Former owners whose objects this stack takes over."""
    targets: list[Target] = field(default_factory=list[Target])
    """The distinct clusters, in the order they were first named."""
    deployments: dict[tuple[Target, str, str], str] = field(default_factory=dict[tuple[Target, str, str], str])
    """Resource name of every deployment by cluster, namespace and name."""
    queues: "dict[tuple[Target, str, str], pulumi.Resource | None]" = field(
        default_factory=dict[tuple[Target, str, str], "pulumi.Resource | None"]
    )
    """The LocalQueue declared for a cluster, namespace and entrance; None: one is there and used as it is."""
    _hook: pulumi.ResourceHook | None = None
    _providers: "dict[Target, pulumi_kubernetes.Provider]" = field(
        default_factory=dict[Target, "pulumi_kubernetes.Provider"]
    )
    _surveys: dict[tuple[Target, str], Survey] = field(default_factory=dict[tuple[Target, str], Survey])

    def owns(self, mark: str) -> bool:
        """Whether a mark on an object makes it this stack's to manage."""
        return mark == self.owner or mark in self.adopted

    def target(self, kubeconfig: "str | pulumi.Output[str] | None", context: str | None) -> Target:
        """The cluster that the arguments name; equal arguments give the same object."""
        for one in self.targets:
            same = one.kubeconfig is kubeconfig or (isinstance(kubeconfig, str) and one.kubeconfig == kubeconfig)
            if same and one.context == context:
                return one
        made = Target(kubeconfig, context)
        self.targets.append(made)
        return made

    def survey(self, target: Target, namespace: str) -> Survey:
        """What stands in the namespace; read once per run."""
        if (target, namespace) not in self._surveys:
            self._surveys[target, namespace] = survey(target, namespace)
        return self._surveys[target, namespace]

    def hook(self, check: Callable[[pulumi.ResourceHookArgs], None]) -> pulumi.ResourceHook:
        """The one hook of the run that fails it when a rollout did not converge; hook names are unique per program."""
        if self._hook is None:
            self._hook = pulumi.ResourceHook("gpustack-rollout-converged", check)
        return self._hook

    def provider(self, target: Target) -> "pulumi_kubernetes.Provider | None":
        """The Kubernetes provider of a cluster named by arguments; None where the default provider reaches it."""
        if not target.given:
            return None
        if target not in self._providers:
            import pulumi_kubernetes

            same_name = [one for one in self._providers if one.context == target.context]
            parts = ["gpustack-kubernetes", target.context or "", str(len(same_name) + 1) if same_name else ""]
            kubeconfig: Any = None if target.kubeconfig is None else pulumi.Output.secret(target.kubeconfig)
            self._providers[target] = pulumi_kubernetes.Provider(
                "-".join(part for part in parts if part), kubeconfig=kubeconfig, context=target.context
            )
        return self._providers[target]


_programs: "WeakKeyDictionary[Any, Program]" = WeakKeyDictionary()


def current() -> Program:
    """What the running program shares; a new one for every run, also for several runs in one process."""
    root: Any = get_root_resource() or current
    if root not in _programs:
        _programs[root] = Program(stack_owner(), adopted())
        for sentence in unknown():
            pulumi.log.warn(sentence)
    return _programs[root]
