"""`policy-pack`: where the policy packs that come with the package are, for `pulumi --policy-pack`."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from gpustack_components.cli import output
from gpustack_components.cli.guard import CommandError, ExitCode, guarded

PACKS = ("admission", "guardrails")
"""The packs, as `policy-pack` takes them."""


@guarded
def policy_pack(
    name: Annotated[str, typer.Argument(metavar="NAME", help="admission or guardrails.", show_default=False)],
) -> ExitCode:
    """Print the folder of a policy pack, for `pulumi preview --policy-pack`.

    The pack runs in the Python that this command runs in: have it first on PATH, and `pulumi-policy` installed in it.
    Exit code 0: printed. 2: there is no such pack, or it cannot run here.
    """
    output.say(str(folder(name)))
    return ExitCode.DONE


def folder(name: str) -> Path:
    """The folder of a pack; raises `CommandError` when there is no such pack, or it cannot run here."""
    if name not in PACKS:
        raise CommandError(f"{name}: there is no such policy pack; the packs are {' and '.join(PACKS)}")
    found = find_spec("policies")
    places = list(found.submodule_search_locations or ()) if found is not None else []
    holding = [place for one in places if (place := Path(one) / name / "PulumiPolicy.yaml").is_file()]
    if not holding and places:
        raise CommandError(
            f"{name}: another package of the name policies is found first, in {places[0]}; install "
            "gpustack-components into an environment without it, or leave its folder"
        )
    if not holding:
        raise CommandError(f"{name}: the pack is not installed here; install gpustack-components as a whole")
    if find_spec("pulumi_policy") is None:
        raise CommandError(
            f"{name}: the pack needs pulumi-policy, which is not installed here; install gpustack-components[policies]"
        )
    return holding[0].parent
