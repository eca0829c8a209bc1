"""Whole numbers that a program gives: points and lengths of time, sizes, counts. Each is checked where it comes in.

What counts is what Python takes as an index (``operator.index``): ``int``, numpy's integers, and ``bool``, which PyFlink takes as 1 and 0. Text and
fractions are refused instead of being cut.
"""

from __future__ import annotations

import operator

from tidegate.model.errors import InvalidJob
from tidegate.model.values import FieldValue

MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1


def whole_number(value: FieldValue, what: str) -> int:
    """Returns a number as ``int``. ``what`` begins the message: where it came in, and as what. Raises ``InvalidJob`` for what is no whole number, or is
    beyond 64 bits."""
    if value.__class__ is int and MIN_INT64 <= value <= MAX_INT64:
        number: int = value
        return number
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidJob(
            f"{what} was given {repr(value)[:200]} of type {type(value).__name__}: it must be a whole number, so convert it with int(...), or "
            "round it, before"
        ) from None
    if not MIN_INT64 <= number <= MAX_INT64:
        raise InvalidJob(
            f"{what} was given {repr(value)[:200]}, which is beyond 64 bits: it must be from -2**63 to 2**63 - 1, so look at the unit (times are in "
            "milliseconds), or take 2**63 - 1 for what never comes"
        )
    return number


def whole_length(value: FieldValue, what: str) -> int:
    """As ``whole_number``, for what was computed of other units: a float without a fraction, such as half a second in ms, is taken too."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return whole_number(value, what)
