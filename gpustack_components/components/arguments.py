"""What a program passes to `ModelDeployment`, as one raw document; and what in it must not be an Output.

Everything that decides which objects there are (namespace, names, roles, replicas, sizes, instance types, ports, the
router) is a plain value, so that preview shows every child. Words that only end up inside a Pod may be Outputs:
images, environment values, arguments, names of Secrets. A secret value belongs into a Kubernetes Secret that the spec
names; the refusal says so.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pulumi
from pydantic import BaseModel

from gpustack_components.api.document import Document
from gpustack_components.api.refusal import Refusal
from gpustack_components.components.plain import Json, Known, known, member, paths_of

API_VERSION = "worker.gpustack.ai/v1"
KIND = "ModelDeployment"

_SNAKE = re.compile(r"^[a-z][a-z0-9]*(_[a-z0-9]+)+$")
_MAY_BE_OUTPUT = re.compile(
    r"""^(
      metadata\.(labels|annotations)[.\[].+
    | spec\.model\.name
    | spec\.model\.artifactRef\.name
    | spec\.engine\.image
    | spec\.kvCache\.poolRef\.name
    | spec\.router\.(image|extraArgs\[\d+\]|imagePullSecrets\[\d+\]\.name)
    | spec\.roles\[\d+\]\.(
          image
        | (command|extraArgs)\[\d+\]
        | env\[\d+\]\.value
        | imagePullSecrets\[\d+\]\.name
        | additionalVolumes\[\d+\]\.(mountPath|subPath|(configMap|secret)\.name|hostPath\.path)
      )
    )$""",
    re.VERBOSE,
)


def is_output(value: Any) -> bool:
    """Whether a value is a Pulumi Output."""
    return isinstance(value, pulumi.Output)


def compose(
    name: str,
    *,
    document: Mapping[str, Any] | BaseModel | None,
    namespace: str | None,
    spec: Mapping[str, Any] | BaseModel | None,
    metadata: Mapping[str, Any] | None,
) -> tuple[Json, tuple[Refusal, ...]]:
    """The raw document of the arguments, Outputs left in it, and what is wrong with the combination of arguments."""
    refusals: list[Refusal] = []
    base = _json(document, "", refusals)
    given = cast("Json", base) if isinstance(base, dict) else {}
    if base is not None and not isinstance(base, dict):
        refusals.append(Refusal("document-shape", "", "the document is not a mapping; pass the manifest as a dict"))
    if document is not None and spec is not None:
        refusals.append(Refusal("arguments", "spec", "both a document and a spec were passed; pass one of them"))
    if spec is not None:
        given["spec"] = _json(spec, "spec", refusals)
    named = given.get("metadata")
    meta: Json = {**(cast(Json, named) if isinstance(named, Mapping) else {}), **(metadata or {})}
    if namespace is not None:
        stated = meta.get("namespace")
        if isinstance(stated, str) and not is_output(namespace) and stated != namespace:
            message = f"the document says {stated}, the argument says {namespace}; keep one of them"
            refusals.append(Refusal("arguments", "metadata.namespace", message, stated))
        meta["namespace"] = namespace
    meta.setdefault("name", name)
    meta.setdefault("namespace", "default")
    return {"apiVersion": API_VERSION, "kind": KIND, **given, "metadata": meta}, tuple(refusals)


def _json(value: Any, path: str, refusals: list[Refusal]) -> Any:
    """A model, mapping or list with the field names of a manifest; snake_case keys are spelled as in YAML."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    if isinstance(value, Mapping):
        spelled: Json = {}
        for key, item in cast(Mapping[Any, Any], value).items():
            field = _field(str(key)) if not path.startswith(("metadata.labels", "metadata.annotations")) else str(key)
            if field in spelled:
                message = "is given twice, in snake_case and in camelCase; keep one spelling"
                refusals.append(Refusal("arguments", member(path, field), message))
            spelled[field] = _json(item, member(path, field), refusals)
        return spelled
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_json(item, member(path, index), refusals) for index, item in enumerate(cast(Sequence[Any], value))]
    return value


def as_json(value: Mapping[str, Any] | BaseModel) -> Json:
    """A binding as a raw document: a model, or a manifest as a mapping."""
    spelled = cast("Json", _json(value, "", []))
    return {"apiVersion": API_VERSION, "kind": value.kind, **spelled} if isinstance(value, Document) else spelled


def _field(key: str) -> str:
    if not _SNAKE.match(key):
        return key
    head, *tail = key.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in tail)


def refused_outputs(document: Json) -> tuple[Refusal, ...]:
    """A refusal for every Output at a place that decides which objects there are."""
    return tuple(
        Refusal(
            "output-decides-shape",
            path,
            "is an Output, and its value decides which objects the deployment has; "
            "pass a plain value, so that preview can show them",
        )
        for path, _ in paths_of(document, is_output)
        if not _MAY_BE_OUTPUT.match(path)
    )


def without_outputs(document: Json) -> Known:
    """The document as far as the program knows it while it runs: every Output counts as not known yet."""
    return known(document, is_output)


def secret_refusals(document: Json) -> "pulumi.Output[list[str]] | None":
    """The refusals of secret values in the document, as text: known once the engine has resolved them, and not secret
    themselves.

    None when the document holds no Output at all.
    """
    found = list(paths_of(document, is_output))
    if not found:
        return None

    async def secret_paths() -> list[str]:
        return [str(_secret(path)) for path, output in found if await cast("pulumi.Output[Any]", output).is_secret()]

    return pulumi.Output.from_input(secret_paths())


def _secret(path: str) -> Refusal:
    message = (
        "is a secret value, and everything in a spec ends up readable in Pods, in the record and in the plan; "
        "put it into a Kubernetes Secret and name that Secret in the spec"
    )
    return Refusal("secret-in-spec", path, message)
