"""Kubernetes quantities: `500m`, `64Gi`, `1e3`, parsed, compared, computed and printed as apimachinery does.

A quantity is exact: a whole number of billionths, the finest step Kubernetes keeps. It remembers how it was
spelled, so that a document is written back as it was read.
"""

import re
from decimal import Decimal
from fractions import Fraction
from functools import total_ordering
from typing import Any, Literal, Self, TypeAlias

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

Format = Literal["decimal", "binary", "exponent"]
"""How a quantity prints: `decimal` 1500m, 2k, 3G; `binary` 64Gi; `exponent` 1e3."""

Number: TypeAlias = int | Fraction | Decimal
"""What a quantity may be multiplied by; never a binary float."""

PATTERN = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"
"""What the API server's schema accepts, less the fractional exponents that its parser then refuses."""

_NANO = 10**9
_LARGEST_BINARY = (2**63 - 1) * _NANO
_MOST_EXPONENT = 1000
_MOST_CHARACTERS = 512
_PARTS = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([numkKMGTPE]?i?|[eE][+-]?[0-9]+)")
_ACCEPTED = re.compile(PATTERN[:-1] + r"\Z")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_BINARY_SUFFIX = ("", *_BINARY)


@total_ordering
class Quantity:
    """An exact amount in Kubernetes' notation.

    `Quantity("2")`, `Quantity(2)` and `Quantity("2000m")` are equal, hash alike and equal the integer 2. Raises
    `ValueError` with a sentence when the text is no quantity.
    """

    __slots__ = ("_format", "_nano", "_spelling")

    _nano: int
    _format: Format
    _spelling: str | int | None

    def __init__(self, value: "str | int | float | Decimal | Fraction | Quantity") -> None:
        if isinstance(value, Quantity):
            self._nano, self._format, self._spelling = value._nano, value._format, value._spelling
        elif isinstance(value, bool):
            raise ValueError(f"{str(value).lower()} is no quantity; write a number or text such as 64Gi")
        elif isinstance(value, int):
            self._nano, self._format, self._spelling = value * _NANO, "decimal", value
        elif isinstance(value, str):
            self._nano, self._format = _parse(value)
            self._spelling = value
        elif isinstance(value, float) and value.is_integer():
            self._nano, self._format, self._spelling = int(value) * _NANO, "decimal", int(value)
        elif isinstance(value, float):
            self._nano, self._format = _parse(repr(value))
            self._spelling = repr(value)
        else:
            self._nano, self._format, self._spelling = _away_from_zero(Fraction(value) * _NANO), "decimal", None

    @classmethod
    def _of(cls, nano: int, style: Format) -> Self:
        quantity = cls.__new__(cls)
        quantity._nano, quantity._format, quantity._spelling = nano, style, None
        return quantity

    @property
    def spelling(self) -> str | int:
        """The text or number it was read from; the canonical form for a computed quantity."""
        return self.canonical() if self._spelling is None else self._spelling

    @property
    def value(self) -> Fraction:
        """The exact amount."""
        return Fraction(self._nano, _NANO)

    @property
    def is_whole(self) -> bool:
        """True when the amount is an integer."""
        return self._nano % _NANO == 0

    def ceil(self) -> int:
        """The amount, rounded up to a whole number."""
        return -(-self._nano // _NANO)

    def floor(self) -> int:
        """The amount, rounded down to a whole number."""
        return self._nano // _NANO

    def to_milli(self) -> int:
        """The amount in thousandths, rounded up to a whole number."""
        return -(-self._nano // 10**6)

    def canonical(self) -> str:
        """The form Kubernetes prints: whole digits with the largest suffix that allows them."""
        if self._nano == 0:
            return "0"
        if self._format == "binary" and self.is_whole and abs(self._nano) >= 1024 * _NANO:
            return _print_binary(self._nano // _NANO)
        return _print_decimal(self._nano, exponent_form=self._format == "exponent")

    def __mul__(self, factor: Number) -> Self:
        """This many times the amount, in the same notation; finer than a billionth rounds away from zero."""
        return self._of(_away_from_zero(self._nano * Fraction(factor)), self._format)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Number) -> Self:
        """The amount divided; finer than a billionth rounds away from zero."""
        return self._of(_away_from_zero(self._nano / Fraction(divisor)), self._format)

    def __add__(self, other: "Quantity | int") -> Self:
        """The sum, in this quantity's notation."""
        return self._of(self._nano + _nano_of(other), self._format)

    def __sub__(self, other: "Quantity | int") -> Self:
        """The difference, in this quantity's notation."""
        return self._of(self._nano - _nano_of(other), self._format)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Quantity):
            return self._nano == other._nano
        if isinstance(other, int):
            return self._nano == other * _NANO
        return NotImplemented

    def __lt__(self, other: "Quantity | int") -> bool:
        return self._nano < _nano_of(other)

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return self._nano != 0

    def __str__(self) -> str:
        return self.canonical()

    def __repr__(self) -> str:
        return f"Quantity({self.spelling!r})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            _validate,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda quantity: quantity.spelling),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {
            "anyOf": [{"type": "integer"}, {"type": "string", "pattern": PATTERN}],
            "x-kubernetes-int-or-string": True,
        }


def _validate(value: Any) -> Quantity:
    if isinstance(value, (str, int, float, Quantity)) and not isinstance(value, bool):
        try:
            return Quantity(value)
        except ValueError as error:
            raise PydanticCustomError("quantity_format", "{reason}", {"reason": str(error)}) from None
    raise PydanticCustomError("quantity_type", "not a quantity")


def _parse(text: str) -> tuple[int, Format]:
    """The amount in billionths and the notation."""
    parts = _PARTS.fullmatch(text) if len(text) <= _MOST_CHARACTERS and _ACCEPTED.match(text) else None
    if parts is None:
        shown = text if len(text) <= 40 else text[:37] + "..."
        raise ValueError(
            f'"{shown}" is no quantity: write a number, if need be with a suffix '
            "(n u m k M G T P E Ki Mi Gi Ti Pi Ei) or an exponent (1e3)"
        )
    sign, whole, fraction, suffix = parts.group(1), parts.group(2), parts.group(3) or "", parts.group(4)
    digits = int(whole + fraction)
    if suffix in _BINARY:
        nano = _away_from_zero(Fraction(digits * 1024 ** _BINARY[suffix] * _NANO, 10 ** len(fraction)))
        style: Format = "binary" if nano >= _NANO or nano == 0 else "decimal"
        nano = min(nano, _LARGEST_BINARY)
    else:
        exponent = _DECIMAL.get(suffix)
        style = "decimal"
        if exponent is None:
            exponent, style = int(suffix[1:]), "exponent"
            if exponent > _MOST_EXPONENT and digits:
                raise ValueError(f'"{text}" is out of range: the largest exponent is {_MOST_EXPONENT}')
            exponent = max(min(exponent, _MOST_EXPONENT), -_MOST_EXPONENT)
        nano = _scaled(digits, exponent - len(fraction) + 9)
    return (-nano if sign == "-" else nano), style


def _scaled(digits: int, exponent: int) -> int:
    return digits * 10**exponent if exponent >= 0 else -(-digits // 10**-exponent)


def _away_from_zero(amount: Fraction) -> int:
    return -(-amount.numerator // amount.denominator) if amount >= 0 else amount.numerator // amount.denominator


def _nano_of(other: "Quantity | int") -> int:
    return other._nano if isinstance(other, Quantity) else other * _NANO  # pyright: ignore[reportPrivateUsage]


def _print_binary(amount: int) -> str:
    step = 0
    while step < len(_BINARY) and amount % 1024 == 0:
        amount //= 1024
        step += 1
    return f"{amount}{_BINARY_SUFFIX[step]}"


def _print_decimal(nano: int, *, exponent_form: bool) -> str:
    exponent = -9
    while nano % 1000 == 0 and (exponent_form or exponent < 18):
        nano //= 1000
        exponent += 3
    if exponent_form:
        return f"{nano}e{exponent}" if exponent else str(nano)
    return f"{nano}{_DECIMAL_SUFFIX[exponent]}"
