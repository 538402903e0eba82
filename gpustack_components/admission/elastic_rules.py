"""The rules of elastic expert parallelism, described; `elastic` judges them (api sheet 6.4, elastic sheet 1.2)."""

from gpustack_components.admission.rule import UPDATE, Need, Rule

_SUBJECT = "elastic expert parallelism"
_SOURCE = "api-and-admission 6.4, elastic-ep 1.2"
_NEEDS_OLD: frozenset[Need] = frozenset(("object", "previous"))


def _rule(rule_id: str, when: str, way_out: str, *paths: str, update: bool = False) -> Rule:
    return Rule(
        id=rule_id,
        subject=_SUBJECT,
        layer="webhook",
        when=when,
        way_out=way_out,
        source=_SOURCE,
        paths=paths,
        operations=UPDATE if update else ("create", "update"),
        needs=_NEEDS_OLD if update else frozenset(("object",)),
    )


ELASTIC_ENGINE = _rule(
    "elastic-engine",
    "a role carries `elasticEp` and the engine is not vLLM",
    "Use vLLM, or drop `elasticEp`.",
    "spec.engine.name",
)
ELASTIC_ONLY_ROLE = _rule(
    "elastic-only-role",
    "a second role stands beside an elastic one, elastic itself or not",
    "Keep one role; its width sizes the collective.",
    "spec.roles",
)
ELASTIC_WIDTH_BOUND = Rule(
    id="elastic-width-bound",
    subject=_SUBJECT,
    layer="schema",
    when="`elasticEp.width` is below 2 or above 64",
    way_out="State a width from 2 to 64.",
    source=_SOURCE,
    paths=("spec.roles[].elasticEp.width",),
)
ELASTIC_MAX_WIDTH = _rule(
    "elastic-max-width",
    "`elasticEp.width` exceeds the `--elastic-ep-max-dp-size` the role declares",
    "Lower the width, or declare a larger maximum when the deployment is created.",
    "spec.roles[].elasticEp.width",
)
ELASTIC_PARALLEL_UNREADABLE = _rule(
    "elastic-parallel-unreadable",
    "the parallel degrees of an elastic role cannot be read",
    "Correct the flag that `parallel-degree` names.",
    "spec.roles[].extraArgs",
)
ELASTIC_PP_PCP = _rule(
    "elastic-pp-pcp",
    "an elastic role declares a pipeline-parallel or prefill-context-parallel degree other than 1",
    "Remove both flags, or set them to 1.",
    "spec.roles[].extraArgs",
)
ELASTIC_KIND = _rule(
    "elastic-kind", "an elastic role is no Server", "Make it a Server, or drop `elasticEp`.", "spec.roles[].kind"
)
ELASTIC_REPLICAS = _rule(
    "elastic-replicas",
    "`replicas` of an elastic role is not 1",
    "Set replicas to 1 and size the role by `elasticEp.width`.",
    "spec.roles[].replicas",
)
ELASTIC_SIZE = _rule(
    "elastic-size",
    "`size` of an elastic role is not 1",
    "Set size to 1 and size the role by `elasticEp.width`.",
    "spec.roles[].size",
)
ELASTIC_COMMAND = _rule(
    "elastic-command",
    "an elastic role has its own `command`",
    "Move the arguments into `extraArgs`, or drop `elasticEp`.",
    "spec.roles[].command",
)
ELASTIC_ACCELERATOR = _rule(
    "elastic-accelerator",
    "`resources.accelerator` of an elastic role differs from its tensor-parallel degree, or its InstanceType has no "
    "accelerators",
    "Ask for as many cards as the tensor-parallel degree, or leave the field out.",
    "spec.roles[].resources.accelerator",
)
ELASTIC_WHOLE_CARDS = _rule(
    "elastic-whole-cards",
    "an elastic role asks for a slice or a partition of a card",
    "Ask for whole cards.",
    "spec.roles[].resources.acceleratorSlicedMemoryPercentage",
    "spec.roles[].resources.acceleratorSlicedCoresPercentage",
    "spec.roles[].resources.acceleratorPartitionedProfile",
)
ELASTIC_ARGUMENT = _rule(
    "elastic-argument",
    "`extraArgs` of an elastic role names, in any spelling vLLM reads, an argument the profile writes itself",
    "Remove the argument.",
    "spec.roles[].extraArgs",
)
ELASTIC_ENV = _rule(
    "elastic-env",
    "`env` of an elastic role sets a variable the profile writes itself",
    "Remove the variable.",
    "spec.roles[].env[].name",
)
ELASTIC_PRESENCE = _rule(
    "elastic-presence",
    "`elasticEp` is added to or removed from a stored deployment",
    "Create another deployment.",
    "spec.roles.elasticEp",
    update=True,
)
ELASTIC_ROLE_MOVED = _rule(
    "elastic-role-moved",
    "`elasticEp` stands on a role of another name than the stored one",
    "Keep it on its role, or create another deployment.",
    "spec.roles[].name",
    update=True,
)
ELASTIC_TP_FROZEN = _rule(
    "elastic-tp-frozen",
    "the tensor-parallel degree of an elastic role differs from the stored one, or either cannot be read",
    "Restore the degree, or create another deployment.",
    "spec.roles[].extraArgs",
    update=True,
)
ELASTIC_MAX_WIDTH_FROZEN = _rule(
    "elastic-max-width-frozen",
    "the value of `--elastic-ep-max-dp-size` differs from the stored one, is added or is removed",
    "Restore the value, or create another deployment.",
    "spec.roles[].extraArgs",
    update=True,
)
ELASTIC_WIDTH_DECREASE = _rule(
    "elastic-width-decrease",
    "`elasticEp.width` is below the stored width",
    "Keep the width or raise it; to serve narrower, create another deployment.",
    "spec.roles[].elasticEp.width",
    update=True,
)

RULES = (
    ELASTIC_ENGINE,
    ELASTIC_ONLY_ROLE,
    ELASTIC_WIDTH_BOUND,
    ELASTIC_MAX_WIDTH,
    ELASTIC_PARALLEL_UNREADABLE,
    ELASTIC_PP_PCP,
    ELASTIC_KIND,
    ELASTIC_REPLICAS,
    ELASTIC_SIZE,
    ELASTIC_COMMAND,
    ELASTIC_ACCELERATOR,
    ELASTIC_WHOLE_CARDS,
    ELASTIC_ARGUMENT,
    ELASTIC_ENV,
    ELASTIC_PRESENCE,
    ELASTIC_ROLE_MOVED,
    ELASTIC_TP_FROZEN,
    ELASTIC_MAX_WIDTH_FROZEN,
    ELASTIC_WIDTH_DECREASE,
)
