"""Many mutated documents through the review: `python -m tests.admission.fuzz [COUNT] [SEED]`.

Exits with 1 and shows the first document that crashes a rule, or gets a refusal without a registered rule, a path or a
message. The same count and seed give the same documents.
"""

import json
import random
import sys
from collections import Counter
from typing import Any

from gpustack_components.admission.registry import RULES
from gpustack_components.admission.review import Review, review
from gpustack_components.bindings.catalog import Bindings
from gpustack_components.bindings.settings import Settings
from tests.admission.cases import cases, world

WHOLE_DOCUMENT = {"internal-error", "schema-type", "unknown-kind", "schema-bounds"}
"""Rules that may speak of the document as a whole."""

_TOKENS = """
    -tp=2 -t=2 -tp2 --tensor-parallel-size two 0 -1 1_0 2 --port --port=8998 --por=5557 -- -n2 -r0 -dpe -dph -dpm -dpr
    --kv-transfer-config --kv-cache-dtype=fp8 --served-model-name --model --revision=x --ssl-keyfile
    --elastic-ep-max-dp=3
"""
TOKENS = _TOKENS.split()
NUMBERS: list[Any] = [None, True, False, 0, 1, -1, 2, 64, 65, 1024, 2**31, 2**63, 2**70, 0.5, 1.0]
SCALARS: list[Any] = [*NUMBERS, float("nan"), float("inf")]
NAMES = ["", "x", "a.b", "../x", "/a/b", "h20-8x", "fresh", "Prefill", "Server", "vLLM"]
TEXTS = [*NAMES, "1500m", "9", "1e400", "\ud800", "\0", "é" * 70]


def value(dice: random.Random, depth: int = 0) -> Any:
    """A value of any shape."""
    pick = dice.random()
    if pick < 0.4:
        return dice.choice(SCALARS)
    if pick < 0.7:
        return dice.choice(TEXTS)
    if pick < 0.8:
        return [dice.choice(TOKENS) for _ in range(dice.randrange(5))]
    if depth > 2:
        return []
    if pick < 0.9:
        return [value(dice, depth + 1) for _ in range(dice.randrange(3))]
    return {dice.choice([*NAMES, "name", "port", "value"]): value(dice, depth + 1) for _ in range(dice.randrange(3))}


def places(at: Any) -> list[tuple[Any, Any]]:
    """Every container of a document with one of its keys."""
    found: list[tuple[Any, Any]] = []
    pairs = at.items() if isinstance(at, dict) else enumerate(at) if isinstance(at, list) else ()
    for key, below in pairs:
        found.append((at, key))
        found.extend(places(below))
    return found


def mutate(document: Any, dice: random.Random) -> Any:
    """The document with a few of its values replaced, removed, doubled or swapped with others."""
    for _ in range(dice.randrange(1, 4)):
        known = places(document)
        if not known:
            return document
        at, key = dice.choice(known)
        if key not in at and isinstance(at, dict):
            continue
        pick = dice.random()
        if pick < 0.5:
            at[key] = value(dice)
        elif pick < 0.65:
            del at[key]
        elif pick < 0.8 and isinstance(at, list):
            at.append(json.loads(json.dumps(at[key])))
        else:
            other, name = dice.choice(known)
            at[key] = json.loads(json.dumps(other[name]))
    return document


def fault(verdict: Review) -> str:
    """What is wrong with a verdict itself; empty when nothing is."""
    for refusal in (*verdict.refusals, *verdict.warnings):
        if refusal.rule not in RULES or refusal.rule == "internal-error" or not refusal.message:
            return str(refusal)
        if not refusal.path and refusal.rule not in WHOLE_DOCUMENT:
            return f"no path: {refusal}"
    return "" if verdict.accepted == (verdict.document is not None) else "accepted without a document"


def main(count: int = 100_000, seed: int = 0) -> int:
    """Review `count` documents, every other one as an update of another."""
    dice = random.Random(seed)
    settings, bindings = Settings(), (world(), Bindings())
    seen: Counter[str] = Counter()
    rows = [case.document for case in cases()]
    for number in range(count):
        new = mutate(json.loads(json.dumps(dice.choice(rows))), dice)
        old = mutate(json.loads(json.dumps(dice.choice(rows))), dice) if number % 2 else None
        verdict = review(new, old=old, bindings=bindings[number % 5 == 0], settings=settings)
        wrong = fault(verdict)
        if wrong:
            print(f"document {number} of seed {seed}: {wrong}\nnew: {new!r}\nold: {old!r}")
            return 1
        seen.update({refusal.rule for refusal in verdict.refusals} or {"accepted"})
    print(f"{count} documents, none crashed; {seen.pop('accepted', 0)} accepted, {len(seen)} rules met")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
