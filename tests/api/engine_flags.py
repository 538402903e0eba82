"""The flags an engine registers, read from its source: `python -m tests.api.engine_flags SOURCE ENGINE VERSION`.

Prints the content of `tests/data/engine_parsers/<engine>-<version>.flags.yaml`. SOURCE is the unpacked wheel; nothing
of it is imported or run, so no accelerator library is needed:

    pip download --no-deps --only-binary :all: sglang==0.5.23 && unzip sglang-*.whl 'sglang/srt/*' -d SOURCE
    pip download --no-deps --only-binary :all: vllm==0.30.0 && unzip vllm-*.whl 'vllm/*.py' -d SOURCE
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCES = {
    "vLLM": ("vllm/engine/arg_utils.py", "vllm/entrypoints/launchers/cli_args.py", "vllm/config/*.py"),
    "SGLang": ("sglang/srt/server_args.py", "sglang/srt/**/*.py"),
}
"""Where each engine declares its flags: the module of its server's arguments first, then annotated fields."""

Flag = tuple[str, tuple[str, ...]]
"""What a flag takes (`int`, `value`, `list`, `switch` or `switch-or-no`), and its spellings."""


def flags(source: Path, engine: str) -> list[Flag]:
    """Every flag the engine registers, sorted by its first spelling."""
    server, *others = SOURCES[engine]
    trees = {path: ast.parse(path.read_text()) for one in (server, *others) for path in sorted(source.glob(one))}
    fields = {name: note for tree in trees.values() for name, note in _fields(tree)}
    found: dict[tuple[str, ...], str] = {}
    for path, tree in trees.items():
        registers = path == source / server or path.name == "cli_args.py"
        for node in ast.walk(tree):
            if registers and isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
                names = tuple(
                    a.value for a in node.args if isinstance(a, ast.Constant) and str(a.value).startswith("-")
                )
                if names:
                    found.setdefault(names, _kind_of_call(node, fields, engine))
            elif isinstance(node, ast.ClassDef) and node.name in ("BaseFrontendArgs", "FrontendArgs"):
                for field in node.body:
                    if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                        found.setdefault((_flag(field.target.id),), _kind(ast.unparse(field.annotation), engine))
            elif isinstance(node, ast.AnnAssign) and engine == "SGLang":
                for names, kind in _annotated(node):
                    found.setdefault(names, kind)
    return sorted(((kind, names) for names, kind in found.items()), key=lambda one: one[1])


def _flag(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def _fields(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, ast.unparse(node.annotation)


def _kind_of_call(call: ast.Call, fields: dict[str, str], engine: str) -> str:
    stated = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg}
    if "action" in stated:
        return "switch-or-no" if "BooleanOptional" in stated["action"] else _of_action(stated["action"])
    if "nargs" in stated:
        return "list"
    if "type" in stated:
        return "int" if stated["type"] == "int" else "value"
    for keyword in call.keywords:
        for part in ast.walk(keyword.value) if keyword.arg is None else ():
            if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Constant):
                return _kind(fields.get(str(part.slice.value), "str"), engine)
    return "value"


def _of_action(action: str) -> str:
    return "switch" if "true" in action.lower() or "false" in action.lower() else "value"


def _annotated(node: ast.AnnAssign) -> Iterator[tuple[tuple[str, ...], str]]:
    note = node.annotation
    if not (isinstance(node.target, ast.Name) and isinstance(note, ast.Subscript) and ast.unparse(note.value) == "A"):
        return
    kind, *metadata = note.slice.elts if isinstance(note.slice, ast.Tuple) else [note.slice]
    names, takes = [_flag(node.target.id)], _kind(ast.unparse(kind), "SGLang")
    for part in metadata:
        if isinstance(part, ast.Call) and ast.unparse(part.func) == "Arg":
            stated = {keyword.arg: keyword.value for keyword in part.keywords}
            if ast.unparse(stated.get("no_cli", ast.Constant(False))) == "True":
                return
            if "cli_name" in stated:
                names[0] = ast.literal_eval(stated["cli_name"])
            names += ast.literal_eval(stated["aliases"]) if "aliases" in stated else []
            takes = "list" if "nargs" in stated else takes
            takes = "value" if "type_parser" in stated else takes
            if "action" in stated:
                action = ast.unparse(stated["action"])
                takes = "switch-or-no" if "BooleanOptional" in action else _of_action(action)
    yield tuple(names), takes


def _kind(annotation: str, engine: str) -> str:
    plain = annotation.removeprefix("Optional[").removesuffix("]").replace(" | None", "").strip()
    if plain == "bool":
        return "switch-or-no" if engine == "vLLM" else "switch"
    if "list[" in plain.lower():
        return "list"
    return "int" if plain == "int" else "value"


def main(source: str, engine: str, version: str) -> int:
    """Print the flags as the data file holds them."""
    found = flags(Path(source), engine)
    print(f"# {engine} {version}: what a flag takes, then its spellings. Made by tests/api/engine_flags.py.")
    print(f"engine: {engine}\nversion: {version}\nflags:")
    for kind, names in found:
        print(f"- [{', '.join((kind, *names))}]")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
