"""SGLang's own server parser, on a machine without an accelerator."""

import argparse
import os
import sys
from importlib.metadata import version

from answering import Json, answers, forget_defaults, registered, report_errors, respond

report_errors()

from sglang.srt.mem_cache.storage.mooncake_store.mooncake_store import MooncakeStoreConfig  # noqa: E402
from sglang.srt.server_args import ServerArgs  # noqa: E402


def store(given: Json) -> Json:
    """What SGLang's store client reads from its environment."""
    os.environ.update(given)
    try:
        return {"reads": vars(MooncakeStoreConfig.load_from_env())}
    except Exception as error:
        return {"error": " ".join(f"{type(error).__name__}: {error}".split())[:300]}
    finally:
        for name in given:
            del os.environ[name]


def answer(question: Json) -> Json:
    """The answers to one question."""
    parser = argparse.ArgumentParser(prog="sglang serve")
    ServerArgs.add_cli_args(parser)
    flags = registered(parser)
    forget_defaults(parser)
    for action in parser._actions:
        action.required = False
    return {
        "version": version("sglang"),
        "parser": "sglang.launch_server",
        "flags": flags,
        "stores": [store(given) for given in question["stores"]],
        "answers": answers(parser, parser, question["lines"], lambda _: None),
        "commands": answers(parser, parser, [line[3:] for line in question["commands"]], lambda _: None),
    }


if __name__ == "__main__":
    sys.exit(respond(answer))
