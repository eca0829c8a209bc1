"""Decoding of a fetch response's record batches: header by header, then all records of all batches at once.

content ─▶ _Batch each: checked, decompressed, left out or not ─▶ starts of the records ─▶ varints by column ─▶ Arrow
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.connectors.kafka.record_batches import compression as codecs
from tidegate.connectors.kafka.record_batches import varints
from tidegate.connectors.kafka.record_batches.layout import (
    CHECKED_FROM,
    COMPRESSION_BITS,
    CONTROL,
    HEADER,
    LENGTH_ENDS_AT,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL,
    Aborted,
    Columns,
)
from tidegate.connectors.kafka.record_batches.record_starts import BrokenChain, RecordStarts
from tidegate.model.errors import CorruptData

LIMIT_BYTES = 1 << 30
"""How many decompressed bytes of one answer are decoded, so that positions fit 32 bits. Batches beyond it are fetched again."""
_SMALLEST_RECORD_BYTES = 7
"""The bytes of the smallest record: length, attributes, two deltas, no key, no value, no headers."""
_BEGIN = Struct(">qi")
_ATTRIBUTES_BYTES = 1
"""Kafka's protocol has one byte of attributes in each record."""
_LONGEST_INT, _LONGEST_LONG = 5, 10
_ABORT = b"\x00\x00"
_CONTROL_KEY_BYTES = 4
"""Version and type of a control record, two bytes each."""


@dataclass(frozen=True, slots=True)
class _Batch:
    base_offset: int
    last_offset: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    count: int
    begin: int
    """Where the batch's records begin and end in the content, compressed or not."""
    end: int


@dataclass(frozen=True, slots=True)
class _Records:
    """The uncompressed records of a batch: from ``begin`` to ``end`` of ``data``."""

    batch: _Batch
    data: varints.Bytes
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class _Fields:
    offset_deltas: varints.Numbers
    timestamp_deltas: varints.Numbers
    key_at: varints.Numbers
    key_lengths: varints.Numbers
    value_at: varints.Numbers
    value_lengths: varints.Numbers


def decode(
    content: memoryview | bytes,
    from_offset: int,
    aborted: Sequence[Aborted],
    *,
    committed_only: bool,
    with_keys: bool,
) -> tuple[Columns | None, int]:
    """Decodes the records of a partition in a fetch response; returns them with the offset to fetch next, behind the last whole batch.

    ``content`` is whole record batches; the last may be cut off and is left out. Left out are also records before
    ``from_offset``, control batches and, if ``committed_only``, records of the transactions in ``aborted``. Raises
    ``CorruptData`` that says what is wrong at which offset, also for the message formats before v2.
    """
    data: varints.Bytes = np.frombuffer(content, np.uint8)
    reader = _CommittedOnly(aborted) if committed_only else None
    next_offset, size_bytes = from_offset, 0
    taken: list[_Records] = []
    for batch in _batches(content, data):
        left_out = batch.last_offset < from_offset or bool(batch.attributes & CONTROL)
        if reader is not None:
            left_out = reader.leaves_out(batch, data) or left_out
        if batch.count and not left_out:
            records = _records_of(batch, data)
            size_bytes += records.end - records.begin
            if size_bytes > LIMIT_BYTES and taken:
                break
            taken.append(records)
        next_offset = max(next_offset, batch.last_offset + 1)
    return (_columns(*_joined(taken), from_offset, with_keys) if taken else None), next_offset


def _batches(content: memoryview | bytes, data: varints.Bytes) -> Iterator[_Batch]:
    """Yields the whole record batches. Raises ``CorruptData``."""
    at = 0
    while len(data) - at > MAGIC_AT:
        base_offset, length = _BEGIN.unpack_from(content, at)
        magic, end = int(data[at + MAGIC_AT]), at + LENGTH_ENDS_AT + length
        if magic != MAGIC:
            raise CorruptData(
                f"the record batch at offset {base_offset} has message format {magic}, but only format {MAGIC} is read by column"
            )
        if length < HEADER.size - LENGTH_ENDS_AT:
            raise CorruptData(f"the record batch at offset {base_offset} has the invalid length {length} in its header")
        if end > len(data):
            return
        yield _batch(content, data, at, end)
        at = end


def _batch(content: memoryview | bytes, data: varints.Bytes, begin: int, end: int) -> _Batch:
    base, _, _, _, checksum, attributes, last_delta, base_time, max_time, producer_id, _, _, count = HEADER.unpack_from(
        content, begin
    )
    found = google_crc32c.value(data[begin + CHECKED_FROM : end])
    if found != checksum:
        raise CorruptData(
            f"the record batch at offset {base} has the CRC-32C {found:#010x} where its header says {checksum:#010x}"
        )
    if count < 0 or last_delta < 0 or base < 0 or base + last_delta >= 1 << 63 or count > last_delta + 1:
        raise CorruptData(
            f"the record batch at offset {base} says that it has {count} records up to {last_delta} further"
        )
    return _Batch(
        base, base + last_delta, attributes, base_time, max_time, producer_id, count, begin + HEADER.size, end
    )


def _records_of(batch: _Batch, data: varints.Bytes) -> _Records:
    """Decompresses the records of a batch. Raises ``CorruptData``."""
    found = _Records(batch, data, batch.begin, batch.end)
    number = batch.attributes & COMPRESSION_BITS
    if number:
        try:
            plain = codecs.decompress(number, pa.py_buffer(data[batch.begin : batch.end]), LIMIT_BYTES)
        except codecs.Undecodable as error:
            raise CorruptData(
                f"the records of the batch at offset {batch.base_offset} do not decompress: {error}"
            ) from error
        found = _Records(batch, np.frombuffer(plain, np.uint8), 0, len(plain))
    if batch.count * _SMALLEST_RECORD_BYTES > found.end - found.begin:
        raise CorruptData(
            f"the record batch at offset {batch.base_offset} says that it has {batch.count} records"
            f" in {found.end - found.begin} bytes"
        )
    return found


def _joined(taken: Sequence[_Records]) -> tuple[varints.Bytes, Sequence[_Records]]:
    """Joins all records in one piece of memory; without a copy unless some were compressed."""
    data = taken[0].data
    if all(records.data is data for records in taken):
        return data, taken
    data = np.concatenate([records.data[records.begin : records.end] for records in taken])
    moved, at = [], 0
    for records in taken:
        after = at + records.end - records.begin
        moved.append(_Records(records.batch, data, at, after))
        at = after
    return data, moved


class _CommittedOnly:
    """Filters batches of aborted transactions for read-committed consumers, as the Java client's ``CompletedFetch`` does."""

    def __init__(self, aborted: Sequence[Aborted]) -> None:
        self._ahead = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._producers: set[int] = set()

    def leaves_out(self, batch: _Batch, data: varints.Bytes) -> bool:
        """Returns whether a batch is filtered out; called for every batch, in order. Raises ``CorruptData`` for an invalid control record."""
        if batch.producer_id < 0:
            return False
        while self._ahead and self._ahead[-1].first_offset <= batch.last_offset:
            self._producers.add(self._ahead.pop().producer_id)
        if batch.attributes & CONTROL:
            if batch.count and _control_type(batch, data) == _ABORT:
                self._producers.discard(batch.producer_id)
            return True
        return bool(batch.attributes & TRANSACTIONAL) and batch.producer_id in self._producers


def _control_type(batch: _Batch, data: varints.Bytes) -> bytes:
    records = _records_of(batch, data)
    fields = _fields(*_joined([records]))
    at, length = int(fields.key_at[0]), int(fields.key_lengths[0])
    if length < _CONTROL_KEY_BYTES:
        raise CorruptData(f"the control record at offset {batch.base_offset} has a key of {length} bytes")
    return records.data[at + 2 : at + _CONTROL_KEY_BYTES].tobytes()


def _columns(data: varints.Bytes, taken: Sequence[_Records], from_offset: int, with_keys: bool) -> Columns | None:
    fields = _fields(data, taken)
    counts = [records.batch.count for records in taken]
    offsets = fields.offset_deltas + np.repeat([records.batch.base_offset for records in taken], counts)
    _check_order(offsets, taken, counts)
    timestamps = fields.timestamp_deltas + np.repeat([records.batch.base_timestamp for records in taken], counts)
    after = 0
    for records, count in zip(taken, counts, strict=True):
        if records.batch.attributes & LOG_APPEND_TIME:
            timestamps[after : after + count] = records.batch.max_timestamp
        after += count
    first = int(np.searchsorted(offsets, from_offset))
    if first == len(offsets):
        return None
    keys = _binary(data, fields.key_at[first:], fields.key_lengths[first:]) if with_keys else None
    values = _binary(data, fields.value_at[first:], fields.value_lengths[first:])
    return Columns(offsets[first:], timestamps[first:], keys, values)


def _fields(data: varints.Bytes, taken: Sequence[_Records]) -> _Fields:
    """Decodes the fields of the records. Raises ``CorruptData``."""
    chain = RecordStarts(data)
    pieces = []
    for records in taken:
        try:
            pieces.append(chain.between(records.begin, records.end, records.batch.count))
        except BrokenChain as error:
            raise CorruptData(f"in the record batch at offset {records.batch.base_offset} {error}") from error
    starts = np.concatenate(pieces) if len(pieces) > 1 else pieces[0]
    counts = np.cumsum([len(piece) for piece in pieces])
    ends = np.append(starts[1:], 0)
    ends[counts - 1] = [records.end for records in taken]
    try:
        _, at = varints.read(data, starts, _LONGEST_INT)
        timestamp_deltas, at = varints.read(data, at + _ATTRIBUTES_BYTES, _LONGEST_LONG)
        offset_deltas, at = varints.read(data, at, _LONGEST_INT)
        key_lengths, key_at = varints.read(data, at, _LONGEST_INT)
        value_lengths, value_at = varints.read(data, key_at + np.maximum(key_lengths, 0), _LONGEST_INT)
    except varints.TooLong as error:
        raise _no_record(error.row, counts, taken) from error
    after = value_at + np.maximum(value_lengths, 0)
    wrong = (key_lengths < -1) | (value_lengths < -1) | (after >= ends)
    wrong |= (data.take(after, mode="clip") == 0) & (after + 1 != ends)
    if wrong.any():
        raise _no_record(int(wrong.argmax()), counts, taken)
    return _Fields(offset_deltas, timestamp_deltas, key_at, key_lengths, value_at, value_lengths)


def _no_record(row: int, counts: npt.NDArray[np.intp], taken: Sequence[_Records]) -> CorruptData:
    index = int(np.searchsorted(counts, row, side="right"))
    place = row - (int(counts[index - 1]) if index else 0)
    base_offset = taken[index].batch.base_offset
    return CorruptData(
        f"record {place} of the record batch at offset {base_offset} does not have the fields of a record"
    )


def _check_order(offsets: varints.Numbers, taken: Sequence[_Records], counts: Sequence[int]) -> None:
    """Raises ``CorruptData`` if the offsets of a batch are not ascending."""
    after = np.cumsum(counts)
    lowest = [records.batch.base_offset for records in taken]
    highest = [records.batch.last_offset for records in taken]
    rising = bool((offsets[1:] > offsets[:-1]).all())
    if not rising or (offsets[after - counts] < lowest).any() or (offsets[after - 1] > highest).any():
        raise CorruptData(f"the record batches from offset {lowest[0]} to {highest[-1]} have records out of order")


def _binary(data: varints.Bytes, at: varints.Numbers, lengths: varints.Numbers) -> pa.BinaryArray:
    """Returns the bytes at these places; null where the length is -1. They are every other element of an array over all of ``data``, and Arrow copies
    only those."""
    borders = np.empty(2 * len(at) + 1, np.int32)
    borders[0], borders[1::2], borders[2::2] = 0, at, at + np.maximum(lengths, 0)
    valid = None
    if lengths.min() < 0:
        present = np.ones(2 * len(at), np.bool_)
        present[1::2] = lengths >= 0
        valid = pa.py_buffer(np.packbits(present, bitorder="little"))
    all_of_it = pa.Array.from_buffers(pa.binary(), 2 * len(at), [valid, pa.py_buffer(borders), pa.py_buffer(data)])
    return all_of_it.take(pa.array(np.arange(1, 2 * len(at), 2, dtype=np.int32)))
