"""Encoding of columns as one record batch of a transaction, and splitting of records into batches.

Arrow puts the bytes together: what stands before each value is written into an array of its own, and one ``take`` of
heads and values in turn copies them into their order. A record's last byte, its count of headers (0), counts as the
first byte of the next one's head.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.connectors.kafka.record_batches import compression as codecs
from tidegate.connectors.kafka.record_batches import varints
from tidegate.connectors.kafka.record_batches.layout import (
    CHECKED_FROM,
    HEADER,
    LENGTH_ENDS_AT,
    MAGIC,
    TRANSACTIONAL,
    Producer,
)

_ATTRIBUTES = b"\x00"
_NO_HEADERS = b"\x00"
_LONGEST_TIME = 10
"""The bytes of the longest varint, of 64 bits."""


def encode(
    keys: pa.Array,
    values: pa.Array,
    timestamps: pa.Array,
    producer: Producer,
    base_sequence: int,
    compression: str,
    now_ms: int,
) -> bytearray:
    """Encodes columns of at least one record as one transactional record batch with its checksum; offsets are from 0 on, the broker assigns them.

    ``keys`` and ``values`` are ``pa.binary()``, ``timestamps`` ``pa.int64()`` of ms, each with nulls; a null timestamp is
    ``now_ms``. ``compression`` is one of none, gzip, snappy, lz4 and zstd. kafka-python copies a bytearray once into its
    request, and bytes twice.
    """
    assert len(values) > 0, "a record batch has a record"
    times = _times(timestamps, now_ms)
    records, after = _records(keys, values, times), _NO_HEADERS
    if compression != "none":
        plain = pa.py_buffer(b"".join((records.data, after)))
        records, after = np.frombuffer(codecs.compress(compression, plain), np.uint8), b""
    header = HEADER.pack(
        0,
        HEADER.size - LENGTH_ENDS_AT + len(records) + len(after),
        -1,
        MAGIC,
        0,
        TRANSACTIONAL | codecs.NUMBERS[compression],
        len(values) - 1,
        int(times[0]),
        int(times.max()),
        producer.id,
        producer.epoch,
        base_sequence,
        len(values),
    )
    checked = header[CHECKED_FROM:]
    checksum = google_crc32c.extend(google_crc32c.extend(google_crc32c.value(checked), records), after)
    return bytearray().join((header[: CHECKED_FROM - 4], checksum.to_bytes(4, "big"), checked, records.data, after))


def cut(keys: pa.Array, values: pa.Array, limit_bytes: int) -> Iterator[tuple[int, int]]:
    """Yields (start, length) of pieces, in order, whose encoded batch fits ``limit_bytes`` uncompressed; a larger record is a piece of its own."""
    if not len(values):
        return
    sizes = np.maximum(_lengths(values), 0) + np.maximum(_lengths(keys), 0)
    length_width = int(varints.widths(varints.zigzag(np.array([int(sizes.max()) + 64])))[0])
    offset_width = int(varints.widths(varints.zigzag(np.array([len(values)])))[0])
    ends = np.cumsum(sizes + (3 * length_width + offset_width + _LONGEST_TIME + 2))
    room, start = limit_bytes - HEADER.size, 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + room, side="right")), start + 1)
        yield start, stop - start
        start = stop


def _times(timestamps: pa.Array, now_ms: int) -> npt.NDArray[np.int64]:
    times: npt.NDArray[np.int64] = pc.fill_null(timestamps, now_ms).to_numpy(zero_copy_only=False)
    return times


def _records(keys: pa.Array, values: pa.Array, times: npt.NDArray[np.int64]) -> varints.Bytes:
    """Encodes the records, except for the last one's count of headers."""
    count, keyed = len(values), keys.null_count < len(keys)
    value_lengths, key_lengths = _lengths(values), _lengths(keys)
    value_length, key_length = _Column(value_lengths), _Column(key_lengths)
    time, offset = _Column(times - times[0]), _Column(np.arange(count, dtype=np.int64))
    content_bytes = np.maximum(value_lengths, 0)
    if keyed:
        content_bytes += np.maximum(key_lengths, 0)
    number_bytes = time.width + offset.width + key_length.width + value_length.width
    length = _Column(content_bytes + number_bytes + len((_ATTRIBUTES, _NO_HEADERS)))
    head: list[_Column | bytes] = [_NO_HEADERS, length, _ATTRIBUTES, time, offset, key_length]
    if keyed:
        pieces = [_packed(head, count), keys, _packed([value_length], count), values]
    else:
        pieces = [_packed([*head, value_length], count), values]
    order = np.arange(len(pieces) * count, dtype=np.int32).reshape(len(pieces), count).T.ravel()
    joined = pa.concat_arrays(pieces).take(pa.array(order))
    _, ends, content = joined.buffers()
    after = int(np.frombuffer(ends, np.int32, len(joined) + 1)[-1])
    return np.frombuffer(content, np.uint8, after)[len(_NO_HEADERS) :]


class _Column:
    """A varint field of all records of a batch, such as the offset delta or the length of the value, as zigzag numbers and varint
    widths.

    Both have one element if the field is equal in all records.
    """

    def __init__(self, numbers: varints.Numbers) -> None:
        zigzags = varints.zigzag(numbers)
        self.zigzags = zigzags[:1] if (zigzags == zigzags[0]).all() else zigzags
        self.width = varints.widths(self.zigzags)


def _packed(parts: Sequence[_Column | bytes], count: int) -> pa.Array:
    """Joins the parts of each record; those that are bytes are a single zero each."""
    size_bytes = np.zeros(count, np.int64)
    for part in parts:
        size_bytes += part.width if isinstance(part, _Column) else len(part)
    ends = np.zeros(count + 1, np.int32)
    np.cumsum(size_bytes, out=ends[1:])
    packed = np.zeros(int(ends[-1]), np.uint8)
    at = ends[:-1].astype(np.int64)
    for part in parts:
        if isinstance(part, _Column):
            varints.write(packed, at, part.zigzags, part.width)
            at += part.width
        else:
            at += len(part)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(packed)])


def _lengths(content: pa.Array) -> varints.Numbers:
    """Returns the lengths in bytes; -1 for null."""
    lengths: varints.Numbers = (
        pc.fill_null(pc.binary_length(content), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    return lengths
