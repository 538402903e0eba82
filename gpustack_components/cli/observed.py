"""What stands in a cluster, for `plan` and `status`: from a file that kubectl wrote, or from the cluster itself."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpustack_components.cli import sources
from gpustack_components.cli.guard import CommandError
from gpustack_components.cluster import keys
from gpustack_components.cluster.binding_objects import API_VERSION, DEFAULT_NAMESPACE, KINDS, Reading
from gpustack_components.cluster.readings import at, each, label

if TYPE_CHECKING:
    from gpustack_components.bindings.kv_cache import Store
    from gpustack_components.bindings.resolve import ResolvedDeployment
    from gpustack_components.cluster.port import Cluster
    from gpustack_components.rollout.record import Record

Json = dict[str, Any]

KUEUE = "kueue.x-k8s.io"


@dataclass(frozen=True)
class Snapshot:
    """Live objects at one moment."""

    objects: tuple[Json, ...]
    """Every object read, of any kind."""
    source: str
    """Where they were read from, for sentences."""
    kubernetes: tuple[int, int] | None = None
    """Version of the API server; None when a file was read."""

    def of_kind(self, kind: str, group: str = "", namespace: str | None = None) -> Iterator[Json]:
        """The objects of a kind in an API group (any version), of one namespace if given."""
        for obj in self.objects:
            if obj["kind"] != kind or _group(obj) != group:
                continue
            if namespace is None or obj["metadata"].get("namespace", DEFAULT_NAMESPACE) == namespace:
                yield obj

    def pods(self, namespace: str, name: str) -> list[Json]:
        """The Pods that carry a deployment's labels."""
        return [pod for pod in self.of_kind("Pod", namespace=namespace) if _labelled(pod, name)]

    def services(self, namespace: str, name: str) -> list[Json]:
        """The Services that carry a deployment's labels."""
        return [service for service in self.of_kind("Service", namespace=namespace) if _labelled(service, name)]

    def workloads(self, namespace: str) -> list[Json]:
        """The namespace's Workloads."""
        return list(self.of_kind("Workload", KUEUE, namespace))

    def config_map(self, namespace: str, name: str) -> Json | None:
        """The ConfigMap of that name."""
        found = (item for item in self.of_kind("ConfigMap", namespace=namespace) if item["metadata"]["name"] == name)
        return next(found, None)

    def record(self, namespace: str, name: str) -> "Record | None":
        """The deployment's record; None when there is none, or something else stands on its name."""
        from gpustack_components.rollout.record import Record, is_record, record_name

        found = self.config_map(namespace, record_name(name))
        return Record.from_object(found) if found is not None and is_record(found) else None

    def store(self, namespace: str, name: str) -> "Store | None":
        """The KV cache store the deployment last rendered, as its record remembers it."""
        record = self.record(namespace, name)
        return record.store if record is not None else None

    def names_record(self, namespace: str, name: str) -> bool:
        """Whether a Pod of the deployment names its record as owner."""
        from gpustack_components.rollout.record import record_name

        owners = (owner for pod in self.pods(namespace, name) for owner in each(pod, "metadata", "ownerReferences"))
        return any(owner.get("kind") == "ConfigMap" and owner.get("name") == record_name(name) for owner in owners)

    @property
    def documents(self) -> dict[tuple[str, str, str], Json]:
        """The accepted document of every record, by kind, namespace and name: what an update is compared with."""
        from gpustack_components.rollout.record import Record, is_record

        records = [Record.from_object(item) for item in self.of_kind("ConfigMap") if is_record(item)]
        return {("ModelDeployment", one.namespace, one.name): one.document for one in records if one.document}

    def queues(self, resolved: "ResolvedDeployment") -> dict[str, Json]:
        """The ClusterQueue behind each LocalQueue a deployment's Pods name, as far as it was read.

        A LocalQueue that does not exist yet will stand before the ClusterQueue named like the role's InstanceType.
        """
        clusters = {item["metadata"]["name"]: item for item in self.of_kind("ClusterQueue", KUEUE)}
        behind = {role.entrance: role.declared.instance_type for role in resolved.roles}
        for item in self.of_kind("LocalQueue", KUEUE, resolved.namespace):
            behind[item["metadata"]["name"]] = str(at(item, "spec", "clusterQueue"))
        return {local: clusters[name] for local, name in behind.items() if name in clusters}

    @property
    def runtime_classes(self) -> frozenset[str]:
        """Names of the RuntimeClasses."""
        return frozenset(item["metadata"]["name"] for item in self.of_kind("RuntimeClass", "node.k8s.io"))

    @property
    def bindings(self) -> Reading:
        """The objects deployments depend on."""
        group = API_VERSION.partition("/")[0]
        objects = tuple(obj for kind in KINDS for obj in self.of_kind(kind.kind, group))
        return Reading(objects)


def read_snapshot(file: str) -> Snapshot:
    """The objects of a file: what `kubectl get pods,workloads,configmaps -o yaml` prints, or several such documents.

    Raises `CommandError` when the file cannot be read or holds something that no API server gives out.
    """
    source = "<stdin>" if file == sources.STDIN else file
    objects: list[Json] = []
    problems: list[str] = []
    values = [value for value in _values(sources.read_text(file), source) if value is not None]
    if not values:
        raise CommandError(f"{source}: is empty; where nothing stands, `kubectl get ... -o yaml` prints an empty List")
    for value in values:
        for obj in _flattened(value):
            problem = _why_not_live(obj)
            if problem:
                problems.append(f"{source}: {problem}")
            else:
                objects.append(obj)
    if problems:
        raise CommandError(*problems[:10])
    return Snapshot(tuple(objects), source)


def look(cluster: "Cluster", namespaces: Iterable[str], *, with_queues: bool) -> Snapshot:
    """What the cluster holds now of the namespaces' deployments; the queues too if asked."""
    from gpustack_components.cluster import port

    selector = keys.DEPLOYMENTS
    objects: list[Json] = []
    for namespace in sorted(set(namespaces)):
        for kind, narrowed in (
            (port.POD, selector),
            (port.SERVICE, selector),
            (port.CONFIG_MAP, ""),
            (port.WORKLOAD, ""),
        ):
            objects += _listed(cluster, kind, namespace, narrowed)
        if with_queues:
            objects += _listed(cluster, port.LOCAL_QUEUE, namespace, "")
    if with_queues:
        objects += _listed(cluster, port.CLUSTER_QUEUE, None, "")
        objects += _listed(cluster, port.RUNTIME_CLASS, None, "")
    return Snapshot(tuple(objects), "the cluster", cluster.server_version())


def _listed(cluster: "Cluster", kind: Any, namespace: str | None, selector: str) -> list[Json]:
    listing = cluster.list(kind, namespace, selector)
    return [{"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in listing.items]


def _values(text: str, source: str) -> list[Any]:
    import yaml

    try:
        if text.lstrip().startswith("{"):
            return [json.loads(text)]
        return list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (ValueError, yaml.YAMLError, RecursionError) as broken:
        raise CommandError(f"{source}: not readable as YAML or JSON: {' '.join(str(broken).split())}") from None


def _flattened(value: Any) -> Iterator[Any]:
    """The objects of a List, at any depth; anything else as it is."""
    kind = str(at(value, "kind") or "")
    if not kind.endswith("List"):
        if value is not None:
            yield value
        return
    typed = {"apiVersion": at(value, "apiVersion"), "kind": kind.removesuffix("List")}
    for item in each(value, "items"):
        yield from _flattened(item if "kind" in item else {**typed, **item})


def _why_not_live(obj: Any) -> str:
    """Why this is no object as an API server gives it out; empty when it is one."""
    way_out = "save what `kubectl get ... -o yaml` prints"
    if not isinstance(obj, dict):
        return f"found {type(obj).__name__} where an object belongs; {way_out}"
    kind, version, name = at(obj, "kind"), at(obj, "apiVersion"), at(obj, "metadata", "name")
    if not isinstance(kind, str) or not isinstance(version, str):
        return f"an object names no apiVersion or kind; {way_out}"
    if not isinstance(name, str):
        return f"a {kind} has no metadata.name; {way_out}"
    if not isinstance(at(obj, "metadata", "uid"), str) and version != API_VERSION:
        return f"{kind} {name} has no metadata.uid, so it was not read from a cluster; {way_out}"
    return ""


def _group(obj: Json) -> str:
    group, separator, _ = str(obj["apiVersion"]).partition("/")
    return group if separator else ""


def _labelled(obj: Json, name: str) -> bool:
    return label(obj, keys.APP_NAME) == keys.APP_NAME_VALUE and label(obj, keys.APP_INSTANCE) == name
