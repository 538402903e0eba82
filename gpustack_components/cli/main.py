"""The console script: binds the commands to their names."""

import sys
from typing import Annotated

import typer

from gpustack_components.cli import check, output, packs, plan, render, rules, schema, status
from gpustack_components.cli.guard import ExitCode, guarded

app = typer.Typer(
    name="gpustack-components",
    help="Check, render and follow LLM deployments on Kubernetes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

app.command("check")(check.check)
app.command("render")(render.render)
app.command("plan")(plan.plan)
app.command("status")(status.status)
app.command("schema")(schema.schema)
app.command("explain")(rules.explain)
app.command("rules")(rules.rules)
app.command("policy-pack")(packs.policy_pack)


def main() -> None:
    """Run the command that the process's arguments name."""
    output.use_readable_streams()
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)


@guarded
def _print_version() -> None:
    from importlib.metadata import version

    output.say(f"gpustack-components {version('gpustack-components')}")


def _version_asked(asked: bool) -> None:
    if asked:
        _print_version()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version_asked, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    del version
