"""Rows for the ``datagen`` connector (Flink: ``DataGenTableSourceFactory``): by column a sequence or random values.

Every value is a function of the row's number and the column's name, so a restart generates the same rows again; timestamps are of now.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import pyarrow as pa

from tidegate.columnar.keys.mixing import splitmix64
from tidegate.columnar.numpy_column import NumpyColumn
from tidegate.model.errors import InvalidJob

UNBOUNDED_ROWS = 2**62
_DEFAULT_RATE = 10_000
"""Flink's default of ``rows-per-second``."""
_DEFAULT_LENGTH = 100
"""Flink's default of ``fields.#.length``."""
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_FIELD_OPTIONS = ("kind", "min", "max", "length", "start", "end")
_SPAN = {1: 2**7, 2: 2**15, 4: 2**31, 8: 2**63}


@dataclass(frozen=True)
class GeneratedRows:
    """Called with the number of the first row and how many; gives a record batch."""

    schema: pa.Schema
    options: dict[str, dict[str, str]]
    count: int | None

    @staticmethod
    def of(schema: pa.Schema, table_options: Mapping[str, str]) -> GeneratedRows:
        """Raises ``InvalidJob`` for an option or a type that is not there."""
        columns = schema.names
        options: dict[str, dict[str, str]] = {name: {} for name in columns}
        for key, text in table_options.items():
            parts = key.split(".")
            if len(parts) == 3 and parts[0] == "fields" and parts[1] in columns:
                if parts[2] not in _FIELD_OPTIONS:
                    raise InvalidJob(f"datagen has no option {key!r}: a field has {', '.join(_FIELD_OPTIONS)}")
                options[parts[1]][parts[2]] = text
            elif key not in ("connector", "rows-per-second", "number-of-rows"):
                raise InvalidJob(f"datagen has no option {key!r} for the columns {', '.join(columns)}")
        for field in schema:
            if options[field.name].get("kind", "random") == "random":
                check_type(field)
        count = table_options.get("number-of-rows")
        ends = [
            int(found["end"]) - int(found.get("start", 0)) + 1
            for found in options.values()
            if found.get("kind") == "sequence"
        ]
        counts = [*([int(count)] if count else []), *ends]
        return GeneratedRows(schema, options, min(counts) if counts else None)

    def __call__(self, first: int, count: int) -> pa.RecordBatch:
        rows = np.arange(first, first + count, dtype=np.uint64)
        columns = [_column(field, self.options[field.name], rows) for field in self.schema]
        return pa.record_batch(columns, schema=self.schema)


def rows_per_second(options: Mapping[str, str]) -> int:
    """Returns the rate that the table's options name, or Flink's default."""
    return int(options.get("rows-per-second", _DEFAULT_RATE))


def check_type(field: pa.Field) -> None:
    """Raises ``InvalidJob`` for a type of which no random values are made."""
    kind = field.type
    numbers = pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    if not (numbers or pa.types.is_string(kind) or pa.types.is_boolean(kind) or pa.types.is_timestamp(kind)):
        raise InvalidJob(f"datagen makes no values of type {field.type} (column {field.name!r})")


def _column(field: pa.Field, options: dict[str, str], rows: NumpyColumn) -> pa.Array:
    if options.get("kind", "random") == "sequence":
        return pa.array(rows.astype(np.int64) + int(options.get("start", 0))).cast(field.type)
    drawn = _drawn(rows, field.name)
    if pa.types.is_string(field.type):
        return _texts(drawn, int(options.get("length", _DEFAULT_LENGTH)))
    if pa.types.is_boolean(field.type):
        return pa.array(drawn & np.uint64(1) == 1)
    if pa.types.is_floating(field.type):
        low, high = float(options.get("min", 0)), float(options.get("max", 1))
        return _between(drawn, low, high).cast(field.type)
    if pa.types.is_decimal(field.type):
        largest = 10.0 ** (field.type.precision - field.type.scale) - 10.0**-field.type.scale
        low, high = max(-largest, float(options.get("min", 0))), min(largest, float(options.get("max", largest)))
        return _between(drawn, low, high).cast(field.type)
    if pa.types.is_timestamp(field.type):
        return pa.array(np.full(len(rows), time.time_ns() // 1_000_000)).cast(pa.timestamp("ms")).cast(field.type)
    span = _SPAN[field.type.bit_width // 8]
    low, high = int(options.get("min", -span)), int(options.get("max", span - 1))
    width = high - low + 1
    spread = drawn if width >= 2**64 else drawn % np.uint64(width)
    return pa.array((spread + np.uint64(low % 2**64)).view(np.int64)).cast(field.type)


def _between(drawn: NumpyColumn, low: float, high: float) -> pa.Array:
    return pa.array(low + (drawn >> np.uint64(11)) / 2.0**53 * (high - low))


def _texts(drawn: NumpyColumn, length: int) -> pa.Array:
    words = -(-length // 16)
    parts = np.stack([splitmix64(drawn + np.uint64(i)) for i in range(words)], axis=1)
    digits = _HEX[np.unpackbits(parts.view(np.uint8), axis=1).reshape(len(drawn), -1, 4) @ np.array([8, 4, 2, 1])]
    return pa.array([bytes(row[:length]).decode() for row in digits])


def _drawn(rows: NumpyColumn, name: str) -> NumpyColumn:
    return splitmix64(splitmix64(rows) ^ np.uint64(crc32(name.encode())))
