"""Documents for rendering tests, from the few words in which a case states what matters to it."""

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from gpustack_components.api.instance_type import InstanceType
from gpustack_components.api.kv_cache import KVCacheBackend, KVCachePool, KVCachePoolBinding
from gpustack_components.api.model_artifact import ModelArtifact
from gpustack_components.api.model_deployment import ModelDeployment
from gpustack_components.api.names import group_name as group_name
from gpustack_components.bindings.catalog import Bindings
from gpustack_components.bindings.resolve import Resolution, ResolvedDeployment, resolve
from gpustack_components.bindings.settings import Settings
from gpustack_components.render.replica import render_replica

Json = dict[str, Any]

NAMESPACE = "team-a"
COMMIT = "b968826d9c46dd6066d109eabc6255188de91218"
DIGEST = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
ENDPOINT = "shared-kv-master.gpustack-system.svc:50051"
PROFILES = [{"name": "1g.10gb", "count": 56, "memoryMib": 10240}, {"name": "3g.40gb", "count": 16, "memoryMib": 40960}]


def cases(name: str) -> Any:
    """The cases of a data file."""
    return yaml.safe_load((Path(__file__).parent.parent / f"data/rendering/{name}.yaml").read_text(encoding="utf-8"))


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> Json:
    """`base` with `change` laid over it; mappings merge, everything else replaces, None removes."""
    out: Json = dict(copy.deepcopy(base))
    for key, value in change.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(out.get(key), Mapping):
            out[key] = merged(out[key], value)
        else:
            out[key] = copy.deepcopy(value)
    return out


def instance_type(name: str = "h20-8x", manufacturer: str = "nvidia", **change: Any) -> InstanceType:
    """A type of 8 cards per node with 16 CPU, 64Gi and an 80Gi card each; `spec` and `status` may be laid over."""
    document = {
        "metadata": {"name": name},
        "spec": {
            "acceleratable": bool(manufacturer),
            "acceleratorGroup": f"{manufacturer}-card" if manufacturer else None,
            "os": "linux",
            "arch": "amd64",
            "unitResources": {"cpu": "16", "ram": "64Gi"} if manufacturer else {"cpu": "1", "ram": "2Gi"},
            "localStorage": "512Gi",
        },
        "status": {
            "accelerator": {"capacity": "8"},
            "detail": {
                "manufacturer": manufacturer,
                "memory": "80Gi",
                "slicedDetail": {"logical": {"count": 16}, "physical": {"count": 16, "profiles": PROFILES}},
            },
        },
    }
    return InstanceType.model_validate(merged(document, change))


def store(
    *,
    protocol: str | None = "TCP",
    groups: Iterable[str | None] = (),
    dtype: str = "bfloat16",
    domain: str = "team-a-shared",
    endpoint: str = ENDPOINT,
    tenancy: bool = True,
    binding_status: Json | None = None,
    pool_conditions: Iterable[Json] = (),
) -> list[object]:
    """A Binding `cache` of the namespace with its pool and backend."""
    members = [
        {"medium": "DRAM", "capacityPerMember": "4Gi", "transport": {"protocol": group}}
        if group
        else {"medium": "DRAM", "capacityPerMember": "4Gi"}
        for group in groups
    ]
    connection: Json = {"managed": {"leader": {"multiTenancy": tenancy}, "members": members}}
    if not members:
        client = [{"name": "Client", "address": ENDPOINT}, {"name": "Admin", "address": ENDPOINT}]
        connection = {"external": {"endpoints": client}}
    return [
        KVCachePoolBinding.model_validate(
            merged(
                {
                    "metadata": {"name": "cache", "namespace": NAMESPACE},
                    "spec": {
                        "poolRef": {"name": "shared-dram"},
                        "quota": {"ceiling": "600Gi"},
                        "domain": {"name": domain, "blockSize": 64, "dtype": dtype},
                    },
                },
                {} if binding_status is None else {"status": binding_status},
            )
        ),
        KVCachePool.model_validate(
            {
                "metadata": {"name": "shared-dram"},
                "spec": {"backends": ["mooncake"], "quota": {"total": "900Gi"}},
                "status": {"clientEndpoint": endpoint, "conditions": list(pool_conditions)},
            }
        ),
        KVCacheBackend.model_validate(
            {
                "metadata": {"name": "mooncake"},
                "spec": {"transport": {"protocol": protocol} if protocol else {}, "connection": connection},
            }
        ),
    ]


def artifact(source: Json | None = None, *, resolved: Json | None = None, uid: str | None = "uid-qwen", **spec: Any):
    """A resolved ModelArtifact `weights` of the namespace; `resolved` {} leaves it unresolved."""
    hub = source is None or "huggingFace" in source or "modelScope" in source
    found = {"revision": COMMIT, "manifestDigest": DIGEST, "sizeBytes": 100 << 30} if hub else {}
    status = {"resolved": found, "conditions": [{"type": "Resolved", "status": "True"}]}
    metadata = {"name": "weights", "namespace": NAMESPACE} | ({"uid": uid} if uid else {})
    return ModelArtifact.model_validate(
        {
            "metadata": metadata,
            "spec": {"source": source or {"huggingFace": {"repository": "Qwen/Q"}}, **spec},
            "status": status if resolved is None else resolved,
        }
    )


def deployment(engine: str = "vLLM", roles: Iterable[Json] = ({},), name: str = "qwen", **spec: Any) -> ModelDeployment:
    """A deployment of the namespace; each role needs only what differs from two cards of `h20-8x`."""
    base = {"name": "server", "instanceType": "h20-8x", "resources": {"accelerator": 2}}
    image = "vllm/vllm-openai:v0.25.1" if engine == "vLLM" else "lmsysorg/sglang:v0.5.9"
    annotations = spec.pop("annotations", {})
    return ModelDeployment.model_validate(
        {
            "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations},
            "spec": merged(
                {
                    "model": {"name": "Qwen/Qwen2.5-72B-Instruct"},
                    "engine": {"name": engine, "image": image},
                    "roles": [merged(base, role) for role in roles],
                },
                spec,
            ),
        }
    )


def pair(**both: Any) -> list[Json]:
    """A Prefill and a Decode role; `both` goes to each, `prefill` and `decode` to one."""
    prefill, decode = both.pop("prefill", {}), both.pop("decode", {})
    return [
        merged({"name": "prefill", "kind": "Prefill"}, merged(both, prefill)),
        merged({"name": "decode", "kind": "Decode"}, merged(both, decode)),
    ]


def resolution(document: ModelDeployment, bound: Iterable[object] = (), **options: Any) -> Resolution:
    """`resolve` with an `h20-8x` type unless one is given, and settings by their names."""
    known = list(bound)
    if not any(isinstance(item, InstanceType) for item in known):
        known.append(instance_type())
    settings = Settings.from_mapping(options.pop("settings", {}))
    return resolve(document, Bindings.of(known), settings, **options)


def resolved(document: ModelDeployment, bound: Iterable[object] = (), **options: Any) -> ResolvedDeployment:
    """The resolved deployment; a failure is an error of the test."""
    outcome = resolution(document, bound, **options)
    assert outcome.resolved is not None, [str(failure) for failure in outcome.failures]
    return outcome.resolved


def pod(document: ModelDeployment, bound: Iterable[object] = (), role: str | None = None, **options: Any) -> Json:
    """The first Pod of a role, the first role unless named."""
    found = resolved(document, bound, **options)
    return render_replica(found, role or found.roles[0].name, 0).members[0]


def main(manifest: Json) -> Json:
    """The `main` container of a Pod."""
    return next(container for container in manifest["spec"]["containers"] if container["name"] == "main")


def environment(manifest: Json) -> Json:
    """Variables of `main`: values, or where they come from."""
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in main(manifest).get("env", [])}


def value_after(tokens: list[str], flag: str) -> str | None:
    """The token after the first exact spelling of a flag."""
    return tokens[tokens.index(flag) + 1] if flag in tokens else None


def readable(manifest: Json) -> Json:
    """The Pod for a golden file: the drain program, the same in all of them and tested by running it, is cut
    short."""
    out = copy.deepcopy(manifest)
    for container in out["spec"]["containers"]:
        if "lifecycle" in container:
            container["lifecycle"]["preStop"]["exec"]["command"][2] = "<drain program>"
    return out
