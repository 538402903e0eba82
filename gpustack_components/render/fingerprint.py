"""`pod-spec-hash`: SHA-256 over what was declared and what was resolved, never over what is synthesized (rollout
sheet 2.1).

Values are normalised before they are hashed, and a field at its default is left out. So a new field with a default
moves no hash, and neither does another spelling of the same quantity.
"""

import hashlib
import json
from typing import Any
from weakref import WeakKeyDictionary

from gpustack_components.api.model_deployment import Resources, Role, Router, Volume
from gpustack_components.bindings.artifact import Artifact
from gpustack_components.bindings.resolve import ResolvedDeployment, ResolvedRole
from gpustack_components.bindings.resources import request_mode, slice_percentages
from gpustack_components.render.documents import ascend_degrees
from gpustack_components.render.lifecycle import GRACE_DEFAULT, PERIOD, STARTUP_DEFAULT, startup_failures
from gpustack_components.render.volumes import SHM_DEFAULT, SHM_PATH, shm_size

_DEFAULT_PORT = {"port": 8000, "name": "http"}
_prefixes: "WeakKeyDictionary[ResolvedDeployment, dict[str, Any]]" = WeakKeyDictionary()


def fingerprint(resolved: ResolvedDeployment, role: ResolvedRole | str, ordinal: int, member: int) -> str:
    """The hash of one seat, 64 hex digits. All that its role shares is hashed once."""
    role = resolved.role(role) if isinstance(role, str) else role
    prefixes = _prefixes.setdefault(resolved, {})
    prefix = prefixes.get(role.name)
    if prefix is None:
        prefix = prefixes[role.name] = hashlib.sha256(_before_seat(resolved, role))
    seat = prefix.copy()
    seat.update(b'{"member":%d,"ordinal":%d}}' % (member, ordinal))
    return seat.hexdigest()


def payload(resolved: ResolvedDeployment, role: ResolvedRole, ordinal: int, member: int) -> dict[str, Any]:
    """The document a seat's hash is taken over."""
    return {
        "declared": declared(resolved, role),
        "resolved": decided(resolved, role),
        "seat": {"member": member, "ordinal": ordinal},
    }


def _before_seat(resolved: ResolvedDeployment, role: ResolvedRole) -> bytes:
    document = payload(resolved, role, 0, 0)
    del document["seat"]
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f'{text[:-1]},"seat":'.encode()


def declared(resolved: ResolvedDeployment, role: ResolvedRole) -> dict[str, Any]:
    """What the author stated and this role's Pods depend on, without defaults."""
    spec = resolved.declared.spec
    transfer = spec.kv_transfer.protocol if spec.kv_transfer else None
    return _present(
        model=_present(name=spec.model.name, artifactRef=spec.model.artifact_ref and spec.model.artifact_ref.name),
        engine=_present(name=spec.engine.name, image=spec.engine.image),
        router=_router(spec.router),
        kvCache=spec.kv_cache and spec.kv_cache.pool_ref.name,
        kvTransfer=None if transfer in (None, "Auto", "TCP") else transfer,
        role=_role(role),
    )


def _router(router: Router | None) -> str | None:
    """Presence and name alone: an edit of copies, image, arguments or thresholds rolls the router and no engine
    (decisions.md)."""
    return router.name if router else None


def _role(resolved_role: ResolvedRole) -> dict[str, Any]:
    role: Role = resolved_role.declared
    grace = role.termination_grace_period_seconds
    return _present(
        name=role.name,
        kind=None if role.kind == "Server" else role.kind,
        size=None if role.size == 1 else role.size,
        instanceType=role.instance_type,
        resources=_resources(role.resources),
        topology=role.topology and role.topology.required_level,
        image=role.image,
        imagePullPolicy=role.image_pull_policy,
        imagePullSecrets=[secret.name for secret in role.image_pull_secrets],
        privileged=role.privileged,
        ports=_ports(resolved_role),
        additionalVolumes=[_volume(volume) for volume in role.additional_volumes],
        shmSize=_shm(resolved_role),
        command=list(role.command),
        extraArgs=[] if resolved_role.take_over else list(role.extra_args),
        env=[[variable.name, variable.value] for variable in role.env],
        terminationGracePeriodSeconds=None if grace == GRACE_DEFAULT else grace,
        startupTimeoutSeconds=_startup(resolved_role),
    )


def _ports(role: ResolvedRole) -> list[dict[str, Any]]:
    """The declared ports; the default one declared alone is none, unless `--port` moves the engine elsewhere."""
    ports = [
        _present(port=p.port, protocol=None if p.protocol == "TCP" else p.protocol, name=p.name)
        for p in role.declared.ports
    ]
    unmoved = role.listening.own_port in (None, _DEFAULT_PORT["port"])
    return [] if unmoved and ports == [_DEFAULT_PORT] else ports


def _shm(role: ResolvedRole) -> str | None:
    """Capacity of the shared memory that is rendered, unless it is the default."""
    own = any(volume.mount_path == SHM_PATH for volume in role.declared.additional_volumes)
    return None if own or shm_size(role) == SHM_DEFAULT else shm_size(role).canonical()


def _startup(role: ResolvedRole) -> int | None:
    """Seconds the startup probe grants, in whole periods, unless they are the default."""
    granted = startup_failures(role) * PERIOD
    return None if granted == STARTUP_DEFAULT else granted


def _resources(resources: Resources | None) -> dict[str, Any] | None:
    if resources is None:
        return None
    percentages = slice_percentages(resources) if request_mode(resources) == "sliced" else None
    accelerator, interface = resources.accelerator, resources.interface
    return _present(
        accelerator=accelerator.canonical() if accelerator else None,
        sliced=percentages and list(percentages),
        profile=resources.accelerator_partitioned_profile,
        interface=interface.canonical() if interface else None,
    )


def _volume(volume: Volume) -> dict[str, Any]:
    host = volume.host_path
    return _present(
        mountPath=volume.mount_path,
        readOnly=volume.read_only,
        subPath=volume.sub_path,
        configMap=volume.config_map and volume.config_map.name,
        secret=volume.secret and volume.secret.name,
        hostPath=host and _present(path=host.path, type=host.type),
    )


def decided(resolved: ResolvedDeployment, role: ResolvedRole) -> dict[str, Any]:
    """What other objects decided for this role's Pods."""
    store, pod = role.store, role.resources
    return _present(
        entrance=role.entrance,
        manufacturer=role.manufacturer,
        cpu=pod.cpu.canonical(),
        memory=pod.memory.canonical(),
        ephemeralStorage=pod.ephemeral.canonical(),
        store=store
        and _present(
            endpoint=store.endpoint,
            protocol=role.store_protocol,
            tenant=store.tenant,
            domain=store.domain.name,
            blockSize=store.domain.block_size,
            dtype=store.domain.dtype,
        ),
        artifact=_artifact(resolved.artifact),
        interface=role.interface[0],
        runtimeClass=role.runtime_class,
        ascendDegrees=ascend_degrees(resolved) if role.family == "vllm-ascend" and role.leg else None,
    )


def _artifact(artifact: Artifact | None) -> dict[str, Any] | None:
    """Source and digest. How the weights are delivered is a setting, and settings are not hashed."""
    if artifact is None:
        return None
    return _present(
        hub=artifact.hub,
        repository=artifact.repository,
        revision=artifact.revision,
        digest=artifact.digest,
        claim=artifact.claim,
        path=artifact.path,
        image=artifact.image,
        secret=artifact.secret,
    )


def _present(**values: Any) -> dict[str, Any]:
    """The values that say something: None, False, empty text and empty collections are left out."""
    return {
        key: value
        for key, value in values.items()
        if value is not None and value is not False and value not in ("", [], {})
    }
