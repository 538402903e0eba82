"""vLLM's own `vllm serve` parser and configuration classes, on a machine without an accelerator."""

import argparse
import json
import os
import sys
import tempfile
from importlib.metadata import version

from answering import Json, answers, forget_defaults, registered, report_errors, respond

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
report_errors()

import vllm.platforms  # noqa: E402
from vllm.platforms.cpu import CpuPlatform  # noqa: E402

vllm.platforms._current_platform = CpuPlatform()

from pydantic import TypeAdapter, ValidationError  # noqa: E402
from vllm.config import KVEventsConfig, KVTransferConfig, ParallelConfig  # noqa: E402
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory  # noqa: E402
from vllm.distributed.mooncake_store import MooncakeStoreConfig  # noqa: E402
from vllm.entrypoints.cli.serve import ServeSubcommand  # noqa: E402
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402

DOCUMENTS = {"--kv-transfer-config": KVTransferConfig, "--kv-events-config": KVEventsConfig}
PARALLEL = set(ParallelConfig.__dataclass_fields__)


def parsers() -> tuple[FlexibleArgumentParser, FlexibleArgumentParser]:
    """The `vllm` command with its `serve` subcommand, and the latter alone."""
    command = FlexibleArgumentParser(description="vLLM CLI")
    command.add_argument("-v", "--version", action="version", version=version("vllm"))
    serve = ServeSubcommand().subparser_init(command.add_subparsers(required=False, dest="subparser"))
    forget_defaults(serve)
    return command, serve


def refused_degree(found: argparse.Namespace) -> str | None:
    """What vLLM's ParallelConfig says of each stated field by itself."""
    for name, value in vars(found).items():
        if name in PARALLEL and value is not None:
            try:
                ParallelConfig(**{name: value})
            except ValidationError as error:
                own = [one for one in error.errors() if one["loc"] == (name,)]
                if own:
                    return f"ParallelConfig: {name}: {own[0]['msg']}"
            except Exception:
                continue
    return None


def data_parallel(command: FlexibleArgumentParser, row: Json) -> Json:
    """The data-parallel degree vLLM works with, given arguments and VLLM_DP_SIZE."""
    os.environ["VLLM_DP_SIZE"] = row["env"]["VLLM_DP_SIZE"]
    try:
        found = vars(command.parse_args(["serve", "m", *row["args"]]))
        stated = {name: found[name] for name in ("data_parallel_size", "data_parallel_size_local") if name in found}
        return {"data_parallel_size": ParallelConfig(**stated).data_parallel_size}
    except Exception as error:
        return {"error": " ".join(f"{type(error).__name__}: {error}".split())[:120]}
    finally:
        del os.environ["VLLM_DP_SIZE"]


def connectors(document: Json) -> list[str]:
    """Every connector a `--kv-transfer-config` names, nested ones included."""
    nested = document.get("kv_connector_extra_config", {}).get("connectors", [])
    return [document["kv_connector"], *(name for one in nested for name in connectors(one))]


def document(flag: str, text: str) -> Json:
    """What vLLM's configuration class makes of a document, and which connectors it knows."""
    raw = json.loads(text)
    try:
        if flag == "--kv-transfer-config":
            for one in [raw, *raw.get("kv_connector_extra_config", {}).get("connectors", [])]:
                TypeAdapter(KVTransferConfig).validate_python(one)
        else:
            TypeAdapter(DOCUMENTS[flag]).validate_python(raw)
    except Exception as error:
        return {"error": " ".join(f"{type(error).__name__}: {error}".split())[:300]}
    if flag != "--kv-transfer-config":
        return {"loads": True}
    return {"loads": True, "connectors": {name: name in KVConnectorFactory._registry for name in connectors(raw)}}


def store(given: Json) -> Json:
    """What vLLM's store client reads from its configuration file."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(given, file)
        file.flush()
        os.environ["MOONCAKE_CONFIG_PATH"] = file.name
        try:
            return {"reads": vars(MooncakeStoreConfig.load_from_config())}
        except Exception as error:
            return {"error": " ".join(f"{type(error).__name__}: {error}".split())[:300]}


def answer(question: Json) -> Json:
    """The answers to one question."""
    command, serve = parsers()
    return {
        "version": version("vllm"),
        "parser": "vllm serve",
        "flags": registered(serve),
        "answers": answers(command, serve, question["lines"], refused_degree, ["serve", "m"]),
        "commands": answers(command, serve, [line[1:] for line in question["commands"]], refused_degree),
        "variables": [data_parallel(command, row) for row in question["variables"]],
        "stores": [store(given) for given in question["stores"]],
        "documents": [document(flag, text) for flag, text in question["documents"]],
    }


if __name__ == "__main__":
    sys.exit(respond(answer))
