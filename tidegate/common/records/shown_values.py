"""Values of Arrow columns in messages, also those that Python has no object for."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

SHOWN_CHARACTERS = 200
"""Chosen, not measured: enough to find a value by, and few enough for a line of a log."""

_FORMS: tuple[Callable[[pa.Scalar], str], ...] = (
    lambda value: repr(value.as_py()),
    lambda value: str(value.cast(pa.string()).as_py()),
    lambda value: repr(value.as_buffer().to_pybytes()),
)


def shown_value(value: pa.Scalar) -> str:
    """Returns the beginning of what Python shows of the value; a date beyond Python's years is ISO 8601, a text that is no UTF-8 its bytes."""
    for form in _FORMS:
        try:
            return form(value)[:SHOWN_CHARACTERS]
        except Exception:  # noqa: BLE001  the value is shown because it makes trouble
            continue
    return f"a {value.type} that cannot be shown"
