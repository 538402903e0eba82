"""Writing results: JSON, YAML and marked-up text, streamed where the result is large."""

import json
import os
import sys
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import typer

Json = dict[str, Any]


class TextOrJson(StrEnum):
    """Output of a command that words its result for people or for tools."""

    TEXT = "text"
    JSON = "json"


class YamlTextOrJson(StrEnum):
    """Output of `render`: its objects are YAML or JSON, its views text or JSON."""

    YAML = "yaml"
    TEXT = "text"
    JSON = "json"


class TableYamlOrJson(StrEnum):
    """Output of `status`."""

    TABLE = "table"
    YAML = "yaml"
    JSON = "json"


def use_readable_streams() -> None:
    """Write any text in any locale: what it cannot encode is escaped, which JSON and YAML strings read back."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def on_terminal() -> bool:
    """Whether standard output is a terminal whose reader wants colour (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def marked(text: str, colour: str | None = None, *, bold: bool = False) -> str:
    """The text in a colour or bold on a terminal, the bare text anywhere else."""
    return typer.style(text, fg=colour, bold=bold) if on_terminal() else text


def say(text: str = "") -> None:
    """Write one line to standard output."""
    sys.stdout.write(f"{text}\n")


def write_json(value: Any) -> None:
    """Write one JSON value, indented."""
    say(json.dumps(value, indent=2, ensure_ascii=False))


def write_objects(objects: Iterable[Json], *, as_json: bool) -> None:
    """Write Kubernetes objects as they come: a JSON `v1` List with one object a line, or YAML documents."""
    if as_json:
        _write_json_list(objects)
    else:
        _write_yaml_documents(objects)


def write_yaml(value: Any) -> None:
    """Write one YAML document."""
    _dump_yaml(value)


def _write_json_list(objects: Iterable[Json]) -> None:
    write = sys.stdout.write
    encode = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
    write('{"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [')
    separator = "\n"
    for obj in objects:
        write(separator)
        write(encode(obj))
        separator = ",\n"
    write("\n]}\n")


def _write_yaml_documents(objects: Iterable[Json]) -> None:
    for index, obj in enumerate(objects):
        if index:
            sys.stdout.write("---\n")
        _dump_yaml(obj)


def _dump_yaml(value: Any) -> None:
    from gpustack_components.api.yaml_text import write_yaml

    write_yaml(value, sys.stdout)
