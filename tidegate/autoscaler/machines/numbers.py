"""Arithmetic as in Java, since limits and rounding can change the parallelism by one."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal

LONG_MAX = 2**63 - 1
"""Java's greatest long."""
_THREE_DIGITS = Decimal("0.001")


def divide(a: float, b: float) -> float:
    """Divides; a division by zero is infinite, or NaN for ``0 / 0``."""
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def rounded(value: float) -> float:
    """Rounds to three digits, but never to 0 (Flink: ``ScalingMetrics.roundMetric``)."""
    if not math.isfinite(value):
        return value
    found = float(Decimal(repr(value)).quantize(_THREE_DIGITS, ROUND_HALF_UP)) if abs(value) < LONG_MAX else value
    return found if found != 0 else value


def whole(value: float) -> float:
    """Rounds like Java's ``Math.round``: to the nearest whole number, half up, within 64 bits."""
    if math.isnan(value):
        return 0.0
    return (
        float(min(max(math.floor(value + 0.5), -LONG_MAX), LONG_MAX))
        if math.isfinite(value)
        else math.copysign(LONG_MAX, value)
    )


def is_nan(value: float) -> bool:
    return math.isnan(value)
