"""The one default a schema cannot reach: how many cards a role asks for (api sheet 3.2)."""

from gpustack_components.api.command_line.parallelism import read_parallelism
from gpustack_components.api.model_deployment import ModelDeployment, Resources, Role
from gpustack_components.api.quantity import Quantity
from gpustack_components.bindings.catalog import Bindings


def default(deployment: ModelDeployment, bindings: Bindings) -> ModelDeployment:
    """The deployment with `resources.accelerator` filled in where it is absent and the role's type has accelerators.

    It becomes 1, on an elastic role the tensor-parallel degree. Nothing is filled on an object being deleted, beside an
    unknown type, or beside a degree that cannot be read: the review refuses or reports these. Idempotent.
    """
    if deployment.metadata.deletion_timestamp is not None:
        return deployment
    roles = tuple(_default_role(role, deployment.spec.engine.name, bindings) for role in deployment.spec.roles)
    if all(after is before for after, before in zip(roles, deployment.spec.roles, strict=True)):
        return deployment
    return deployment.model_copy(update={"spec": deployment.spec.model_copy(update={"roles": roles})})


def _default_role(role: Role, engine: str, bindings: Bindings) -> Role:
    if role.resources is not None and role.resources.accelerator is not None:
        return role
    named = bindings.instance_type(role.instance_type)
    if named is None or not named.spec.acceleratable:
        return role
    cards = 1
    if role.elastic_ep is not None:
        read = read_parallelism(engine, role.extra_args, role.env)
        if read.errors:
            return role
        cards = read.tensor
    asked = role.resources or Resources()
    return role.model_copy(update={"resources": asked.model_copy(update={"accelerator": Quantity(cards)})})
