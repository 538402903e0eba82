"""Prints the table of budgets; exits 1 when a row costs more than twice its budget."""

import argparse
import importlib
import platform
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.row import Bench, Row

ROWS = ("check_and_render", "check_against_yaml", "preview", "turnover", "idle", "policy_pack", "startup")
APART = ("scale",)
"""Rows that take minutes: measured when named, and kept in a section of their own."""
RESULTS = Path(__file__).parent / "results.md"


def main() -> int:
    """Measure the rows asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "rows", nargs="*", help=f"rows to measure, by default: {', '.join(ROWS)}; only when named: {', '.join(APART)}"
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each side is measured (default 3)")
    parser.add_argument("--sandbox", type=Path, help="directory of a running sandbox; one is started without it")
    parser.add_argument(
        "--write", action="store_true", help="write the table, machine and versions to benchmarks/results.md"
    )
    options = parser.parse_args()
    unknown = [row for row in options.rows if row not in (*ROWS, *APART)]
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}; the rows are {', '.join((*ROWS, *APART))}")
    measured: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="gpustack-benchmarks-") as folder:
        bench = Bench(Path(folder), options.rounds, options.sandbox)
        try:
            for name in options.rows or ROWS:
                print(f"measuring {name} ...", file=sys.stderr, flush=True)
                measured += _measure(name, bench)
        finally:
            bench.close()
    if not options.rows:
        measured.append(Row("agent, 1,000 Pods watched", "-", None, 150, "MiB", "there is no agent yet"))
    table = "\n".join(_lines(measured))
    print(table)
    if options.write:
        _write(table, options.rows)
    return 1 if any(row.verdict == "FAIL" for row in measured) else 0


def _measure(name: str, bench: Bench) -> list[Row]:
    try:
        return importlib.import_module(f"benchmarks.{name}").measure(bench)
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        return [Row(name, "-", None, 0, detail=why[-300:])]


def _write(table: str, rows: list[str]) -> None:
    """Replace the section that was measured: the table of all rows, or that of the rows measured apart."""
    head = "\n## Scale\n"
    standing, _, scale = RESULTS.read_text().partition(head) if RESULTS.exists() else ("", "", "")
    if rows == list(APART):
        scale = f"\n{_machine()} Made by `python -m benchmarks scale --write`.\n\n{table}\n"
    else:
        standing = f"# Benchmarks\n\n{_machine()}\n\nMade by `python -m benchmarks --write`.\n\n{table}\n"
    RESULTS.write_text(f"{standing}{head}{scale}" if scale else standing)


def _lines(rows: list[Row]) -> list[str]:
    head = ["| what | against | measured | budget | | detail |", "|---|---|---|---|---|---|"]
    return head + [
        f"| {row.what} | {row.against} | {_figure(row.value, row.unit)} | {_figure(row.budget, row.unit)} "
        f"| {row.verdict} | {row.detail} |"
        for row in rows
    ]


def _figure(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.3g} {unit}"


def _machine() -> str:
    processor = next(
        (line.partition(":")[2].strip() for line in _read("/proc/cpuinfo") if line.startswith("model name")),
        platform.machine(),
    )
    cores = sum(line.startswith("processor") for line in _read("/proc/cpuinfo"))
    packages = ", ".join(
        f"{name} {version(name)}" for name in ("pulumi", "pulumi-kubernetes", "pydantic", "kubernetes")
    )
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    return f"{when}; {processor}, {cores} cores; Python {platform.python_version()}, {packages}."


def _read(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().splitlines() if file.exists() else []


if __name__ == "__main__":
    sys.exit(main())
