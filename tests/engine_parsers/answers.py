"""What the real parsers said, kept as data: tests/data/engine_parsers/answers/."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[1] / "data" / "engine_parsers" / "answers"

_HEAD = (
    "# What the real parser says of each command line. Made by `make engine-parsers`; not to be edited.\n"
    "# sets: what the line states, by the flag's first long spelling; error: the parser exits;\n"
    "# refused: the line is parsed, and refused when the engine builds its configuration from it.\n"
)


@cache
def read(name: str) -> dict[str, Any]:
    """The answers of `vllm`, `sglang` or `routers`."""
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def write(name: str, question: Any, answer: Any) -> Path:
    """Keep the answers beside what was asked; returns the file."""
    parts = {router: (question[router], answer[router]) for router in question} if name == "routers" else {}
    blocks = [f"python: {answer['python']}\n"]
    for router, (asked, said) in parts.items():
        blocks.append(f"{router}:\n" + "".join(f"  {line}\n" for line in _block(asked, said).splitlines()))
    if not parts:
        blocks.append(_block(question, answer))
    path = FOLDER / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(_HEAD + "".join(blocks), encoding="utf-8")
    return path


def _block(asked: Any, said: Any) -> str:
    rows = {
        "flags": said["flags"],
        "lines": _beside("args", asked["lines"], said["answers"]),
        "commands": _beside("command", asked["commands"], said["commands"]),
    }
    if "stores" in asked:
        rows["stores"] = [
            {"given": given} | heard for given, heard in zip(asked["stores"], said["stores"], strict=True)
        ]
    if "documents" in asked:
        rows["variables"] = [row | heard for row, heard in zip(asked["variables"], said["variables"], strict=True)]
        rows["documents"] = [
            {"flag": flag, "document": text} | heard
            for (flag, text), heard in zip(asked["documents"], said["documents"], strict=True)
        ]
    listed = (f"{key}:\n{''.join(f'- {_flow(row)}' for row in values)}" for key, values in rows.items())
    return f"version: {said['version']}\nparser: {said['parser']}\n{''.join(listed)}"


def _beside(key: str, asked: Any, said: Any) -> list[dict[str, Any]]:
    return [{key: list(line)} | heard for line, heard in zip(asked, said, strict=True)]


def _flow(row: Any) -> str:
    return yaml.safe_dump(row, default_flow_style=True, width=10**6, sort_keys=False, allow_unicode=True)
