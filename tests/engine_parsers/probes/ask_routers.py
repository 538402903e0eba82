"""The parsers of vllm-router and sglang-router."""

import argparse
import importlib
import sys
from importlib.metadata import version

from answering import Json, answers, forget_defaults, registered, report_errors, respond

report_errors()
MODULES = {"vllm-router": "vllm_router", "sglang-gateway": "sglang_router"}


def answer_of(router: str, question: Json) -> Json:
    """One router's answers to its part of the question."""
    parser = argparse.ArgumentParser(prog=router)
    arguments = importlib.import_module(f"{MODULES[router]}.router_args").RouterArgs
    arguments.add_cli_args(parser, use_router_prefix=False)
    flags = registered(parser)
    forget_defaults(parser)
    return {
        "version": version(MODULES[router].replace("_", "-")),
        "parser": f"{MODULES[router]}.router_args",
        "flags": flags,
        "answers": answers(parser, parser, question["lines"], lambda _: None),
        "commands": answers(parser, parser, question["commands"], lambda _: None),
    }


if __name__ == "__main__":
    sys.exit(respond(lambda question: {router: answer_of(router, question[router]) for router in MODULES}))
