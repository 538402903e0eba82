"""Volumes of a role: a source, a mount path of its own, and out of the way of the model's files."""

import posixpath
from collections.abc import Iterator

from gpustack_components.admission.case import Case, RoleCase
from gpustack_components.admission.rule import Rule
from gpustack_components.api.model_deployment import Volume
from gpustack_components.api.refusal import Refusal

_SUBJECT = "volumes"
_MODEL_PATHS = ("/var/lib/gpustack/model", "/var/lib/gpustack/model-cache")

VOLUME_SOURCE = Rule(
    id="volume-source",
    subject=_SUBJECT,
    layer="webhook",
    when="a volume names none of `configMap`, `secret` and `hostPath`, or several, or one without a name",
    way_out="Name the one source the mount shows.",
    source="api-and-admission 6.2",
    paths=("spec.roles[].additionalVolumes[]",),
)
VOLUME_MOUNT_DUPLICATE = Rule(
    id="volume-mount-duplicate",
    subject=_SUBJECT,
    layer="webhook",
    when="two volumes of one role have the same `mountPath`",
    way_out="Mount the later one elsewhere.",
    source="api-and-admission 6.2",
    paths=("spec.roles[].additionalVolumes[].mountPath",),
)
VOLUME_SUB_PATH = Rule(
    id="volume-sub-path",
    subject=_SUBJECT,
    layer="webhook",
    when="a segment of `subPath` is `..`",
    way_out="State the path inside the volume without stepping up.",
    source="api-and-admission 6.2",
    paths=("spec.roles[].additionalVolumes[].subPath",),
)
ARTIFACT_MOUNT_PATH = Rule(
    id="artifact-mount-path",
    subject=_SUBJECT,
    layer="webhook",
    when="with `spec.model.artifactRef`, a volume is mounted at, inside or around the directory the weights are "
    "mounted at; a role with its own `command` is no exception",
    way_out="Mount it outside these directories.",
    source="api-and-admission 6.2, bindings 5.5",
    paths=("spec.roles[].additionalVolumes[].mountPath",),
)

RULES = (VOLUME_SOURCE, VOLUME_MOUNT_DUPLICATE, VOLUME_SUB_PATH, ARTIFACT_MOUNT_PATH)


def judge_volumes(case: Case, role: RoleCase) -> Iterator[Refusal]:
    """Source, mount path and sub-path of each volume."""
    mounted: dict[str, int] = {}
    for position, volume in enumerate(role.role.additional_volumes):
        path = f"{role.path}.additionalVolumes[{position}]"
        yield from _judge_source(volume, path)
        earlier = mounted.setdefault(volume.mount_path, position)
        if earlier != position:
            yield VOLUME_MOUNT_DUPLICATE.refuse(
                f"{path}.mountPath",
                f"{volume.mount_path} is already the mount path of {role.path}.additionalVolumes[{earlier}]; mount "
                "this one elsewhere",
                volume.mount_path,
            )
        if volume.sub_path and ".." in volume.sub_path.split("/"):
            yield VOLUME_SUB_PATH.refuse(
                f"{path}.subPath",
                f'"{volume.sub_path}" steps out of the volume with "..", which no mount may; state the path inside '
                "the volume",
                volume.sub_path,
            )


def _judge_source(volume: Volume, path: str) -> Iterator[Refusal]:
    references = {"configMap": volume.config_map, "secret": volume.secret}
    named = [name for name, reference in references.items() if reference is not None]
    sources = [*named, *(("hostPath",) if volume.host_path is not None else ())]
    if not sources:
        yield VOLUME_SOURCE.refuse(
            path, f"the volume at {volume.mount_path} has no source; name a configMap, a secret or a hostPath"
        )
    elif len(sources) > 1:
        yield VOLUME_SOURCE.refuse(
            path, f"the volume at {volume.mount_path} has {' and '.join(sources)} for sources; keep one of them"
        )
    for name in named:
        reference = references[name]
        if reference is not None and not reference.name:
            yield VOLUME_SOURCE.refuse(
                path, f"the volume at {volume.mount_path} shows a {name} without a name; write {name}.name"
            )


def judge_artifact_mounts(case: Case, role: RoleCase) -> Iterator[Refusal]:
    """Mount paths against the directories of a referenced artifact."""
    if case.spec.model.artifact_ref is None:
        return
    for position, volume in enumerate(role.role.additional_volumes):
        reserved = next((path for path in _MODEL_PATHS if meet(volume.mount_path, path)), None)
        if reserved is not None:
            yield ARTIFACT_MOUNT_PATH.refuse(
                f"{role.path}.additionalVolumes[{position}].mountPath",
                f"{volume.mount_path} meets {reserved}, where the weights of spec.model.artifactRef are mounted; "
                "mount it elsewhere",
                volume.mount_path,
            )


def meet(mounted: str, reserved: str) -> bool:
    """Whether one path equals, lies in, or encloses the other, segment by segment."""
    path = posixpath.normpath(mounted)
    return f"{path}/".startswith(f"{reserved}/") or f"{reserved}/".startswith(f"{path}/")
