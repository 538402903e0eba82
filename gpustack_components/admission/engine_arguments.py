"""Arguments and variables of an engine that are not the user's to set, or only to one value (api sheet 4.3 to 4.6)."""

from collections.abc import Iterator

from gpustack_components.admission.case import Case, RoleCase
from gpustack_components.admission.rule import Rule
from gpustack_components.api.command_line.flags import (
    artifact_argument,
    dtype_argument,
    entry_name,
    owned_argument,
    served_names,
)
from gpustack_components.api.command_line.owned import (
    ARTIFACT_ENVIRONMENT,
    KV_CACHE_DTYPE,
    OWNED_ENVIRONMENT,
    SERVED_MODEL_NAME,
)
from gpustack_components.api.refusal import Refusal

_SUBJECT = "engine arguments"

OWNED_ARGUMENT = Rule(
    id="owned-argument",
    subject=_SUBJECT,
    layer="webhook",
    when="an entry of `extraArgs` reaches, in any spelling the engine reads, an argument reserved for what is "
    "rendered into the role",
    way_out="Remove the entry; to own the whole command line, write it into `command`.",
    source="api-and-admission 4.2, 4.3, 6.2",
    paths=("spec.roles[].extraArgs[]",),
)
OWNED_ENV = Rule(
    id="owned-env",
    subject=_SUBJECT,
    layer="webhook",
    when="`env` sets a variable reserved for what is rendered into the role, one with its own `command` included",
    way_out="Remove the variable; what an engine needs of it can be set inside a `command` of the role.",
    source="api-and-admission 4.3, 6.2",
    paths=("spec.roles[].env[]",),
)
KV_CACHE_DTYPE_RULE = Rule(
    id="kv-cache-dtype",
    subject=_SUBJECT,
    layer="webhook",
    when="`extraArgs` names `--kv-cache-dtype` while `spec.kvCache` is set and the dtype is taken from the binding",
    way_out="Use a KVCachePoolBinding that declares the dtype you want, or own the command line with `command`.",
    source="api-and-admission 4.5, 6.2",
    paths=("spec.roles[].extraArgs[]",),
    needs=frozenset(("object", "settings")),
)
ARTIFACT_ARGUMENT = Rule(
    id="artifact-argument",
    subject=_SUBJECT,
    layer="webhook",
    when="`extraArgs` names an argument about the weights while `spec.model.artifactRef` decides them",
    way_out="Remove the entry, drop `artifactRef`, or own the command line with `command`.",
    source="api-and-admission 4.4, 6.2; bindings 5.5",
    paths=("spec.roles[].extraArgs[]",),
)
ARTIFACT_ENV = Rule(
    id="artifact-env",
    subject=_SUBJECT,
    layer="webhook",
    when="`env` sets a variable about the weights while `spec.model.artifactRef` decides them",
    way_out="Remove the variable, drop `artifactRef`, or own the command line with `command`.",
    source="api-and-admission 4.4, 6.2; bindings 5.5",
    paths=("spec.roles[].env[]",),
)
SERVED_MODEL_NAME_RULE = Rule(
    id="served-model-name",
    subject=_SUBJECT,
    layer="webhook",
    when="`extraArgs` gives `--served-model-name` anything but exactly `spec.model.name`",
    way_out="Remove the argument, or give it the model's name alone.",
    source="api-and-admission 4.6, 6.3",
    paths=("spec.roles[].extraArgs",),
    needs=frozenset(("object", "previous")),
)

RULES = (OWNED_ARGUMENT, OWNED_ENV, KV_CACHE_DTYPE_RULE, ARTIFACT_ARGUMENT, ARTIFACT_ENV, SERVED_MODEL_NAME_RULE)


def _named(key: str, entry: str) -> str:
    """The key, and how it is spelled when that differs."""
    spelling = entry_name(entry)
    return key if spelling == key else f'{key} (spelled "{spelling}")'


def judge_owned_arguments(case: Case, role: RoleCase) -> Iterator[Refusal]:
    """Arguments that are always ours, on managed roles."""
    if role.takes_over:
        return
    for position, entry in enumerate(role.role.extra_args):
        key = owned_argument(case.engine, entry)
        if key is not None:
            yield OWNED_ARGUMENT.refuse(
                f"{role.path}.extraArgs[{position}]",
                f"{_named(key, entry)} is reserved for what is rendered into {case.engine} roles; remove it, or own "
                f"the whole command line with {role.path}.command",
                entry,
            )


def judge_owned_env(case: Case, role: RoleCase) -> Iterator[Refusal]:
    """Variables that are always ours, on every role."""
    owned = OWNED_ENVIRONMENT.get(case.engine, frozenset())
    for position, variable in enumerate(role.role.env):
        if variable.name in owned:
            yield OWNED_ENV.refuse(
                f"{role.path}.env[{position}]",
                f"{variable.name} is reserved for what is rendered into {case.engine} roles; remove it, or set what "
                f"the engine needs inside {role.path}.command",
                variable.name,
            )


def judge_artifact_arguments(case: Case, role: RoleCase) -> Iterator[Refusal]:
    """Arguments and variables about the weights, on managed roles, while an artifact is referenced."""
    if role.takes_over or case.spec.model.artifact_ref is None:
        return
    for position, entry in enumerate(role.role.extra_args):
        key = artifact_argument(case.engine, entry)
        if key is not None:
            yield ARTIFACT_ARGUMENT.refuse(
                f"{role.path}.extraArgs[{position}]",
                f"{_named(key, entry)} follows from spec.model.artifactRef and may not be set beside it; remove it, "
                f"drop artifactRef, or own the whole command line with {role.path}.command",
                entry,
            )
    owned = ARTIFACT_ENVIRONMENT.get(case.engine, frozenset())
    for position, variable in enumerate(role.role.env):
        if variable.name in owned:
            yield ARTIFACT_ENV.refuse(
                f"{role.path}.env[{position}]",
                f"{variable.name} follows from spec.model.artifactRef and may not be set beside it; remove it, drop "
                f"artifactRef, or own the whole command line with {role.path}.command",
                variable.name,
            )


def judge_cache_dtype(case: Case) -> Iterator[Refusal]:
    """`--kv-cache-dtype` on managed roles while the binding states it. Stored roles are not exempt."""
    if case.spec.kv_cache is None or not case.settings.model_deployment_kv_cache_dtype_owned or case.deleting:
        return
    for role in case.new.roles:
        if role.takes_over:
            continue
        for position, entry in enumerate(role.role.extra_args):
            if dtype_argument(case.engine, entry):
                yield KV_CACHE_DTYPE_RULE.refuse(
                    f"{role.path}.extraArgs[{position}]",
                    f"{_named(KV_CACHE_DTYPE, entry)} carries the dtype of the KVCachePoolBinding "
                    f'"{case.spec.kv_cache.pool_ref.name}"; remove it and use a binding that declares the dtype you '
                    f"want, or own the whole command line with {role.path}.command",
                    entry,
                )


def _served(case_engine: str, role: RoleCase) -> tuple[str, ...] | None:
    return None if role.takes_over else served_names(case_engine, role.role.extra_args)


def judge_served_name(case: Case) -> Iterator[Refusal]:
    """`--served-model-name` on managed roles. A stored role is left alone while its names stay as they are."""
    model = case.spec.model.name
    for role in case.new.roles:
        served = _served(case.engine, role)
        if served is None or served == (model,):
            continue
        stored = case.stored(role)
        if (
            case.old is not None
            and stored is not None
            and case.old.spec.model.name == model
            and len(stored.role.command) == len(role.role.command)
            and _served(case.old.spec.engine.name, stored) == served
        ):
            continue
        found = ", ".join(f'"{name}"' for name in served) or "no name"
        yield SERVED_MODEL_NAME_RULE.refuse(
            f"{role.path}.extraArgs",
            f'{SERVED_MODEL_NAME} is given {found}, but must be exactly "{model}" (spec.model.name): routers, '
            "tokenizer calls and metrics find the model by that name; remove the argument, or give it that name alone",
            list(served),
        )
