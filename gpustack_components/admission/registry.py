"""Every rule there is, by id: what `explain`, the rule reference and the policy packs read."""

from collections.abc import Mapping
from types import MappingProxyType

from gpustack_components.admission import (
    decoding,
    documents,
    elastic_rules,
    engine_arguments,
    host_access,
    identity,
    instance_types,
    lint,
    names,
    object_rules,
    parallelism,
    ports,
    roles,
    router,
    scaler_rules,
    transport,
    volumes,
)
from gpustack_components.admission.rule import Rule

INTERNAL_ERROR = Rule(
    id="internal-error",
    subject="review",
    layer="review",
    when="a rule crashed, which is a defect of this package and no fault of the document",
    way_out="Report it with the document; nothing was judged by that rule, so it is refused rather than passed.",
    source="admission.review",
    paths=("",),
)

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        rule.id: rule
        for rules in (
            decoding.RULES,
            engine_arguments.RULES,
            parallelism.RULES,
            names.RULES,
            roles.RULES,
            volumes.RULES,
            ports.RULES,
            router.RULES,
            elastic_rules.RULES,
            instance_types.RULES,
            transport.RULES,
            host_access.RULES,
            identity.RULES,
            lint.RULES,
            scaler_rules.RULES,
            object_rules.RULES,
            documents.RULES,
            (INTERNAL_ERROR,),
        )
        for rule in rules
    }
)
"""Every rule by id, grouped by subject."""


def subjects() -> Mapping[str, tuple[Rule, ...]]:
    """The rules of each subject, in the order of the registry."""
    grouped: dict[str, list[Rule]] = {}
    for rule in RULES.values():
        grouped.setdefault(rule.subject, []).append(rule)
    return {subject: tuple(rules) for subject, rules in grouped.items()}
