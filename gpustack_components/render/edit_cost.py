"""What an edit of each field costs: which replicas it turns over, if any (rollout sheet 2.3, bindings sheet 9).

`docs/reference/edit-cost.md` is `table()`. A test measures every row on rendered fingerprints and on admission.
"""

from dataclasses import dataclass
from typing import Literal

Cost = Literal["nothing", "count", "role", "every role", "router", "refused", "floor"]
"""Which replicas an edit turns over, in one word; `COSTS` says it in a sentence."""

COSTS: dict[Cost, str] = {
    "nothing": "No replica is touched.",
    "count": "Replicas are added, or the highest ordinals leave; the others keep running.",
    "role": "Every replica of the role is replaced, one at a time.",
    "every role": "Every replica of every role is replaced, one at a time per role.",
    "router": "The router's own objects change; no engine replica is touched.",
    "refused": "The edit is refused: another value describes another deployment.",
    "floor": "Replicas rendered by an older baseline than the floor are replaced, one at a time per role.",
}
"""What each cost means."""


@dataclass(frozen=True, slots=True)
class EditCost:
    """The cost of editing one field."""

    field: str
    """Path in the ModelDeployment, or `<Kind>.<path>` of a binding, or `setting <name>`."""
    cost: Cost
    """What the edit turns over."""
    note: str = ""
    """What the cost alone does not say; empty for nothing."""


ROWS: tuple[EditCost, ...] = (
    EditCost("metadata.labels", "nothing"),
    EditCost(
        "metadata.annotations",
        "nothing",
        "except `min-render-version` below; `retirement-retry` retries and rolls nothing",
    ),
    EditCost("metadata.annotations[min-render-version]", "floor", "raising it; lowering it rolls nothing"),
    EditCost("spec.model.name", "refused"),
    EditCost("spec.model.artifactRef.name", "refused"),
    EditCost("spec.engine.name", "refused"),
    EditCost("spec.engine.image", "every role", "roles with an image of their own included"),
    EditCost("spec.kvCache.poolRef.name", "refused", "adding and removing `kvCache` too"),
    EditCost("spec.kvCache.connector", "refused", "there is one value today"),
    EditCost("spec.kvTransfer.protocol", "every role", "`Auto`, `TCP` and no value are one value"),
    EditCost("spec.router", "every role", "adding or removing it, not editing it"),
    EditCost("spec.router.name", "refused", "remove the router, then add another"),
    EditCost("spec.router.replicas", "router", "Pods come or go, none is replaced"),
    EditCost("spec.router.image", "router"),
    EditCost("spec.router.imagePullPolicy", "router"),
    EditCost("spec.router.imagePullSecrets", "router"),
    EditCost("spec.router.extraArgs", "router"),
    EditCost("spec.router.requestTimeoutSeconds", "router"),
    EditCost("spec.router.disaggregationThresholdTokens", "router"),
    EditCost("spec.roles", "refused", "adding, removing or renaming a role; their order is no matter"),
    EditCost("spec.roles[].name", "refused"),
    EditCost("spec.roles[].kind", "refused"),
    EditCost("spec.roles[].replicas", "count"),
    EditCost("spec.roles[].size", "role"),
    EditCost("spec.roles[].instanceType", "role"),
    EditCost("spec.roles[].resources.accelerator", "role", 'by value: `2`, `"2"` and `2000m` are one'),
    EditCost("spec.roles[].resources.acceleratorSlicedMemoryPercentage", "role"),
    EditCost("spec.roles[].resources.acceleratorSlicedCoresPercentage", "role"),
    EditCost("spec.roles[].resources.acceleratorPartitionedProfile", "role"),
    EditCost("spec.roles[].resources.interface", "role"),
    EditCost("spec.roles[].topology.requiredLevel", "role"),
    EditCost("spec.roles[].image", "role"),
    EditCost("spec.roles[].imagePullPolicy", "role"),
    EditCost("spec.roles[].imagePullSecrets", "role"),
    EditCost("spec.roles[].privileged", "role"),
    EditCost("spec.roles[].ports", "role", "no value is `http` on 8000"),
    EditCost("spec.roles[].additionalVolumes", "role"),
    EditCost("spec.roles[].shmSize", "role", "no value is `16Gi`; nothing beside a mount at `/dev/shm`"),
    EditCost("spec.roles[].command", "role", "on an Ascend pair a parallel degree in it rolls both roles"),
    EditCost(
        "spec.roles[].extraArgs",
        "role",
        "nothing beside a `command`; on an Ascend pair a parallel degree rolls both roles",
    ),
    EditCost("spec.roles[].env", "role", "on an Ascend pair `VLLM_DP_SIZE` rolls both roles"),
    EditCost("spec.roles[].terminationGracePeriodSeconds", "role", "no value is 30"),
    EditCost("spec.roles[].startupTimeoutSeconds", "role", "rounded up to 10; no value is 1800"),
    EditCost("spec.roles[].elasticEp", "refused", "its `width` may grow, which adds members and rolls nothing"),
    EditCost("InstanceType.status.entrance", "role", "every role of that type"),
    EditCost("InstanceType.status.detail.manufacturer", "role", "every role of that type"),
    EditCost("InstanceType.spec.unitResources", "role", "frozen in place; a re-created type of the same name"),
    EditCost(
        "InstanceType.spec.localStorage", "role", "frozen in place; only below 15Gi, where it caps ephemeral storage"
    ),
    EditCost("InstanceType.status.accelerator", "nothing"),
    EditCost("KVCachePool.status.clientEndpoint", "every role", "roles with a store client"),
    EditCost("KVCacheBackend.spec.transport.protocol", "every role", "roles with a store client"),
    EditCost(
        "KVCacheBackend.spec.connection.managed.leader.multiTenancy",
        "every role",
        "roles with a store client: the tenant",
    ),
    EditCost("KVCachePoolBinding.spec.domain", "every role", "frozen in place; a re-created Binding of the same name"),
    EditCost("KVCachePoolBinding.spec.quota", "nothing"),
    EditCost(
        "KVCachePoolBinding.status", "nothing", "a Binding that is not usable for a while keeps its last connection"
    ),
    EditCost("ModelArtifact.status.resolved.manifestDigest", "every role", "frozen in place; a re-created artifact"),
    EditCost("ModelArtifact.status.resolved.sizeBytes", "nothing"),
    EditCost("RuntimeClass", "role", "one of the manufacturer's name appearing or going"),
    EditCost("setting model-deployment-kv-cache-dtype-owned", "nothing", "new and replaced Pods show it"),
    EditCost("setting model-artifact-delivery-mode", "nothing", "new and replaced Pods show it"),
    EditCost("setting instance-general-resources-overcommit", "nothing", "new and replaced Pods show it"),
    EditCost("setting model-deployment-tcp-tw-reuse", "nothing", "new and replaced Pods show it"),
    EditCost("setting model-artifact-huggingface-endpoint", "nothing", "new and replaced Pods show it"),
    EditCost("setting model-deployment-routing-sidecar-image", "nothing", "new and replaced Pods show it"),
    EditCost("setting model-deployment-router-image", "router", "nothing where `spec.router.image` is stated"),
    EditCost("setting model-deployment-router-proxy-image", "router", "llm-d-router only"),
    EditCost("setting model-deployment-router-cpu-request", "router"),
    EditCost("setting model-deployment-router-drain-seconds", "router"),
    EditCost("setting container-registry", "router", "new and replaced decode Pods show it too"),
    EditCost(
        "setting model-deployment-endpoint-qualification",
        "nothing",
        "Services select by it, and so does a router where every role behind it can qualify",
    ),
)
"""One row per field, in the order of the document, then bindings and settings."""


def table() -> str:
    """The reference page, as Markdown."""
    lines = [
        "# What an edit costs",
        "",
        "Made by `gpustack_components.render.edit_cost`; every row is measured by a test.",
        "",
        *(f"- **{cost}**: {meaning}" for cost, meaning in COSTS.items()),
        "",
        "Several fields in one edit are one replacement, not several.",
        "",
        "| Field | Cost | Note |",
        "|---|---|---|",
        *(f"| `{row.field}` | {row.cost} | {row.note} |" for row in ROWS),
    ]
    return "\n".join(lines) + "\n"
