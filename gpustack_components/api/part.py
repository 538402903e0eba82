"""The base of every object in a document, and the scalar types of the API (api sheet 2).

Python attributes are the snake_case of the field; documents travel in camelCase. A field that was absent is None (a
list or map: empty), unless the schema defaults it. Strict where the API server is: text is no number, nor is true.
"""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, Strict
from pydantic.alias_generators import to_camel

from gpustack_components.api.quantity import Quantity

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

Bool: TypeAlias = Annotated[bool, Strict()]
"""true or false, nothing that merely reads like it."""

Int: TypeAlias = Annotated[int, Strict(), Field(ge=-INT64_MAX - 1, le=INT64_MAX)]
"""A 64-bit integer."""

Count: TypeAlias = Annotated[int, Strict(), Field(ge=0, le=INT32_MAX)]
"""A 32-bit integer of at least 0."""

PositiveInt: TypeAlias = Annotated[int, Strict(), Field(ge=1, le=INT32_MAX)]
"""A 32-bit integer of at least 1."""

PositiveQuantity: TypeAlias = Annotated[Quantity, Field(gt=0)]
"""A quantity above 0."""

Text: TypeAlias = Annotated[str, Field(min_length=1)]
"""Text of at least one character."""

ImageReference: TypeAlias = Annotated[str, Field(max_length=512)]
"""A container image reference of at most 512 characters."""

PullPolicy: TypeAlias = Literal["Always", "IfNotPresent", "Never"]
"""Kubernetes' image pull policies."""

Opaque: TypeAlias = dict[str, Any]
"""An object whose inner shape this product does not read: kept as raw JSON."""


class Part(BaseModel, frozen=True):
    """An object of a document: frozen, no field beyond the API's, built in Python by either spelling of a field."""

    model_config = ConfigDict(
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        defer_build=True,
    )


class Observed(Part, frozen=True):
    """An object inside a status that another controller writes: fields this product does not read are dropped."""

    model_config = ConfigDict(extra="ignore")


class LocalRef(Part, frozen=True):
    """A reference to an object in the same namespace."""

    name: str = ""
    """Name of the object; empty when the key is absent, as Kubernetes reads it."""


class EnvVar(Part, frozen=True):
    """One environment variable with a literal value; there is no `valueFrom` (api sheet 2.5)."""

    name: Text
    """Name of the variable; unique in its role."""
    value: str
    """Literal value; may be empty."""


class Condition(Observed, frozen=True):
    """A standard Kubernetes condition."""

    type: str
    """What the condition is about, e.g. `QuotaGranted`."""
    status: str = "Unknown"
    """`True`, `False` or `Unknown`."""
    reason: str = ""
    """One-word cause."""
    message: str = ""
    """Sentence for a person."""
    observed_generation: Int | None = None
    """Generation of the object the condition was computed from; absent when not recorded."""
