"""The Rollout resource: the one child of a ModelDeployment that turns replicas over, and the hook that fails a run
which did not converge.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pulumi
import pulumi.dynamic

from gpustack_components.components.provider import RolloutProvider
from gpustack_components.components.request import CONVERGED, ENDPOINT, KUBECONFIG, PHASE, READY, REASONS

ROLLOUT_TYPE = "pulumi-python:dynamic/gpustack:Rollout"


class Rollout(pulumi.dynamic.Resource, module="gpustack", name="Rollout"):
    """All replicas of one deployment. Declared by `ModelDeployment`; a program does not construct it.

    One resource per deployment, whatever its roles and replicas: the provider process has four threads for the whole
    stack, and roles that are admitted together must not wait for each other's thread.
    """

    phase: pulumi.Output[str]
    """`Converged`, or `Incomplete` with reasons."""
    reasons: pulumi.Output[list[str]]
    """Why the last run did not converge; empty when it did."""
    ready: pulumi.Output[bool]
    """Whether every declared replica was admitted and Ready when the last run ended."""
    endpoint: pulumi.Output[str]
    """Where the deployment is reached inside the cluster."""

    def __init__(self, name: str, inputs: Mapping[str, Any], opts: pulumi.ResourceOptions) -> None:
        """Register it; `inputs` are those of `components.request`."""
        outputs = dict.fromkeys((PHASE, REASONS, READY, ENDPOINT))
        secret = pulumi.ResourceOptions(
            additional_secret_outputs=[KUBECONFIG] if inputs.get(KUBECONFIG) is not None else None
        )
        super().__init__(RolloutProvider(), name, {**inputs, **outputs}, pulumi.ResourceOptions.merge(opts, secret))


def fail_unless_converged(args: pulumi.ResourceHookArgs) -> None:
    """After-create and after-update hook: raises with the reasons of a rollout that did not converge."""
    outputs = args.new_outputs or {}
    if outputs.get(PHASE) == CONVERGED:
        return
    reasons = [str(reason) for reason in outputs.get(REASONS) or ["no reason was recorded"]]
    lines = "".join(f"\n  {reason}" for reason in reasons)
    raise RuntimeError(
        f"{args.name} did not converge:{lines}\n"
        "Everything is kept as it is; the next `pulumi up` resumes where this one stopped."
    )


def own_urn(parent: pulumi.Resource, name: str, after: Sequence[pulumi.Resource] = ()) -> "pulumi.Output[str]":
    """The address of a Rollout below its parent, without the dependency that an input of a child must not have; known
    only when the resources `after` which it comes are there."""
    return once((parent, *after), lambda urn: f"{urn.rsplit('::', 1)[0]}${ROLLOUT_TYPE}::{name}")


def once(resources: Sequence[pulumi.Resource], make: Callable[[str], Any]) -> "pulumi.Output[Any]":
    """What `make` makes of the first resource's address, when all of them are there.

    State keeps no dependency on them. Which of two resources comes first may change from run to run, and an update of
    targets alone fails where state knows the other order.
    """
    urns: list[pulumi.Output[Any]] = [pulumi.Output(set(), one.urn.future(), one.urn.is_known()) for one in resources]
    return pulumi.Output.all(*urns).apply(lambda known: make(str(known[0])))
