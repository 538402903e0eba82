"""The refusals of admission as policies, one for each group of subjects a reader would look under.

Few policies, each running many rules: what a policy costs is paid per policy and resource, not per rule (pulumi-facts
sheet, section 8). Update rules need the stored document: the Rollout's own check compares with it, and says in its
inputs what it refused.
"""

from dataclasses import dataclass

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    Severity,
)

from gpustack_components.admission.registry import RULES
from policies.deployments import DOCS, deployment_of, refused_updates, without_crashing


@dataclass(frozen=True, slots=True)
class Group:
    """One policy: the subjects of admission it covers."""

    name: str
    """Name of the policy; organisations configure it under this name, so it never changes."""
    about: str
    """What a reader of the pack's listing sees."""
    subjects: frozenset[str]
    """Subjects of the rules it reports; empty: every rule that no other group covers."""
    remediation: str
    """What to do about a violation; each message names its own way out as well."""


GROUPS = (
    Group(
        "deployment-document",
        "A ModelDeployment is a document of this API: known fields, required fields, values in their bounds.",
        frozenset(),
        "Correct the field that the message names; `gpustack-components check -f FILE` shows the same refusals.",
    ),
    Group(
        "roles-and-names",
        "Roles form a set that can serve, and every name derived from them is a legal name of its own.",
        frozenset(("roles", "names", "identity")),
        "Rename the role or deployment, or change the kinds of the roles, as the message says.",
    ),
    Group(
        "engine-arguments",
        "Engine arguments can be read, fit the cards of a Pod, and leave alone what the deployment sets itself.",
        frozenset(("engine arguments", "parallelism")),
        "Remove the argument, use the field that owns it, or take the whole line over with command.",
    ),
    Group(
        "router-and-ports",
        "The router matches the engine and its roles, and no two listeners share a port.",
        frozenset(("router", "ports")),
        "Choose the router of the engine, or other ports, as the message says.",
    ),
    Group(
        "hardware-and-cache",
        "What roles ask of an InstanceType and a KV cache pool is something these offer.",
        frozenset(("instance types", "KV cache and transport")),
        "Ask for what the type or pool offers, or name another one.",
    ),
    Group(
        "host-access-and-volumes",
        "Roles mount volumes that can be mounted, and reach the host only where the settings allow it.",
        frozenset(("host access", "volumes")),
        "Change the volume, or ask the platform team for the setting that the message names.",
    ),
    Group(
        "elastic-parallelism",
        "A role with elastic expert parallelism declares what a resize needs.",
        frozenset(("elastic expert parallelism",)),
        "Correct the field that the message names; on such a role only the width may change later.",
    ),
)

_SUBJECTS = {rule.id: rule.subject for rule in RULES.values()}
_COVERED = frozenset[str]().union(*(group.subjects for group in GROUPS))


def _reports(group: Group, rule: str) -> bool:
    subject = _SUBJECTS.get(rule, "")
    return subject in group.subjects if group.subjects else subject not in _COVERED


def _policy(group: Group) -> Policy:
    def judge(args: ResourceValidationArgs, report: ReportViolation) -> None:
        for rule, sentence in refused_updates(args):
            if _reports(group, rule):
                report(sentence, None)
        deployment = deployment_of(args, group.name)
        if deployment is None:
            return
        for refusal in deployment.judgement.refusals:
            if _reports(group, refusal.rule):
                report(str(refusal), None)
        if deployment.errors and not group.subjects:
            raise deployment.errors[0]

    return ResourceValidationPolicy(
        group.name,
        group.about,
        without_crashing(group.name, judge),
        enforcement_level=EnforcementLevel.MANDATORY,
        severity=Severity.HIGH,
        remediation_steps=group.remediation,
        url=f"{DOCS}/reference/rules.md",
    )


POLICIES: list[Policy] = [_policy(group) for group in GROUPS]
