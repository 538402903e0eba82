"""The ordinary Kubernetes resources a deployment stands on: LocalQueues, which belong to the stack, and its Services
and router, which belong to it.
"""

import re
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pulumi

from gpustack_components.cluster import keys
from gpustack_components.components.plain import Json, known
from gpustack_components.components.program import Program, Target
from gpustack_components.components.request import METADATA, SPEC, Request
from gpustack_components.components.rollout import once

if TYPE_CHECKING:
    from gpustack_components.api.instance_type import InstanceType
    from gpustack_components.bindings.catalog import Bindings
    from gpustack_components.bindings.resolve import ResolvedDeployment
    from gpustack_components.cluster.binding_objects import Reading

SKIP_AWAIT = "pulumi.com/skipAwait"
"""Tells pulumi-kubernetes not to wait for endpoints, which a later step of the same run provides."""


PATCH_FORCE = "pulumi.com/patchForce"
"""Tells pulumi-kubernetes to take over fields that another field manager holds."""


class KubernetesObject(pulumi.CustomResource):
    """One manifest as a resource of the pulumi-kubernetes provider, under the type token of that package's own classes.

    Those take half a second to import, for typed properties that nothing here uses.
    """

    def __init__(self, name: str, manifest: Json, opts: pulumi.ResourceOptions) -> None:
        """Register the manifest as it stands."""
        group_version = manifest["apiVersion"] if "/" in manifest["apiVersion"] else f"core/{manifest['apiVersion']}"
        token = f"kubernetes:{group_version}:{manifest['kind']}"
        plugin = pulumi.ResourceOptions(version=provider_version())
        super().__init__(token, name, dict(manifest), pulumi.ResourceOptions.merge(plugin, opts))


@cache
def provider_version() -> str | None:
    """The provider version that belongs to the installed pulumi-kubernetes; None, which is any, for a pre-release of
    it.
    """
    installed = version("pulumi-kubernetes")
    return installed if re.fullmatch(r"\d+\.\d+\.\d+", installed) else None


def marked(manifest: Json, annotations: dict[str, str]) -> Json:
    """The manifest with further annotations."""
    metadata: Json = manifest["metadata"]
    return {**manifest, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **annotations}}}


def owned(manifest: Json, owner: str) -> Json:
    """A shared object with the mark of the stack that manages it, and alone decides what the manifest states: fields
    that a former owner or a person set are taken over instead of refused."""
    return marked(manifest, {keys.OWNER: owner, PATCH_FORCE: "true"})


class LocalQueues:
    """The queues a deployment's Pods name, one for each cluster, namespace and entrance of the whole program."""

    def __init__(
        self, shared: Program, target: Target, provider: "pulumi.ProviderResource | None", depends_on: Any
    ) -> None:
        self._shared = shared
        self._target = target
        self._provider = provider
        self._depends_on = depends_on

    def declare(self, resolved: "ResolvedDeployment", bindings: "Bindings") -> Iterable[pulumi.Resource]:
        """The queues of this deployment that the program makes, whoever asked first."""
        made: list[pulumi.Resource] = []
        for role in resolved.roles:
            instance_type = bindings.instance_type(role.declared.instance_type)
            queue = self._queue(resolved.namespace, instance_type, role.entrance) if instance_type else None
            if queue is not None and queue not in made:
                made.append(queue)
        return made

    def _queue(self, namespace: str, instance_type: "InstanceType", entrance: str) -> pulumi.Resource | None:
        key = (self._target, namespace, entrance)
        if key not in self._shared.queues:
            survey = self._shared.survey(self._target, namespace)
            mark = survey.queues.get(entrance, self._shared.owner)
            used_as_it_is = survey.operator or not self._shared.owns(mark)
            self._shared.queues[key] = None if used_as_it_is else self._make(namespace, instance_type, entrance)
        return self._shared.queues[key]

    def _make(self, namespace: str, instance_type: "InstanceType", entrance: str) -> pulumi.Resource:
        from gpustack_components.render.queues import local_queue

        manifest = owned(local_queue(instance_type, namespace), self._shared.owner)
        opts = pulumi.ResourceOptions(provider=self._provider, depends_on=self._depends_on)
        return KubernetesObject(f"{namespace}/{instance_type.metadata.name}", manifest, opts)


class FrontDoor:
    """What a deployment is reached through: a Service for all of it, one for each role (router sheet, section 13), and
    the router's own objects (section 4).

    A Service that is not there yet comes before the replicas. One that stands follows them: what it selects must not
    change before they do, and the rollout moves it along with them (rollout sheet 5.3).

    The logical names are part of every stack's state: `<name>` and `<name>/<role>` for the Services, `<name>/router`
    for every router object; their types tell those apart.
    """

    def __init__(
        self,
        parent: pulumi.Resource,
        name: str,
        provider: "pulumi.ProviderResource | None",
        observed: "Reading | None" = None,
        standing: frozenset[str] = frozenset(),
    ) -> None:
        """`standing` names the deployment's Services that are there already."""
        self.preceding: list[pulumi.Resource] = []
        """The Services that are made before the replicas, once declared."""
        self._standing = standing
        self._following: list[tuple[str, Json]] = []
        self._parent = parent
        self._name = name
        self._provider = provider
        self._observed = observed

    def declare(self, composed: Json, asked: Request, resolved: "ResolvedDeployment") -> Iterable[pulumi.Resource]:
        """Declare what comes before the replicas, and return the router's part of it; where content follows from a
        value that is not known yet, it is filled in once it is."""
        every = _objects(resolved)
        names = [self._name, *(f"{self._name}/{role.declared.name}" for role in resolved.roles)]
        fronts = len(names)
        names += [f"{self._name}/router"] * (len(every) - len(names))
        later = _content_once_known(composed, asked, self._observed) if asked.unknown else None
        stands_on: list[pulumi.Resource] = []
        for index, (name, manifest) in enumerate(zip(names, every, strict=True)):
            if manifest["kind"] in _AWAITED:
                manifest = marked(manifest, {SKIP_AWAIT: "true"})
            if later is not None:
                filled = {key: _part(later, index, key) for key in manifest if key not in _PLAIN}
                manifest = {**manifest, **filled}
            if index < fronts and str(every[index]["metadata"]["name"]) in self._standing:
                self._following.append((name, manifest))
            elif index < fronts:
                self.preceding.append(self._made(name, manifest))
            else:
                made = self._made(name, manifest, stands_on if manifest["kind"] == "Deployment" else None)
                if manifest["kind"] in _MOUNTED:
                    stands_on.append(made)
                yield made

    def follow(self, rollout: pulumi.Resource) -> None:
        """Declare the Services that come after the replicas."""
        for name, manifest in self._following:
            metadata = once([rollout], lambda _, metadata=manifest["metadata"]: metadata)
            self._made(name, {**manifest, "metadata": metadata})

    def _made(self, name: str, manifest: Json, depends_on: list[pulumi.Resource] | None = None) -> pulumi.Resource:
        opts = pulumi.ResourceOptions(parent=self._parent, provider=self._provider, depends_on=depends_on)
        return KubernetesObject(name, manifest, opts)


_PLAIN = ("apiVersion", "kind", "metadata")
_MOUNTED = ("ConfigMap", "RoleBinding", "ServiceAccount")
"""Kinds a router's Pods need to start as they are meant to."""
_AWAITED = ("Service", "Deployment")
"""Kinds that pulumi-kubernetes would wait for, although what they wait for comes with a later step of the same run."""


def _objects(resolved: "ResolvedDeployment") -> "list[Json]":
    from gpustack_components.render.router import router_objects
    from gpustack_components.render.services import front_services

    return [*front_services(resolved), *router_objects(resolved)]


def _part(later: "pulumi.Output[list[Json]]", index: int, key: str) -> "pulumi.Output[Any]":
    return later.apply(lambda objects: objects[index][key])


def _content_once_known(composed: Json, asked: Request, observed: "Reading | None") -> "pulumi.Output[list[Json]]":
    """All objects once every Output in the document is known."""

    def of(document: Any) -> list[Json]:
        from dataclasses import replace

        from gpustack_components.components.judgement import judge

        whole = known({**asked.document, METADATA: document[METADATA], SPEC: document[SPEC]}, lambda _: False)
        judgement = judge(replace(asked, document=whole.value, unknown=()), observed=observed)
        if judgement.resolved is None:
            raise pulumi.RunError("\n".join(judgement.sentences))
        return _objects(judgement.resolved)

    every: Any = pulumi.Output.from_input({METADATA: composed[METADATA], SPEC: composed[SPEC]})
    return pulumi.Output.unsecret(every.apply(of))
