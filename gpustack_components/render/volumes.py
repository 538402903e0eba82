"""Volumes of the Pod and mounts of `main` (rendering sheet 10)."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gpustack_components.api.quantity import Quantity
from gpustack_components.bindings.artifact import MODEL_CACHE_PATH, MODEL_CSI_DRIVER, MODEL_PATH, Artifact
from gpustack_components.bindings.kv_cache import CLIENT_CONFIG_PATH
from gpustack_components.bindings.resolve import ResolvedDeployment, ResolvedRole
from gpustack_components.cluster.keys import CLIENT_CONFIG
from gpustack_components.render.argv import path
from gpustack_components.render.origin import Origin

CLIENT_CONFIG_FILE = "mooncake.json"
"""Name of the configuration file."""
COMPILE_CACHE_PATH = "/var/lib/gpustack/cache"
"""Where compiled kernels are kept, on the node and in the container."""
ASCEND_DRIVER_PATH = "/usr/local/Ascend/driver"
"""Driver tree an Ascend leg needs."""
SHM_PATH = "/dev/shm"  # noqa: S108
"""Where shared memory is mounted."""
SHM_DEFAULT = Quantity("16Gi")
"""Capacity of shared memory unless the role states one."""

_KIB = Quantity("1Ki")
_OUTSIDE_DIRECTORY_NAME = re.compile(r"[^A-Za-z0-9._-]")
_HASH_DIGITS = 8
_LONGEST_DIRECTORY_NAME = 255


@dataclass(frozen=True, slots=True)
class Mounted:
    """A volume, where it is mounted, and why."""

    volume: dict[str, Any]
    """The volume as the Pod declares it."""
    mount: dict[str, Any] | None
    """None when the role mounts something of its own at that path."""
    origin: Origin
    """Why it is there."""


def volumes(resolved: ResolvedDeployment, role: ResolvedRole) -> tuple[Mounted, ...]:
    """Every volume in order: the role's own, the connector's, the leg's, the weights', the caches."""
    own = tuple(_additional(role))
    taken = {mounted.mount["mountPath"] for mounted in own if mounted.mount}
    synthesized = (
        *_connector(role),
        *_weights(resolved, role),
        *_compile_cache(resolved, role, taken),
        *_shared_memory(role, taken),
    )
    return (*own, *(_yielding(mounted, taken) for mounted in synthesized))


def _yielding(mounted: Mounted, taken: set[str]) -> Mounted:
    if mounted.mount and mounted.mount["mountPath"] in taken:
        return Mounted(mounted.volume, None, mounted.origin)
    return mounted


def _additional(role: ResolvedRole) -> Iterator[Mounted]:
    for index, declared in enumerate(role.declared.additional_volumes):
        name = f"additional-{index}"
        volume: dict[str, Any] = {"name": name}
        if declared.config_map is not None:
            volume["configMap"] = {"name": declared.config_map.name}
        elif declared.secret is not None:
            volume["secret"] = {"secretName": declared.secret.name}
        elif declared.host_path is not None:
            volume["hostPath"] = {"path": declared.host_path.path}
            if declared.host_path.type:
                volume["hostPath"]["type"] = declared.host_path.type
        else:
            continue
        mount: dict[str, Any] = {"name": name, "mountPath": declared.mount_path}
        if declared.read_only:
            mount["readOnly"] = True
        if declared.sub_path:
            mount["subPath"] = declared.sub_path
        yield Mounted(volume, mount, Origin("own volume (10)", path(role, f"additionalVolumes[{index}]")))


def _connector(role: ResolvedRole) -> Iterator[Mounted]:
    if role.take_over:
        return
    if role.store is not None and role.family != "sglang":
        name = "gpustack-kvcache-config"
        item = {
            "path": CLIENT_CONFIG_FILE,
            "fieldRef": {"fieldPath": f"metadata.annotations['{CLIENT_CONFIG}']"},
        }
        yield Mounted(
            {"name": name, "downwardAPI": {"items": [item]}},
            {"name": name, "mountPath": CLIENT_CONFIG_PATH, "readOnly": True},
            Origin("store client configuration (4.3)", "spec.kvCache"),
        )
    if role.family == "vllm-ascend" and role.leg:
        name = "gpustack-ascend-driver"
        yield Mounted(
            {"name": name, "hostPath": {"path": ASCEND_DRIVER_PATH, "type": "Directory"}},
            {"name": name, "mountPath": ASCEND_DRIVER_PATH, "readOnly": True},
            Origin("driver tree of the Ascend leg (10)", "spec.router"),
        )


def _weights(resolved: ResolvedDeployment, role: ResolvedRole) -> Iterator[Mounted]:
    artifact = resolved.artifact
    if artifact is None:
        return
    origin = Origin("weights (10)", "spec.model.artifactRef")
    if artifact.delivery == "Engine":
        if not role.take_over:
            name = "gpustack-model-cache"
            limit = download_capacity(artifact).canonical()
            yield Mounted(
                {"name": name, "emptyDir": {"sizeLimit": limit}}, {"name": name, "mountPath": MODEL_CACHE_PATH}, origin
            )
        return
    name = "gpustack-model"
    mount: dict[str, Any] = {"name": name, "mountPath": MODEL_PATH, "readOnly": True}
    if artifact.delivery == "PVC" and artifact.path:
        mount["subPath"] = artifact.path
    yield Mounted({"name": name, **_weight_source(artifact)}, mount, origin)


def download_capacity(artifact: Artifact) -> Quantity:
    """Capacity of the volume an engine downloads into."""
    return _KIB * Fraction(artifact.cache_bytes, 1024)


def _weight_source(artifact: Artifact) -> dict[str, Any]:
    if artifact.delivery == "PVC":
        return {"persistentVolumeClaim": {"claimName": artifact.claim, "readOnly": True}}
    if artifact.delivery == "Image":
        return {"image": {"reference": artifact.image}}
    csi: dict[str, Any] = {
        "driver": MODEL_CSI_DRIVER,
        "readOnly": True,
        "volumeAttributes": {
            "artifact": artifact.name,
            "artifactUID": artifact.uid,
            "manifestDigest": artifact.digest,
        },
    }
    if artifact.secret:
        csi["nodePublishSecretRef"] = {"name": artifact.secret}
    return {"csi": csi}


def _compile_cache(resolved: ResolvedDeployment, role: ResolvedRole, taken: set[str]) -> Iterator[Mounted]:
    if role.take_over or COMPILE_CACHE_PATH in taken:
        return
    name = "gpustack-compile-cache"
    image = path(role, "image") if role.declared.image else "spec.engine.image"
    model = "spec.model.artifactRef" if resolved.artifact else "spec.model.name"
    yield Mounted(
        {"name": name, "hostPath": {"path": compile_cache_path(resolved, role), "type": "DirectoryOrCreate"}},
        {"name": name, "mountPath": COMPILE_CACHE_PATH},
        Origin("compile cache (10.1)", f"{model}, {image} and {path(role, 'extraArgs')}"),
    )


def compile_cache_path(resolved: ResolvedDeployment, role: ResolvedRole) -> str:
    """Directory of the node that keeps compiled kernels of exactly this model, degrees, image and arguments
    (10.1)."""
    if resolved.artifact is not None:
        model = resolved.artifact.prefix or resolved.artifact.name
    else:
        model = _directory_name(resolved.declared.spec.model.name)
    engine = resolved.engine.lower()
    p = role.parallelism
    degrees = f"tp{p.tensor}-pp{p.pipeline}-dp{p.data}-ep{p.expert}-cp{p.prefill_context}_{p.decode_context}"
    identity = "\n".join((role.image, *role.declared.extra_args))
    digest = hashlib.sha256(identity.encode()).hexdigest()[:_HASH_DIGITS]
    return f"{COMPILE_CACHE_PATH}/{role.manufacturer or 'generic'}-{engine}/{model}/{degrees}-{digest}"


def _directory_name(model: str) -> str:
    """The model's name as one directory that every file system and the API server take."""
    name = _OUTSIDE_DIRECTORY_NAME.sub("-", model.replace("/", "--"))
    if not name.strip("."):
        return name.replace(".", "-")
    if len(name) <= _LONGEST_DIRECTORY_NAME:
        return name
    return f"{name[: _LONGEST_DIRECTORY_NAME - 65]}-{hashlib.sha256(model.encode()).hexdigest()}"


def shm_size(role: ResolvedRole) -> Quantity:
    """Capacity of `/dev/shm`."""
    return role.declared.shm_size if role.declared.shm_size is not None else SHM_DEFAULT


def _shared_memory(role: ResolvedRole, taken: set[str]) -> Iterator[Mounted]:
    if SHM_PATH in taken:
        return
    name = "gpustack-shm"
    yield Mounted(
        {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": shm_size(role).canonical()}},
        {"name": name, "mountPath": SHM_PATH},
        Origin("shared memory (10)", path(role, "shmSize") if role.declared.shm_size is not None else ""),
    )
