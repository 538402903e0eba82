"""The ordinary Kubernetes resources a deployment stands on: LocalQueues, which belong to the stack, and Services,
which belong to it.
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

if TYPE_CHECKING:
    from gpustack_components.api.instance_type import InstanceType
    from gpustack_components.bindings.catalog import Bindings
    from gpustack_components.bindings.resolve import ResolvedDeployment
    from gpustack_components.cluster.binding_objects import Reading

SKIP_AWAIT = "pulumi.com/skipAwait"
"""Tells pulumi-kubernetes not to wait for endpoints, which a later step of the same run provides."""


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

        manifest = marked(local_queue(instance_type, namespace), {keys.OWNER: self._shared.owner})
        opts = pulumi.ResourceOptions(provider=self._provider, depends_on=self._depends_on)
        return KubernetesObject(f"{namespace}/{instance_type.metadata.name}", manifest, opts)


class Services:
    """The Services in front of a deployment: one for all of it, one for each role (router sheet, section 13)."""

    def __init__(
        self,
        parent: pulumi.Resource,
        name: str,
        provider: "pulumi.ProviderResource | None",
        observed: "Reading | None" = None,
    ) -> None:
        self._parent = parent
        self._name = name
        self._provider = provider
        self._observed = observed

    def declare(self, composed: Json, asked: Request, resolved: "ResolvedDeployment") -> Iterable[pulumi.Resource]:
        """The Services; where a port follows from a value that is not known yet, it is filled in once it is."""
        from gpustack_components.render.services import front_services

        names = [self._name, *(f"{self._name}/{role.declared.name}" for role in resolved.roles)]
        for index, (name, service) in enumerate(zip(names, front_services(resolved), strict=True)):
            manifest = marked(service, {SKIP_AWAIT: "true"})
            if asked.unknown:
                manifest = {**manifest, "spec": _resolved_spec(composed, asked, self._observed, index)}
            opts = pulumi.ResourceOptions(parent=self._parent, provider=self._provider)
            yield KubernetesObject(name, manifest, opts)


def _resolved_spec(composed: Json, asked: Request, observed: "Reading | None", index: int) -> "pulumi.Output[Json]":
    """The spec of the deployment's Service number `index` once every Output in the document is known."""

    def of(document: Any) -> Json:
        from dataclasses import replace

        from gpustack_components.components.judgement import judge
        from gpustack_components.render.services import front_services

        whole = known({**asked.document, METADATA: document[METADATA], SPEC: document[SPEC]}, lambda _: False)
        judgement = judge(replace(asked, document=whole.value, unknown=()), observed=observed)
        if judgement.resolved is None:
            raise pulumi.RunError("\n".join(judgement.sentences))
        spec: Json = list(front_services(judgement.resolved))[index]["spec"]
        return spec

    every: Any = pulumi.Output.from_input({METADATA: composed[METADATA], SPEC: composed[SPEC]})
    return pulumi.Output.unsecret(every.apply(of))
