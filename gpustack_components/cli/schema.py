"""`schema`: the JSON Schema of the documents, for editors."""

from typing import Annotated

import typer

from gpustack_components.cli import output
from gpustack_components.cli.guard import CommandError, ExitCode, guarded


@guarded
def schema(
    kind: Annotated[
        str | None,
        typer.Argument(help="The kind, e.g. ModelDeployment. Without it: a document of any kind.", show_default=False),
    ] = None,
) -> ExitCode:
    """Print the JSON Schema of a kind.

    Exit code 0: printed. 2: there is no such kind.
    """
    from gpustack_components.api.decode import KINDS
    from gpustack_components.api.schema import json_schema

    named = next((known for known in KINDS if kind and known.lower() == kind.lower()), kind)
    try:
        output.write_json(json_schema(named))
    except ValueError as unknown:
        raise CommandError(str(unknown)) from None
    return ExitCode.DONE
