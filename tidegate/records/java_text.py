"""Floating point numbers as Java writes them (``Double.toString``, ``Float.toString``), which is how Flink prints and stores them:
``1.0``, ``1.0E10``, ``1.0E-4``, ``NaN``, ``-Infinity``; the fewest digits that tell the number apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

import numpy as np

from tidegate.model.values import FieldValue

_PLAIN_FROM = 1e-3
"""Java's `Double.toString` writes smaller magnitudes with an exponent."""
_PLAIN_TO = 1e7
"""It writes magnitudes from here on with one, too."""


def double_text(value: float) -> str:
    """Renders a number of 64 bits as Java does."""
    return repr(value) if _PLAIN_FROM <= abs(value) < _PLAIN_TO else _unusual(value, repr(value), float)


def float_text(value: float) -> str:
    """Renders a number of 32 bits as Java does: ``1.1`` and not ``1.100000023841858``."""
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
