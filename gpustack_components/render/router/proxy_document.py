"""`envoy.yaml`: the proxy in front of the picker, which sends each request where the picker says (router sheet 6.6).

There is no admin block: nothing outside the Pod may stop or read the proxy.
"""

from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.cluster.port import Json
from gpustack_components.render.router.identity import GRPC_PORT, HTTP_PORT, router_of

DEFAULT_TIMEOUT = 86400
"""Seconds a request may take when the deployment states none; without a route timeout Envoy stops after 15."""
ENDPOINT_HEADER = "x-gateway-destination-endpoint"
"""Header in which the picker names the chosen endpoint; a caller's own is dropped before the picker is asked."""

_TYPES = "type.googleapis.com/envoy.extensions"
_HTTP = f"{_TYPES}.filters.http"
_PICKED, _ASK = "original_destination_cluster", "ext_proc"
_ACCESS_LOG = {
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


def proxy_document(resolved: ResolvedDeployment) -> Json:
    """The proxy's static configuration."""
    stated = router_of(resolved).declared.request_timeout_seconds
    listener = {
        "name": "http",
        "address": _address("0.0.0.0", HTTP_PORT),  # noqa: S104
        "filter_chains": [
            {
                "filters": [
                    {
                        "name": "envoy.filters.network.http_connection_manager",
                        "typed_config": _connection_manager(DEFAULT_TIMEOUT if stated is None else stated),
                    }
                ]
            }
        ],
    }
    return {"static_resources": {"listeners": [listener], "clusters": [_picked_cluster(), _picker_cluster()]}}


def _connection_manager(timeout: int) -> Json:
    route = {"match": {"prefix": "/"}, "route": {"cluster": _PICKED, "timeout": f"{timeout}s"}}
    return {
        "@type": f"{_TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "router",
        "route_config": {
            "name": "router",
            "virtual_hosts": [{"name": "model", "domains": ["*"], "routes": [route]}],
        },
        "access_log": [
            {
                "name": "envoy.access_loggers.stdout",
                "typed_config": {
                    "@type": f"{_TYPES}.access_loggers.stream.v3.StdoutAccessLog",
                    "log_format": {"json_format": _ACCESS_LOG},
                },
            }
        ],
        "http_filters": [_forgetting(), _asking(), _routing()],
    }


def _forgetting() -> Json:
    """Drops the caller's own endpoint header; before the picker is asked, or its answer would go too."""
    return {
        "name": "envoy.filters.http.header_mutation",
        "typed_config": {
            "@type": f"{_HTTP}.header_mutation.v3.HeaderMutation",
            "mutations": {"request_mutations": [{"remove": ENDPOINT_HEADER}]},
        },
    }


def _asking() -> Json:
    """Shows the whole request and answer to the picker."""
    return {
        "name": "envoy.filters.http.ext_proc",
        "typed_config": {
            "@type": f"{_HTTP}.ext_proc.v3.ExternalProcessor",
            "failure_mode_allow": True,
            "grpc_service": {
                "envoy_grpc": {"cluster_name": _ASK, "authority": f"localhost:{GRPC_PORT}"},
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
        },
    }


def _routing() -> Json:
    return {"name": "envoy.filters.http.router", "typed_config": {"@type": f"{_HTTP}.router.v3.Router"}}


def _picked_cluster() -> Json:
    """Whatever endpoint the header names."""
    return {
        "name": _PICKED,
        "type": "ORIGINAL_DST",
        "connect_timeout": "1s",
        "lb_policy": "CLUSTER_PROVIDED",
        "original_dst_lb_config": {"use_http_header": True, "http_header_name": ENDPOINT_HEADER},
    }


def _picker_cluster() -> Json:
    """The picker in the same Pod, over HTTP/2 without TLS."""
    options = f"{_TYPES}.upstreams.http.v3.HttpProtocolOptions"
    endpoint = {"endpoint": {"address": _address("127.0.0.1", GRPC_PORT)}}
    return {
        "name": _ASK,
        "type": "STATIC",
        "connect_timeout": "1s",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": options,
                "explicit_http_config": {"http2_protocol_options": {}},
            }
        },
        "load_assignment": {"cluster_name": _ASK, "endpoints": [{"lb_endpoints": [endpoint]}]},
    }


def _address(host: str, port: int) -> Json:
    return {"socket_address": {"address": host, "port_value": port}}
