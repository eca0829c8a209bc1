"""Validation of whole numbers that a program passes: times, durations, sizes, counts.

As in PyFlink any number without a fraction is one, also of numpy: 5, ``np.int64(5)``, 5.0, ``Decimal(5)``, ``True``. Text and fractions are refused
instead of being cut.
"""

from __future__ import annotations

import contextlib
import operator
from decimal import Decimal
from numbers import Real

from tidegate.model.errors import InvalidJob
from tidegate.model.values import FieldValue

MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1
"""The range of Java's long, as which times and counts are stored and sent."""


def whole_number(value: FieldValue, what: str) -> int:
    """Returns a number as ``int``. ``what``: the beginning of the message, where it was passed and as what. Raises ``InvalidJob`` for other values, or
    beyond 64 bits."""
    number = value if value.__class__ is int else as_whole(value)
    if number is None:
        raise InvalidJob(
            f"{what} was given {repr(value)[:200]} of type {type(value).__name__}: it must be a whole number, so convert it with int(...), or "
            "round it, before"
        )
    if not MIN_INT64 <= number <= MAX_INT64:
        raise InvalidJob(
            f"{what} was given {repr(value)[:200]}, which is beyond 64 bits: it must be from -2**63 to 2**63 - 1, so look at the unit (times are in "
            "milliseconds), or take 2**63 - 1 for what never comes"
        )
    return number


def as_whole(value: FieldValue) -> int | None:
    """Converts a value to ``int``; ``None``: it is not a whole number."""
    with contextlib.suppress(TypeError):
        return operator.index(value)
    if issubclass(type(value), (Real, Decimal)):
        with contextlib.suppress(ValueError, OverflowError):  # NaN and infinity
            number = int(value)
            return number if number == value else None
    return None
