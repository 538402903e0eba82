"""What is admitted and still worth a word: warnings, never refusals (api sheet 4.3, 9; rendering sheet 10;
router sheet 10)."""

import re
from collections.abc import Iterator

from gpustack_components.admission.case import Case, RoleCase
from gpustack_components.admission.rule import UPDATE, Rule
from gpustack_components.admission.volumes import meet
from gpustack_components.api.command_line.flags import names_flag, occurrences
from gpustack_components.api.command_line.owned import VLLM
from gpustack_components.api.refusal import Refusal
from gpustack_components.bindings import shape
from gpustack_components.bindings.kv_cache import CLIENT_CONFIG_PATH

_API_KEY = "--api-key"
_API_KEY_VARIABLE = "VLLM_API_KEY"
_SCALE_OUT = "--enable-scale-out"
_VERSION_IN_TAG = re.compile(r"(?:\bv|vllm-?v?)(\d{1,4})\.(\d{1,4})")
_COUNTS_ON_REQUEST = (0, 30)
_OPTIONAL = {
    "size": "size",
    "resources": "resources",
    "topology": "topology",
    "image": "image",
    "image_pull_policy": "imagePullPolicy",
    "image_pull_secrets": "imagePullSecrets",
    "privileged": "privileged",
    "ports": "ports",
    "additional_volumes": "additionalVolumes",
    "shm_size": "shmSize",
    "command": "command",
    "extra_args": "extraArgs",
    "env": "env",
    "termination_grace_period_seconds": "terminationGracePeriodSeconds",
    "startup_timeout_seconds": "startupTimeoutSeconds",
    "replicas": "replicas",
}

API_KEY_UNREADY = Rule(
    id="api-key-unready",
    subject="engine arguments",
    layer="review",
    when="a vLLM decoder behind the routing proxy asks callers for an API key, so that its probes are answered 401",
    way_out="Authenticate callers at the gateway in front, and remove the key from the role.",
    source="api-and-admission 4.3",
    paths=("spec.roles[].extraArgs[]", "spec.roles[].env[]"),
    severity="warn",
)
ROUTER_TOKEN_COUNTING = Rule(
    id="router-token-counting",
    subject="router",
    layer="review",
    when="the vLLM role that counts tokens for llm-d-router does not pass `--enable-scale-out`, without which vLLM "
    "counts none from 0.30 on; an image whose tag names an older one is left alone",
    way_out="Add `--enable-scale-out` to the role's arguments.",
    source="router 10",
    paths=("spec.roles[].extraArgs", "spec.roles[].command"),
    severity="warn",
)
ROUTER_ENCODER = Rule(
    id="router-encoder",
    subject="router",
    layer="review",
    when=f"an Encode role stands behind a router that sends it no images to encode: only {shape.PICKER} does, in front "
    "of an Encode, a Prefill and a Decode role",
    way_out=f"Declare all three kinds behind {shape.PICKER}, or remove the Encode role.",
    source="api-and-admission 11; router 11",
    paths=("spec.roles[].kind",),
    severity="warn",
)
ROLE_FIELDS_DROPPED = Rule(
    id="role-fields-dropped",
    subject="identity",
    layer="review",
    when="an update states a role without optional fields that the stored role has, as a merge patch of `roles` does",
    way_out="State the role in full, or change one field with a JSON patch.",
    source="api-and-admission 9",
    paths=("spec.roles[]",),
    operations=UPDATE,
    needs=frozenset(("object", "previous")),
    severity="warn",
)
CLIENT_CONFIG_MOUNT = Rule(
    id="client-config-mount",
    subject="volumes",
    layer="review",
    when="with `spec.kvCache`, a managed vLLM role mounts a volume at, inside or around `/etc/gpustack/kvcache`, where "
    "the configuration of its store client is mounted",
    way_out="Mount it elsewhere, or give the role a `command` that configures its own client.",
    source="rendering 10",
    paths=("spec.roles[].additionalVolumes[].mountPath",),
    severity="warn",
)

RULES = (API_KEY_UNREADY, ROUTER_TOKEN_COUNTING, ROUTER_ENCODER, ROLE_FIELDS_DROPPED, CLIENT_CONFIG_MOUNT)


def warn_api_keys(case: Case, role: RoleCase) -> Iterator[Refusal]:
    """API keys on a decoder whose probes cannot send one."""
    if case.engine != VLLM or not role.proxied:
        return
    message = (
        "the engine then answers 401 to the probes of this decoder, which never becomes ready; authenticate callers "
        "at the gateway in front, and remove it"
    )
    for found in occurrences(VLLM, role.role.extra_args, _API_KEY):
        yield API_KEY_UNREADY.refuse(f"{role.path}.extraArgs[{found.index}]", f"{_API_KEY}: {message}")
    for position, variable in enumerate(role.role.env):
        if variable.name == _API_KEY_VARIABLE:
            yield API_KEY_UNREADY.refuse(f"{role.path}.env[{position}]", f"{_API_KEY_VARIABLE}: {message}")


def warn_token_counting(case: Case) -> Iterator[Refusal]:
    """A tokenizer that answers no counts, so that prefixes and prompt lengths are guessed."""
    router = case.spec.router
    if router is None or router.name != shape.PICKER or case.engine != VLLM:
        return
    counting = shape.tokenizer(case.spec)
    role = case.new.by_name[counting.name]
    if not _counts_unasked(counting.image or case.spec.engine.image) and not names_flag(VLLM, role.stream, _SCALE_OUT):
        yield ROUTER_TOKEN_COUNTING.refuse(
            role.stream_path,
            f'{router.name} asks role "{role.name}" for token counts, which vLLM 0.30 and newer gives only with '
            f"{_SCALE_OUT}; add it, or requests are scored and split without counts",
        )


def _counts_unasked(image: str) -> bool:
    """Whether the image's tag names a vLLM that counts tokens without being told to; a tag without one names none."""
    version = _VERSION_IN_TAG.search(image.rpartition("/")[2])
    return version is not None and (int(version[1]), int(version[2])) < _COUNTS_ON_REQUEST


def warn_encoders(case: Case, role: RoleCase) -> Iterator[Refusal]:
    """Encoders that hold accelerators and encode nothing."""
    router = case.spec.router
    if router is None or not shape.is_idle_encoder(case.spec, role.role):
        return
    yield ROUTER_ENCODER.refuse(
        f"{role.path}.kind",
        f'behind {router.name}, role "{role.role.name}" gets no images to encode: only {shape.PICKER} sends them, in '
        f"front of an Encode, a Prefill and a Decode role; declare all three behind {shape.PICKER}, or remove the role",
        role.kind,
    )


def warn_dropped_fields(case: Case, role: RoleCase) -> Iterator[Refusal]:
    """Optional fields a stored role has and its restatement lacks."""
    stored = case.stored(role)
    if stored is None:
        return
    dropped = [
        field
        for attribute, field in _OPTIONAL.items()
        if attribute in stored.role.model_fields_set
        and attribute not in role.role.model_fields_set
        and getattr(stored.role, attribute) != getattr(role.role, attribute)
    ]
    if dropped:
        yield ROLE_FIELDS_DROPPED.refuse(
            role.path,
            f'role "{role.name}" no longer states {", ".join(dropped)} and falls back to defaults; if that is not '
            "meant, state the role in full",
        )


def warn_client_config_mounts(case: Case, role: RoleCase) -> Iterator[Refusal]:
    """Volumes in the place of the store client's configuration, which the engine reads without a word."""
    if case.engine != VLLM or case.spec.kv_cache is None or role.takes_over:
        return
    for position, volume in enumerate(role.role.additional_volumes):
        if meet(volume.mount_path, CLIENT_CONFIG_PATH):
            yield CLIENT_CONFIG_MOUNT.refuse(
                f"{role.path}.additionalVolumes[{position}].mountPath",
                f"{volume.mount_path} meets {CLIENT_CONFIG_PATH}: the engine then reads this volume in place of its "
                "connection to the store, and nothing says so; mount it elsewhere",
                volume.mount_path,
            )
