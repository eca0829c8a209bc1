"""Values of Arrow columns in messages, also those that Python has no object for."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tidegate.model.values import FieldValue

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


def rows_to_show(data: pa.RecordBatch) -> list[dict[str, FieldValue]]:
    """Returns the rows as dicts, with texts in the place of values that Python has no object for."""
    try:
        found: list[dict[str, FieldValue]] = data.to_pylist()
    except Exception:  # noqa: BLE001  the rows are shown because they make trouble
        names = data.schema.names
        return [
            {name: shown_value(column[row]) for name, column in zip(names, data.columns, strict=True)}
            for row in range(data.num_rows)
        ]
    return found
