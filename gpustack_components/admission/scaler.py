"""Rules of a ModelDeploymentScaler: its own document, and the deployment it scales (scaler sheet 2)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gpustack_components.admission.case import Unjudged
from gpustack_components.admission.identity import bound_scaler
from gpustack_components.admission.ratios import infeasible_ratio, ratio_cycle, reachable
from gpustack_components.admission.scaler_rules import (
    RULES,
    SCALER_ALGORITHM_BLOCK,
    SCALER_ALREADY_BOUND,
    SCALER_BOUNDS,
    SCALER_COMMAND_SIGNAL,
    SCALER_ELASTIC_BOUNDS,
    SCALER_NO_SIGNAL,
    SCALER_RATIO,
    SCALER_RATIO_CYCLE,
    SCALER_RATIO_INFEASIBLE,
    SCALER_ROLE_TARGETS,
    SCALER_SHORT_WINDOW,
    SCALER_TARGET_CHANGED,
    SCALER_TARGET_ROLES,
    SCALER_THROUGHPUT_TARGET,
)
from gpustack_components.api.model_deployment import ModelDeployment
from gpustack_components.api.refusal import Refusal
from gpustack_components.api.scaler import ModelDeploymentScaler, ModelDeploymentScalerSpec, Ratio, TokenThroughput
from gpustack_components.cluster.keys import SCALER_BINDING

_BLOCKS: Mapping[str, str] = {
    "Proportional": "proportional",
    "TokenThroughput": "tokenThroughput",
    "Predictive": "predictive",
}
_TARGET_RULES = tuple(rule.id for rule in RULES if "target" in rule.needs)


@dataclass(frozen=True)
class ScalerCase:
    """One write of a scaler under review."""

    new: ModelDeploymentScaler
    """The submitted scaler."""
    old: ModelDeploymentScaler | None
    """The stored scaler; None on create."""
    target: ModelDeployment | None
    """The deployment it scales; None when it does not exist yet or is not known."""
    unjudged: list[Unjudged] = field(default_factory=list[Unjudged])
    """What had to be left open."""

    @property
    def spec(self) -> ModelDeploymentScalerSpec:
        """The submitted spec."""
        return self.new.spec

    @cached_property
    def bounded(self) -> frozenset[str]:
        """Roles that `spec.roles` bounds."""
        return frozenset(role.name for role in self.spec.roles)

    @cached_property
    def sound_ratios(self) -> tuple[tuple[int, Ratio], ...]:
        """Ratios without a fault of their own, with their positions."""
        return tuple((index, ratio) for index, ratio in enumerate(self.spec.ratios) if not _ratio_faults(self, index))

    @cached_property
    def commanded(self) -> frozenset[str]:
        """Roles of the target that own their command line."""
        return frozenset(role.name for role in self.target.spec.roles if role.command) if self.target else frozenset()


def judge_document(case: ScalerCase) -> Iterator[Refusal]:
    """What the scaler's own document answers."""
    if case.old is not None and case.old.spec.target_ref != case.spec.target_ref:
        yield SCALER_TARGET_CHANGED.refuse(
            "spec.targetRef.name",
            f'"{case.old.spec.target_ref.name}" became "{case.spec.target_ref.name}"; a scaler keeps its target, '
            "create another one",
            case.spec.target_ref.name,
        )
    for index, role in enumerate(case.spec.roles):
        if role.max_replicas < role.min_replicas:
            yield SCALER_BOUNDS.refuse(
                f"spec.roles[{index}].maxReplicas",
                f'role "{role.name}": maxReplicas {role.max_replicas} is below minReplicas {role.min_replicas}; raise '
                "the one, or lower the other",
                role.max_replicas,
            )
    yield from _judge_algorithm(case)
    for index in range(len(case.spec.ratios)):
        for path, message in _ratio_faults(case, index):
            yield SCALER_RATIO.refuse(path, message)
    cycle = ratio_cycle([ratio for _, ratio in case.sound_ratios])
    if cycle:
        yield SCALER_RATIO_CYCLE.refuse(
            "spec.ratios", f"the ratios close a cycle over {', '.join(cycle)}; remove one of them", list(cycle)
        )
    elif all(role.max_replicas >= role.min_replicas for role in case.spec.roles):
        bounds = {role.name: (role.min_replicas, role.max_replicas) for role in case.spec.roles}
        stuck = infeasible_ratio(bounds, case.sound_ratios)
        if stuck is not None:
            ratio = case.spec.ratios[stuck]
            yield SCALER_RATIO_INFEASIBLE.refuse(
                f"spec.ratios[{stuck}]",
                f'no counts of "{ratio.numerator_role}" and "{ratio.denominator_role}" within their bounds satisfy '
                "this ratio together with the others; widen the bounds, or the ratio",
            )


def _judge_algorithm(case: ScalerCase) -> Iterator[Refusal]:
    algorithm = case.spec.algorithm
    blocks = {
        "proportional": algorithm.proportional,
        "tokenThroughput": algorithm.token_throughput,
        "predictive": algorithm.predictive,
    }
    wanted = _BLOCKS[algorithm.type]
    for name, block in blocks.items():
        if name == wanted and block is None:
            yield SCALER_ALGORITHM_BLOCK.refuse(
                f"spec.algorithm.{name}", f"type {algorithm.type} needs the block {name}, which is missing; add it"
            )
        elif name != wanted and block is not None:
            nested = "; nest it in predictive" if wanted == "predictive" and name == "tokenThroughput" else ""
            yield SCALER_ALGORITHM_BLOCK.refuse(
                f"spec.algorithm.{name}",
                f"type {algorithm.type} goes with the block {wanted} alone, and {name} stands beside it; remove "
                f"it{nested}",
            )
    seen: set[str] = set()
    for index, target in enumerate(algorithm.proportional.role_targets if algorithm.proportional else ()):
        path = f"spec.algorithm.proportional.roleTargets[{index}].name"
        if target.name in seen:
            yield SCALER_ROLE_TARGETS.refuse(
                path, f'role "{target.name}" has a target already; keep one of the two', target.name
            )
        seen.add(target.name)
        if target.name not in case.bounded:
            yield SCALER_ROLE_TARGETS.refuse(
                path, f'role "{target.name}" is not in spec.roles; bound it there, or remove the target', target.name
            )


def _ratio_faults(case: ScalerCase, index: int) -> list[tuple[str, str]]:
    ratio, path = case.spec.ratios[index], f"spec.ratios[{index}]"
    faults = [
        (f"{path}.{name}", f'role "{role}" is not in spec.roles; bound it there, or remove the ratio')
        for name, role in (("numeratorRole", ratio.numerator_role), ("denominatorRole", ratio.denominator_role))
        if role not in case.bounded
    ]
    pair = {ratio.numerator_role, ratio.denominator_role}
    if len(pair) == 1:
        faults.append(
            (f"{path}.denominatorRole", f'role "{ratio.numerator_role}" stands on both sides; name two roles')
        )
    for earlier, other in enumerate(case.spec.ratios[:index]):
        if {other.numerator_role, other.denominator_role} == pair:
            faults.append(
                (path, f"these two roles have a ratio already at spec.ratios[{earlier}]; keep one of the two")
            )
            break
    if ratio.target is None and ratio.min is None and ratio.max is None:
        faults.append((path, "a ratio needs at least one of target, min and max; state one, or remove the ratio"))
    if ratio.min is not None and ratio.max is not None and ratio.min > ratio.max:
        faults.append((f"{path}.max", f"max {ratio.max} is below min {ratio.min}; put them in order"))
    elif ratio.target is not None and (
        (ratio.min is not None and ratio.target < ratio.min) or (ratio.max is not None and ratio.target > ratio.max)
    ):
        faults.append((f"{path}.target", f"target {ratio.target} lies outside min and max; move it between them"))
    return faults


def judge_target(case: ScalerCase) -> Iterator[Refusal]:
    """What the deployment answers; a deployment that does not exist yet is no error, only nothing to judge by."""
    if case.target is None:
        stated = case.spec.algorithm.type == "Proportional"
        case.unjudged.append(
            Unjudged(
                tuple(rule for rule in _TARGET_RULES if not (stated and rule == SCALER_NO_SIGNAL.id)),
                "spec.targetRef.name",
                f'ModelDeployment "{case.spec.target_ref.name}" is not among the given documents; add it to have the '
                "scaler judged by it",
            )
        )
        if stated:
            yield from _judge_signals(case)
        return
    holder = bound_scaler(case.target.metadata.annotations.get(SCALER_BINDING))
    own = case.new.metadata
    if holder is not None and holder.name != own.name:
        yield SCALER_ALREADY_BOUND.refuse(
            "spec.targetRef.name",
            f'"{case.spec.target_ref.name}" is held by scaler "{holder.name}"; delete or release that scaler first',
            case.spec.target_ref.name,
        )
    elif holder is not None and own.uid and own.uid != holder.uid:
        yield SCALER_ALREADY_BOUND.refuse(
            "spec.targetRef.name",
            f'"{case.spec.target_ref.name}" is held by an earlier scaler "{holder.name}" (uid {holder.uid}), which is '
            f"gone; remove the annotation {SCALER_BINDING} from the target first",
            case.spec.target_ref.name,
        )
    yield from _judge_roles(case, case.target)
    yield from _judge_throughput(case, case.target)
    yield from _judge_signals(case)


def _judge_roles(case: ScalerCase, target: ModelDeployment) -> Iterator[Refusal]:
    roles = {role.name: role for role in target.spec.roles}
    for name in roles:
        if name not in case.bounded:
            yield SCALER_TARGET_ROLES.refuse(
                "spec.roles",
                f'role "{name}" of "{target.metadata.name}" has no bounds; a scaler bounds every role of its target',
                name,
            )
    for index, bounds in enumerate(case.spec.roles):
        role = roles.get(bounds.name)
        if role is None:
            yield SCALER_TARGET_ROLES.refuse(
                f"spec.roles[{index}].name",
                f'"{target.metadata.name}" has no role "{bounds.name}" (it has {", ".join(roles)}); correct the name, '
                "or remove it",
                bounds.name,
            )
        elif role.elastic_ep is not None and (bounds.min_replicas, bounds.max_replicas) != (1, 1):
            yield SCALER_ELASTIC_BOUNDS.refuse(
                f"spec.roles[{index}]",
                f'role "{bounds.name}" is elastic and keeps 1 replica; set minReplicas and maxReplicas to 1',
            )


def _judge_throughput(case: ScalerCase, target: ModelDeployment) -> Iterator[Refusal]:
    algorithm = case.spec.algorithm
    kinds = {role.kind for role in target.spec.roles}
    needs = (("prefill", bool(kinds & {"Prefill", "Server"})), ("decode", bool(kinds & {"Decode", "Server"})))
    blocks: list[tuple[str, dict[str, object]]] = []
    if algorithm.type == "TokenThroughput" and algorithm.token_throughput is not None:
        blocks.append(("spec.algorithm.tokenThroughput", _throughput(algorithm.token_throughput)))
    if algorithm.type == "Predictive" and algorithm.predictive is not None:
        predictive = algorithm.predictive
        capacities: dict[str, object] = {
            "prefillTokenCapacityPerReplica": predictive.prefill_token_capacity_per_replica,
            "decodeTokenCapacityPerReplica": predictive.decode_token_capacity_per_replica,
        }
        blocks.append(("spec.algorithm.predictive", capacities))
        if predictive.token_throughput is not None:
            blocks.append(("spec.algorithm.predictive.tokenThroughput", _throughput(predictive.token_throughput)))
    for path, values in blocks:
        for name, value in values.items():
            needed = next(wanted for half, wanted in needs if name.startswith(half))
            if needed and value is None:
                yield SCALER_THROUGHPUT_TARGET.refuse(
                    f"{path}.{name}",
                    f'the roles of "{target.metadata.name}" ({", ".join(sorted(kinds))}) need it; state it in tokens '
                    "per second",
                )


def _throughput(block: TokenThroughput) -> dict[str, object]:
    return {
        "prefillTargetTokensPerSecond": block.prefill_target_tokens_per_second,
        "decodeTargetTokensPerSecond": block.decode_target_tokens_per_second,
    }


def _judge_signals(case: ScalerCase) -> Iterator[Refusal]:
    """Where each scaled role's count comes from; with stated targets the scaler alone answers that."""
    algorithm = case.spec.algorithm
    of_target = case.target.spec.roles if case.target else ()
    if algorithm.type == "Proportional":
        targets = algorithm.proportional.role_targets if algorithm.proportional else ()
        for index, entry in enumerate(targets):
            if entry.name in case.commanded:
                yield SCALER_COMMAND_SIGNAL.refuse(
                    f"spec.algorithm.proportional.roleTargets[{index}].name",
                    f'role "{entry.name}" runs its own command, so nobody manages a metrics endpoint to read; couple '
                    "it by a ratio, or remove the command",
                    entry.name,
                )
        signals = {entry.name for entry in targets}
    else:
        signals = {role.name for role in of_target if role.kind in ("Prefill", "Decode", "Server")}
    signalled = reachable(signals - case.commanded, [ratio for _, ratio in case.sound_ratios])
    known = {role.name for role in of_target} if case.target else case.bounded
    for index, bounds in enumerate(case.spec.roles):
        fixed = bounds.min_replicas == bounds.max_replicas
        if bounds.name in known and bounds.name not in signalled and not fixed:
            yield SCALER_NO_SIGNAL.refuse(
                f"spec.roles[{index}]",
                f'role "{bounds.name}" has no signal of its own and no chain of ratios to a role that has one, so it '
                "would never move; give it a target, or couple it by a ratio",
                bounds.name,
            )


def warn_window(case: ScalerCase) -> Iterator[Refusal]:
    """A downward window that one reading can fill."""
    window, interval = (
        case.spec.behavior.scale_down.stabilization_window_seconds,
        case.spec.sampling.interval_seconds,
    )
    if 0 < window <= interval:
        yield SCALER_SHORT_WINDOW.refuse(
            "spec.behavior.scaleDown.stabilizationWindowSeconds",
            f"{window} s is no longer than the sampling interval of {interval} s, so one low reading shrinks the "
            "target; make it several intervals long",
            window,
        )
