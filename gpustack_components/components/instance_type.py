"""The InstanceType component: the queue of a pool of equal nodes, for a cluster without the operator."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import pulumi

from gpustack_components.api.quantity import Quantity
from gpustack_components.cluster import keys, readings
from gpustack_components.cluster.port import CLUSTER_QUEUE, ClusterError
from gpustack_components.components import program
from gpustack_components.components.arguments import API_VERSION
from gpustack_components.components.config import NAMESPACE
from gpustack_components.components.kubernetes import KubernetesObject, owned
from gpustack_components.components.plain import Json, plain

if TYPE_CHECKING:
    from gpustack_components.api.instance_type import InstanceType as Document
    from gpustack_components.components.program import Program, Target

TYPE = "gpustack:index:InstanceType"

_LABEL = re.compile(r"^[^=,\s]+=[^=,\s]*$")


def states_quota(document: Mapping[str, Any]) -> bool:
    """Whether a document is an InstanceType whose queue is to be made: it names the labels of its nodes."""
    raw = dict(document)
    return raw.get("kind") == "InstanceType" and readings.annotation(raw, keys.NODE_LABELS) is not None


class InstanceType(pulumi.ComponentResource):
    """A pool of equal nodes as Kueue sees it: a ResourceFlavor that finds the nodes, and a ClusterQueue of the same
    name with their cards, cpu and memory.

    Pass it in `bindings` of the deployments whose roles name it. Where the GPUStack operator runs, it makes these
    queues itself: declare the InstanceType there, and pass its document as a binding instead.
    """

    name: str
    """The InstanceType's name, and that of its ClusterQueue; what a role's `instanceType` says."""
    document: Json
    """The InstanceType as a manifest, as deployments depend on it."""

    def __init__(
        self,
        resource_name: str,
        *,
        nodes: int,
        unit_resources: Mapping[str, str],
        node_labels: Mapping[str, str],
        manufacturer: str | None = None,
        cards_per_node: int = 0,
        cores_per_node: int = 0,
        memory: str | None = None,
        accelerator_group: str | None = None,
        local_storage: str = "100Gi",
        os: str = "linux",
        arch: str = "amd64",
        slices: bool = False,
        interfaces: Mapping[str, int] | None = None,
        tolerations: Sequence[Mapping[str, Any]] = (),
        topology_name: str = "",
        name: str | None = None,
        kubeconfig: "str | pulumi.Output[str] | None" = None,
        context: str | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Declare a pool.

        `nodes` nodes that carry `node_labels`, each with `cards_per_node` cards of `manufacturer`; a CPU-only pool
        has `cores_per_node` instead. `unit_resources` are the `cpu` (cores, as text) and `ram` (e.g. `64Gi`) that
        come with one card, or with one core of a CPU-only pool. `memory` is that of one card, e.g. `98304Mi`, needed
        for partitions only. `accelerator_group` defaults to `<manufacturer>-<name>`. `local_storage` is what a Pod
        gets. `slices` also grants quota for logical slices, `interfaces` for fabric interfaces by resource key;
        `tolerations` are those of the nodes' taints; `topology_name` is the Kueue Topology that required levels are
        looked up in. `name` defaults to the resource's. `kubeconfig` and `context` choose the cluster as in
        `ModelDeployment`.
        """
        described: Json = {
            "nodes": nodes,
            "unit_resources": unit_resources,
            "node_labels": node_labels,
            "manufacturer": manufacturer,
            "cards_per_node": cards_per_node,
            "cores_per_node": cores_per_node,
            "memory": memory,
            "accelerator_group": accelerator_group,
            "local_storage": local_storage,
            "os": os,
            "arch": arch,
        }
        queue: Json = {
            "slices": slices,
            "interfaces": interfaces,
            "tolerations": tolerations,
            "topology_name": topology_name,
        }
        pool = name or resource_name
        _refuse_mistyped(pool, {**described, **queue, "name": name})
        self._build(resource_name, compose(pool, **described), kubeconfig, context, opts, **queue)

    @classmethod
    def from_document(
        cls,
        document: Mapping[str, Any],
        resource_name: str | None = None,
        *,
        kubeconfig: "str | pulumi.Output[str] | None" = None,
        context: str | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> Self:
        """The pool that an InstanceType manifest describes.

        Its quota is `status.accelerator.capacity` cards (`status.cpu.capacity` cores without accelerators) on as many
        nodes as the annotation `schedule.gpustack.ai/nodes` says; `schedule.gpustack.ai/node-labels`, e.g.
        `gpu=h20,zone=a`, says which nodes they are.
        """
        made = cls.__new__(cls)
        raw: Json = plain(document)
        made._build(resource_name or str(raw["metadata"]["name"]), raw, kubeconfig, context, opts)
        return made

    def _build(
        self,
        resource_name: str,
        document: Json,
        kubeconfig: "str | pulumi.Output[str] | None",
        context: str | None,
        opts: pulumi.ResourceOptions | None,
        **queue: Any,
    ) -> None:
        decoded = read(document)
        self.document = document
        self.name = decoded.metadata.name
        super().__init__(
            TYPE, resource_name, {key: document[key] for key in ("metadata", "spec", "status") if key in document}, opts
        )
        shared = program.current()
        target = shared.target(kubeconfig, context)
        given = self.get_provider("kubernetes:core/v1:Service")
        if given is None or target.given:
            _refuse_foreign(shared, target, self.name)
        from gpustack_components.render.queues import instance_type_objects

        provider = given or shared.provider(target)
        nodes, per_node, labels = quota_of(document)
        try:
            manifests = instance_type_objects(
                decoded, nodes=nodes, cards_per_node=per_node, node_labels=labels, **queue
            )
        except ValueError as wrong:
            raise pulumi.RunError(str(wrong)) from None
        before: list[pulumi.Resource] = []
        for manifest in manifests:
            options = pulumi.ResourceOptions(parent=self, provider=provider, depends_on=list(before))
            before.append(KubernetesObject(resource_name, owned(manifest, shared.owner), options))
        self.register_outputs({"document": document})


_WHOLE = ("nodes", "cards_per_node", "cores_per_node")
_MAPS = ("unit_resources", "node_labels", "interfaces")


def _refuse_mistyped(pool: str, arguments: Mapping[str, Any]) -> None:
    """Raise `pulumi.RunError` naming every argument of another type than is declared; None leaves one out."""
    problems = [
        f"InstanceType {pool}: {key} {wanted}, found {_described(value)}"
        for key, value in arguments.items()
        if (wanted := _mismatch(key, value))
    ]
    if problems:
        raise pulumi.RunError("\n".join(problems))


def _mismatch(key: str, value: Any) -> str:
    """What an argument must be and is not; empty when it is."""
    if isinstance(value, pulumi.Output):
        return "must be known when the program runs"
    if key in _WHOLE:
        return "" if isinstance(value, int) and not isinstance(value, bool) else "is a whole number"
    if value is None and key not in ("unit_resources", "node_labels", "local_storage", "os", "arch"):
        return ""
    if key in _MAPS:
        return "" if isinstance(value, Mapping) else "maps names to values"
    if key == "tolerations":
        return "" if isinstance(value, Sequence) and not isinstance(value, str) else "is a list"
    if key == "slices":
        return "" if isinstance(value, bool) else "is True or False"
    return "" if isinstance(value, str) else "is text"


def _described(value: Any) -> str:
    if isinstance(value, pulumi.Output):
        return "an Output"
    return repr(value) if isinstance(value, str | int | float) or value is None else f"a {type(value).__name__}"


def compose(
    name: str,
    *,
    nodes: int,
    unit_resources: Mapping[str, str],
    node_labels: Mapping[str, str],
    manufacturer: str | None,
    cards_per_node: int,
    cores_per_node: int,
    memory: str | None,
    accelerator_group: str | None,
    local_storage: str,
    os: str,
    arch: str,
) -> Json:
    """The manifest of an InstanceType with everything a deployment and its queue need to know. Raises
    `pulumi.RunError` on bad arguments.
    """
    problems: list[str] = []
    if nodes < 1:
        problems.append(f"nodes: a pool has at least 1 node, found {nodes}")
    if min(cards_per_node, cores_per_node) < 0 or bool(cards_per_node) == bool(cores_per_node):
        problems.append(
            "a pool with accelerators has cards_per_node, a CPU-only pool cores_per_node; "
            f"found {cards_per_node} and {cores_per_node}"
        )
    if bool(manufacturer) != bool(cards_per_node):
        problems.append(
            "manufacturer and cards_per_node belong together: give both, or neither for a CPU-only pool; "
            f"found {manufacturer!r} and {cards_per_node}"
        )
    if not node_labels:
        problems.append("node_labels: name at least one label that the pool's nodes carry, for example {'gpu': 'h20'}")
    missing = [key for key in ("cpu", "ram") if not unit_resources.get(key)]
    unknown = [key for key in unit_resources if key not in ("cpu", "ram")]
    if missing or unknown:
        problems.append(f"unit_resources: takes cpu and ram, both; found {', '.join(unit_resources) or 'nothing'}")
    if problems:
        raise pulumi.RunError("\n".join(f"InstanceType {name}: {problem}" for problem in problems))
    spec: Json = {
        "acceleratable": bool(manufacturer),
        "acceleratorGroup": (accelerator_group or f"{manufacturer}-{name}") if manufacturer else None,
        "os": os,
        "arch": arch,
        "unitResources": {key: str(unit_resources[key]) for key in ("cpu", "ram")},
        "localStorage": local_storage,
    }
    status: Json = {"detail": {"manufacturer": manufacturer or "", "memory": memory}}
    if manufacturer:
        status["accelerator"] = {"capacity": str(cards_per_node * nodes)}
    else:
        status["cpu"] = {"capacity": str(cores_per_node * nodes)}
    labels = ",".join(f"{key}={value}" for key, value in node_labels.items())
    annotations = {keys.NODE_LABELS: labels, keys.NODES: str(nodes)}
    document: Json = {
        "apiVersion": API_VERSION,
        "kind": "InstanceType",
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
        "status": status,
    }
    return plain(document)


def quota_of(document: Mapping[str, Any]) -> tuple[int, int, dict[str, str]]:
    """Nodes of the pool, cards (or cores) of each, and the nodes' labels. Raises `pulumi.RunError` when the document
    does not say.
    """
    raw = dict(document)
    text, count = readings.annotation(raw, keys.NODE_LABELS) or "", readings.annotation(raw, keys.NODES) or ""
    pairs = [part.strip() for part in text.split(",") if part.strip()]
    field = "accelerator" if readings.at(raw, "spec", "acceleratable") else "cpu"
    stated = readings.at(raw, "status", field, "capacity")
    try:
        capacity, nodes = Quantity(stated or 0), int(count)
        per_node = capacity.value / nodes
    except (ValueError, ZeroDivisionError):
        nodes, per_node = 0, 0
    problems: list[str] = []
    if not pairs or not all(_LABEL.match(pair) for pair in pairs):
        problems.append(
            f"the annotation {keys.NODE_LABELS} names the labels of the nodes, as in gpu=h20,zone=a; found {text!r}"
        )
    if nodes < 1 or per_node < 1 or int(per_node) != per_node:
        problems.append(
            f"status.{field}.capacity must be a multiple of the number of nodes in the annotation {keys.NODES}; "
            f"found {stated!r} and {count!r}"
        )
    if problems:
        raise pulumi.RunError("\n".join(f"InstanceType {readings.name(raw)}: {problem}" for problem in problems))
    return nodes, int(per_node), dict(pair.split("=", 1) for pair in pairs)


def read(document: Mapping[str, Any]) -> "Document":
    """The decoded InstanceType. Raises `pulumi.RunError` with every refusal."""
    from gpustack_components.api.decode import decode
    from gpustack_components.api.instance_type import InstanceType as Decoded

    decoded = decode(document)
    if not isinstance(decoded.document, Decoded):
        reasons = [str(refusal) for refusal in decoded.refusals] or ["the document is no InstanceType"]
        raise pulumi.RunError("\n".join(f"InstanceType: {reason}" for reason in reasons))
    return decoded.document


def _refuse_foreign(shared: "Program", target: "Target", name: str) -> None:
    """Raise `pulumi.RunError` when the queue is somebody else's to make; a cluster that does not answer is left to the
    resources.
    """
    try:
        if target.cluster is None:
            return
        if target.operator:
            raise pulumi.RunError(
                f"InstanceType {name}: the GPUStack operator runs in this cluster and makes its queues itself; "
                "declare the InstanceType there, and pass its document in bindings"
            )
        queue = target.cluster.get(CLUSTER_QUEUE, None, name)
    except ClusterError:
        return
    mark = readings.annotation(queue, keys.OWNER) or "" if queue is not None else shared.owner
    if not shared.owns(mark):
        raise pulumi.RunError(
            f"InstanceType {name}: the ClusterQueue {name} exists and belongs to "
            f"{mark or 'somebody who left no mark'}; pass a document of the InstanceType in bindings to use it "
            "as it is, choose another name, or take it over with "
            f"`pulumi config set --path '{NAMESPACE}:adopt[0]' {mark!r}`"
        )
