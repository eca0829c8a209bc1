"""Collects what Arrow writes as parts of a file: large column buffers as they are, without a copy, small ones copied together. Each part costs a call to
Python, a hash and a write, in which the interpreter's lock changes hands three times.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa

from tidegate.store.files import Part

COPIED_BYTES = 1 << 20
"""Files up to this size are copied into one part, which takes less time than passing on their buffers one by one."""


class IpcParts(io.RawIOBase):
    """A sink for ``pa.ipc.new_file`` that collects the written buffers. They must not be changed until the parts are used."""

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
        """Returns the parts that were written since the last call, in order."""
        parts, self._parts = self._parts, []
        return parts


def ipc_file(schema: pa.Schema, batches: Sequence[pa.RecordBatch], options: pa.ipc.IpcWriteOptions) -> list[Part]:
    """Encodes batches as a complete Arrow IPC file; returns its parts. Up to ``COPIED_BYTES`` they are copied into one part; the parts of a larger file
    refer to the batches, which must not be changed until the parts are used.
    """
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
