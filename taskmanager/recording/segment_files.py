"""The file format of a recording's segment: frames with length and checksum.

    magic, then frames:  length u32 · crc32 u32 · kind u8 · first i64 · second i64 · count u32 · count x i64 · body

Batches are Arrow IPC. Those of one schema share it: it is written once in each file, in front of its first batch.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

import pyarrow as pa

from tidegate.model.errors import CorruptData
from tidegate.taskmanager.recording.calls import RecordedCall, RecordedKind, SegmentStart

Read = TypeVar("Read")
MAGIC = b"tidegate replay 1\n"
OTHERS = "`tidegate replay` lists other failures"
"""The end of messages about a recording that cannot be read: what to do."""

_FRAME, _HEAD = struct.Struct("<II"), struct.Struct("<BqqI")
_SCHEMA = 255
"""Kind of a frame that contains a schema."""
_BUFFER = 1 << 18
_MOST = 1 << 31
"""Largest size of a frame in bytes; a longer one is damaged."""


class SegmentWriter:
    """Writes a segment file that only the user can read. Nothing is synced to disk, since the file is used only by a running process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch(mode=0o600, exist_ok=False)
        self._file: BinaryIO = path.open("wb", buffering=_BUFFER)
        self._file.write(MAGIC)
        self.written_bytes = len(MAGIC)
        self._schema: pa.Schema | None = None
        self._is_whole = False
        """Whether batches of this schema are written with it, since their message alone lacks dictionaries."""

    def write(
        self, kind: RecordedKind, first: int = 0, second: int = 0, numbers: Sequence[int] = (), body: bytes = b""
    ) -> None:
        """Appends a frame."""
        self._frame(kind, first, second, numbers, body)

    def write_batch(self, kind: RecordedKind, first: int, batch: pa.RecordBatch, tag: str = "") -> None:
        """Appends a frame with a batch. ``tag``: of a side output."""
        if self._schema is None or not batch.schema.equals(self._schema, check_metadata=True):
            self._schema = batch.schema
            self._is_whole = _has_dictionaries(batch.schema)
            self._frame(_SCHEMA, 0, 0, (), batch.schema.serialize().to_pybytes())
        name = tag.encode()
        self._frame(kind, first, len(name), (), name, _whole(batch) if self._is_whole else batch.serialize())

    def flush(self) -> None:
        """Writes buffered frames to the file."""
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _frame(
        self, kind: int, first: int, second: int, numbers: Sequence[int], body: bytes, rest: pa.Buffer | bytes = b""
    ) -> None:
        count = len(numbers)
        content = _HEAD.pack(kind, first, second, count)
        if count:
            content += struct.pack(f"<{count}q", *numbers)
        content += body
        crc = zlib.crc32(rest, zlib.crc32(content))
        size = len(content) + len(rest)
        self._file.write(_FRAME.pack(size, crc) + content)
        if rest:
            self._file.write(rest)
        self.written_bytes += _FRAME.size + size


def read_segment(path: Path) -> tuple[SegmentStart, Iterator[RecordedCall]]:
    """Returns the start of a segment and its calls. Both raise ``CorruptData``, which names file and position, for a damaged or truncated file. The last call
    may lack its end.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CorruptData(f"{path}: this part of the recording cannot be read: {error.strerror}; {OTHERS}") from error
    if not content.startswith(MAGIC):
        raise CorruptData(f"{path}: this is no recording of a subtask, or one of another version of tidegate; {OTHERS}")
    frames = _frames(path, content)
    head = next(frames, None)
    if head is None or head[0] != RecordedKind.STARTED:
        raise CorruptData(f"{path}: this part of the recording lacks its beginning, so it is damaged; {OTHERS}")
    try:
        start = SegmentStart.of(head[1], head[3])
    except ValueError as error:
        raise CorruptData(
            f"{path}: this part of the recording lacks its beginning, so it is damaged; {OTHERS}"
        ) from error
    return start, _calls(path, frames)


_Frame = tuple[int, int, int, tuple[int, ...], memoryview]


def _frames(path: Path, content: bytes) -> Iterator[_Frame]:
    view, place = memoryview(content), len(MAGIC)
    while place < len(view):
        where = f"{path}, byte {place}: the recording"
        if place + _FRAME.size > len(view):
            raise CorruptData(f"{where} is cut off; {OTHERS}")
        size, crc = _FRAME.unpack_from(view, place)
        begin = place + _FRAME.size
        if not _HEAD.size <= size <= _MOST or begin + size > len(view):
            raise CorruptData(f"{where} is cut off or damaged; {OTHERS}")
        frame = view[begin : begin + size]
        if zlib.crc32(frame) != crc:
            raise CorruptData(f"{where} is damaged (its checksum is wrong); {OTHERS}")
        kind, first, second, count = _HEAD.unpack_from(frame)
        body = _HEAD.size + 8 * count
        if body > size:
            raise CorruptData(f"{where} is damaged (a part of it is shorter than it says); {OTHERS}")
        numbers = struct.unpack_from(f"<{count}q", frame, _HEAD.size)
        yield kind, first, second, numbers, frame[body:]
        place = begin + size


def _calls(path: Path, frames: Iterator[_Frame]) -> Iterator[RecordedCall]:
    schema: pa.Schema | None = None
    open_call: RecordedCall | None = None
    for kind, first, second, numbers, body in frames:
        if kind == _SCHEMA:
            schema = _read(path, partial(pa.ipc.read_schema, pa.py_buffer(body)))
        elif kind == RecordedKind.ENDED:
            if open_call is None:
                raise CorruptData(f"{path}: the recording has the end of a call whose beginning is missing; {OTHERS}")
            yield _ended(open_call, first, numbers)
            open_call = None
        elif open_call is not None:
            raise CorruptData(f"{path}: the recording lacks the end of a call, so it is damaged; {OTHERS}")
        else:
            open_call = _begun(path, kind, first, second, body, schema)
    if open_call is not None:
        yield open_call


def _begun(path: Path, kind: int, first: int, second: int, body: memoryview, schema: pa.Schema | None) -> RecordedCall:
    try:
        known = RecordedKind(kind)
    except ValueError as error:
        raise CorruptData(
            f"{path}: the recording has calls of a kind {kind}, which this version does not know; replay it with the tidegate that recorded it"
        ) from error
    if known not in (RecordedKind.PROCESS, RecordedKind.EMIT):
        return RecordedCall(known, first, second, bytes(body))
    if schema is None:
        raise CorruptData(f"{path}: the recording has a batch without its schema, so it is damaged; {OTHERS}")
    content, name = pa.py_buffer(body[second:]), bytes(body[:second])
    if _has_dictionaries(schema):
        batch = _read(path, lambda: pa.ipc.open_stream(content).read_next_batch())
    else:
        batch = _read(path, lambda: pa.ipc.read_record_batch(content, schema))
    return RecordedCall(known, first, 0, name, batch)


def _ended(call: RecordedCall, emitted: int, numbers: tuple[int, ...]) -> RecordedCall:
    return RecordedCall(
        call.kind,
        call.first,
        call.second,
        call.body,
        call.batch,
        emitted,
        tuple(zip(numbers[::2], numbers[1::2], strict=True)),
        has_ended=True,
    )


def _read(path: Path, read: Callable[[], Read]) -> Read:
    try:
        return read()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptData(f"{path}: a batch of the recording cannot be read: {error}; {OTHERS}") from error


def _has_dictionaries(schema: pa.Schema) -> bool:
    """Tells whether a schema has dictionaries, which the IPC message of a batch does not contain."""
    return "dictionary<" in str(schema.types)


def _whole(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()
