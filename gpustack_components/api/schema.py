"""JSON Schema of the documents, for editors and other tools: types, bounds, allowed values and what every field means.

The schema is made from the document classes, so it says what `decode` checks on single fields. Descriptions are the
classes' own docstrings.
"""

import ast
import inspect
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any, cast

from gpustack_components.api.decode import KINDS
from gpustack_components.api.document import API_VERSION
from gpustack_components.api.part import Part

DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""The dialect the schemas are written in."""

_NOT_OURS = ("gt", "ge", "lt", "le")
"""Bounds of quantities, which JSON Schema has no word for."""


def json_schema(kind: str | None = None) -> dict[str, Any]:
    """The JSON Schema of one kind, or of a document of any kind. Raises `ValueError` for a kind there is none of."""
    if kind is None:
        return _of_any_kind()
    if kind not in KINDS:
        raise ValueError(f'"{kind}" is none of the kinds: {", ".join(KINDS)}')
    return {"$schema": DIALECT, "title": kind, **_schema_of(kind)}


def _of_any_kind() -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    branches: list[dict[str, Any]] = []
    for kind in KINDS:
        schema = _schema_of(kind)
        definitions |= schema.pop("$defs")
        definitions[kind] = schema
        condition = {"properties": {"kind": {"const": kind}}, "required": ["kind"]}
        branches.append({"if": condition, "then": {"$ref": f"#/$defs/{kind}"}})
    return {
        "$schema": DIALECT,
        "title": f"A document of {API_VERSION}",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {"apiVersion": {"const": API_VERSION}, "kind": {"enum": list(KINDS)}},
        "allOf": branches,
        "$defs": definitions,
    }


def _schema_of(kind: str) -> dict[str, Any]:
    model = KINDS[kind]
    schema = _tidy(model.model_json_schema(by_alias=True))
    parts = {part.__name__: part for part in _parts(Part)}
    for name, definition in ((kind, schema), *schema["$defs"].items()):
        for field, meaning in _meanings(parts[name]).items():
            if field in definition.get("properties", {}):
                definition["properties"][field]["description"] = meaning
    schema["required"] = ["apiVersion", "kind", "metadata", "spec"]
    return schema


def _tidy(value: Any) -> Any:
    """The schema without generated titles, and without null: a field is left out rather than null."""
    if isinstance(value, list):
        return [_tidy(entry) for entry in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    node = cast("dict[str, Any]", value)
    out = {
        key: _tidy_named(inner) if key in ("properties", "$defs") else _tidy(inner)
        for key, inner in node.items()
        if not (key == "title" or key in _NOT_OURS or (key == "default" and inner is None))
    }
    branches = [branch for branch in out.get("anyOf", ()) if branch != {"type": "null"}]
    if len(branches) == 1:
        del out["anyOf"]
        return branches[0] | out
    return out


def _tidy_named(named: dict[str, Any]) -> dict[str, Any]:
    return {name: _tidy(schema) for name, schema in named.items()}


def _parts(part: type[Part]) -> list[type[Part]]:
    return [part, *(below for child in part.__subclasses__() for below in _parts(child))]


@cache
def _meanings(part: type[Part]) -> dict[str, str]:
    """The docstring under each field of the class and its bases, by the field's name in a document."""
    out: dict[str, str] = {}
    for owner in reversed(part.__mro__):
        if not issubclass(owner, Part):
            continue
        try:
            source = inspect.getsource(owner)
        except OSError:
            continue
        body = cast("ast.ClassDef", ast.parse(dedent(source)).body[0]).body
        for statement, following in pairwise(body):
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                text = following.value if isinstance(following, ast.Expr) else None
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    field = part.model_fields.get(statement.target.id)
                    out[(field.alias if field else None) or statement.target.id] = inspect.cleandoc(text.value)
    return out
