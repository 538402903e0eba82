"""SGLang's own server parser, on a machine without an accelerator."""

import argparse
import sys
from importlib.metadata import version

from answering import Json, answers, forget_defaults, registered, report_errors, respond

report_errors()

from sglang.srt.server_args import ServerArgs  # noqa: E402


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
        "answers": answers(parser, parser, question["lines"], lambda _: None),
        "commands": answers(parser, parser, [line[3:] for line in question["commands"]], lambda _: None),
    }


if __name__ == "__main__":
    sys.exit(respond(answer))
