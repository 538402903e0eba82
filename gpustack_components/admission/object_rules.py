"""The rules of the objects a deployment depends on, described; `objects` judges them (bindings sheet 1, 3 and 5)."""

from gpustack_components.admission.rule import BOTH, UPDATE, Need, Operation, Rule

_SUBJECT = "binding objects"
_OTHERS: frozenset[Need] = frozenset(("object", "previous", "bindings"))


def _rule(
    rule_id: str,
    source: str,
    when: str,
    way_out: str,
    *paths: str,
    needs: frozenset[Need] = frozenset(("object",)),
    operations: tuple[Operation, ...] = BOTH,
) -> Rule:
    return Rule(
        id=rule_id,
        subject=_SUBJECT,
        layer="webhook",
        when=when,
        way_out=way_out,
        source=f"bindings {source}",
        paths=paths,
        operations=operations,
        needs=needs,
    )


def _frozen(rule_id: str, source: str, when: str, way_out: str, *paths: str) -> Rule:
    return Rule(
        id=rule_id,
        subject=_SUBJECT,
        layer="webhook",
        when=when,
        way_out=way_out,
        source=f"bindings {source}",
        paths=paths,
        operations=UPDATE,
        needs=frozenset(("object", "previous")),
    )


INSTANCE_TYPE_GROUP = _rule(
    "instance-type-group",
    "1.1",
    "an acceleratable InstanceType names no `acceleratorGroup`",
    "Name the accelerator key of its nodes, such as `nvidia-a10g`, or set `acceleratable` to false.",
    "spec.acceleratorGroup",
)
INSTANCE_TYPE_UNITS = _rule(
    "instance-type-units",
    "1.1, 2.4",
    "an InstanceType's unit CPU is no whole number of cores (on a CPU-only type: not exactly 1), its unit memory no "
    "positive amount, or its local storage no positive amount in Gi",
    "Write whole cores without a unit, memory such as `64Gi`, and storage such as `512Gi`.",
    "spec.unitResources.cpu",
    "spec.unitResources.ram",
    "spec.localStorage",
)
INSTANCE_TYPE_FROZEN = _frozen(
    "instance-type-frozen",
    "1.1",
    "any field of an InstanceType's spec but `displayName` and `inactive` differs from the stored one",
    "Restore the field, or create another InstanceType.",
    "spec.description",
    "spec.acceleratorGroup",
    "spec.generalGroup",
    "spec.acceleratable",
    "spec.os",
    "spec.arch",
    "spec.unitResources.cpu",
    "spec.unitResources.ram",
    "spec.localStorage",
)
POOL_BINDING_POOL = _rule(
    "pool-binding-pool",
    "3.1",
    "a new KVCachePoolBinding names a KVCachePool that does not exist",
    "Correct the name, or create the pool first.",
    "spec.poolRef.name",
    needs=_OTHERS,
)
POOL_BINDING_CEILING = _rule(
    "pool-binding-ceiling",
    "3.1",
    "the ceiling of a KVCachePoolBinding exceeds its pool's total; the sum over all bindings may",
    "Ask for at most the pool's total, or enlarge the pool first.",
    "spec.quota.ceiling",
    needs=_OTHERS,
)
POOL_BINDING_DTYPE = _rule(
    "pool-binding-dtype",
    "3.1, 7",
    "a new KVCachePoolBinding states dtype `auto` while the setting `model-deployment-kv-cache-dtype-owned` is on",
    "State the dtype the engines store, such as `bfloat16` or `fp8_e4m3`.",
    "spec.domain.dtype",
    needs=frozenset(("object", "settings")),
    operations=("create",),
)
POOL_BINDING_DOMAIN = _rule(
    "pool-binding-domain",
    "3.1",
    "the domain of a new KVCachePoolBinding is already registered on the same backend, in any namespace and through "
    "any pool; or the backend keeps no ledger per tenant and another domain is registered on it",
    "Choose a domain name of its own, or a pool of another backend.",
    "spec.domain.name",
    needs=frozenset(("object", "bindings")),
    operations=("create",),
)
POOL_BINDING_FROZEN = _frozen(
    "pool-binding-frozen",
    "3.1",
    "`poolRef` or a field of `domain` of a KVCachePoolBinding differs from the stored one",
    "Restore the field, or create another KVCachePoolBinding.",
    "spec.poolRef.name",
    "spec.domain.name",
    "spec.domain.blockSize",
    "spec.domain.dtype",
)
POOL_FROZEN = _frozen(
    "pool-frozen",
    "3.2",
    "`backends` of a KVCachePool differs from the stored one",
    "Restore it, or create another KVCachePool.",
    "spec.backends",
)
BACKEND_MEMBERS = _rule(
    "backend-members",
    "3.3",
    "a managed KVCacheBackend has no member group, or more than one with local disks",
    "Declare at least one group, and the disk tier on one of them.",
    "spec.connection.managed.members",
    "spec.connection.managed.members[].localDisks",
)
BACKEND_ENDPOINTS = _rule(
    "backend-endpoints",
    "3.3",
    "an external KVCacheBackend does not name each of `Client` and `Admin` once, or an address is no `host:port`",
    "State both endpoints with their addresses.",
    "spec.connection.external.endpoints",
    "spec.connection.external.endpoints[].name",
    "spec.connection.external.endpoints[].address",
)
ARTIFACT_SOURCE = _rule(
    "artifact-source",
    "5.1",
    "the path of a claim or the repository of a hub steps up with `..`",
    "State the path inside the volume, or the repository as `owner/name`.",
    "spec.source.persistentVolumeClaim.path",
    "spec.source.huggingFace.repository",
    "spec.source.modelScope.repository",
)
ARTIFACT_HUB_ONLY = _rule(
    "artifact-hub-only",
    "5.1",
    "`allowPatterns`, `ignorePatterns` or `expectedDigest` stands beside a source that is no hub",
    "Remove the field: a claim or an image is mounted whole.",
    "spec.allowPatterns",
    "spec.ignorePatterns",
    "spec.expectedDigest",
)
ARTIFACT_FROZEN = _frozen(
    "artifact-frozen",
    "5.1",
    "the spec of a ModelArtifact differs from the stored one",
    "Create another ModelArtifact under a name of its own.",
    "spec.source",
    "spec.allowPatterns",
    "spec.ignorePatterns",
    "spec.expectedDigest",
)

RULES = (
    INSTANCE_TYPE_GROUP,
    INSTANCE_TYPE_UNITS,
    INSTANCE_TYPE_FROZEN,
    POOL_BINDING_POOL,
    POOL_BINDING_CEILING,
    POOL_BINDING_DTYPE,
    POOL_BINDING_DOMAIN,
    POOL_BINDING_FROZEN,
    POOL_FROZEN,
    BACKEND_MEMBERS,
    BACKEND_ENDPOINTS,
    ARTIFACT_SOURCE,
    ARTIFACT_HUB_ONLY,
    ARTIFACT_FROZEN,
)
