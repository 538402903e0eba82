"""Privileges and paths of the node, which a setting has to allow."""

import posixpath
from collections.abc import Iterator

from gpustack_components.admission.case import Case
from gpustack_components.admission.rule import Need, Rule
from gpustack_components.api.model_deployment import Volume
from gpustack_components.api.refusal import Refusal

_SUBJECT = "host access"
_NEEDS: frozenset[Need] = frozenset(("object", "previous", "settings"))
_PRIVILEGED_SETTING = "instance-privileged-allowed"
_HOST_PATH_SETTING = "instance-host-path-volume-allowed"

HOST_PRIVILEGED = Rule(
    id="host-privileged",
    subject=_SUBJECT,
    layer="webhook",
    when=f"a role newly takes `privileged` while the setting `{_PRIVILEGED_SETTING}` is off",
    way_out="Drop `privileged`, or have the setting turned on.",
    source="api-and-admission 6.3",
    paths=("spec.roles[].privileged",),
    needs=_NEEDS,
)
HOST_PATH_VOLUME = Rule(
    id="host-path-volume",
    subject=_SUBJECT,
    layer="webhook",
    when=f"a role newly mounts a path of the node while the setting `{_HOST_PATH_SETTING}` is off",
    way_out="Use another source, or have the setting turned on.",
    source="api-and-admission 6.3",
    paths=("spec.roles[].additionalVolumes[].hostPath",),
    needs=_NEEDS,
)

RULES = (HOST_PRIVILEGED, HOST_PATH_VOLUME)


def judge_host_access(case: Case) -> Iterator[Refusal]:
    """Each role's privilege and host paths; what the stored role of that name already had stays allowed."""
    for role in case.new.roles:
        stored = case.stored(role)
        newly = role.role.privileged and (stored is None or not stored.role.privileged)
        if newly and not case.settings.instance_privileged_allowed:
            yield HOST_PRIVILEGED.refuse(
                f"{role.path}.privileged",
                f"the setting {_PRIVILEGED_SETTING} is off; drop privileged, or have the setting turned on",
                True,
            )
        if case.settings.instance_host_path_volume_allowed:
            continue
        held = [volume for volume in (stored.role.additional_volumes if stored else ()) if volume.host_path]
        for position, volume in enumerate(role.role.additional_volumes):
            if volume.host_path is None or any(_covers(before, volume) for before in held):
                continue
            yield HOST_PATH_VOLUME.refuse(
                f"{role.path}.additionalVolumes[{position}].hostPath",
                f"{volume.host_path.path} is a path of the node, and the setting {_HOST_PATH_SETTING} is off; use "
                "another source, or have the setting turned on",
                volume.host_path.path,
            )


def _covers(held: Volume, asked: Volume) -> bool:
    """Whether a mount the role already had shows at least what is asked, and writes no less."""
    inside = f"{_shown(asked)}/".startswith(f"{_shown(held).rstrip('/')}/")
    return inside and (asked.read_only or not held.read_only)


def _shown(volume: Volume) -> str:
    path = volume.host_path.path if volume.host_path else ""
    shown = posixpath.normpath(posixpath.join(path, volume.sub_path or ""))
    return f"/{shown.lstrip('/')}" if shown.startswith("//") else shown
