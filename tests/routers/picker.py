"""A stand-in for the llm-d endpoint picker: the ext_proc server that Envoy asks where each request goes.

Run by the interpreter that has `envoy_data_plane` and `grpc`, with a folder as its argument. It listens where the
picker does, answers as the picker does with full-duplex bodies (headers once the whole body was read, then the body
piece by piece), and does what `plan.json` in the folder says, read anew for each request:

    endpoint   address and port written into the destination header, or several to take one of; absent, no header
    prefill    the same for the prefiller header
    delay      seconds until it answers
    refuse     status with which it answers the request itself

What it saw goes to `seen.jsonl`, one line per request and per response.
"""

import json
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from envoy_data_plane.envoy.config.core.v3 import HeaderValue, HeaderValueOption, HeaderValueOptionHeaderAppendAction
from envoy_data_plane.envoy.service.ext_proc.v3 import (
    BodyMutation,
    BodyResponse,
    CommonResponse,
    HeaderMutation,
    HeadersResponse,
    HttpHeaders,
    ImmediateResponse,
    ProcessingRequest,
    ProcessingResponse,
    StreamedBodyResponse,
    TrailersResponse,
)
from envoy_data_plane.envoy.type.v3 import HttpStatus, StatusCode

ADDRESS = "127.0.0.1:9002"
DESTINATION = "x-gateway-destination-endpoint"
PREFILLER = "x-prefiller-host-port"


class Picker:
    """Answers the streams of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def process(self, requests: Iterator[ProcessingRequest], _: Any) -> Iterator[ProcessingResponse]:
        """One HTTP request and its response."""
        plan = json.loads((self._folder / "plan.json").read_text())
        held = b""
        pieces = 0
        for message in requests:
            if message.request_headers is not None:
                asked = _named(message.request_headers)
                if message.request_headers.end_of_stream:
                    self._note({"request": asked, "body": None})
                    yield from _decide(plan)
            elif message.request_body is not None:
                held += message.request_body.body
                if message.request_body.end_of_stream:
                    self._note({"request": asked, "body": json.loads(held)})
                    time.sleep(plan.get("delay", 0))
                    yield from _decide(plan)
                    if "refuse" not in plan:
                        yield ProcessingResponse(request_body=_streamed(held, True))
            elif message.request_trailers is not None:
                yield ProcessingResponse(request_trailers=TrailersResponse())
            elif message.response_headers is not None:
                answered = _named(message.response_headers)
                yield ProcessingResponse(response_headers=HeadersResponse())
            elif message.response_body is not None:
                body = message.response_body
                pieces += bool(body.body)
                if body.end_of_stream:
                    self._note({"response": answered, "pieces": pieces})
                yield ProcessingResponse(response_body=_streamed(body.body, body.end_of_stream))
            elif message.response_trailers is not None:
                yield ProcessingResponse(response_trailers=TrailersResponse())

    def _note(self, seen: dict[str, Any]) -> None:
        with (self._folder / "seen.jsonl").open("a") as log:
            log.write(json.dumps(seen) + "\n")


def _decide(plan: dict[str, Any]) -> Iterator[ProcessingResponse]:
    if "refuse" in plan:
        status = HttpStatus(code=StatusCode(plan["refuse"]))
        yield ProcessingResponse(immediate_response=ImmediateResponse(status=status))
        return
    chosen = {DESTINATION: plan.get("endpoint"), PREFILLER: plan.get("prefill")}
    replace = HeaderValueOptionHeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD
    options = [
        HeaderValueOption(header=HeaderValue(key=key, raw_value=_one(value).encode()), append_action=replace)
        for key, value in chosen.items()
        if value
    ]
    common = CommonResponse(header_mutation=HeaderMutation(set_headers=options), clear_route_cache=True)
    yield ProcessingResponse(request_headers=HeadersResponse(response=common))


def _one(value: str | list[str]) -> str:
    return value if isinstance(value, str) else random.choice(value)


def _streamed(body: bytes, last: bool) -> BodyResponse:
    piece = StreamedBodyResponse(body=body, end_of_stream=last)
    return BodyResponse(response=CommonResponse(body_mutation=BodyMutation(streamed_response=piece)))


def _named(headers: HttpHeaders) -> dict[str, str]:
    found = headers.headers.headers if headers.headers else []
    return {one.key: one.raw_value.decode() or one.value for one in found}


def serve(folder: Path) -> None:
    """Answer until the process is ended."""
    handler = grpc.stream_stream_rpc_method_handler(
        Picker(folder).process, request_deserializer=ProcessingRequest.parse, response_serializer=bytes
    )
    service = grpc.method_handlers_generic_handler("envoy.service.ext_proc.v3.ExternalProcessor", {"Process": handler})
    server = grpc.server(ThreadPoolExecutor(16))
    server.add_generic_rpc_handlers((service,))
    server.add_insecure_port(ADDRESS)
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
