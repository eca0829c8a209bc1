"""Detection of nanoseconds that Spark drops: its types have microseconds, and the log names the columns that lose digits."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

_LOG = logging.getLogger(__name__)
_NANOS = 1000
"""Nanoseconds of a microsecond."""


class DroppedNanoseconds:
    """Finds columns that lose nanoseconds; each is reported once."""

    def __init__(self, schema: pa.Schema) -> None:
        self._unseen = {field.name for field in schema if _has_nanoseconds(field.type)}

    def look(self, data: pa.RecordBatch) -> None:
        """Logs a warning for a column with a value that is not a whole number of microseconds."""
        for name in [name for name in self._unseen if any(map(_loses, _leaves(data.column(name))))]:
            self._unseen.discard(name)
            _LOG.warning(
                "to_spark: column %r has nanoseconds, and Spark has microseconds: what is below them is dropped. Write the column as a "
                "number (cast it to int64) to keep it, or cast it to microseconds",
                name,
            )


def _has_nanoseconds(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_nanoseconds(kind.field(index).type) for index in range(kind.num_fields))
    return getattr(kind, "unit", None) == "ns"


def _leaves(column: pa.Array) -> Iterator[pa.Array]:
    """Yields the nested columns that have nanoseconds."""
    kind = column.type
    if pa.types.is_struct(kind):
        for part in column.flatten():
            yield from _leaves(part)
    elif pa.types.is_map(kind):
        entries = column.drop_null()
        yield from _leaves(entries.keys)
        yield from _leaves(entries.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _leaves(column.flatten())
    elif getattr(kind, "unit", None) == "ns":
        yield column


def _loses(column: pa.Array) -> bool:
    numbers = column.cast(pa.int64())
    whole = pc.multiply(pc.divide(numbers, _NANOS), _NANOS)
    return bool(pc.any(pc.not_equal(numbers, whole)).as_py())
