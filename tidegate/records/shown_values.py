"""Formats values of Arrow columns for messages, also those without a Python object."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tidegate.model.values import FieldValue

SHOWN_CHARACTERS = 200
"""The most characters of a value in a message. Chosen, not measured: enough to find a value by, and few enough for a line of a log."""

_FORMS: tuple[Callable[[pa.Scalar], str], ...] = (
    lambda value: repr(value.as_py()),
    lambda value: str(value.cast(pa.string()).as_py()),
    lambda value: repr(value.as_buffer().to_pybytes()),
)


def shown_value(value: pa.Scalar) -> str:
    """Formats the beginning of a value as Python does; a date beyond Python's years as ISO 8601, a text that is not UTF-8 as bytes."""
    for form in _FORMS:
        try:
            return form(value)[:SHOWN_CHARACTERS]
        except Exception:  # noqa: BLE001  the value is shown because it makes trouble
            continue
    return f"a {value.type} that cannot be shown"


def rows_to_show(data: pa.RecordBatch) -> list[dict[str, FieldValue]]:
    """Returns the rows as dicts, with texts for values without a Python object."""
    try:
        found: list[dict[str, FieldValue]] = data.to_pylist()
    except Exception:  # noqa: BLE001  the rows are shown because they make trouble
        names = data.schema.names
        return [
            {name: shown_value(column[row]) for name, column in zip(names, data.columns, strict=True)}
            for row in range(data.num_rows)
        ]
    return found
