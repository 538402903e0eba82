"""Which rule is shown refused, shown accepted beside it, and judged on an update: `python -m tests.admission.coverage`.

Exits with 1 and names the holes when a rule lacks one of the three.
"""

import sys
from dataclasses import dataclass

from gpustack_components.admission.registry import RULES
from gpustack_components.admission.rule import Rule
from tests.admission.cases import cases

SHOWN_ELSEWHERE = {
    "role-kind-unsupported": "no manifest reaches it: test_review builds the document",
    "router-engine-metrics": "no manifest reaches it: test_review builds the document",
    "schema-one-of": "a rule of binding objects: tests/api",
    "document-duplicate": "several documents: test_review_all",
    "service-name-shared": "several documents: test_review_all",
    "binding-conflict": "no document reaches it: test_review gives the objects",
    "internal-error": "no document reaches it: test_review plants a crash",
}
"""Rules whose cases cannot be a row of the data, and where they are instead."""


@dataclass(frozen=True)
class Row:
    """How often one rule is shown in each way."""

    rule: Rule
    refused: int
    accepted: int
    update: int

    @property
    def holes(self) -> tuple[str, ...]:
        """The ways nobody shows."""
        if self.rule.id in SHOWN_ELSEWHERE:
            return ()
        shown = {"refused": self.refused, "accepted": self.accepted}
        if "update" in self.rule.operations:
            shown["update"] = self.update
        return tuple(way for way, count in shown.items() if not count)


def rows() -> list[Row]:
    """One row per rule of the registry."""
    table: list[Row] = []
    for rule in RULES.values():
        found = [case for case in cases() if rule.id in {name for name, _ in case.refused}]
        found += [case for case in cases() if rule.id in {one["rule"] for one in case.row.get("warned", ())}]
        table.append(
            Row(
                rule,
                refused=len(found),
                accepted=sum(rule.id in case.accepted_rules for case in cases()),
                update=sum(case.old is not None or case.judged_as_update or rule.severity == "warn" for case in found),
            )
        )
    return table


def main() -> int:
    """Print the table; 1 when it has holes."""
    table = rows()
    print(f"{'rule':32}{'refused':>9}{'accepted':>10}{'update':>8}  holes")
    for row in table:
        remark = SHOWN_ELSEWHERE.get(row.rule.id) or ", ".join(row.holes)
        print(f"{row.rule.id:32}{row.refused:9}{row.accepted:10}{row.update:8}  {remark}".rstrip())
    holes = sum(bool(row.holes) for row in table)
    print(f"{len(table)} rules, {len(cases())} cases, {holes} rules with holes")
    return 1 if holes else 0


if __name__ == "__main__":
    sys.exit(main())
