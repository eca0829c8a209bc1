"""Files of Protobuf messages, each behind its length: what ``writeDelimitedTo`` of Java, C++ and Go writes.

    length, a varint │ message │ length │ message │ ...

Protobuf itself has no form for files, so Flink refuses its format ``protobuf`` there. This one is asked for by name. A file cannot be
entered in the middle: it is read by one subtask, from any message that a checkpoint names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.fs as pafs

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.files.block import Block
from tidegate.connectors.files.compression import RandomAccess, open_range
from tidegate.connectors.files.encoders import EncoderFactory, FileEncoder
from tidegate.connectors.files.file_range import FileRange
from tidegate.connectors.files.formats import FileFormat
from tidegate.connectors.formats.messages import PoisonRecord, decoded
from tidegate.connectors.formats.protobuf_messages import ProtobufMessages, ProtobufRows
from tidegate.model.errors import CorruptData, InvalidJob, SchemaMismatch

_BLOCK_MESSAGES = 4096
_PIECE_BYTES = 1 << 20
_VARINT_BYTES = 10
"""The longest varint, of 64 bits, in bytes."""
_MOST_BYTES = (1 << 31) - 1
"""Protobuf's limit for a message, in bytes."""


class ProtobufFileFormat(FileFormat):
    """Reads files of Protobuf messages as rows of ``rows.type_info``. A block is named by the offset of its first message."""

    def __init__(self, rows: ProtobufRows) -> None:
        self._rows = rows
        self.schema = rows.type_info.arrow_schema()

    def produced_type(self) -> TypeInformation:
        return self._rows.type_info

    def ranges(self, info: pafs.FileInfo, uri: str, range_bytes: int) -> list[FileRange]:
        return [FileRange(uri, 0, int(info.size), int(info.size))]

    def blocks(self, part: FileRange, start: int | None, skip: int) -> Iterator[Block]:
        """Yields blocks. Raises ``CorruptData`` with the place of an invalid message, unless those are to be skipped."""
        with open_range(part) as (file, inside):
            messages = _Messages(file, inside.path, start or 0)
            while True:
                begin, found = messages.offset, messages.take(_BLOCK_MESSAGES)
                if not found:
                    return
                yield Block(self._rows_of(found, inside.path).slice(skip), begin, skip, messages.offset)
                skip = 0

    def _rows_of(self, found: list[tuple[int, bytes]], path: str) -> pa.RecordBatch:
        values = [value for _, value in found]
        while True:
            try:
                return decoded(self._rows, values)
            except PoisonRecord as poison:
                if not self._rows.ignore_parse_errors:
                    place = found[poison.index][0]
                    raise CorruptData(f"{path}, in the message at byte {place}: {poison.reason}") from None
                del values[poison.index], found[poison.index]


class _Messages:
    """Reads the messages of a file from ``offset``, which advances."""

    def __init__(self, file: RandomAccess, path: str, offset: int) -> None:
        self._file = file
        self._path = path
        self._piece, self._piece_at = b"", offset
        self.offset = offset

    def take(self, most: int) -> list[tuple[int, bytes]]:
        """Reads up to ``most`` messages, each with its offset; fewer at the end of the file. Raises ``CorruptData``."""
        found: list[tuple[int, bytes]] = []
        size = 0
        while len(found) < most and size < _PIECE_BYTES:
            head = self._read(self.offset, _VARINT_BYTES)
            if not head:
                break
            length, digits = self._length(head)
            content = self._read(self.offset + digits, length)
            if len(content) < length:
                raise CorruptData(f"{self._path} ends within the message at byte {self.offset}")
            found.append((self.offset, content))
            self.offset += digits + length
            size += length
        return found

    def _length(self, head: bytes) -> tuple[int, int]:
        """Parses the length of a message; returns it with its number of bytes."""
        length = 0
        for at, byte in enumerate(head):
            length |= (byte & 0x7F) << (7 * at)
            if byte < 0x80 and length <= _MOST_BYTES:
                return length, at + 1
        raise CorruptData(
            f"{self._path}: no message length is at byte {self.offset}; check that the file holds length-delimited Protobuf messages"
        )

    def _read(self, offset: int, nbytes: int) -> bytes:
        """Reads bytes; fewer at the end of the file."""
        inside = offset - self._piece_at
        if inside < 0 or inside + nbytes > len(self._piece):
            self._piece, self._piece_at, inside = self._file.read_at(max(nbytes, _PIECE_BYTES), offset), offset, 0
        return bytes(self._piece[inside : inside + nbytes])


@dataclass(frozen=True)
class ProtobufEncoderFactory(EncoderFactory):
    """Files of Protobuf messages, each preceded by its length."""

    messages: ProtobufMessages
    suffix: str = ".pb"

    def open(self, file: pa.NativeFile, schema: pa.Schema) -> FileEncoder:
        try:
            self.messages.check(schema)
        except InvalidJob as error:
            raise SchemaMismatch(error.message) from None
        return _ProtobufEncoder(file, self.messages)


class _ProtobufEncoder(FileEncoder):
    def __init__(self, file: pa.NativeFile, messages: ProtobufMessages) -> None:
        self._file = file
        self._messages = messages

    def write(self, data: pa.RecordBatch) -> None:
        parts: list[bytes] = []
        for content in self._messages.contents_of(data):
            parts += (_varint(len(content)), content)
        self._file.write(b"".join(parts))

    def finish(self) -> None:
        pass


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(0x80 | number & 0x7F)
        number >>= 7
    found.append(number)
    return bytes(found)
