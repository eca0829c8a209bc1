"""Parsing of numbers by the rules of Java's ``parseInt``, ``parseDouble`` and ``BigDecimal``."""

from __future__ import annotations

import re
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_HALF_UP, Context, Decimal

from tidegate.table._formats.errors import Unreadable

BLANK = "".join(map(chr, range(33)))
"""Characters that Java's ``String.trim`` removes."""
_WHOLE = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?|([+-]?)(NaN|Infinity)")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_EXACT = Context(prec=MAX_PREC, rounding=ROUND_HALF_UP, Emax=MAX_EMAX, Emin=MIN_EMIN)
_MOST_DIGITS = 76
"""A bound for exponents above that of any DECIMAL, so that a short text cannot make a number of a million digits."""


def whole_number(text: str, bits: int) -> int:
    """Parses a whole number of ``bits`` bits. Raises ``Unreadable`` for another text, or a number out of range."""
    trimmed = text.strip(BLANK)
    if _WHOLE.fullmatch(trimmed) is None or len(trimmed) > _MOST_DIGITS:
        raise Unreadable(f"{text!r} is no whole number")
    return in_range(int(trimmed), bits)


def in_range(number: int, bits: int) -> int:
    """Returns ``number``. Raises ``Unreadable`` if ``bits`` bits cannot hold it."""
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise Unreadable(f"{number} is out of the range of {bits} bits")
    return number


def floating_number(text: str) -> float:
    """Parses a number as ``Double.parseDouble`` does. Raises ``Unreadable``."""
    found = _FLOAT.fullmatch(text.strip(BLANK))
    if found is None:
        raise Unreadable(f"{text!r} is no number")
    return float(found[1] if found[1] is not None else f"{found[2]}{found[3]}")


def decimal_number(text: str, precision: int, scale: int) -> Decimal | None:
    """Parses a decimal number and rounds it half up to ``scale`` digits; returns ``None`` if ``precision`` digits cannot hold it. Raises ``Unreadable``."""
    trimmed = text.strip(BLANK)
    if _DECIMAL.fullmatch(trimmed) is None:
        raise Unreadable(f"{text!r} is no decimal number")
    found = Decimal(trimmed)
    if found.is_zero():
        return Decimal(0).scaleb(-scale)
    if found.adjusted() > _MOST_DIGITS:
        return None
    if found.adjusted() < -_MOST_DIGITS:
        return Decimal(0).scaleb(-scale)
    rounded = found.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    return rounded if rounded.is_zero() or rounded.adjusted() < precision - scale else None


def decimal_text(value: Decimal, *, is_plain: bool) -> str:
    """Formats a decimal: with all its digits if ``is_plain``, otherwise without zeros at the end and with an exponent where ``BigDecimal`` writes one,
    ``1E+2``."""
    if is_plain:
        return format(value, "f")
    return str(value.normalize(_EXACT)) if value else "0"
