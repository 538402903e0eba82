"""The documents of llm-d-router (router sheet 6.3 to 6.6, 9 to 11): the picker's against the schema of the sheet, the
proxy's field by field, and what moves the hash."""

import hashlib
import json
from typing import Any

import jsonschema
import pytest

from gpustack_components.render.services import front_services
from tests.render import build, routers
from tests.render.routers import MATRIX, Routed, routed

Json = dict[str, Any]

PICKED = [case for case in MATRIX if case.router == "llm-d-router"]
TEXT, COUNT = {"type": "string", "minLength": 1}, {"type": "integer", "minimum": 0}


def exactly(**properties: Json) -> Json:
    """An object that has these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def entry(kind: str, parameters: Json | None = None) -> Json:
    """A plugin of a type whose name is that type."""
    properties: Json = {"type": {"const": kind}}
    return exactly(**properties, **({"parameters": parameters} if parameters else {}))


METRICS = {"name": {"const": "vllm"}, "queuedRequestsSpec": TEXT, "runningRequestsSpec": TEXT, "kvUsageSpec": TEXT}
CAPACITY = {"cacheBlockSizeSpec": TEXT, "cacheNumBlocksSpec": TEXT}
PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
ROLES = {"enum": ["server", "prefill", "decode", "encode"]}
POD_DISCOVERY = exactly(
    podLabelSelector=TEXT, podNamespace=TEXT, socketPort={"const": 5557}, replaySocketPort={"const": 5558}
)
KV_EVENTS = exactly(
    topicFilter={"const": "kv@"},
    concurrency={"const": 4},
    engineType={"const": "vllm"},
    discoverPods={"const": True},
    podDiscoveryConfig=POD_DISCOVERY,
)
PLUGINS = [
    exactly(
        name={"type": "string", "pattern": "^(server|prefill|decode|encode)-pods$"},
        type={"const": "label-selector-filter"},
        parameters=exactly(matchLabels=exactly(**{"modeldeployment.gpustack.ai/role-kind": ROLES})),
    ),
    entry("token-producer", exactly(modelName=TEXT, vllm=exactly(url={"type": "string", "pattern": "^http://"}))),
    entry("endpoint-notification-source"),
    entry("precise-prefix-cache-producer", exactly(kvEventsConfig=KV_EVENTS)),
    entry("approx-prefix-cache-producer"),
    entry("queue-scorer"),
    entry("kv-cache-utilization-scorer"),
    entry("max-score-picker"),
    entry("prefix-cache-scorer"),
    entry(
        "prefix-cache-scorer",
        exactly(prefixMatchInfoProducerName={"const": "precise-prefix-cache-producer"}),
    ),
    entry("metrics-data-source", exactly(port=PORT)),
    entry(
        "core-metrics-extractor",
        exactly(engineConfigs={"type": "array", "minItems": 1, "maxItems": 1, "items": exactly(**METRICS)}),
    ),
    entry(
        "core-metrics-extractor",
        exactly(
            defaultEngine={"const": "sglang"},
            engineConfigs={
                "type": "array",
                "minItems": 1,
                "maxItems": 1,
                "items": exactly(**{**METRICS, "name": {"const": "sglang"}}, **CAPACITY),
            },
        ),
    ),
    entry("prefix-based-pd-decider", exactly(promptTokens={"const": 0}, nonCachedTokens=COUNT)),
    entry("always-disagg-multimodal-decider"),
    entry(
        "disagg-profile-handler",
        exactly(
            profiles={"type": "object", "required": ["prefill", "decode"], "additionalProperties": TEXT},
            deciders={"type": "object", "required": ["prefill"], "additionalProperties": TEXT},
        ),
    ),
]
REFERENCE = {
    "type": "object",
    "required": ["pluginRef"],
    "properties": {"pluginRef": TEXT, "weight": {"type": "integer", "minimum": 1}},
    "additionalProperties": False,
}
SCHEMA: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["apiVersion", "kind", "plugins", "schedulingProfiles"],
    "properties": {
        "apiVersion": {"const": "llm-d.ai/v1alpha1"},
        "kind": {"const": "EndpointPickerConfig"},
        "plugins": {"type": "array", "minItems": 1, "items": {"oneOf": PLUGINS}},
        "schedulingProfiles": {
            "type": "array",
            "minItems": 1,
            "items": exactly(name=ROLES, plugins={"type": "array", "minItems": 4, "items": REFERENCE}),
        },
        "dataLayer": exactly(
            sources={
                "type": "array",
                "items": exactly(pluginRef=TEXT, extractors={"type": "array", "items": exactly(pluginRef=TEXT)}),
            }
        ),
    },
    "additionalProperties": False,
}
"""What the sheet says of the picker's configuration."""


def references(value: Any) -> list[str]:
    """Every plugin that is named anywhere by another."""
    if isinstance(value, dict):
        named = [v for k, v in value.items() if k in ("pluginRef", "prefixMatchInfoProducerName")]
        named += list(value["deciders"].values()) if "deciders" in value else []
        return named + [one for inner in value.values() for one in references(inner)]
    return [one for inner in value for one in references(inner)] if isinstance(value, list) else []


@pytest.mark.parametrize("case", PICKED, ids=lambda case: case.name)
def test_the_pickers_document_keeps_to_its_schema(case: Routed) -> None:
    document = routers.picker(routers.by_kind(case.resolved()))
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    names = [one.get("name", one["type"]) for one in document["plugins"]]
    assert len(names) == len(set(names))
    assert set(references(document)) <= set(names)
    profiles = [profile["name"] for profile in document["schedulingProfiles"]]
    kinds = sorted({role.get("kind", "Server").lower() for role in case.roles["roles"]})
    assert profiles == kinds
    assert names[: len(kinds)] == [f"{kind}-pods" for kind in kinds]
    handler = next((one for one in document["plugins"] if one["type"] == "disagg-profile-handler"), None)
    assert (handler is not None) == ({"prefill", "decode"} <= set(kinds))
    if handler:
        assert set(handler["parameters"]["profiles"].values()) <= set(profiles)
    assert ("dataLayer" in document) == (case.engine == "vLLM")


def test_a_schema_that_takes_anything_would_show_nothing() -> None:
    document = routers.picker(routed("llm-d-router"))
    document["plugins"].append({"type": "unknown-scorer"})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(document)


def test_the_worked_example() -> None:
    """Router sheet 17."""
    found = build.resolved(build.deployment(roles=build.pair(replicas=2), router={"name": "llm-d-router"}))
    objects = routers.by_kind(found)
    assert len(objects) == 6
    assert objects["ConfigMap"]["data"]["endpoint-target-ports"] == "8000"
    document = routers.picker(objects)
    assert [one.get("name", one["type"]) for one in document["plugins"]] == [
        "decode-pods",
        "prefill-pods",
        "token-producer",
        "endpoint-notification-source",
        "precise-prefix-cache-producer",
        "queue-scorer",
        "kv-cache-utilization-scorer",
        "max-score-picker",
        "prefix-cache-scorer",
        "metrics-data-source",
        "core-metrics-extractor",
        "prefix-based-pd-decider",
        "disagg-profile-handler",
    ]
    assert routers.plugin(objects, "token-producer") == {
        "modelName": "Qwen/Qwen2.5-72B-Instruct",
        "vllm": {"url": "http://qwen-prefill.team-a.svc:8000"},
    }
    assert routers.plugin(objects, "metrics-data-source") == {"port": 8000}
    assert routers.plugin(objects, "prefix-based-pd-decider") == {"promptTokens": 0, "nonCachedTokens": 8}
    weighed = {
        profile["name"]: "prefix-cache-scorer" in {one["pluginRef"] for one in profile["plugins"]}
        for profile in document["schedulingProfiles"]
    }
    assert weighed == {"decode": False, "prefill": True}
    route = manager(routers.proxy(objects))["route_config"]["virtual_hosts"][0]["routes"][0]
    assert route["route"]["timeout"] == "86400s"
    services = {one["metadata"]["name"]: one["spec"] for one in front_services(found)}
    assert {port["name"]: port["port"] for port in services["qwen-prefill"]["ports"]} == {
        "http": 8000,
        "kv-events": 5557,
        "kv-replay": 5558,
    }
    assert {port["name"]: port["port"] for port in services["qwen-decode"]["ports"]} == {"http": 8000}
    decoder = build.render_replica(found, "decode", 0).members[0]
    sidecar = decoder["spec"]["initContainers"][0]
    assert sidecar["args"] == [
        "--port=8000",
        "--model-server-port=8200",
        "--kv-connector=mooncake",
        "--mooncake-bootstrap-port=8998",
        "--secure-proxy=false",
    ]
    probe = build.main(decoder)["readinessProbe"]["httpGet"]
    assert (probe["path"], probe["port"]) == ("/v1/models", 8000)


@pytest.mark.parametrize(
    ("roles", "url"),
    [
        ([{"name": "b"}, {"name": "a"}], "http://qwen-a.team-a.svc:8000"),
        ([{"name": "z", "kind": "Prefill"}, {"name": "a", "kind": "Decode"}], "http://qwen-z.team-a.svc:8000"),
        ([{"name": "z", "kind": "Encode"}, {"name": "a", "kind": "Decode"}], "http://qwen-a.team-a.svc:8000"),
        ([{"extraArgs": ["--port=9100"]}], "http://qwen-server.team-a.svc:8000"),
        ([{"ports": [{"port": 9100}]}], "http://qwen-server.team-a.svc:9100"),
    ],
)
def test_tokens_are_counted_by_the_first_prefiller_else_server_else_role(roles: list[Json], url: str) -> None:
    for ordered in (roles, roles[::-1]):
        counting = routers.plugin(routed("llm-d-router", roles=ordered), "token-producer")
        assert counting is not None and counting["vllm"]["url"] == url


@pytest.mark.parametrize(
    ("stated", "rendered"),
    [({}, 8), ({"disaggregationThresholdTokens": 0}, 0), ({"disaggregationThresholdTokens": 4096}, 4096)],
)
def test_the_threshold_is_the_deciders(stated: Json, rendered: int) -> None:
    objects = routed("llm-d-router", roles=build.pair(), router=stated)
    assert routers.plugin(objects, "prefix-based-pd-decider") == {"promptTokens": 0, "nonCachedTokens": rendered}


@pytest.mark.parametrize("roles", [[{}], [{"name": "p", "kind": "Prefill"}], [{"name": "d", "kind": "Decode"}]])
def test_without_a_pair_a_threshold_renders_nothing(roles: list[Json]) -> None:
    for router in ({}, {"disaggregationThresholdTokens": 64}):
        assert routers.picker(routed("llm-d-router", roles=roles, router=router)) == routers.picker(
            routed("llm-d-router", roles=roles)
        )


def manager(document: Json) -> Json:
    [listener] = document["static_resources"]["listeners"]
    [chain] = listener["filter_chains"]
    [found] = chain["filters"]
    return found["typed_config"]


class TestProxy:
    def test_it_listens_everywhere_and_has_no_admin(self) -> None:
        document = routers.proxy(routed("llm-d-router"))
        assert list(document) == ["static_resources"]
        [listener] = document["static_resources"]["listeners"]
        assert listener["name"] == "http"
        assert listener["address"]["socket_address"] == {"address": "0.0.0.0", "port_value": 8081}

    @pytest.mark.parametrize(("stated", "timeout"), [({}, "86400s"), ({"requestTimeoutSeconds": 90}, "90s")])
    def test_one_route_takes_everything_to_the_picked_endpoint(self, stated: Json, timeout: str) -> None:
        config = manager(routers.proxy(routed("llm-d-router", router=stated)))
        assert config["@type"].endswith(".http_connection_manager.v3.HttpConnectionManager")
        assert config["stat_prefix"] == "router"
        assert config["route_config"] == {
            "name": "router",
            "virtual_hosts": [
                {
                    "name": "model",
                    "domains": ["*"],
                    "routes": [
                        {
                            "match": {"prefix": "/"},
                            "route": {"cluster": "original_destination_cluster", "timeout": timeout},
                        }
                    ],
                }
            ],
        }

    def test_a_callers_own_endpoint_is_dropped_before_the_picker_is_asked(self) -> None:
        text = routed("llm-d-router")["ConfigMap"]["data"]["envoy.yaml"]
        assert "request_headers_to_remove" not in text
        first, second, third = manager(routers.proxy(routed("llm-d-router")))["http_filters"]
        mutations = first["typed_config"]["mutations"]
        assert mutations == {"request_mutations": [{"remove": "x-gateway-destination-endpoint"}]}
        assert (first["name"], second["name"], third["name"]) == (
            "envoy.filters.http.header_mutation",
            "envoy.filters.http.ext_proc",
            "envoy.filters.http.router",
        )
        asking = dict(second["typed_config"])
        assert asking.pop("@type").endswith(".ext_proc.v3.ExternalProcessor")
        assert asking == {
            "failure_mode_allow": True,
            "grpc_service": {
                "envoy_grpc": {"cluster_name": "ext_proc", "authority": "localhost:9002"},
                "timeout": "10s",
            },
            "processing_mode": {
                "request_header_mode": "SEND",
                "response_header_mode": "SEND",
                "request_body_mode": "FULL_DUPLEX_STREAMED",
                "response_body_mode": "FULL_DUPLEX_STREAMED",
                "request_trailer_mode": "SEND",
                "response_trailer_mode": "SEND",
            },
        }

    def test_every_request_is_logged(self) -> None:
        [log] = manager(routers.proxy(routed("llm-d-router")))["access_log"]
        assert log["name"] == "envoy.access_loggers.stdout"
        assert log["typed_config"]["log_format"]["json_format"] == {
            "start_time": "%START_TIME%",
            "method": "%REQ(:METHOD)%",
            "path": "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
            "protocol": "%PROTOCOL%",
            "response_code": "%RESPONSE_CODE%",
            "response_flags": "%RESPONSE_FLAGS%",
            "response_code_details": "%RESPONSE_CODE_DETAILS%",
            "duration": "%DURATION%",
            "upstream_host": "%UPSTREAM_HOST%",
            "request_id": "%REQ(X-REQUEST-ID)%",
            "bytes_received": "%BYTES_RECEIVED%",
            "bytes_sent": "%BYTES_SENT%",
        }

    def test_clusters(self) -> None:
        picked, asked = routers.proxy(routed("llm-d-router"))["static_resources"]["clusters"]
        assert picked == {
            "name": "original_destination_cluster",
            "type": "ORIGINAL_DST",
            "connect_timeout": "1s",
            "lb_policy": "CLUSTER_PROVIDED",
            "original_dst_lb_config": {"use_http_header": True, "http_header_name": "x-gateway-destination-endpoint"},
        }
        assert (asked["name"], asked["type"], asked["connect_timeout"]) == ("ext_proc", "STATIC", "1s")
        options = asked["typed_extension_protocol_options"]["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]
        assert options["explicit_http_config"] == {"http2_protocol_options": {}}
        [endpoint] = asked["load_assignment"]["endpoints"][0]["lb_endpoints"]
        address = endpoint["endpoint"]["address"]["socket_address"]
        assert address == {"address": "127.0.0.1", "port_value": 9002}

    @pytest.mark.parametrize("case", PICKED, ids=lambda case: case.name)
    def test_no_placeholder_survives(self, case: Routed) -> None:
        assert "<" not in "".join(routers.by_kind(case.resolved())["ConfigMap"]["data"].values())


class TestHash:
    """`router-config-hash`: moves with every value of the ConfigMap and with nothing else."""

    def of(self, roles: Any = ({},), router: Json | None = None, **options: Any) -> str:
        objects = routed("llm-d-router", roles=roles, router=router, **options)
        hashed = routers.template(objects)["metadata"]["annotations"]["modeldeployment.gpustack.ai/router-config-hash"]
        encoded = json.dumps(objects["ConfigMap"]["data"], sort_keys=True, separators=(",", ":")).encode()
        assert hashed == hashlib.sha256(encoded).hexdigest()
        return hashed

    @pytest.mark.parametrize(
        "router",
        [{"extraArgs": ["--v=4"]}, {"requestTimeoutSeconds": 90}, {"disaggregationThresholdTokens": 64}],
    )
    def test_it_moves_with_what_is_written(self, router: Json) -> None:
        assert self.of(build.pair(), router) != self.of(build.pair())

    def test_it_stays_when_roles_scale_or_change_places(self) -> None:
        assert self.of(build.pair(replicas=7)) == self.of(build.pair()) == self.of(build.pair()[::-1])

    @pytest.mark.parametrize("router", [{"replicas": 3}, {"image": "own:1"}, {"imagePullPolicy": "Always"}])
    def test_it_stays_when_nothing_of_it_is_in_the_documents(self, router: Json) -> None:
        assert self.of(build.pair(), router) == self.of(build.pair())

    def test_it_is_the_same_in_every_process(self) -> None:
        """Pins the bytes: an upgrade that changes them replaces every router Pod of every user."""
        assert self.of() == "d1321b97be6513cbd4a95717281c6c337879cfd9e6809b0d7f2ba8c5efe3d1e8"

    def test_arguments_are_written_down_for_it(self) -> None:
        def written(router: Json) -> Any:
            return json.loads(routed("llm-d-router", router=router)["ConfigMap"]["data"]["extra-args.json"])

        assert written({}) is None
        assert written({"extraArgs": ["--v=4", "ä"]}) == ["--v=4", "ä"]


class TestEncoding:
    """The proposal of router sheet 11 for Encode roles."""

    ROLES = ({"name": "encode", "kind": "Encode"}, *build.pair())

    def test_images_are_encoded_apart_behind_a_pair(self) -> None:
        objects = routed("llm-d-router", roles=self.ROLES)
        handler = routers.plugin(objects, "disagg-profile-handler")
        assert handler is not None and handler["profiles"]["encode"] == "encode"
        assert handler["deciders"]["encode"] == "always-disagg-multimodal-decider"
        producer = routers.plugin(objects, "precise-prefix-cache-producer")
        assert producer is not None
        selector = producer["kvEventsConfig"]["podDiscoveryConfig"]["podLabelSelector"]
        assert selector.endswith(
            "/router,modeldeployment.gpustack.ai/role-kind!=decode,modeldeployment.gpustack.ai/role-kind!=encode"
        )

    @pytest.mark.parametrize(
        ("roles", "settings", "flags"),
        [
            (ROLES, {"model-deployment-routing-sidecar-ec-connector": "ec-nixl"}, ["--ec-connector=ec-nixl"]),
            (ROLES, {}, []),
            (build.pair(), {"model-deployment-routing-sidecar-ec-connector": "ec-nixl"}, []),
        ],
    )
    def test_the_sidecar_is_told_the_connector_only_when_the_setting_names_one(
        self, roles: Any, settings: Json, flags: list[str]
    ) -> None:
        document = build.deployment(roles=roles, router={"name": "llm-d-router"})
        args = build.pod(document, role="decode", settings=settings)["spec"]["initContainers"][0]["args"]
        assert [word for word in args if word.startswith("--ec-")] == flags
