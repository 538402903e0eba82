"""The rules of a ModelDeploymentScaler, described; `scaler` judges them (scaler sheet 2)."""

from gpustack_components.admission.rule import UPDATE, Need, Rule

_SUBJECT = "scaler"
_TARGET: frozenset[Need] = frozenset(("object", "target"))


def _rule(
    rule_id: str, row: str, when: str, way_out: str, *paths: str, needs: frozenset[Need] = frozenset(("object",))
) -> Rule:
    return Rule(
        id=rule_id,
        subject=_SUBJECT,
        layer="webhook",
        when=when,
        way_out=way_out,
        source=f"scaler 2, {row}",
        paths=paths,
        needs=needs,
    )


SCALER_TARGET_CHANGED = Rule(
    id="scaler-target-changed",
    subject=_SUBJECT,
    layer="webhook",
    when="`targetRef.name` differs from the stored one",
    way_out="Create another scaler for the other deployment, and delete this one.",
    source="scaler 2, A1",
    paths=("spec.targetRef.name",),
    operations=UPDATE,
    needs=frozenset(("object", "previous")),
)
SCALER_BOUNDS = _rule(
    "scaler-bounds",
    "A5",
    "`maxReplicas` of a role is below its `minReplicas`",
    "Raise the maximum, or lower the minimum.",
    "spec.roles[].maxReplicas",
)
SCALER_ALGORITHM_BLOCK = _rule(
    "scaler-algorithm-block",
    "A7",
    "the block that `algorithm.type` names is missing, or another one stands beside it",
    "Keep exactly the block of the type; replace the whole `algorithm` when the type changes.",
    "spec.algorithm.proportional",
    "spec.algorithm.tokenThroughput",
    "spec.algorithm.predictive",
)
SCALER_ROLE_TARGETS = _rule(
    "scaler-role-targets",
    "A8",
    "a `roleTargets` entry repeats a role, or names one that `roles` does not bound",
    "Keep one target per role, and bound every role.",
    "spec.algorithm.proportional.roleTargets[].name",
)
SCALER_RATIO = _rule(
    "scaler-ratio",
    "A10",
    "a ratio names a role that is not bounded, one role twice, a pair that has a ratio already, no value, or values "
    "out of order",
    "State two different bounded roles once, and min <= target <= max.",
    "spec.ratios[]",
)
SCALER_RATIO_CYCLE = _rule(
    "scaler-ratio-cycle", "A11", "the ratios close a cycle of roles", "Remove one ratio of the cycle.", "spec.ratios"
)
SCALER_RATIO_INFEASIBLE = _rule(
    "scaler-ratio-infeasible",
    "A12",
    "no counts within the bounds satisfy every ratio's min and max",
    "Widen the bounds or the ratio.",
    "spec.ratios[]",
)
SCALER_NO_SIGNAL = _rule(
    "scaler-no-signal",
    "A13",
    "a role has no signal of its own and no chain of ratios to one that has",
    "Give it a target, or couple it by a ratio.",
    "spec.roles[]",
    needs=_TARGET,
)
SCALER_THROUGHPUT_TARGET = _rule(
    "scaler-throughput-target",
    "1.1",
    "a throughput target or capacity is missing that the kinds of the deployment's roles need",
    "State it in tokens per second.",
    "spec.algorithm.tokenThroughput",
    "spec.algorithm.predictive",
    needs=_TARGET,
)
SCALER_ALREADY_BOUND = _rule(
    "scaler-already-bound",
    "A9",
    "another scaler holds the deployment",
    "Delete or release that scaler (mode Shadow, or suspend), then apply this one.",
    "spec.targetRef.name",
    needs=frozenset(("object", "target", "other documents")),
)
SCALER_TARGET_ROLES = _rule(
    "scaler-target-roles",
    "A14",
    "the bounds and the deployment do not name the same roles",
    "Bound exactly the roles of the deployment.",
    "spec.roles",
    "spec.roles[].name",
    needs=_TARGET,
)
SCALER_ELASTIC_BOUNDS = _rule(
    "scaler-elastic-bounds",
    "A15",
    "an elastic role of the deployment is given other bounds than 1 to 1",
    "Set both bounds to 1; the role is sized by its width.",
    "spec.roles[]",
    needs=_TARGET,
)
SCALER_COMMAND_SIGNAL = _rule(
    "scaler-command-signal",
    "A16",
    "a signal is asked of a role with its own `command`, whose metrics endpoint nobody manages",
    "Couple the role by a ratio, or remove its `command`.",
    "spec.algorithm.proportional.roleTargets[].name",
    needs=_TARGET,
)
SCALER_SHORT_WINDOW = Rule(
    id="scaler-short-window",
    subject=_SUBJECT,
    layer="review",
    when="the downward stabilization window is no longer than the sampling interval, so that one reading decides",
    way_out="Make the window several intervals long.",
    source="scaler 2",
    paths=("spec.behavior.scaleDown.stabilizationWindowSeconds",),
    severity="warn",
)

RULES = (
    SCALER_TARGET_CHANGED,
    SCALER_BOUNDS,
    SCALER_ALGORITHM_BLOCK,
    SCALER_ROLE_TARGETS,
    SCALER_RATIO,
    SCALER_RATIO_CYCLE,
    SCALER_RATIO_INFEASIBLE,
    SCALER_NO_SIGNAL,
    SCALER_THROUGHPUT_TARGET,
    SCALER_ALREADY_BOUND,
    SCALER_TARGET_ROLES,
    SCALER_ELASTIC_BOUNDS,
    SCALER_COMMAND_SIGNAL,
    SCALER_SHORT_WINDOW,
)
