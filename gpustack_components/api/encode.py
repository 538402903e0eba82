"""A document back to the JSON it travels as."""

from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from gpustack_components.api.part import Observed, Part
from gpustack_components.api.quantity import Quantity


def encode(document: Part) -> dict[str, Any]:
    """The document, or a part of one, in camelCase without absent fields and empty lists.

    The schema's defaults are written, but what an observed status left out stays left out. Quantities keep their
    spelling. `decode(encode(d)).document == d` for every document.
    """
    out: dict[str, Any] = {}
    values = document.__dict__
    named = _aliases(type(document))
    if isinstance(document, Observed):
        named = tuple(pair for pair in named if pair[0] in document.model_fields_set)
    for name, alias in named:
        value = values[name]
        if value is None or value == () or (value == {} and name != "status"):
            continue
        out[alias] = _json(value)
    return out


@cache
def _aliases(part: type[Part]) -> tuple[tuple[str, str], ...]:
    return tuple((name, field.alias or name) for name, field in part.model_fields.items())


def _json(value: Any) -> Any:
    if isinstance(value, str | int | float) or value is None:
        return value
    if isinstance(value, Part):
        return encode(value)
    if isinstance(value, Quantity):
        return value.spelling
    if isinstance(value, Mapping):
        return {key: _json(inner) for key, inner in cast("Mapping[str, Any]", value).items()}
    return [_json(inner) for inner in value]
