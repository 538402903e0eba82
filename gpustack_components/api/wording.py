"""Validation errors in our words: the rule, the field path, what was found and the way out (api sheet 6.1).

Bounds, allowed values and field names are read off the kind's own JSON schema, so a message never disagrees with the
check behind it.
"""

import difflib
import json
from collections.abc import Iterable, Iterator, Set
from functools import cache
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gpustack_components.api.concealment import HIDDEN, concealed, hides
from gpustack_components.api.document import Document
from gpustack_components.api.hints import PATTERNS, REQUIRED, UNKNOWN
from gpustack_components.api.part import INT32_MAX
from gpustack_components.api.paths import Location, path_of, printable
from gpustack_components.api.refusal import Refusal

_BOUNDS = {
    "greater_than",
    "greater_than_equal",
    "less_than",
    "less_than_equal",
    "too_short",
    "too_long",
    "string_too_short",
    "string_too_long",
    "string_pattern_mismatch",
    "quantity_format",
}
_TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "string": "text",
    "array": "a list",
    "object": "a map of fields",
}
_BOUND_IDS = {"replicas": "role-replicas-bound", "size": "role-size-bound", "width": "elastic-width-bound"}


def refusals_of(model: type[Document], error: ValidationError, told: Set[Location]) -> tuple[Refusal, ...]:
    """The errors as refusals, without those at or under a location that was told of already."""
    schema = _schema(model)
    return tuple(
        _refusal(schema, model, details, location)
        for details in error.errors(include_url=False)
        for location in [_location(details)]
        if not any(location[:length] in told for length in range(len(location) + 1)) and not _is_echo(details)
    )


def _is_echo(details: ErrorDetails) -> bool:
    """A list is also called too short when only its entries are invalid; those have been told of."""
    return details["type"] == "too_short" and len(details["input"]) >= details.get("ctx", {}).get("min_length", 0)


def _location(details: ErrorDetails) -> Location:
    location = details["loc"]
    return location[:-1] if location and location[-1] == "[key]" else location


def _refusal(schema: "_Schema", model: type[Document], details: ErrorDetails, location: Location) -> Refusal:
    kind, path = details["type"], path_of(location)
    found, value = details["input"], concealed(location, details["input"])
    if kind == "extra_forbidden":
        return Refusal("unknown-field", path, _unknown(schema, location), value)
    if kind == "missing":
        hint = REQUIRED.get(path_of([step for step in location if isinstance(step, str)]), "add it")
        return Refusal("schema-required", path, f"{location[-1]} is required and missing; {hint}")
    at = schema.at(location)
    if hides(location) and isinstance(found, str):
        rule = _bounds_id(model, location) if kind in _BOUNDS else "schema-type"
        return Refusal(rule, path, _hidden(at, bounded=kind in _BOUNDS), value)
    if kind == "literal_error":
        allowed = [str(value) for value in at.get("enum", [at.get("const", "")]) if value != ""]
        listed = f"one of {', '.join(allowed)}" if len(allowed) > 1 else allowed[0]
        return Refusal(
            "schema-enum", path, f"found {shown(found)}; the value is {listed}{closest(found, allowed)}", value
        )
    if kind in _BOUNDS:
        return Refusal(_bounds_id(model, location), path, _bounds(at, details, found), value)
    return Refusal("schema-type", path, _type(at, found), value)


def _hidden(at: dict[str, Any], *, bounded: bool) -> str:
    """What is wrong with a text, without the text."""
    if bounded:
        pattern = str(at.get("pattern", ""))
        wanted = PATTERNS.get(pattern) or (f"write text that matches {pattern}" if pattern else "write another one")
        return f"found text {HIDDEN} that is not allowed; {wanted}"
    return f"found text {HIDDEN} where {_TYPES.get(at.get('type', ''), 'a number or text')} belongs"


def _bounds_id(model: type[Document], location: Location) -> str:
    if location == ("spec", "roles"):
        return "roles-empty"
    if model.__name__ == "ModelDeployment" and location[:2] == ("spec", "roles"):
        return _BOUND_IDS.get(str(location[-1]), "schema-bounds")
    return "schema-bounds"


def _unknown(schema: "_Schema", location: Location) -> str:
    name, parent = str(location[-1]), path_of(location[:-1]) or "the document"
    names = [step for step in location if isinstance(step, str)]
    hint = UNKNOWN.get(path_of(names)) or UNKNOWN.get(path_of(names[-2:]))
    said = f'{parent} has no field "{printable(name, 80)}"'
    if hint:
        return f"{said}; {hint}"
    known = list(schema.at(location[:-1]).get("properties", {}))
    near = closest(name, known)
    return f"{said}{near}" if near else f"{said}; its fields are {', '.join(known)}"


def _bounds(at: dict[str, Any], details: ErrorDetails, found: Any) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if kind == "quantity_format":
        return str(context["reason"])
    if kind == "string_pattern_mismatch":
        pattern = str(context["pattern"])
        return f"found {shown(found)}; {PATTERNS.get(pattern, f'write text that matches {pattern}')}"
    if kind in ("string_too_short", "string_too_long"):
        least, most = at.get("minLength", 0), at.get("maxLength")
        if found == "":
            return "found empty text; write at least one character"
        return f"found {len(found)} characters, and {_range(least, most)} are allowed; shorten it"
    if kind in ("too_short", "too_long"):
        least, most = at.get("minItems", 0), at.get("maxItems")
        advice = "add one" if kind == "too_short" else "remove some"
        return f"found {_entries(len(found))}, and {_range(least, most)} are allowed; {advice}"
    if "minimum" in at or "maximum" in at:
        least, most = at.get("minimum"), at.get("maximum")
        return f"found {shown(found)}; write a number that is {_number(kind, least, most)}"
    limits = {
        "greater_than": "above",
        "greater_than_equal": "at least",
        "less_than": "below",
        "less_than_equal": "at most",
    }
    return f"found {shown(found)}; write an amount {limits[kind]} {next(iter(context.values()))}"


def _entries(count: int) -> str:
    return {0: "no entry", 1: "1 entry"}.get(count, f"{count} entries")


def _number(kind: str, least: int | None, most: int | None) -> str:
    if kind == "less_than_equal" and most == INT32_MAX:
        return f"at most {most}"
    if least is None or most is None or most >= INT32_MAX:
        return _range(least, most)
    return f"between {least} and {most}"


def _range(least: int | None, most: int | None) -> str:
    if most is None or most >= INT32_MAX:
        return f"at least {least}"
    return f"at most {most}" if not least else f"exactly {most}" if least == most else f"between {least} and {most}"


def _type(at: dict[str, Any], found: Any) -> str:
    wanted = at.get("type", "")
    said = f"found {shown(found)} where {_TYPES.get(wanted, 'a number or text')} belongs"
    if isinstance(found, bool) and wanted != "boolean":
        quoted = "; YAML reads yes, no, on and off as true and false: write text in quotes"
        return said + quoted if wanted in ("string", "") else said
    if wanted == "string" and isinstance(found, int | float):
        return f'{said}; write it in quotes: "{found}"'
    if isinstance(found, str) and wanted in ("integer", "boolean", "number"):
        return f"{said}; write it without quotes" if _reads_as(found, wanted) else said
    if wanted == "array" and isinstance(found, str):
        return f"{said}; write it as a list: [{shown(found)}]"
    return said


def _reads_as(text: str, wanted: str) -> bool:
    return text in ("true", "false") if wanted == "boolean" else text.removeprefix("-").isdecimal()


def shown(value: Any) -> str:
    """A value found, for a sentence: text and numbers as JSON, cut at 60 characters, anything else by what it is."""
    if isinstance(value, dict):
        return "a map" if value else "an empty map"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    if isinstance(value, str):
        return f'"{printable(value, 60)}"'
    return "null" if value is None else printable(json.dumps(value), 60)


def closest(found: Any, allowed: Iterable[str]) -> str:
    """`; did you mean x?` when a value allowed is near the one found, else nothing."""
    if not isinstance(found, str) or len(found) > 100:
        return ""
    folded = {value.lower().replace("_", ""): value for value in allowed}
    near = difflib.get_close_matches(found.lower().replace("_", ""), folded, n=1, cutoff=0.7)
    return f"; did you mean {folded[near[0]]}?" if near else ""


class _Schema:
    """A JSON schema that can be asked for the schema at a location."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root

    def at(self, location: Location) -> dict[str, Any]:
        here = self._root
        for step in location:
            here = self._flat(here)
            if isinstance(step, int):
                inner = here.get("items")
            else:
                inner = here.get("properties", {}).get(step) or here.get("additionalProperties")
            if not isinstance(inner, dict):
                return {}
            here = cast("dict[str, Any]", inner)
        return self._flat(here)

    def _flat(self, here: dict[str, Any]) -> dict[str, Any]:
        for branch in self._branches(here):
            if branch.get("type") != "null":
                return branch
        return here

    def _branches(self, here: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if "$ref" in here:
            yield from self._branches(self._root["$defs"][here["$ref"].rpartition("/")[2]])
        elif "anyOf" in here and not here.get("x-kubernetes-int-or-string"):
            for branch in here["anyOf"]:
                yield from self._branches(branch)
        else:
            yield here


@cache
def _schema(model: type[Document]) -> _Schema:
    return _Schema(model.model_json_schema(by_alias=True))
