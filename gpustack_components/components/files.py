"""Deployments straight from manifest files, for a platform repository without code of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pulumi

from gpustack_components.components.config import manifests
from gpustack_components.components.instance_type import InstanceType, states_quota
from gpustack_components.components.manifests import read, resource_name_of
from gpustack_components.components.model_deployment import ModelDeployment, expanded

if TYPE_CHECKING:
    from gpustack_components.components.model_deployment import Binding


@dataclass(frozen=True)
class Deployed:
    """The components that `from_files` declared."""

    deployments: Mapping[str, ModelDeployment] = field(default_factory=dict[str, ModelDeployment])
    """ModelDeployments by `<namespace>/<name>`."""
    instance_types: Mapping[str, InstanceType] = field(default_factory=dict[str, InstanceType])
    """InstanceTypes whose queue this program makes, by name."""

    @property
    def endpoints(self) -> "pulumi.Output[dict[str, str]]":
        """Where each deployment is reached, by `<namespace>/<name>`."""
        return pulumi.Output.all(**{name: one.endpoint for name, one in self.deployments.items()})


def from_files(
    patterns: str | Sequence[str] | None = None,
    *,
    bindings: "Binding | Sequence[Binding]" = (),
    settings: Mapping[str, Any] | None = None,
    timeouts: Mapping[str, Any] | None = None,
    adopt: Sequence[str] = (),
    kubeconfig: "str | pulumi.Output[str] | None" = None,
    context: str | None = None,
    opts: pulumi.ResourceOptions | None = None,
) -> Deployed:
    """Declare every ModelDeployment of the files that paths, folders and globs name, from the program's directory on.

    Without `patterns` the stack's configuration names them (`gpustack-components:manifests`, a path, folder or glob, or
    a list of them). Other documents of the files, and `bindings`, are what the deployments may depend on. An
    InstanceType whose document states its quota (see `InstanceType.from_document`) becomes an `InstanceType`
    component, so the program makes its queue; any other describes a queue that is there. Each deployment's logical
    name is `<namespace>/<name>`. Raises `pulumi.RunError` naming every file that cannot be read.
    """
    named = manifests() if patterns is None else patterns
    found = read([named] if isinstance(named, str) else named)
    made = {
        document["metadata"]["name"]: InstanceType.from_document(
            document, kubeconfig=kubeconfig, context=context, opts=pulumi.ResourceOptions.merge(opts, None)
        )
        for document in found.bindings
        if states_quota(document)
    }
    declared = [document for document in found.bindings if not states_quota(document)]
    every = [*expanded(bindings), *made.values(), *declared]
    deployments = {
        resource_name_of(document): ModelDeployment(
            resource_name_of(document),
            document,
            bindings=every,
            settings=settings,
            timeouts=timeouts,
            adopt=adopt,
            kubeconfig=kubeconfig,
            context=context,
            opts=pulumi.ResourceOptions.merge(opts, None),
        )
        for document in found.deployments
    }
    return Deployed(deployments, made)
