"""What an edit of each field costs, measured: every row of the reference page (rollout sheet 2.3)."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from gpustack_components.admission.review import review
from gpustack_components.api.encode import encode
from gpustack_components.api.model_deployment import ModelDeployment, ModelDeploymentSpec
from gpustack_components.bindings.catalog import Bindings
from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.bindings.settings import Settings
from gpustack_components.render.edit_cost import ROWS, table
from gpustack_components.render.fingerprint import fingerprint
from gpustack_components.render.router import router_objects
from tests.render import build

Json = dict[str, Any]
EDITS: dict[str, Json] = build.cases("edits")
REFUSED = [row.field for row in ROWS if row.cost == "refused"]
MEASURED = [row for row in ROWS if row.cost not in ("refused", "floor")]
ELSEWHERE = {"metadata.annotations[min-render-version]"}
"""Rows whose cost is no fingerprint: the floor has its own test."""


def document(edits: list[Json], role: list[Json], metadata: Json | None = None, drop: str | None = None) -> Json:
    """The base deployment as raw JSON, with edits of its spec and of its prefill role, one after the other."""
    prefill, decode = build.pair()
    for change in role:
        prefill = build.merged(prefill, change)
    roles = [prefill, decode]
    base = build.deployment(
        roles=[r for r in roles if r["name"] != drop],
        router={"name": "llm-d-router"},
        kvCache={"poolRef": {"name": "cache"}},
        model={"artifactRef": {"name": "weights"}},
    )
    raw = encode(base)
    for change in edits:
        raw["spec"] = build.merged(raw["spec"], change)
    return build.merged(raw, {"metadata": metadata or {}})


def resolved(raw: Json, row: Json) -> ResolvedDeployment:
    store = build.store(groups=(), protocol="TCP")
    known = [build.instance_type(), build.instance_type("other-8x"), *store, build.artifact()]
    before = build.resolved(ModelDeployment.model_validate(raw), known)
    known = [_laid_over(item, row.get("binding", {}).get(type(item).__name__, {})) for item in known]
    return build.resolved(
        ModelDeployment.model_validate(raw),
        known,
        runtime_classes=row.get("runtime-classes", ()),
        settings=row.get("settings", {}),
        remembered=before.store,
    )


def _laid_over(item: Any, change: Json) -> Any:
    return type(item).model_validate(build.merged(encode(item), change)) if change else item


def hashes(found: ResolvedDeployment, role: str) -> str:
    return fingerprint(found, role, 0, 0)


def rolled(before: ResolvedDeployment, after: ResolvedDeployment) -> set[str]:
    return {role.name for role in before.roles if hashes(before, role.name) != hashes(after, role.name)}


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: row.field)
def test_an_edit_rolls_exactly_what_its_row_says(row: Any) -> None:
    edit = EDITS[row.field]
    start, start_role = edit.get("before", {}), edit.get("before-role", {})
    changed = document([start, edit.get("edit", {})], [start_role, edit.get("role", {})], edit.get("metadata"))
    before, after = resolved(document([start], [start_role]), {}), resolved(changed, edit)
    every = {"prefill", "decode"}
    expected = {"role": {"prefill"} if "role" in edit else every, "every role": every}.get(row.cost, set())
    assert rolled(before, after) == expected
    if row.cost in ("nothing", "count", "role", "router"):
        assert (router_objects(before) != router_objects(after)) == (row.cost == "router")


@pytest.mark.parametrize("field", [field for field in EDITS if {"none", "none-role"} & set(EDITS[field])])
def test_another_spelling_of_the_same_value_rolls_nothing(field: str) -> None:
    edit = EDITS[field]
    start, start_role = edit.get("before", {}), edit.get("before-role", {})
    before = resolved(document([start], [start_role]), {})
    spellings = [(change, {}) for change in edit.get("none", ())] + [
        ({}, change) for change in edit.get("none-role", ())
    ]
    for spec, role in spellings:
        after = resolved(document([start, spec], [start_role, role]), {})
        assert rolled(before, after) == set(), (spec, role)


@pytest.mark.parametrize("field", REFUSED)
def test_a_frozen_field_is_refused(field: str) -> None:
    edit = EDITS[field]
    bindings = Bindings.of([build.instance_type(), *build.store(), build.artifact()], complete=True)
    changed = document([edit.get("edit", {})], [edit.get("role", {})], drop=edit.get("drop"))
    verdict = review(changed, old=document([], []), bindings=bindings, settings=Settings())
    assert verdict.refusals


def test_every_field_of_the_document_has_a_row() -> None:
    rows = {row.field for row in ROWS}

    def covered(path: str, model: type[BaseModel]) -> None:
        for field in model.model_fields.values():
            here = f"{path}.{field.alias}"
            inner = _models(field.annotation)
            if here in rows or any(row.startswith(f"{here}[]") and not inner for row in rows):
                continue
            assert inner, f"{here} has no row in render/edit_cost.py"
            for model_ in inner:
                covered(f"{here}[]" if "roles" in here.rsplit(".", 1)[-1] else here, model_)

    covered("spec", ModelDeploymentSpec)
    roles = ModelDeploymentSpec.model_fields["roles"]
    for model in _models(roles.annotation):
        covered("spec.roles[]", model)


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in getattr(annotation, "__args__", ()) for model in _models(argument)]


def test_every_row_is_measured_and_every_measurement_has_a_row() -> None:
    assert {row.field for row in ROWS} - ELSEWHERE == set(EDITS)


def test_the_reference_page_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs/reference/edit-cost.md"
    assert page.read_text(encoding="utf-8") == table(), "write render.edit_cost.table() to docs/reference/edit-cost.md"
    assert not re.search(r"\| +\|$", table().split("|---|---|---|")[0])
