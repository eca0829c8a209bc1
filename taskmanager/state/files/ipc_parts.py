"""What Arrow writes, as the parts of a file: buffers of columns as they are, without a copy into a larger one, unless they are
small: for each part Arrow calls Python, and it is hashed and written by itself, so the interpreter's lock changes hands three
times."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa

from tidegate.store.files import Part

COPIED_BYTES = 1 << 20
"""Copying a megabyte takes less than handing its buffers over one by one, which costs the lock three times each."""


class IpcParts(io.RawIOBase):
    """For ``pa.ipc.new_file``. What was written must not be changed before its parts are used."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[Part] = []

    def writable(self) -> bool:
        return True

    def write(self, content: bytes | pa.Buffer) -> int:
        part = content if isinstance(content, bytes) else memoryview(content)
        self._parts.append(part)
        return len(part)

    def drain(self) -> list[Part]:
        """The parts since the last call, in order."""
        parts, self._parts = self._parts, []
        return parts


def ipc_file(schema: pa.Schema, batches: Sequence[pa.RecordBatch], options: pa.ipc.IpcWriteOptions) -> list[Part]:
    """A whole Arrow file; in one part up to ``COPIED_BYTES``. Until the parts are used, the batches must not be changed."""
    if sum(batch.nbytes for batch in batches) > COPIED_BYTES:
        sink = IpcParts()
        _write(sink, schema, batches, options)
        return sink.drain()
    copy = pa.BufferOutputStream()
    _write(copy, schema, batches, options)
    return [memoryview(copy.getvalue())]


def _write(
    sink: IpcParts | pa.BufferOutputStream,
    schema: pa.Schema,
    batches: Sequence[pa.RecordBatch],
    options: pa.ipc.IpcWriteOptions,
) -> None:
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
