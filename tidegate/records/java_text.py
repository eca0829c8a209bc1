"""Formats floating point numbers as Java does (``Double.toString``, ``Float.toString``), and so as Flink prints and stores them: ``1.0``, ``1.0E10``,
``1.0E-4``, ``NaN``, ``-Infinity``; with the fewest digits that distinguish the number."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

import numpy as np

from tidegate.model.values import FieldValue

_PLAIN_FROM = 1e-3
"""The magnitude below which Java's `Double.toString` writes an exponent."""
_PLAIN_TO = 1e7
"""The magnitude from which on Java's `Double.toString` writes an exponent."""


def double_text(value: float) -> str:
    """Formats a double as Java does."""
    return repr(value) if _PLAIN_FROM <= abs(value) < _PLAIN_TO else _unusual(value, repr(value), float)


def float_text(value: float) -> str:
    """Formats a 32-bit float as Java does: ``1.1`` and not ``1.100000023841858``."""
    text = str(np.float32(value))
    return text if _PLAIN_FROM <= abs(value) < _PLAIN_TO else _unusual(value, text, np.float32)


def _unusual(value: float, text: str, kind: Callable[[FieldValue], FieldValue]) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    if "." not in text and kind(two_digits := f"{value:.1e}") == kind(value):
        text = two_digits  # Java writes two digits where both would do: 4.9E-324
    sign, digits, exponent = Decimal(text).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, *others = map(str, digits)
    return f"{'-' * sign}{first}.{''.join(others) or '0'}E{exponent + len(others)}"
