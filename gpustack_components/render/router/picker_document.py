"""`epp.yaml`: how the picker of llm-d-router filters, scores and splits (router sheet 6.5).

Nothing in it depends on counts or addresses, so scaling never rolls the router. Kinds come in alphabetical order, so
that the order of the roles does not matter either.
"""

from gpustack_components.bindings.listen import EVENTS_PORT, REPLAY_PORT
from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.bindings.shape import is_encoded, tokenizer
from gpustack_components.cluster import keys
from gpustack_components.cluster.port import Json
from gpustack_components.render.documents import EVENTS_TOPIC
from gpustack_components.render.router.discovery import endpoint_selector, is_split
from gpustack_components.render.router.identity import router_of
from gpustack_components.render.services import role_address

DEFAULT_THRESHOLD = 8
"""Uncached prompt tokens from which a request is split when the deployment states none."""
METRICS: dict[str, dict[str, str]] = {
    "vLLM": {
        "queuedRequestsSpec": "vllm:num_requests_waiting",
        "runningRequestsSpec": "vllm:num_requests_running",
        "kvUsageSpec": "vllm:kv_cache_usage_perc",
    },
    "SGLang": {
        "queuedRequestsSpec": "sglang:num_queue_reqs",
        "runningRequestsSpec": "sglang:num_running_reqs",
        "kvUsageSpec": "sglang:token_usage",
    },
}
"""Metrics of each engine by the picker's name for them; `status.router.metrics` repeats them."""

_CAPACITY = {"cacheBlockSizeSpec": "sglang:page_size", "cacheNumBlocksSpec": "sglang:num_pages"}
_PRECISE, _APPROXIMATE = "precise-prefix-cache-producer", "approx-prefix-cache-producer"
_NOTIFICATIONS, _METRICS_SOURCE, _EXTRACTOR = (
    "endpoint-notification-source",
    "metrics-data-source",
    "core-metrics-extractor",
)
_QUEUE, _USAGE, _PICKER, _PREFIX = (
    "queue-scorer",
    "kv-cache-utilization-scorer",
    "max-score-picker",
    "prefix-cache-scorer",
)
_DECIDER, _IMAGE_DECIDER, _HANDLER = (
    "prefix-based-pd-decider",
    "always-disagg-multimodal-decider",
    "disagg-profile-handler",
)


def picker_document(resolved: ResolvedDeployment) -> Json:
    """The picker's configuration."""
    kinds = sorted({role.kind.lower() for role in resolved.roles})
    document: Json = {
        "apiVersion": "llm-d.ai/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": _plugins(resolved, kinds),
        "schedulingProfiles": [{"name": kind, "plugins": _profile(kind)} for kind in kinds],
    }
    if resolved.engine == "vLLM":
        document["dataLayer"] = {
            "sources": [
                {"pluginRef": _METRICS_SOURCE, "extractors": [{"pluginRef": _EXTRACTOR}]},
                {"pluginRef": _NOTIFICATIONS, "extractors": [{"pluginRef": _PRECISE}]},
            ]
        }
    return document


def _plugins(resolved: ResolvedDeployment, kinds: list[str]) -> list[Json]:
    router = router_of(resolved)
    return [
        *(_plugin("label-selector-filter", {"matchLabels": {keys.ROLE_KIND: kind}}, f"{kind}-pods") for kind in kinds),
        *_prefix_producers(resolved, kinds),
        _plugin(_QUEUE),
        _plugin(_USAGE),
        _plugin(_PICKER),
        _plugin(_PREFIX, {"prefixMatchInfoProducerName": _PRECISE} if resolved.engine == "vLLM" else None),
        _plugin(_METRICS_SOURCE, {"port": router.serving_port}),
        _plugin(_EXTRACTOR, _extraction(resolved)),
        *(_splitting(resolved) if is_split(resolved) else ()),
    ]


def _plugin(kind: str, parameters: Json | None = None, name: str | None = None) -> Json:
    entry: Json = {"name": name, "type": kind} if name else {"type": kind}
    return {**entry, "parameters": parameters} if parameters is not None else entry


def _prefix_producers(resolved: ResolvedDeployment, kinds: list[str]) -> list[Json]:
    if resolved.engine != "vLLM":
        return [_plugin(_APPROXIMATE)]
    spec = resolved.declared.spec
    counting = role_address(resolved, resolved.role(tokenizer(spec).name))
    return [
        _plugin("token-producer", {"modelName": spec.model.name, "vllm": {"url": counting}}),
        _plugin(_NOTIFICATIONS),
        _plugin(_PRECISE, {"kvEventsConfig": _events(resolved, kinds)}),
    ]


def _events(resolved: ResolvedDeployment, kinds: list[str]) -> Json:
    excluded = [f"{keys.ROLE_KIND}!={kind}" for kind in ("decode", "encode") if kind in kinds]
    return {
        "topicFilter": EVENTS_TOPIC,
        "concurrency": 4,
        "engineType": "vllm",
        "discoverPods": True,
        "podDiscoveryConfig": {
            "podLabelSelector": ",".join((endpoint_selector(resolved), *excluded)),
            "podNamespace": resolved.namespace,
            "socketPort": EVENTS_PORT,
            "replaySocketPort": REPLAY_PORT,
        },
    }


def _extraction(resolved: ResolvedDeployment) -> Json:
    """The engine's metrics. Upstream reads a Pod without its engine label as vLLM, so SGLang has to be named."""
    if resolved.engine == "vLLM":
        return {"engineConfigs": [{"name": "vllm", **METRICS["vLLM"]}]}
    return {"defaultEngine": "sglang", "engineConfigs": [{"name": "sglang", **METRICS["SGLang"], **_CAPACITY}]}


def _splitting(resolved: ResolvedDeployment) -> tuple[Json, ...]:
    """Who decides whether a request is split, and into which profiles."""
    stated = router_of(resolved).declared.disaggregation_threshold_tokens
    threshold = DEFAULT_THRESHOLD if stated is None else stated
    profiles, deciders = {"prefill": "prefill", "decode": "decode"}, {"prefill": _DECIDER}
    plugins = [_plugin(_DECIDER, {"promptTokens": 0, "nonCachedTokens": threshold})]
    if is_encoded(resolved.declared.spec):
        profiles["encode"], deciders["encode"] = "encode", _IMAGE_DECIDER
        plugins.append(_plugin(_IMAGE_DECIDER))
    return (*plugins, _plugin(_HANDLER, {"profiles": profiles, "deciders": deciders}))


def _profile(kind: str) -> list[Json]:
    """What a profile weighs. A decoder's prefixes are no reason to choose it."""
    plugins: list[Json] = [
        {"pluginRef": f"{kind}-pods"},
        {"pluginRef": _QUEUE, "weight": 2},
        {"pluginRef": _USAGE, "weight": 2},
        {"pluginRef": _PICKER},
    ]
    return plugins if kind == "decode" else [*plugins, {"pluginRef": _PREFIX, "weight": 3}]
