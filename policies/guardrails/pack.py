"""Guardrails as policies; what is not configured refuses nothing, but for `:latest`, privileged roles and Pods that
pretend.

Configure them with `--policy-pack-config FILE`, a JSON object of policy names to settings, or in the organisation's
policy group.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    Severity,
)

from gpustack_components.api.command_line.flags import normal_name, reaches
from gpustack_components.api.model_deployment import Role
from gpustack_components.bindings import shape
from policies.deployments import DOCS, Deployment, deployment_of, to_plain, without_crashing
from policies.guardrails.budget import Ledger, amount, limit_for
from policies.guardrails.images import Image, images_of
from policies.guardrails.impostors import KUBERNETES, LOCAL_QUEUE, pod_metadata, pretence, protected_queue

Config = Mapping[str, Any]
Finding = tuple[str, str]
"""Field path and sentence."""

_ledger = Ledger()


def judge_images(deployment: Deployment, config: Config) -> Iterator[Finding]:
    """Registries, digests and tags of every image."""
    assert deployment.document is not None
    allowed = [str(one) for one in config.get("allowedRegistries") or ()]
    for path, reference in images_of(deployment.document.spec):
        if deployment.hides(path):
            continue
        image = Image.parse(reference)
        if allowed and not image.within(allowed):
            yield path, f"{reference} comes from {image.repository}; allowed are {', '.join(allowed)}"
        if config.get("requireDigest") and not image.pinned:
            yield path, f"{reference} names no digest; pin it, as in {image.repository}@sha256:..."
        elif config.get("forbidLatest", True) and image.floats:
            yield path, f"{reference} means another image tomorrow; name a version or a digest"


def judge_budget(deployment: Deployment, config: Config) -> Iterator[Finding]:
    """Cards of the deployment's namespace and of the whole stack."""
    _ledger.enter(deployment)
    namespace = deployment.request.namespace
    limits: dict[str, float] = dict(config.get("cardsPerNamespace") or {})
    budgets = (
        (f"namespace {namespace}", _ledger.total(namespace), limit_for(namespace, limits)),
        ("this stack", _ledger.total(), config.get("cardsPerStack")),
    )
    for where, declared, limit in budgets:
        if limit is not None and declared > limit:
            yield (
                "spec.roles",
                f"the deployments of {where} declare {amount(declared)} cards together, and its budget is {limit:g}; "
                "lower replicas or cards, or have the budget raised",
            )


def judge_placement(deployment: Deployment, config: Config) -> Iterator[Finding]:
    """Instance types and KV cache pools."""
    assert deployment.document is not None
    spec, namespace = deployment.document.spec, deployment.request.namespace
    types = [str(one) for one in config.get("allowedInstanceTypes") or ()]
    for index, role in enumerate(spec.roles):
        if types and role.instance_type not in types:
            path = f"spec.roles[{index}].instanceType"
            yield path, f"{role.instance_type} is not allowed; allowed are {', '.join(types)}"
    pools: Mapping[str, Any] = config.get("allowedPools") or {}
    allowed = pools.get(namespace, pools.get("*"))
    path = "spec.kvCache.poolRef.name"
    if spec.kv_cache is None or allowed is None or deployment.hides(path):
        return
    binding = spec.kv_cache.pool_ref.name
    if binding not in allowed:
        names = ", ".join(map(str, allowed)) or "none"
        yield path, f"namespace {namespace} may not attach to {binding}; allowed here: {names}"


def judge_roles(deployment: Deployment, config: Config) -> Iterator[Finding]:
    """Replicas, arguments, host privileges, and the router of a Prefill and Decode set."""
    assert deployment.document is not None
    spec = deployment.document.spec
    most = config.get("maxReplicas")
    forbidden = [normal_name(spec.engine.name, str(one)) for one in config.get("forbiddenArguments") or ()]
    for index, role in enumerate(spec.roles):
        path = f"spec.roles[{index}]"
        if most is not None and role.replicas > most:
            yield f"{path}.replicas", f"{role.replicas} replicas, and at most {most:g} are allowed for one role"
        if config.get("denyPrivileged", True) and role.privileged:
            yield f"{path}.privileged", "privileged containers are not allowed; remove the field"
        yield from _forbidden_arguments(deployment, spec.engine.name, role, path, forbidden)
    if config.get("requireRouterForPairs", True) and spec.router is None and shape.is_pair(spec):
        yield (
            "spec.router",
            "a Prefill and a Decode role without a router are never used together; "
            "set spec.router.name, or use a Server role",
        )


def _forbidden_arguments(
    deployment: Deployment, engine: str, role: Role, path: str, forbidden: list[str]
) -> Iterator[Finding]:
    for field, tokens in (("extraArgs", role.extra_args or ()), ("command", role.command or ())):
        for position, token in enumerate(tokens):
            place = f"{path}.{field}[{position}]"
            flag = next((one for one in forbidden if reaches(engine, token, one)), None)
            if flag is not None and not deployment.hides(place):
                yield place, f"{token} is {flag}, which is not allowed in this organisation; remove it"


def judge_labels(deployment: Deployment, config: Config) -> Iterator[Finding]:
    """Labels a deployment must carry, and the form of their values."""
    assert deployment.document is not None
    labels = deployment.document.metadata.labels
    wanted: Mapping[str, Any] = config.get("required") or {}
    for key, pattern in wanted.items():
        path = f"metadata.labels[{key}]"
        if deployment.hides(path) or deployment.hides("metadata.labels"):
            continue
        if key not in labels:
            yield path, "is missing; every deployment carries it"
        elif pattern and not re.fullmatch(str(pattern), labels[key]):
            yield path, f"is {labels[key]!r}, which does not have the form {pattern}"


def judge_impostors(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Plain Kubernetes resources that would take part in a deployment or its queue."""
    if not args.resource_type.startswith(KUBERNETES):
        return
    properties = to_plain(args.props)
    for path, metadata in pod_metadata(properties):
        sign = "" if args.resource_type.endswith((":Service", LOCAL_QUEUE)) else pretence(metadata)
        if sign:
            report(
                f"{path}: the {sign} is that of a ModelDeployment's Pods, so its Services and its queue would take "
                "this one for a replica; remove it, or declare a ModelDeployment",
                None,
            )
    if args.resource_type.endswith(LOCAL_QUEUE):
        config = to_plain(args.get_config())
        queue = protected_queue(properties, config.get("protectedClusterQueues") or (), args.urn)
        if queue:
            report(
                f"spec.clusterQueue: {queue} is reserved for ModelDeployments, which make their own LocalQueue; "
                "remove this one, or use another ClusterQueue",
                None,
            )


def _on_deployments(
    policy: str, judge: Callable[[Deployment, Config], Iterator[Finding]]
) -> Callable[[ResourceValidationArgs, ReportViolation], None]:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        deployment = deployment_of(args, policy)
        if deployment is None or deployment.document is None:
            return
        for path, sentence in judge(deployment, to_plain(args.get_config())):
            report(f"{path}: {sentence}", None)

    return validate


def _policy(
    name: str,
    about: str,
    remediation: str,
    validate: Callable[[ResourceValidationArgs, ReportViolation], None],
    properties: dict[str, dict[str, Any]],
) -> Policy:
    return ResourceValidationPolicy(
        name,
        about,
        without_crashing(name, validate),
        enforcement_level=EnforcementLevel.MANDATORY,
        config_schema=PolicyConfigSchema(properties),
        severity=Severity.HIGH,
        remediation_steps=remediation,
        url=f"{DOCS}/how-to/policy-packs.md",
    )


_NAMES: dict[str, Any] = {"type": "array", "items": {"type": "string"}, "default": []}
_SWITCH_ON: dict[str, Any] = {"type": "boolean", "default": True}

POLICIES: list[Policy] = [
    _policy(
        "images",
        "Images come from allowed registries and are named firmly enough.",
        "Mirror the image into an allowed registry and name it by digest.",
        _on_deployments("images", judge_images),
        {
            "allowedRegistries": {**_NAMES, "description": "Registries or paths, e.g. registry.example.com/llm."},
            "requireDigest": {"type": "boolean", "default": False, "description": "Every image is named by digest."},
            "forbidLatest": {**_SWITCH_ON, "description": "No image without a tag, or tagged latest."},
        },
    ),
    _policy(
        "card-budget",
        "The deployments of a namespace and of the stack stay within their budgets of cards.",
        "Lower replicas or cards, or have the budget raised.",
        _on_deployments("card-budget", judge_budget),
        {
            "cardsPerNamespace": {
                "type": "object",
                "additionalProperties": {"type": "number"},
                "description": "Cards by namespace; * is for every other one.",
            },
            "cardsPerStack": {"type": "number", "description": "Cards of all deployments of one stack."},
        },
    ),
    _policy(
        "placement",
        "Roles use allowed instance types, and namespaces attach to KV cache pools they may use.",
        "Name an allowed instance type or pool.",
        _on_deployments("placement", judge_placement),
        {
            "allowedInstanceTypes": {**_NAMES, "description": "InstanceTypes that roles may name; empty: all."},
            "allowedPools": {
                "type": "object",
                "additionalProperties": {"type": "array", "items": {"type": "string"}},
                "description": "KVCachePoolBindings by namespace; * is for every other one; absent: all.",
            },
        },
    ),
    _policy(
        "roles",
        "Roles stay within the organisation's limits for replicas, arguments and privileges.",
        "Change the role as the message says.",
        _on_deployments("roles", judge_roles),
        {
            "maxReplicas": {"type": "integer", "description": "Most replicas of one role."},
            "forbiddenArguments": {**_NAMES, "description": "Engine flags by full name, e.g. --trust-remote-code."},
            "denyPrivileged": {**_SWITCH_ON, "description": "No role is privileged."},
            "requireRouterForPairs": {**_SWITCH_ON, "description": "A Prefill and Decode set has a router."},
        },
    ),
    _policy(
        "labels",
        "Deployments carry the labels that the organisation reports by.",
        "Add the label to metadata.labels.",
        _on_deployments("labels", judge_labels),
        {
            "required": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Labels by key; the value is a regular expression of the whole label value, or empty.",
            },
        },
    ),
    _policy(
        "impostors",
        "No plain Pod pretends to belong to a deployment, and no hand-made LocalQueue opens a protected ClusterQueue.",
        "Remove the label or queue, or declare a ModelDeployment.",
        judge_impostors,
        {"protectedClusterQueues": {**_NAMES, "description": "Names or patterns of ClusterQueues, e.g. gpustack-*."}},
    ),
]
