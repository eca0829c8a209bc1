"""Decimal numbers in texts, exactly. Arrow's own readers of them are given none that is far below the digits of their types: it makes zero of
1e-77, and 1e-999999999 ends the process.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal, Inexact, InvalidOperation

import pyarrow as pa

_MOST_DIGITS = 76
"""A decimal256 has so many."""
_EXACTLY = Context(prec=3 * _MOST_DIGITS, traps=[Inexact, InvalidOperation])
_LAST_DIGIT = Decimal(1).scaleb(-_MOST_DIGITS)
_TINY = (re.compile(rb"e-?[0-9]{2}"), re.compile(rb"E-?[0-9]{2}"), re.compile(rb"\.[0-9]{39}"))
"""Three searches, since each begins with a character that can be looked for fast."""


def has_tiny(content: bytes) -> bool:
    """Whether a number in ``content`` may be too small for Arrow: exponents with two digits, and fractions longer than a decimal128."""
    return any(tiny.search(content) for tiny in _TINY)


def has_decimals(kind: pa.DataType) -> bool:
    """Whether it is a decimal, or one is in it."""
    return pa.types.is_decimal(kind) or any(has_decimals(kind.field(place).type) for place in range(kind.num_fields))


def exact(text: str) -> Decimal:
    """Returns the number. Raises ``ValueError`` or ``ArithmeticError`` for one with more digits than any column has."""
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
    """Returns the number with the scale of a decimal type. Raises ``ValueError`` or ``ArithmeticError`` when digits would be lost."""
    number = exact(text).quantize(Decimal(1).scaleb(-kind.scale), context=_EXACTLY)
    if len(number.as_tuple().digits) > kind.precision:
        raise ValueError
    return number


def decimals_of(texts: list[str | None], field: pa.Field) -> pa.Array:
    """Returns a column of the numbers. Raises ``ArrowInvalid`` that names the row of one that is none of it."""
    values = []
    for row, text in enumerate(texts):
        try:
            values.append(None if text is None else fitted(text, field.type))
        except (ValueError, ArithmeticError):
            raise pa.ArrowInvalid(f"column {field.name!r}: row {row}: {text!r:.200} is no {field.type}") from None
    return pa.array(values, field.type)
