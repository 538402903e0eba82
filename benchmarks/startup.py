"""How long starting takes: the import, and the command line's help."""

import sys

from benchmarks.row import Bench, Row, fastest, python, run


def measure(bench: Bench) -> list[Row]:
    """Two rows."""
    rounds = max(bench.rounds, 3) * 2
    ours, baseline = fastest(
        rounds,
        lambda: python("-c", "import gpustack_components"),
        lambda: python("-c", "import pulumi"),
    )
    command = [sys.executable, "-m", "gpustack_components.cli.main", "check", "--help"]
    (shown,) = fastest(rounds, lambda: run(command))
    return [
        Row(
            "`import gpustack_components`",
            "`import pulumi`",
            ours / baseline,
            1.3,
            detail=f"{ours:.2f} s : {baseline:.2f} s",
        ),
        Row("`gpustack-components check --help`", "-", shown, 0.4, "s"),
    ]
