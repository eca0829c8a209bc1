"""Reads some rows of a keyed segment: the Arrow file is mapped, and its parts are verified before they are used.

    open ─▶ footer ─▶ schema, where the batches are │ batch(i): columns without a copy │ need(batch, column, rows) ─▶ verified

Only for files without compression and dictionaries. Where all batches have ``batch_rows`` rows but the last, a row's batch is known
without reading the others: their writer says so in the metadata (``even``). Otherwise the metadata of each batch is read (``bounds``).
"""

from __future__ import annotations

import resource
import struct
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import accumulate

import numpy as np
import pyarrow as pa

from tidegate.model.checkpoint import SegmentHandle
from tidegate.model.errors import ON_DAMAGE, CorruptData
from tidegate.store.verified_file import PartialFile, VerifiedContent
from tidegate.taskmanager.state.files.segments import KEY_GROUP, StateDescription, metadata_of
from tidegate.taskmanager.state.ports import PartialSource

BATCH_ROWS = "batch_rows"
ORDERED = "ordered"
_MAGIC = b"ARROW1"
_TAIL = struct.Struct("<i6s")
"""The end of every Arrow file: length of the footer, and the magic."""
_BLOCK = struct.Struct("<qi4xq")
"""Arrow's ``Block`` (``File.fbs``): offset, length of the metadata, length of the body."""
_OPENED_AT_ONCE = 16
"""The number of files that are opened at the same time. Each needs two or three requests to a store, of some ten milliseconds."""
_KEPT_BATCHES = 256
"""Most batches of a file that are kept open. A look-up takes some microseconds less where its batch is known."""
_DICTIONARIES, _BATCHES = 2, 3
"""Numbers of fields in Arrow's ``Footer``."""
_HEADER = 2
"""Number of the header field in Arrow's ``Message``, which is a ``RecordBatch`` here."""
_LENGTH, _COMPRESSION = 0, 3
"""Numbers of fields in Arrow's ``RecordBatch``."""
_PREFIX_BYTES = 8
"""Bytes in front of a message: a marker and its length."""


def even(about: StateDescription, batch_rows: int, *, is_ordered: bool) -> StateDescription:
    """Returns the description of a file from which parts can be read: all its batches but the last have ``batch_rows`` rows.

    ``is_ordered``: rows of a key group are in the order of the bytes of their entries, as the RocksDB backend encodes them.
    """
    ordered = {ORDERED: True} if is_ordered else {}
    return replace(about, more={**about.more, BATCH_ROWS: batch_rows, **ordered})


def most_open_files() -> int:
    """Returns how many files of restored state may be held open: a quarter of what the process may open, as there may be more states, each with files of its
    own.
    """
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if most == resource.RLIM_INFINITY else most // 4


class PartialSegment:
    """A keyed segment of which some rows can be read. Thread-safe."""

    def __init__(self, file: PartialFile, segment: SegmentHandle) -> None:
        """Opens the segment's file. Raises ``CorruptData`` naming the file, or ``StorageError``."""
        self.segment = segment
        path = segment.handle.path
        self.name = f"state file {path}" if path else f"inline state '{segment.state_name}'"
        self._file = file
        self._content = pa.py_buffer(file.content)
        self._blocks, dictionaries = self._footer()
        self._has_dictionaries = dictionaries > 0
        self._bounds: list[int] | None = None
        try:
            self._reader = pa.ipc.open_file(self._content)
        except (pa.ArrowInvalid, OSError) as error:
            raise self._corrupt(f"it is not a readable Arrow file ({error})") from error
        self.schema: pa.Schema = self._reader.schema
        self.about = metadata_of(self.schema)
        self.batch_rows = int(self.about.get(BATCH_ROWS, 0))
        self.is_even = self.batch_rows > 0 and not dictionaries
        self._batches: dict[int, pa.RecordBatch] = {}
        if self.is_even:
            self._check_rows()

    def rows_of(self, group: int) -> tuple[int, int]:
        """Returns the index of the first row of a key group, and that after its last row."""
        at = group - self.segment.key_groups.start
        return self.segment.offsets[at], self.segment.offsets[at + 1]

    def bounds(self) -> list[int] | None:
        """Returns the first row of each batch, followed by the number of rows; ``None`` if no parts can be read, since the file is compressed or has
        dictionaries.
        """
        if self._bounds is None and not self._has_dictionaries:
            lengths = [self._length(index) for index in range(len(self._blocks))]
            known = [length for length in lengths if length is not None]
            if len(known) == len(lengths):
                self._bounds = [0, *accumulate(known)]
                self._check_index(self._bounds[-1])
        return self._bounds

    def _length(self, index: int) -> int | None:
        """Returns the number of rows of a batch; ``None`` if it is compressed."""
        offset, metadata_bytes, _ = self._blocks[index]
        self._file.need(offset, offset + metadata_bytes)
        message = bytes(self._file.content[offset + _PREFIX_BYTES : offset + metadata_bytes])
        try:
            batch = _pointed_to(message, _field(message, _pointed_to(message, 0), _HEADER))
            at = _field(message, batch, _LENGTH)
            length: int = struct.unpack_from("<q", message, at)[0] if at else 0
            return None if _field(message, batch, _COMPRESSION) else length
        except (struct.error, IndexError) as error:
            raise self._corrupt(f"the header of batch {index} of the file cannot be read ({error})") from error

    def batch(self, index: int) -> pa.RecordBatch:
        """Returns a batch whose columns are not verified yet."""
        found = self._batches.get(index)
        if found is None:
            offset, metadata_bytes, _ = self._blocks[index]
            self._file.need(offset, offset + metadata_bytes)
            try:
                found = self._reader.get_batch(index)
            except (pa.ArrowInvalid, OSError) as error:
                raise self._corrupt(f"batch {index} of the file cannot be read ({error})") from error
            if self.is_even and index + 1 < len(self._blocks) and found.num_rows != self.batch_rows:
                raise self._corrupt(f"batch {index} of the file has {found.num_rows} rows instead of {self.batch_rows}")
            if len(self._batches) >= _KEPT_BATCHES:
                self._batches.clear()
            self._batches[index] = found
        return found

    def need_rows(self, first: int, end: int) -> None:
        """Reads and verifies everything that belongs to these rows at once, for when all of it will be used."""
        if first < end:
            begin, (last, metadata_bytes, body_bytes) = (
                self._blocks[first // self.batch_rows],
                self._blocks[(end - 1) // self.batch_rows],
            )
            self._file.need(begin[0], last + metadata_bytes + body_bytes)

    def column(self, index: int, name: str, first: int, end: int) -> pa.Array:
        """Returns a column of a batch, verified for the rows from ``first`` to ``end - 1``; other rows must not be used."""
        batch = self.batch(index)
        array = batch.column(batch.schema.get_field_index(name))
        self._need(array, first, end)
        return array

    def slice(self, index: int, first: int, end: int) -> pa.RecordBatch:
        """Returns the rows ``first`` to ``end - 1`` of a batch, verified."""
        batch = self.batch(index)
        for array in batch.columns:
            self._need(array, first, end)
        return batch.slice(first, end - first)

    def _need(self, array: pa.Array, first: int, end: int) -> None:
        kind, buffers = array.type, array.buffers()
        if pa.types.is_binary(kind) or pa.types.is_string(kind):
            validity, offsets, data = buffers
            self._need_buffer(validity)
            self._need_buffer(offsets, 4 * first, 4 * (end + 1))
            if data is not None and end > first:
                places = np.frombuffer(offsets, "<i4", end + 1 - first, 4 * first)
                if not 0 <= int(places[0]) <= int(places[-1]) <= data.size:
                    raise self._corrupt(f"values of rows {first} to {end} of a column of {kind} lie outside the file")
                self._need_buffer(data, int(places[0]), int(places[-1]))
        elif pa.types.is_primitive(kind) and kind.bit_width % 8 == 0:
            width = kind.bit_width // 8
            self._need_buffer(buffers[0])
            self._need_buffer(buffers[1], width * first, width * end)
        else:
            for buffer in buffers:
                self._need_buffer(buffer)

    def _need_buffer(self, buffer: pa.Buffer | None, first: int = 0, end: int | None = None) -> None:
        if buffer is not None and buffer.size:
            at = buffer.address - self._content.address
            self._file.need(at + first, at + (buffer.size if end is None else end))

    def _footer(self) -> tuple[list[tuple[int, int, int]], int]:
        """Returns where the batches are (offset, bytes of metadata, bytes of body), and the number of dictionaries."""
        size = len(self._content)
        self._file.need(max(0, size - _TAIL.size), size)
        length, magic = _TAIL.unpack_from(self._file.content, size - _TAIL.size) if size > _TAIL.size else (0, b"")
        if magic != _MAGIC or not 0 < length <= size - _TAIL.size:
            raise self._corrupt("it is not a readable Arrow file")
        first = size - _TAIL.size - length
        self._file.need(first, size)
        self._file.need(0, 8)  # the magic in front
        footer = bytes(self._file.content[first : size - _TAIL.size])
        try:
            return _vector(footer, _BATCHES), len(_vector(footer, _DICTIONARIES))
        except (struct.error, IndexError) as error:
            raise self._corrupt(f"its footer cannot be read ({error})") from error

    def _check_rows(self) -> None:
        count = len(self._blocks)
        self._check_index((count - 1) * self.batch_rows + self.batch(count - 1).num_rows if count else 0)

    def _check_index(self, rows: int) -> None:
        schema, offsets = self.schema, self.segment.offsets
        if KEY_GROUP not in schema.names or schema.field(KEY_GROUP).type != pa.int32():
            raise self._corrupt(f"it has no int32 column '{KEY_GROUP}' among {schema.names}")
        is_whole = len(offsets) == self.segment.key_groups.size + 1
        if not is_whole or offsets[-1] > rows or any(b < a for a, b in zip((0, *offsets), offsets, strict=False)):
            raise self._corrupt(f"it has {rows} rows, but its index of {len(offsets)} entries ends with {offsets[-1:]}")

    def _corrupt(self, what: str) -> CorruptData:
        return CorruptData(f"{self.name}: {what}; {ON_DAMAGE}")


def opened_parts(
    source: PartialSource, segments: Sequence[SegmentHandle], directory: str
) -> list[PartialSegment | None]:
    """Opens segments, several at the same time; ``None`` for one whose file can only be read whole. Raises ``CorruptData``, ``StorageError``.

    ``directory``: where parts that come from an object store are kept.
    """
    with ThreadPoolExecutor(_OPENED_AT_ONCE, "state-open") as pool:
        return list(pool.map(partial(_opened, source, directory), segments))


def _opened(source: PartialSource, directory: str, segment: SegmentHandle) -> PartialSegment | None:
    inline = segment.handle.data is not None
    file = VerifiedContent(source.read(segment.handle)) if inline else source.open(segment.handle, directory)
    return None if file is None else PartialSegment(file, segment)


def _vector(footer: bytes, field: int) -> list[tuple[int, int, int]]:
    """Returns the vector of blocks in a field of the flatbuffer ``Footer``."""
    at = _field(footer, _pointed_to(footer, 0), field)
    if not at:
        return []
    vector = _pointed_to(footer, at)
    (count,) = struct.unpack_from("<I", footer, vector)
    return [_BLOCK.unpack_from(footer, vector + 4 + _BLOCK.size * i) for i in range(count)]


def _pointed_to(content: bytes, at: int) -> int:
    """Returns the position of the table or vector that a flatbuffer refers to at ``at``."""
    (distance,) = struct.unpack_from("<I", content, at)
    return at + int(distance)


def _field(content: bytes, table: int, number: int) -> int:
    """Returns the position of a field of a flatbuffer's table; 0 if the table does not have it."""
    (back,) = struct.unpack_from("<i", content, table)
    (vtable_bytes,) = struct.unpack_from("<H", content, table - back)
    (at,) = struct.unpack_from("<H", content, table - back + 4 + 2 * number) if 4 + 2 * number < vtable_bytes else (0,)
    return table + int(at) if at else 0
