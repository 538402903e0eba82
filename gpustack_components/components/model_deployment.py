"""The ModelDeployment component: queues and Services as ordinary Kubernetes resources, and one Rollout for all
replicas.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import pulumi

from gpustack_components.api.refusal import Refusal
from gpustack_components.cluster.binding_objects import Reading
from gpustack_components.components import arguments, program, request
from gpustack_components.components.config import mapping as configured
from gpustack_components.components.judgement import Judgement, encode, judge
from gpustack_components.components.kubernetes import FrontDoor, LocalQueues
from gpustack_components.components.plain import Json, Known, plain
from gpustack_components.components.program import Program, Target
from gpustack_components.components.relevance import relevant
from gpustack_components.components.request import Request
from gpustack_components.components.rollout import Rollout, fail_unless_converged, own_urn

if TYPE_CHECKING:
    from gpustack_components.api.document import Document
    from gpustack_components.api.model_deployment import ModelDeploymentSpec
    from gpustack_components.components.instance_type import InstanceType

    Object = InstanceType | Document | Mapping[str, Any]
    Binding = Object | str | Path

TYPE = "gpustack:index:ModelDeployment"


class ModelDeployment(pulumi.ComponentResource):
    """One model served by one engine: Services, LocalQueues and all replicas, turned over one at a time.

    Everything that the operator's admission webhook would refuse is refused in `pulumi preview`, each refusal with
    its field, what was found, and the way out. `pulumi up` ends once every declared replica is admitted and Ready, or
    fails with what it still waits for; the next one resumes.
    """

    name: str
    """The deployment's name in the cluster."""
    namespace: str
    """Its namespace."""
    endpoint: "pulumi.Output[str]"
    """Where the deployment is reached inside the cluster, e.g. `http://qwen.team-a.svc:8000`; known once it serves."""
    phase: "pulumi.Output[str]"
    """`Converged`, or `Incomplete` with reasons."""
    ready: "pulumi.Output[bool]"
    """Whether every declared replica was admitted and Ready when the run ended."""
    reasons: "pulumi.Output[list[str]]"
    """Why the last run did not converge; empty when it did."""

    def __init__(
        self,
        resource_name: str,
        document: "Mapping[str, Any] | Document | None" = None,
        *,
        namespace: str | None = None,
        spec: "ModelDeploymentSpec | Mapping[str, Any] | None" = None,
        metadata: Mapping[str, Any] | None = None,
        bindings: "Binding | Sequence[Binding]" = (),
        settings: Mapping[str, Any] | None = None,
        timeouts: Mapping[str, Any] | None = None,
        adopt: Sequence[str] = (),
        kubeconfig: "str | pulumi.Output[str] | None" = None,
        context: str | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Declare a deployment.

        `document` is a whole manifest; `spec` (a `ModelDeploymentSpec`, or a mapping with camelCase or snake_case
        keys) with `namespace` and `metadata` builds one, named after the resource unless `metadata` names it.
        `bindings` are what it depends on: `InstanceType` components, and InstanceTypes, KV cache objects and
        ModelArtifacts as manifests, as models of `gpustack_components.api`, or as paths, folders and globs of files
        that hold them. Where the GPUStack operator runs, those it names are read from the cluster too. `settings` go by
        their dashed names. `timeouts` are `admission` (30m), `ready` (20m), `drain` (5m), `weights` (30m) and `lease`
        (20s). `adopt` names former owners whose deployment may be taken over, beside those of the stack's
        configuration.
        `kubeconfig` (text or path) and `context` choose the cluster; without them stack configuration does
        (`kubernetes:kubeconfig`, `kubernetes:context`), then the ambient kubeconfig.

        `settings` and `timeouts` default to the stack's configuration (`gpustack-components:settings`,
        `gpustack-components:timeouts`).
        """
        composed, problems = arguments.compose(
            resource_name, document=document, namespace=namespace, spec=spec, metadata=metadata
        )
        outline = arguments.without_outputs(composed)
        depended, raw_bindings = _read(expanded(bindings), outline)
        chosen = {
            request.SETTINGS: dict(settings) if settings is not None else configured("settings"),
            request.TIMEOUTS: dict(timeouts) if timeouts is not None else configured("timeouts"),
        }
        shared = program.current()
        asked = Request(
            document=outline.value,
            bindings=tuple(raw_bindings),
            settings=plain(chosen[request.SETTINGS]),
            timeouts=plain(chosen[request.TIMEOUTS]),
            owner=shared.owner,
            unknown=outline.unknown,
        )
        target = shared.target(kubeconfig, context)
        observed = target.observe(asked)
        judgement = judge(asked, observed=observed)
        inputs = _inputs(composed, raw_bindings, chosen, shared.owner, (*adopt, *shared.adopted))
        super().__init__(TYPE, resource_name, {key: inputs[key] for key in _SHOWN if key in inputs}, opts)
        self.name, self.namespace = asked.name, asked.namespace
        problems += arguments.refused_outputs({**composed, request.BINDINGS: raw_bindings})
        problems += self._conflicts(shared, target, resource_name)
        for sentence in map(str, problems):
            pulumi.log.error(sentence, self)
        self._tell(judgement)
        self._miss_namespace(shared, target, opts)
        stands_on, front_door = self._declare(shared, target, resource_name, composed, asked, judgement, observed, opts)
        rollout = self._roll(
            shared,
            resource_name,
            inputs,
            composed,
            problems,
            target,
            stands_on=(*depended, *stands_on),
            after=front_door.preceding if front_door else (),
        )
        if front_door:
            front_door.follow(rollout)
        self.phase, self.reasons = rollout.phase, rollout.reasons
        self.ready, self.endpoint = rollout.ready, rollout.endpoint
        normalised = composed if asked.unknown or judgement.document is None else encode(judgement.document)
        self.register_outputs(
            {
                request.METADATA: normalised[request.METADATA],
                request.SPEC: normalised.get(request.SPEC),
                request.ENDPOINT: self.endpoint,
                request.PHASE: self.phase,
                request.READY: self.ready,
            }
        )

    @classmethod
    def from_file(cls, path: str | Path, resource_name: str | None = None, **arguments: Any) -> Self:
        """The one ModelDeployment of a YAML or JSON file; the file's other documents become its bindings.

        Named `<namespace>/<name>` unless `resource_name` says otherwise. Raises `pulumi.RunError` when the file
        cannot be read or does not hold exactly one ModelDeployment.
        """
        from gpustack_components.components.manifests import read, resource_name_of

        found = read([str(path)])
        if len(found.deployments) != 1:
            names = ", ".join(resource_name_of(one) for one in found.deployments) or "none"
            raise pulumi.RunError(
                f"{path}: expected one ModelDeployment, found {names}; use gpustack_components.from_files for more"
            )
        document = found.deployments[0]
        given = expanded(arguments.pop("bindings", ()))
        return cls(
            resource_name or resource_name_of(document), document, bindings=[*given, *found.bindings], **arguments
        )

    def _conflicts(self, shared: Program, target: Target, resource_name: str) -> tuple[Refusal, ...]:
        """What is wrong with this deployment in the company of the others of this program."""
        problems: list[Refusal] = []
        first = shared.deployments.setdefault((target, self.namespace, self.name), resource_name)
        if first != resource_name:
            label = f"{self.namespace}/{self.name}"
            message = f"{label} is declared by {first} already; give one of the two another name or namespace"
            problems.append(Refusal("declared-twice", "metadata.name", message, self.name))
        if self.get_provider("kubernetes:core/v1:Service") is not None and not target.given:
            message = (
                "a Kubernetes provider was passed in opts, and the rollout cannot read which cluster that one means; "
                "pass kubeconfig= or context= as well"
            )
            problems.append(Refusal("cluster-unclear", "kubeconfig", message))
        return tuple(problems)

    def _tell(self, judgement: Judgement) -> None:
        """Why it cannot be declared. A preview that could not look for an object goes on without what follows from
        it; an update must not, since it would take the deployment's Services for abandoned."""
        if judgement.blind and judgement.resolved is not None:
            return  # The Services need nothing that is missing; whether the Pods do, the provider says.
        if judgement.blind and pulumi.runtime.is_dry_run():
            missing = "; ".join((*map(str, judgement.failures), *judgement.unread))
            pulumi.log.warn(f"its Services are not shown: {missing}", self)
            return
        for sentence in judgement.sentences:
            pulumi.log.error(sentence, self)

    def _miss_namespace(self, shared: Program, target: Target, opts: pulumi.ResourceOptions | None) -> None:
        """Say in a preview that the namespace is not there, unless the program may be about to make it."""
        if not pulumi.runtime.is_dry_run() or shared.survey(target, self.namespace).exists:
            return
        made = _namespaces_made(opts)
        if made is None:
            return

        def compare(names: Sequence[str]) -> None:
            if self.namespace in names:
                return
            only = f", only {' and '.join(names)}" if names else ""
            text = (
                f"namespace {self.namespace} does not exist, and nothing in depends_on of opts makes it{only}: create "
                f"it (`kubectl create namespace {self.namespace}`), add the Namespace of this program to depends_on, "
                "or correct metadata.namespace"
            )
            pulumi.log.warn(text, self)

        pulumi.Output.all(*made).apply(compare)

    def _declare(
        self,
        shared: Program,
        target: Target,
        resource_name: str,
        composed: Json,
        asked: Request,
        judgement: Judgement,
        observed: Reading | None,
        opts: pulumi.ResourceOptions | None,
    ) -> tuple[list[pulumi.Resource], FrontDoor | None]:
        """The LocalQueues and router objects the replicas stand on, and what they are reached through; neither where
        the deployment is refused."""
        if judgement.resolved is None or judgement.bindings is None:
            return [], None
        given = self.get_provider("kubernetes:core/v1:Service")
        provider = given or shared.provider(target)
        queues = LocalQueues(shared, target, provider, opts.depends_on if opts else None)
        standing = shared.survey(target, self.namespace).services.get(self.name, frozenset())
        front_door = FrontDoor(self, resource_name, provider, observed, standing)
        stands_on = [
            *queues.declare(judgement.resolved, judgement.bindings),
            *front_door.declare(composed, asked, judgement.resolved),
        ]
        return stands_on, front_door

    def _roll(
        self,
        shared: Program,
        resource_name: str,
        inputs: Json,
        composed: Json,
        problems: Sequence[Refusal],
        target: Target,
        *,
        stands_on: Sequence[pulumi.Resource],
        after: Sequence[pulumi.Resource],
    ) -> Rollout:
        hook = shared.hook(fail_unless_converged)
        secrets = arguments.secret_refusals(composed)
        told = [str(problem) for problem in problems]
        refused: Any = told if secrets is None else secrets.apply(lambda found: [*told, *found])
        bag = {
            **inputs,
            request.RESOURCE_URN: own_urn(self, resource_name, after),
            request.REFUSED: refused or None,
            request.KUBECONFIG: None if target.kubeconfig is None else pulumi.Output.secret(target.kubeconfig),
            request.CONTEXT: target.context,
        }
        return Rollout(
            resource_name,
            {key: value for key, value in bag.items() if value is not None},
            pulumi.ResourceOptions(
                parent=self,
                depends_on=list(stands_on),
                hooks=pulumi.ResourceHookBinding(after_create=[hook], after_update=[hook]),
            ),
        )


_NAMESPACE = "kubernetes:core/v1:Namespace"
_MAKERS = ("kubernetes:core/v1:NamespacePatch", "kubernetes:yaml", "kubernetes:kustomize", "kubernetes:helm.sh")


def _namespaces_made(opts: pulumi.ResourceOptions | None) -> list[pulumi.Output[str]] | None:
    """The names of the Namespaces that the deployment depends on; None when something else it depends on may make
    its namespace: a component, a set of manifests, or what is not known before the update."""
    made: list[pulumi.Output[str]] = []
    given: Any = (opts.depends_on if opts is not None else None) or ()
    depends_on = cast("Sequence[object]", given if isinstance(given, Sequence) else (given,))
    for one in depends_on:
        if not isinstance(one, pulumi.Resource) or isinstance(one, pulumi.ComponentResource):
            return None
        if one.pulumi_resource_type.startswith(_MAKERS):
            return None
        if one.pulumi_resource_type == _NAMESPACE:
            made.append(cast("Any", one).metadata["name"])
    return made


_SHOWN = (request.METADATA, request.SPEC, request.BINDINGS, request.SETTINGS, request.TIMEOUTS)


def expanded(bindings: "Binding | Sequence[Binding]") -> "list[Object]":
    """The bindings one by one, files as what they hold. Raises `pulumi.RunError` naming every file that cannot be
    read, and everything that is no binding."""
    from gpustack_components.api.document import Document
    from gpustack_components.components.instance_type import InstanceType
    from gpustack_components.components.manifests import read

    single = not isinstance(bindings, Sequence) or isinstance(bindings, str)
    every: Sequence[Binding] = [cast("Binding", bindings)] if single else cast("Sequence[Binding]", bindings)
    given = cast("Sequence[object]", every)
    strangers = [one for one in given if not isinstance(one, InstanceType | Document | Mapping | str | Path)]
    if strangers:
        raise pulumi.RunError(
            f"bindings: takes InstanceType components, documents and paths of manifests, found "
            f"{', '.join(type(one).__name__ for one in strangers)}; a resource that has to be there first, such as a "
            "Namespace, belongs into depends_on of opts"
        )
    files = [str(one) for one in every if isinstance(one, str | Path)]
    return [*(one for one in every if not isinstance(one, str | Path)), *(read(files).bindings if files else ())]


def _read(bindings: "Sequence[Object]", outline: Known) -> tuple[list[pulumi.Resource], list[Json]]:
    """The resources among the bindings that the deployment depends on, and every such binding as a raw document."""
    from gpustack_components.components.instance_type import InstanceType

    documents = [one.document if isinstance(one, InstanceType) else arguments.as_json(one) for one in bindings]
    kept = relevant(documents, outline.value, outline.unknown)
    resources = [
        one for one in bindings if isinstance(one, InstanceType) and any(one.document is other for other in kept)
    ]
    return list(resources), kept


def _inputs(composed: Json, bindings: list[Json], chosen: Json, owner: str, adopt: Sequence[str]) -> Json:
    """The inputs that say what is asked for; absent ones stay away."""
    every = {
        request.METADATA: composed.get(request.METADATA),
        request.SPEC: composed.get(request.SPEC),
        request.BINDINGS: bindings,
        **chosen,
        request.ADOPT: list(adopt),
        request.OWNER: owner,
    }
    return {key: value for key, value in every.items() if value not in (None, [], {})}
