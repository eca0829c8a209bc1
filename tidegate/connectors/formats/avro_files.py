"""Files of Avro records (object container files), on ``fastavro``: the extra ``tidegate[avro]``.

    header │ block │ block │ ...        a block: how many records, how many bytes, the bytes, the file's 16 bytes of sync marker

A record is a dict, whatever the schema: it may have unions of any kind, or contain itself. A file is cut into byte ranges; a range
owns the blocks that begin inside it, and finds the first behind a sync marker. Files are read with the schema that they were
written with, resolved to the reader's (Flink: ``AvroInputFormat``, ``AvroWriters.forGenericRecord``).
"""

from __future__ import annotations

import io
import json
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from tidegate.connectors.files.block import Block
from tidegate.connectors.files.encoders import EncoderFactory, FileEncoder
from tidegate.connectors.files.file_range import FileRange, byte_ranges, check_whole
from tidegate.connectors.files.file_system import resolve
from tidegate.connectors.files.formats import FileFormat
from tidegate.connectors.formats.avro_messages import rows_as_dicts
from tidegate.connectors.formats.avro_resolution import Resolution, Unresolved, Values, check_defaults, with_values
from tidegate.connectors.formats.avro_type import ParsedSchema, library, parse
from tidegate.model.errors import ConfigurationError, CorruptData, InvalidJob, SchemaMismatch
from tidegate.model.values import Record
from tidegate.records.record_codec import decode, encode
from tidegate.records.type_information import PICKLED_METADATA, PickledBytesTypeInfo, TypeInformation

_BLOCK_RECORDS = 4096
_PIECE_BYTES = 1 << 16
_SYNC_BYTES = 16
_PACKAGES = {"snappy": "cramjam", "zstandard": "backports.zstd", "lz4": "lz4"}
"""The packages that ``fastavro`` needs for a codec. Other codecs are in Python's library."""


@dataclass(frozen=True)
class AvroSchema:
    """A parsed Avro schema with its JSON text. Raises ``InvalidJob`` for an invalid one."""

    text: str

    def __post_init__(self) -> None:
        self.parsed()

    def parsed(self) -> ParsedSchema:
        """Parses the schema with full names. Raises ``InvalidJob``."""
        found = parse(self.text)
        try:
            check_defaults(found, Values())
        except Unresolved as error:
            raise InvalidJob(f"not an Avro schema: {error}") from error
        return found

    def __str__(self) -> str:
        return json.dumps(json.loads(self.text), separators=(",", ":"))

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Makes a schema from JSON text. Raises ``InvalidJob`` when it is invalid."""
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """Makes a schema from a file on the client. Raises ``InvalidJob`` when it is invalid."""
        try:
            with open(file_path, encoding="utf-8") as file:
                return AvroSchema(file.read())
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidJob(f"cannot read the Avro schema in {file_path}: {error}") from error


class GenericRecordAvroTypeInfo(PickledBytesTypeInfo):
    """The type of dicts that are records of ``schema``; records are checked when they are written."""

    def __init__(self, schema: AvroSchema) -> None:
        self.schema = schema

    def _parts(self) -> tuple[object, ...]:
        return (self.schema,)

    def __repr__(self) -> str:
        return f"GenericRecord({str(self.schema)!r})"


class AvroBlocks(FileFormat):
    """Reads Avro files as records of the reader's schema. A block is some whole blocks of the file, named by the offset of the first."""

    ends_anywhere = True
    values = Values()
    """The Python types of logical values in records."""

    def __init__(self, reader: ParsedSchema) -> None:
        self._reader = reader

    @abstractmethod
    def batch(self, records: list[Record], path: str) -> pa.RecordBatch:
        """Converts records that were read from an Avro file to a record batch with the schema of the format. ``path``: the file, for
        errors.
        """

    def ranges(self, info: pafs.FileInfo, uri: str, range_bytes: int) -> list[FileRange]:
        return byte_ranges(info, uri, range_bytes)

    def blocks(self, part: FileRange, start: int | None, skip: int) -> Iterator[Block]:
        """Yields blocks. Raises ``CorruptData`` for a file that is not Avro, ``SchemaMismatch`` for one whose schema does not resolve,
        ``ConfigurationError`` for one whose codec is not installed."""
        filesystem, path = resolve(part.path)
        with filesystem.open_input_file(path) as file:
            check_whole(file, part)
            blocks = self._open(file, part.path)
            file.seek(_first_block(file, part) if start is None else start)
            begin = file.tell()
            while begin < part.end:
                records, end = _gathered(blocks, file, part)
                if not records and end == begin:
                    return
                yield Block(self.batch(records, part.path).slice(skip), begin, skip, end)
                begin, skip = end, 0

    def _open(self, file: pa.NativeFile, path: str) -> Iterator[list[Record]]:
        """Reads the header and returns the records of block after block, from wherever the file is positioned afterwards."""
        fastavro = library()
        try:
            blocks = fastavro.block_reader(file, self._reader.root)
        except Exception as error:  # fastavro raises whatever the bytes lead it to
            raise CorruptData(f"{path} cannot be read as Avro: {type(error).__name__}: {error}") from error
        package = _PACKAGES.get(blocks.codec)
        if package is not None and not _is_installed(package):
            raise ConfigurationError(
                f"{path} is compressed with {blocks.codec}, which needs the package {package!r} where subtasks run: install it "
                "there, or name it in env.set_python_requirements"
            )
        return _decoded(blocks, self._reader, self.values)


class AvroFileFormat(AvroBlocks):
    """Reads Avro files as records of ``schema``, as dicts."""

    def __init__(self, schema: AvroSchema) -> None:
        super().__init__(schema.parsed())
        self._type = GenericRecordAvroTypeInfo(schema)
        self.schema = self._type.arrow_schema()

    def produced_type(self) -> TypeInformation:
        return self._type

    def batch(self, records: list[Record], path: str) -> pa.RecordBatch:
        return encode(self._type, records, path)


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # not even what it is below
        return False


def _decoded(blocks: Any, reader: ParsedSchema, values: Values) -> Iterator[list[Record]]:
    """Decodes blocks to records. ``blocks``: of ``fastavro``, which only splits them; the reader's schema is applied here."""
    array = Resolution(parse(blocks.metadata["avro.schema"], has_written=True), reader, values).array
    read = library().schemaless_reader
    for block in blocks:
        content = io.BytesIO(_varint(block.num_records) + block.bytes_.getvalue() + b"\0")
        records = read(content, array, None) if block.num_records else []
        if len(records) != block.num_records or content.read(1):
            raise ValueError("the records of the block end before or behind its end")
        yield records


def _varint(number: int) -> bytes:
    """Encodes a whole number of at least zero as Avro does."""
    number *= 2
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _gathered(blocks: Iterator[list[Record]], file: pa.NativeFile, part: FileRange) -> tuple[list[Record], int]:
    """Reads some whole blocks that begin in the range; returns their records and the offset of the next block."""
    records: list[Record] = []
    begin = int(file.tell())
    while begin < part.end and len(records) < _BLOCK_RECORDS:
        try:
            block = next(blocks, None)
            if block is None:
                break
            records.extend(block)
        except Unresolved as error:
            raise SchemaMismatch(
                f"{part.path} was written with a schema that does not resolve to this one: {error}"
            ) from error
        except Exception as error:
            raise CorruptData(f"{part.path}, in the block at byte {begin}: {type(error).__name__}: {error}") from error
        begin = int(file.tell())
    return records, begin


def _first_block(file: pa.NativeFile, part: FileRange) -> int:
    """Returns the offset of the first block that begins in the range, or the range's end. The file is positioned after its header."""
    after_header = int(file.tell())
    if part.start <= after_header:
        return after_header
    marker = bytes(file.read_at(_SYNC_BYTES, after_header - _SYNC_BYTES))
    offset = part.start - _SYNC_BYTES
    while offset + _SYNC_BYTES < part.end:
        piece = bytes(file.read_at(_PIECE_BYTES, offset))
        found = piece.find(marker)
        if found >= 0:
            return min(offset + found + _SYNC_BYTES, part.end)
        if len(piece) < _PIECE_BYTES:
            break
        offset += len(piece) - _SYNC_BYTES + 1
    return part.end


@dataclass(frozen=True)
class AvroEncoderFactory(EncoderFactory):
    """Avro files with uncompressed blocks of about 16 kB. Records are dicts, or the rows of a stream with named columns."""

    schema: AvroSchema
    suffix: str = ".avro"

    def open(self, file: pa.NativeFile, schema: pa.Schema) -> FileEncoder:
        return _AvroEncoder(file, self.schema.parsed(), schema)


class RecordsEncoder(FileEncoder):
    """Writes records in blocks. ``schema``: in the header; ``written``: used to write records."""

    def __init__(
        self,
        file: pa.NativeFile,
        schema: ParsedSchema,
        written: ParsedSchema,
        codec: str = "null",
        *,
        checks: bool = False,
    ) -> None:
        self._writer = library().write.Writer(file, schema.root, codec=codec, validator=checks)
        self._writer.schema = written.root
        self._writer._named_schemas.update(written.named)

    @abstractmethod
    def records(self, data: pa.RecordBatch) -> list[Record]:
        """Converts a batch to records."""

    def write(self, data: pa.RecordBatch) -> None:
        """Writes a batch. Raises ``SchemaMismatch`` for a record that does not fit the schema."""
        for record in self.records(data):
            try:
                self._writer.write(record)
            except Exception as error:
                raise rejected(record, error) from error

    def finish(self) -> None:
        self._writer.flush()


class _AvroEncoder(RecordsEncoder):
    def __init__(self, file: pa.NativeFile, schema: ParsedSchema, stream: pa.Schema) -> None:
        # behind the header, which has the defaults as JSON
        super().__init__(file, schema, with_values(schema), checks=True)
        self._stream = stream

    def records(self, data: pa.RecordBatch) -> list[Record]:
        return records_of(data, self._stream)


def records_of(data: pa.RecordBatch, stream: pa.Schema) -> list[Record]:
    """Converts a batch to records: unpickled objects, or rows as dicts. ``stream``: the stream's columns."""
    if len(stream) == 1 and stream.field(0).metadata == PICKLED_METADATA:
        return decode(PickledBytesTypeInfo(), data)
    return list(rows_as_dicts(data))


def rejected(record: Record, error: Exception) -> SchemaMismatch:
    """Returns the error for a record that ``fastavro`` refuses, in one line: its ``ValidationError`` is a JSON list."""
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return SchemaMismatch(f"not a record of the Avro schema: {reason}: {str(record)[:200]}")
