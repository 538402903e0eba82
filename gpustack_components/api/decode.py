"""Raw JSON to a document, or every reason why not at once (api sheet 1, 3.1 and 6.1).

Decoding fills the API's schema defaults, refuses unknown fields by name, and answers in this package's own words.
It never raises.
"""

import re
from dataclasses import dataclass
from typing import Any, cast

from pydantic import ValidationError

from gpustack_components.api.document import API_VERSION, Document
from gpustack_components.api.encode import encode
from gpustack_components.api.instance_type import InstanceType
from gpustack_components.api.kv_cache import KVCacheBackend, KVCachePool, KVCachePoolBinding
from gpustack_components.api.model_artifact import ModelArtifact
from gpustack_components.api.model_deployment import ModelDeployment
from gpustack_components.api.paths import path_of
from gpustack_components.api.plain import Problem, plain
from gpustack_components.api.refusal import Refusal
from gpustack_components.api.scaler import ModelDeploymentScaler
from gpustack_components.api.structure import structural

KINDS: dict[str, type[Document]] = {
    "ModelDeployment": ModelDeployment,
    "InstanceType": InstanceType,
    "KVCachePoolBinding": KVCachePoolBinding,
    "KVCachePool": KVCachePool,
    "KVCacheBackend": KVCacheBackend,
    "ModelArtifact": ModelArtifact,
    "ModelDeploymentScaler": ModelDeploymentScaler,
}
"""The document class of every kind."""

_WRITTEN_BY_USERS = ("ModelDeployment", "ModelDeploymentScaler")
_FORMER_FIELD = "headInstanceType"
_POSITION = re.compile(r"(?<=\[)[0-9]+(?=\])")


@dataclass(frozen=True, slots=True)
class Decoded:
    """The answer to one raw document."""

    document: Document | None
    """The document with defaults filled; None when anything was refused."""
    refusals: tuple[Refusal, ...]
    """Unknown fields first, then what is no JSON, then the others in the order of the schema; empty when the document
    stands."""


def decode(raw: Any, *, stored: bool = False) -> Decoded:
    """Read one document of any kind; dispatches on `apiVersion` and `kind`.

    `stored` says that the object was read back from a cluster or a record: a field that an earlier build stored is
    dropped, and on the objects a ModelDeployment refers to every unknown field is. Those objects are also read so when
    they carry a `resourceVersion`.
    """
    value, problems = plain(encode(raw) if isinstance(raw, Document) else raw)
    if not isinstance(value, dict):
        return Decoded(None, _not_a_document(value, problems))
    body = cast("dict[str, Any]", value)
    kind = body.get("kind")
    model = KINDS.get(kind) if isinstance(kind, str) else None
    if model is None or kind is None or body.get("apiVersion", API_VERSION) != API_VERSION:
        return Decoded(None, (*_as_refusals(problems), *_unknown_kind(body)))

    user_written = kind in _WRITTEN_BY_USERS
    if stored and kind == "ModelDeployment":
        _drop_former_field(body)
    lenient = not user_written and (stored or _is_live(body))
    document: Document | None = None
    invalid: ValidationError | None = None
    try:
        document = model.model_validate(body, by_alias=True, by_name=False, extra="ignore" if lenient else None)
    except ValidationError as error:
        invalid = error
    refusals = _as_refusals(problems)
    if user_written and "apiVersion" not in body:
        refusals += (
            Refusal("schema-required", "apiVersion", f"apiVersion is missing; write apiVersion: {API_VERSION}"),
        )
    if invalid is not None:
        from gpustack_components.api.wording import refusals_of

        refusals += refusals_of(model, invalid, {problem.location for problem in problems})
    refusals += tuple(structural(kind, body))
    return Decoded(None if refusals else document, _ordered(refusals))


def _as_refusals(problems: tuple[Problem, ...]) -> tuple[Refusal, ...]:
    found = (Refusal(problem.rule, path_of(problem.location), problem.message) for problem in problems)
    return tuple(sorted(found, key=_place))


def _not_a_document(value: Any, problems: tuple[Problem, ...]) -> tuple[Refusal, ...]:
    if problems:
        return _as_refusals(problems)
    from gpustack_components.api.wording import shown

    return (
        Refusal(
            "schema-type",
            "",
            f"found {shown(value)}; a document is a map with apiVersion, kind, metadata and spec",
            value,
        ),
    )


def _unknown_kind(body: dict[str, Any]) -> tuple[Refusal, ...]:
    from gpustack_components.api.wording import closest, shown

    version, kind = body.get("apiVersion", API_VERSION), body.get("kind")
    refusals: list[Refusal] = []
    if version != API_VERSION:
        message = f"{shown(version)} is no version this product reads; write {API_VERSION}"
        refusals.append(Refusal("unknown-kind", "apiVersion", message, version))
    if kind is None:
        refusals.append(Refusal("schema-required", "kind", f"kind is missing; it is one of {', '.join(KINDS)}"))
    elif kind not in KINDS if isinstance(kind, str) else True:
        hint = closest(kind, KINDS)
        message = f"{shown(kind)} is none of the kinds this product reads: {', '.join(KINDS)}{hint}"
        refusals.append(Refusal("unknown-kind", "kind", message, kind))
    return tuple(refusals)


def _is_live(body: dict[str, Any]) -> bool:
    metadata = body.get("metadata")
    return isinstance(metadata, dict) and "resourceVersion" in metadata


def _drop_former_field(body: dict[str, Any]) -> None:
    spec = body.get("spec")
    roles = cast("dict[str, Any]", spec).get("roles") if isinstance(spec, dict) else None
    for role in cast("list[Any]", roles) if isinstance(roles, list) else ():
        elastic = cast("dict[str, Any]", role).get("elasticEp") if isinstance(role, dict) else None
        if isinstance(elastic, dict):
            cast("dict[str, Any]", elastic).pop(_FORMER_FIELD, None)


def _ordered(refusals: tuple[Refusal, ...]) -> tuple[Refusal, ...]:
    unknown = sorted((refusal for refusal in refusals if refusal.rule == "unknown-field"), key=_place)
    return (*unknown, *(refusal for refusal in refusals if refusal.rule != "unknown-field"))


def _place(refusal: Refusal) -> str:
    return _POSITION.sub(lambda found: found[0].zfill(8), refusal.path)
