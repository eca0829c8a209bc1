"""Keys as words of 64 bits, which are compared as numbers: two rows have the same key when all of their words are equal.

    integer, instant, boolean, float    its bits: one NaN                                         one word
    text, bytes                         eight bytes a word, and the length                        two words or more
    a column with nulls                 a word more, which says where they are

Words are made piece by piece, so that what lies between stays in the second-level cache.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidegate.columnar.keys.mixing import PIECE_ROWS, Words
from tidegate.columnar.numpy_column import NumpyColumn

MAX_BYTES = 48
"""The longest text that is compared as words, each of which costs as much as another key column."""
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
"""Masks by how many bytes of a word belong to the text."""


def words_of(columns: Sequence[pa.Array]) -> list[Words] | None:
    """Returns the words of key columns; ``None`` when a column has an unsupported type, or its texts are too long."""
    found: list[Words] = []
    for column in columns:
        words = _words_of(column)
        if words is None:
            return None
        found += words
    return found


def _words_of(column: pa.Array) -> list[Words] | None:
    words = _words_of_values(column)
    if words is None or not column.null_count:
        return words
    nulls = np.asarray(column.is_null())
    return [*(np.where(nulls, np.uint64(0), word) for word in words), nulls.astype(np.uint64)]


def _words_of_values(column: pa.Array) -> list[Words] | None:
    """Returns the words of a column's values; undefined where a row is null."""
    kind = column.type
    if pa.types.is_floating(kind):
        return [_bits_of_floats(column)]
    if pa.types.is_boolean(kind):
        return [np.asarray(column.fill_null(False)).astype(np.uint64)]
    if pa.types.is_integer(kind) or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind)):
        return [_bits_of_integers(column)]
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _words_of_bytes(column)
    return None


def _bits_of_integers(column: pa.Array) -> Words:
    width = column.type.bit_width
    values = np.frombuffer(column.buffers()[1], f"i{width // 8}", len(column), column.offset * width // 8)
    return values.astype(np.int64, copy=False).view(np.uint64)


def _bits_of_floats(column: pa.Array) -> Words:
    values: NumpyColumn = np.asarray(column).astype(np.float64)  # exact, from any width
    values[np.isnan(values)] = np.nan
    return values.view(np.uint64)


def _words_of_bytes(column: pa.Array) -> list[Words] | None:
    """Returns the words of texts; each is composed of the two aligned words across which it lies."""
    _, offset_buffer, content_buffer = column.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(column) + 1, column.offset * 4)
    lengths = np.diff(offsets)
    longest = int(lengths.max(initial=0))
    if longest > MAX_BYTES:
        return None
    first, end = int(offsets[0]), int(offsets[-1])
    size = end - first
    # Longer than the texts, since the words of the last text may end after it; that part is masked.
    aligned = np.zeros((size + 2 * MAX_BYTES + 16) // 8, np.uint64)
    if size:
        aligned.view(np.uint8)[:size] = np.frombuffer(content_buffer, np.uint8, size, first)
    words = [np.empty(len(column), np.uint64) for _ in range(-(-longest // 8))]
    for start in range(0, len(column), PIECE_ROWS):
        starts = offsets[start : start + PIECE_ROWS][: len(lengths[start : start + PIECE_ROWS])].astype(np.int64)
        starts -= first
        left = lengths[start : start + PIECE_ROWS].astype(np.int64)
        shifts = ((starts & 7) << 3).view(np.uint64)
        at = starts >> 3
        for word in words:
            part = aligned.take(at) >> shifts
            at += 1
            part |= aligned.take(at) << (np.uint64(64) - shifts)  # a shift by all 64 bits leaves nothing
            part &= _MASKS.take(np.clip(left, 0, 8))
            word[start : start + PIECE_ROWS] = part
            left -= 8
    return [*words, lengths.astype(np.uint64)]
