"""Checking a manifest of ten roles, against parsing its YAML with the C loader."""

import yaml

from benchmarks.inputs import bindings, ten_roles
from benchmarks.row import Bench, Row, fastest
from gpustack_components.admission.review import review
from gpustack_components.bindings.settings import Settings


def measure(bench: Bench) -> list[Row]:
    """One row."""
    document, known, settings = ten_roles(8, 2), bindings(), Settings()
    text = yaml.safe_dump(document)
    verdict = review(document, bindings=known, settings=settings)
    assert verdict.accepted, verdict.refusals
    times = 20

    def check() -> None:
        for _ in range(times):
            review(document, bindings=known, settings=settings)

    def parse() -> None:
        for _ in range(times):
            yaml.load(text, Loader=yaml.CSafeLoader)

    ours, baseline = (taken / times * 1000 for taken in fastest(bench.rounds * 3, check, parse))
    detail = f"{ours:.2f} ms : {baseline:.2f} ms"
    return [
        Row("`check` of the ten-role manifest", "parsing the same YAML (C loader)", ours / baseline, 2, detail=detail)
    ]
