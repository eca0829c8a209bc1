"""Exact parsing of decimal numbers. Arrow's own parsers get no number far below the digits of their types: they read 1e-77 as zero, and 1e-999999999
crashes the process."""

from __future__ import annotations

import re
from decimal import Context, Decimal, Inexact, InvalidOperation

import pyarrow as pa

_MOST_DIGITS = 76
"""The digits of a decimal256."""
_EXACTLY = Context(prec=3 * _MOST_DIGITS, traps=[Inexact, InvalidOperation])
_LAST_DIGIT = Decimal(1).scaleb(-_MOST_DIGITS)
_TINY = (re.compile(rb"e-?[0-9]{2}"), re.compile(rb"E-?[0-9]{2}"), re.compile(rb"\.[0-9]{39}"))
"""Patterns of tiny numbers; three, since each begins with a character that is fast to find."""


def has_tiny(content: bytes) -> bool:
    """Returns whether a number in ``content`` may be too small for Arrow: exponents with two digits, and fractions longer than a decimal128."""
    return any(tiny.search(content) for tiny in _TINY)


def has_decimals(kind: pa.DataType) -> bool:
    """Returns whether the type is or contains a decimal."""
    return pa.types.is_decimal(kind) or any(has_decimals(kind.field(place).type) for place in range(kind.num_fields))


def exact(text: str) -> Decimal:
    """Parses a number. Raises ``ValueError`` or ``ArithmeticError`` for more digits than any column has."""
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        raise ValueError from None
    if not number.is_finite() or (number.adjusted() > _MOST_DIGITS and number):
        raise ValueError
    if not number:
        return Decimal(0)
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and exponent < -_MOST_DIGITS:  # zeros at the end may be left out
        return number.quantize(_LAST_DIGIT, context=_EXACTLY)
    return number


def fitted(text: str, kind: pa.DataType) -> Decimal:
    """Parses a number with the scale of a decimal type. Raises ``ValueError`` or ``ArithmeticError`` if digits would be lost."""
    number = exact(text).quantize(Decimal(1).scaleb(-kind.scale), context=_EXACTLY)
    if len(number.as_tuple().digits) > kind.precision:
        raise ValueError
    return number


def decimals_of(texts: list[str | None], field: pa.Field) -> pa.Array:
    """Parses numbers to a column. Raises ``ArrowInvalid`` that names the row of an invalid one."""
    values = []
    for row, text in enumerate(texts):
        try:
            values.append(None if text is None else fitted(text, field.type))
        except (ValueError, ArithmeticError):
            raise pa.ArrowInvalid(f"column {field.name!r}: row {row}: {text!r:.200} is not a {field.type}") from None
    return pa.array(values, field.type)
