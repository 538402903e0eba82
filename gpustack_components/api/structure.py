"""What the schema says beyond one field: entries that must differ, and blocks of which one stands (api sheet 6.1).

Judged on raw JSON, so that these refusals appear beside those of single fields in the same answer.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from gpustack_components.api.paths import Location, path_of
from gpustack_components.api.refusal import Refusal


def structural(kind: str, document: dict[str, Any]) -> Iterator[Refusal]:
    """Refusals of a document of that kind, in document order."""
    judge = _JUDGES.get(kind)
    if judge is not None:
        yield from judge(_map(document.get("spec")))


def _model_deployment(spec: dict[str, Any]) -> Iterator[Refusal]:
    yield from _unique_names(("spec", "roles"), spec.get("roles"), "role")
    for index, role in _maps(spec.get("roles")):
        here: Location = ("spec", "roles", index)
        yield from _unique_ports((*here, "ports"), role.get("ports"))
        yield from _unique_env((*here, "env"), role.get("env"))


def _scaler(spec: dict[str, Any]) -> Iterator[Refusal]:
    yield from _unique_names(("spec", "roles"), spec.get("roles"), "role")


def _backend(spec: dict[str, Any]) -> Iterator[Refusal]:
    yield from _exactly_one(("spec", "connection"), spec.get("connection"), ("managed", "external"))


def _artifact(spec: dict[str, Any]) -> Iterator[Refusal]:
    yield from _exactly_one(
        ("spec", "source"), spec.get("source"), ("huggingFace", "modelScope", "persistentVolumeClaim", "image")
    )


_JUDGES: dict[str, Callable[[dict[str, Any]], Iterator[Refusal]]] = {
    "ModelDeployment": _model_deployment,
    "ModelDeploymentScaler": _scaler,
    "KVCacheBackend": _backend,
    "ModelArtifact": _artifact,
}


def _unique_names(at: Location, entries: Any, noun: str) -> Iterator[Refusal]:
    first: dict[str, int] = {}
    for index, entry in _maps(entries):
        name = entry.get("name")
        if isinstance(name, str) and first.setdefault(name, index) != index:
            yield Refusal(
                f"{noun}-name-duplicate",
                path_of((*at, index, "name")),
                f'"{name}" already names {path_of((*at, first[name]))}; give every {noun} a name of its own',
                name,
            )


def _unique_ports(at: Location, entries: Any) -> Iterator[Refusal]:
    first: dict[tuple[int, str], int] = {}
    for index, entry in _maps(entries):
        number, protocol = entry.get("port"), entry.get("protocol", "TCP")
        if type(number) is int and isinstance(protocol, str):
            pair = (number, protocol)
            if first.setdefault(pair, index) != index:
                earlier = path_of((*at, first[pair]))
                message = (
                    f"port {number} with protocol {protocol} is already declared at {earlier}; keep one of the two"
                )
                yield Refusal("port-duplicate", path_of((*at, index)), message, entry)


def _unique_env(at: Location, entries: Any) -> Iterator[Refusal]:
    first: dict[str, int] = {}
    for index, entry in _maps(entries):
        name = entry.get("name")
        if isinstance(name, str) and first.setdefault(name, index) != index:
            yield Refusal(
                "env-duplicate",
                path_of((*at, index)),
                f'the variable "{name}" is already set at {path_of((*at, first[name]))}; keep one of the two',
                name,
            )


def _exactly_one(at: Location, block: Any, names: tuple[str, ...]) -> Iterator[Refusal]:
    if isinstance(block, dict):
        present = [name for name in names if name in block]
        if len(present) != 1:
            found = f"found {' and '.join(present)}" if present else "found none of them"
            yield Refusal(
                "schema-one-of", path_of(at), f"exactly one of {', '.join(names)} belongs here, and {found}; keep one"
            )


def _maps(entries: Any) -> Iterable[tuple[int, dict[str, Any]]]:
    if isinstance(entries, list):
        for index, entry in enumerate(cast("list[Any]", entries)):
            if isinstance(entry, dict):
                yield index, cast("dict[str, Any]", entry)


def _map(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
