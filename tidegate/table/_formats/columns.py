"""Conversion of texts and Python values to columns, shared by the text formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.connectors.formats.messages import Counts, PoisonRecord, Values, objects
from tidegate.functions.sql.scalar import arrow_type
from tidegate.plan.logical_types import LogicalType, TypeRoot
from tidegate.table._formats.errors import Unreadable
from tidegate.table._formats.times import TimestampStandard, timestamp_text

TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
UNIT_NS = {"ms": 1_000_000, "us": 1_000, "ns": 1}
"""Nanoseconds per unit of timestamps."""
_YEAR_0, _YEAR_10000 = -62_167_219_200, 253_402_300_800
"""The bounds of years with four digits, in seconds since 1970."""
_ZEROS = r"(\.\d*[1-9])?\.?0+$"
"""A pattern for the zeros at the end of a fraction, and for a whole fraction of zeros."""
_DIGITS = {"ms": 3, "us": 6, "ns": 9}


def cast_texts(type: LogicalType, column: pa.ChunkedArray, standard: TimestampStandard) -> pa.Array:
    """Casts a column that was read as text to DATE, TIMESTAMP or TIMESTAMP_LTZ; a column that has the wanted type is returned as it is. Raises
    ``ArrowInvalid`` for text that Arrow reads otherwise than Flink."""
    found = pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)
    wanted = arrow_type(type)
    if found.type == wanted:
        return found
    if type.root is TypeRoot.DATE:
        return _matching(found, r"^\d{4}-\d\d-\d\d$").cast(wanted)
    ends = "Z" if type.root is TypeRoot.TIMESTAMP_LTZ else ""
    fraction = rf"(\.\d{{1,{_DIGITS[wanted.unit]}}})?"
    texts = _matching(found, rf"^\d{{4}}-\d\d-\d\d{standard.separator}\d\d:\d\d:\d\d{fraction}{ends}$")
    if ends:
        texts = pc.utf8_slice_codeunits(texts, 0, -1)
    return texts.cast(pa.timestamp(wanted.unit)).cast(wanted)


def timestamp_texts(column: pa.Array, standard: TimestampStandard, ends: str = "") -> pa.Array:
    """Formats timestamps as texts with a suffix ``ends``; Arrow formats all but those whose year has not four digits."""
    unit = column.type.unit
    numbers = column.cast(pa.int64())
    limits = pc.min_max(numbers)
    per_second = 1_000_000_000 // UNIT_NS[unit]
    if (
        limits["min"].is_valid
        and not _YEAR_0 * per_second <= limits["min"].as_py() <= limits["max"].as_py() < _YEAR_10000 * per_second
    ):
        nanos = UNIT_NS[unit]
        texts = [
            None if value is None else f"{timestamp_text(value * nanos, standard)}{ends}"
            for value in numbers.to_pylist()
        ]
        return pa.array(texts, pa.string())
    texts = numbers.cast(pa.timestamp(unit)).cast(pa.string())
    texts = pc.replace_substring_regex(texts, _ZEROS, r"\1")
    if standard is TimestampStandard.ISO_8601:
        texts = pc.replace_substring(texts, " ", "T")
    return pc.binary_join_element_wise(texts, pa.scalar(ends), "") if ends else texts


def as_arrays(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> list[pa.Array] | None:
    """Converts rows to columns; returns ``None`` where a column cannot hold a value."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    try:
        return [pa.array(column, one.type) for column, one in zip(columns, schema, strict=True)]
    except (pa.ArrowInvalid, OverflowError):
        return None


def first_poison(read: Callable[[Values], object], messages: Values) -> PoisonRecord:
    """Finds the first message with a value that its column cannot hold, such as the year 1 in nanoseconds."""
    if len(messages) == 1:
        return PoisonRecord(0, "a value is out of the range of its column's type")
    for index in range(len(messages)):
        try:
            read(messages[index : index + 1])
        except PoisonRecord as poison:
            return PoisonRecord(index, poison.reason)
    raise AssertionError(
        f"each of {len(messages)} messages can be read alone, but not all of them together: this is a mistake in the format"
    )


def one_by_one(
    messages: Values, rows_of: Callable[[Any], Iterable[tuple[Any, ...]]], schema: pa.Schema
) -> tuple[pa.RecordBatch, Counts]:
    """Decodes messages one by one; returns the rows, and the number of rows for each message. Raises ``PoisonRecord`` for the first that ``rows_of``
    refuses with ``Unreadable``, or that has a value which its column cannot hold."""
    rows: list[tuple[Any, ...]] = []
    counts = np.zeros(len(messages), np.int64)
    for index, message in enumerate(objects(messages)):
        before = len(rows)
        try:
            rows += rows_of(message)
        except Unreadable as error:
            raise PoisonRecord(index, str(error)) from None
        counts[index] = len(rows) - before
    arrays = as_arrays(rows, schema)
    if arrays is None:
        raise first_poison(lambda some: one_by_one(some, rows_of, schema), messages)
    return pa.RecordBatch.from_arrays(arrays, schema=schema), counts


def _matching(texts: pa.Array, pattern: str) -> pa.Array:
    if not pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py():
        raise pa.ArrowInvalid("a text in another form")
    return texts
