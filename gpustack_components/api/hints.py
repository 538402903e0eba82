"""The ways out a schema cannot tell: what to write instead of a field that is not there, and what a pattern asks for.

Keys of `REQUIRED` and `UNKNOWN` are field paths without list positions, or the last two fields of one.
"""

from gpustack_components.api.names import DNS_1123_LABEL, DNS_1123_SUBDOMAIN

_DERIVED = "CPU, memory and storage follow from the InstanceType; ask for accelerator"
_ONE_ENGINE = "every role runs spec.engine; give the role another image instead"
_PARALLEL = "state parallelism as the engine's own flag in extraArgs"
_REUSE = "the Binding that kvCache.poolRef names registers the reuse domain"
_SURGE = "a replica is always deleted before its successor is created; nothing is to be set"

UNKNOWN = {
    "spec.engine.version": "the image decides the version: name it in spec.engine.image",
    "spec.roles.version": _ONE_ENGINE,
    "spec.roles.engine": _ONE_ENGINE,
    "spec.roles.args": "append arguments in extraArgs, or own the whole line in command",
    "spec.roles.template": "Pods are rendered, not templated: use the role's own fields",
    "spec.roles.instanceTypeRef": "name the InstanceType in instanceType",
    "spec.roles.tensorParallelSize": _PARALLEL,
    "spec.roles.pipelineParallelSize": _PARALLEL,
    "spec.roles.dataParallelSize": _PARALLEL,
    "spec.template": "Pods are rendered, not templated: use the fields of spec.roles",
    "spec.replicas": "replicas belong to a role: spec.roles[].replicas",
    "spec.strategy": _SURGE,
    "spec.reuseDomain": _REUSE,
    "kvCache.reuseDomain": _REUSE,
    "kvCache.domain": _REUSE,
    "roles.reuseDomain": _REUSE,
    "poolRef.namespace": "a Binding is always in the deployment's own namespace; remove it",
    "artifactRef.namespace": "a ModelArtifact is always in the deployment's own namespace; remove it",
    "targetRef.namespace": "the target is always in the scaler's own namespace; remove it",
    "elasticEp.headInstanceType": "the head runs on the role's own instanceType; remove it",
    "elasticEp.tensorParallelSize": "state --tensor-parallel-size in the role's extraArgs",
    "resources.cpu": _DERIVED,
    "resources.memory": _DERIVED,
    "resources.ram": _DERIVED,
    "resources.limits": _DERIVED,
    "resources.requests": _DERIVED,
    "env.valueFrom": "values are literal; mount a Secret or ConfigMap with additionalVolumes",
}
"""What to write instead of a field users look for."""

REQUIRED = {
    "metadata": "every derived name starts with metadata.name",
    "metadata.name": "every derived name starts with it; generateName is not enough",
    "spec.model.name": "name the model that callers ask for",
    "spec.engine.name": "write vLLM or SGLang",
    "spec.engine.image": "there is no default; name the engine's image",
    "spec.router.name": "write llm-d-router, vllm-router or sglang-gateway, or remove spec.router",
    "spec.kvCache.poolRef": "name a KVCachePoolBinding of the deployment's namespace",
    "spec.roles": "declare at least one role",
    "spec.roles.name": "every role needs a name of its own",
    "spec.roles.instanceType": "name the InstanceType whose queue the role uses",
    "spec.roles.elasticEp.width": "write the data-parallel ranks, 2 to 64, or remove elasticEp",
    "spec.roles.env.value": 'write the literal value, "" for an empty one',
}
"""What to write for a required field that is missing."""

PATTERNS = {
    DNS_1123_LABEL: "write lower-case letters, digits and dashes, and start and end with a letter or digit",
    DNS_1123_SUBDOMAIN: "write lower-case letters, digits, dashes and dots, with a letter or digit beside every dot",
    r"^(/[^/]+)+$": "write an absolute path such as /models, without a trailing or double slash",
    r"^[^/].*$": "write a path inside the volume, without a leading slash",
    r"^([^/].*)?$": "write a path inside the volume, without a leading slash",
    r"^[^A-Z]+$": "write it in lower case, in the engine's own spelling",
    r"^sha256:[0-9a-f]{64}$": "write sha256: and 64 lower-case hexadecimal digits",
    r"@sha256:[0-9a-f]{64}$": "pin the image by digest: name@sha256:<64 hexadecimal digits>",
    r"^[^\s\x00-\x1f\x7f]+$": "write a branch, tag or commit without spaces",
    r"^[^-/\s:][^/\s:]{0,95}(/[^-/\s:][^/\s:]{0,95})?$": "write owner/name or a name, each at most 96 characters",
}
"""What a pattern asks for, in words."""
