"""Reads the bytes of a file as Arrow batches, block by block. Reading is a pure function of the file and a position, so that a replay gives the same
batches.

Line formats (text, JSON lines) are cut into byte ranges and read in blocks of about 1 MiB that end at a line end;
a block is named by the offset of its first byte. A range owns the lines that begin inside it. Parquet is cut by row
group and read in batches. CSV is in ``csv_format``, JSON in ``json_lines``.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.connectors.content import check_texts, misfit, named
from tidegate.connectors.files.bad_lines import BadLines, Lines, checked, line_end, rows_of
from tidegate.connectors.files.block import Block
from tidegate.connectors.files.compression import RandomAccess, open_range
from tidegate.connectors.files.file_range import FileRange, byte_ranges
from tidegate.connectors.files.file_system import resolve
from tidegate.model.errors import CorruptData, InvalidJob, SchemaMismatch

BLOCK_BYTES = 1 << 20
"""Arrow's default block size of its CSV and JSON readers."""
PARQUET_BATCH_ROWS = 1 << 16
_ARROW_SCHEMA = b"ARROW:schema"
"""The key, in the footer of a Parquet file that Arrow wrote, of the schema that it was given."""
NEAR_BYTES = 1 << 16
"""How many bytes are read to find a first record."""


class FileFormat(ABC):
    """Reads one kind of file. Pickled with the job."""

    schema: pa.Schema
    ends_anywhere: ClassVar[bool] = False
    """Whether a range may end at any byte: a record that begins inside it is read whole."""

    def produced_type(self) -> TypeInformation:
        """Returns the type of the stream: rows with ``schema``."""
        return Types.SCHEMA(self.schema)

    def without(self, names: Collection[str]) -> FileFormat | None:
        """Returns the format of files without these columns, which their directories have (``hive``); ``None`` for a format whose records are not rows
        of ``schema``."""
        return None

    @abstractmethod
    def ranges(self, info: pafs.FileInfo, uri: str, range_bytes: int) -> list[FileRange]:
        """Returns the splits of one file. Raises ``InvalidJob``/``CorruptData`` when it cannot be read."""

    @abstractmethod
    def blocks(self, part: FileRange, start: int | None, skip: int) -> Iterator[Block]:
        """Yields the blocks of rows of a split (``part``), from the block at position ``start`` (``None``: the first), of which ``skip`` rows are left out."""

    def first_record(self, part: FileRange, start: int | None, skip: int) -> pa.RecordBatch | None:
        """Returns the first row of ``blocks``; ``None`` if there is none. Reads little more than that where the format allows it."""
        end = (part.start if start is None else start) + NEAR_BYTES
        near = [replace(part, end=end)] if self.ends_anywhere and not skip and end < part.end else []
        for looked_at in [*near, part]:
            for block in self.blocks(looked_at, start, skip):
                if block.data.num_rows and not block.side:
                    return block.data.take(pa.array([0]))  # a copy: a slice would hold the whole block
        return None


@dataclass(frozen=True)
class LineFormat(FileFormat):
    """A format with one record a line: the base of such formats."""

    schema: pa.Schema
    header_lines: int = 0
    bad_lines: BadLines | None = None
    """What is done with bad lines; ``None``: one fails the job."""

    def ranges(self, info: pafs.FileInfo, uri: str, range_bytes: int) -> list[FileRange]:
        return byte_ranges(info, uri, range_bytes)

    def blocks(self, part: FileRange, start: int | None, skip: int) -> Iterator[Block]:
        with open_range(part) as (file, inside):
            offset = self._first_line(file, inside) if start is None else start
            while offset < inside.end and (raw := read_lines(file, offset, inside)):
                yield from self._blocks_of(Lines(raw, inside.path, offset), skip, file)
                offset += len(raw)
                skip = 0

    def _blocks_of(self, lines: Lines, skip: int, file: RandomAccess) -> Iterator[Block]:
        """Yields the blocks of some lines, from row ``skip`` on."""
        parse = checked(lambda raw, offset: self._parse(raw, lines.path, offset), lines.path)
        if self.bad_lines is None:
            data = rows_of(lines, parse, line_end, file)
            yield Block(data.slice(skip), lines.offset, skip, lines.offset + len(lines.raw))
        else:
            yield from self.bad_lines.blocks(lines, skip, self.schema, parse, line_end)

    def _first_line(self, file: RandomAccess, part: FileRange) -> int:
        if part.start > 0:
            return _line_end(file, part.start - 1, part.size_bytes)
        offset = 0
        for _ in range(self.header_lines):
            offset = _line_end(file, offset, part.size_bytes)
        return offset

    @abstractmethod
    def _parse(self, raw: bytes, path: str, offset: int) -> pa.RecordBatch: ...


def _line_end(file: RandomAccess, offset: int, size: int) -> int:
    """Returns the offset after the first line end at or after ``offset``; the file's size if there is none."""
    while offset < size:
        piece = file.read_at(min(65536, size - offset), offset)
        if not piece:
            return size
        found = piece.find(b"\n")
        if found >= 0:
            return offset + int(found) + 1
        offset += len(piece)
    return size


def read_lines(file: RandomAccess, offset: int, part: FileRange) -> bytes:
    """Reads whole lines from ``offset``: about a block of them, none that begins at or after the range's end."""
    limit = min(offset + BLOCK_BYTES, part.end)
    end = _line_end(file, limit - 1, part.size_bytes)
    return bytes(file.read_at(end - offset, offset))


@dataclass(frozen=True)
class TextFormat(LineFormat):
    """Text files: one string a line, without its line end, in the column ``value``."""

    ends_anywhere = True
    schema: pa.Schema = field(default_factory=lambda: pa.schema([pa.field("value", pa.string())]))

    def produced_type(self) -> TypeInformation:
        return Types.STRING()

    def _parse(self, raw: bytes, path: str, offset: int) -> pa.RecordBatch:
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise CorruptData(f"{path}: not UTF-8 text at byte {offset + error.start}") from error
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        values = pa.array([line.removesuffix("\r") for line in lines], pa.string())
        return pa.RecordBatch.from_arrays([values], schema=self.schema)


@dataclass(frozen=True)
class ParquetFormat(FileFormat):
    """Parquet files: only the columns of ``schema`` are read, and each row group is a split."""

    schema: pa.Schema
    verifies_checksums: bool = False
    """Whether page checksums are verified: a damaged page raises ``CorruptData`` even if it could be decoded."""

    def without(self, names: Collection[str]) -> ParquetFormat | None:
        return replace(self, schema=pa.schema([f for f in self.schema if f.name not in names]))

    def ranges(self, info: pafs.FileInfo, uri: str, range_bytes: int) -> list[FileRange]:
        with _parquet(uri) as file:
            self.check(uri, file.schema_arrow)
            self._check_nulls(uri, file)
            return [FileRange(uri, i, i + 1, int(info.size)) for i in range(file.num_row_groups)]

    def blocks(self, part: FileRange, start: int | None, skip: int) -> Iterator[Block]:
        with _parquet(part.path, verifies_checksums=self.verifies_checksums) as file:
            self.check(part.path, file.schema_arrow)
            first = 0
            wanted = (start or 0) + skip
            names = self.names_in(file.schema_arrow)
            try:
                for data in file.iter_batches(PARQUET_BATCH_ROWS, [part.start], columns=names, use_threads=False):
                    end = first + data.num_rows
                    if end > wanted:
                        cut = max(0, wanted - first)
                        where = f"{part.path}, row group {part.start}, in the rows from {first} on"
                        check_texts(data, where)
                        yield Block(self._shaped(data.select(names), where).slice(cut), first, cut, end)
                    first = end
            except (OSError, pa.ArrowInvalid) as error:
                raise CorruptData(f"{part.path}, row group {part.start}: {error}") from error

    def first_record(self, part: FileRange, start: int | None, skip: int) -> pa.RecordBatch | None:
        """Returns the first row; reads some pages of each column, not whole column chunks."""
        if start or skip:
            return super().first_record(part, start, skip)
        with _parquet(part.path, NEAR_BYTES, verifies_checksums=self.verifies_checksums) as file:
            self.check(part.path, file.schema_arrow)
            names = self.names_in(file.schema_arrow)
            try:
                first = next(file.iter_batches(1, [part.start], columns=names, use_threads=False), None)
                return None if first is None else self.shaped(first.select(names))
            except (OSError, pa.ArrowInvalid) as error:
                raise CorruptData(f"{part.path}, row group {part.start}: {error}") from error

    def names_in(self, actual: pa.Schema) -> list[str]:
        """Returns the columns to read of a file with this schema."""
        return list(self.schema.names)

    def shaped(self, data: pa.RecordBatch) -> pa.RecordBatch:
        """Casts the columns to the types of ``schema``."""
        if not len(self.schema):
            return data  # rows without columns are rows
        columns = [
            column if column.type == wanted.type else column.cast(wanted.type)
            for column, wanted in zip(data.columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _shaped(self, data: pa.RecordBatch, where: str) -> pa.RecordBatch:
        """Casts columns; raises ``CorruptData`` or ``SchemaMismatch`` with row, column and value if one cannot be cast."""
        try:
            return self.shaped(data)
        except (MemoryError, CorruptData):
            raise
        except Exception as error:
            found, said = (
                misfit(data, self.shaped),
                error.message if isinstance(error, SchemaMismatch) else named(error),
            )
            kind = CorruptData if isinstance(error, pa.ArrowInvalid) else SchemaMismatch
            raise kind(f"{where}: {f'{found}: ' if found else ''}{said}") from error

    def _check_nulls(self, path: str, file: pq.ParquetFile) -> None:
        """Raises ``SchemaMismatch`` if the footer reports nulls in a column that is not nullable."""
        required = {f.name for f in self.schema if not f.nullable}
        for group in range(file.num_row_groups if required else 0):
            row_group = file.metadata.row_group(group)
            for column in map(row_group.column, range(row_group.num_columns)):
                counted = column.statistics if column.path_in_schema in required else None
                if counted is not None and counted.has_null_count and counted.null_count:
                    raise SchemaMismatch(
                        f"{path}, row group {group}: column {column.path_in_schema!r} has {counted.null_count} nulls, and the schema has "
                        "it as nullable=False (as the first file has it, where none was given); give a schema= in which it is nullable"
                    )

    def check(self, path: str, actual: pa.Schema) -> None:
        """Checks a file's schema against the wanted one. Raises ``SchemaMismatch``."""
        for wanted in self.schema:
            index = actual.get_field_index(wanted.name)
            if index < 0:
                raise SchemaMismatch(f"{path} has no column {wanted.name!r}; it has {', '.join(actual.names)}")
            found = actual.field(index).type
            if found != wanted.type and found != stored_type(wanted.type):
                raise SchemaMismatch(f"{path}: column {wanted.name!r} is {found}, the job expects {wanted.type}")


def check_names(schema: pa.Schema) -> None:
    """Raises ``InvalidJob`` for duplicate column names."""
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise InvalidJob(
            f"the schema names the column {', '.join(map(repr, twice))} more than once: give each column a name of its own"
        )


def _parquet(uri: str, buffer_bytes: int = 0, *, verifies_checksums: bool = False) -> pq.ParquetFile:
    """Opens a Parquet file. ``buffer_bytes``: the size of pieces in which columns are read; 0: whole column chunks."""
    filesystem, path = resolve(uri)
    try:
        return pq.ParquetFile(
            filesystem.open_input_file(path), buffer_size=buffer_bytes, page_checksum_verification=verifies_checksums
        )
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptData(f"{uri} cannot be read as Parquet: {error}") from error


def parquet_schema(uri: str) -> pa.Schema:
    """Returns the schema in a file's footer, without metadata; columns that were written as seconds or as ``date64`` have these types again. Raises
    ``InvalidJob``."""
    try:
        with _parquet(uri) as file:
            found = file.schema_arrow.remove_metadata()
            written = (file.metadata.metadata or {}).get(_ARROW_SCHEMA)
    except CorruptData as error:
        raise InvalidJob(error.message) from error
    if written is None:
        return found
    given = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(written)))
    return pa.schema([_as_written(field, given) for field in found])


def _as_written(field: pa.Field, given: pa.Schema) -> pa.Field:
    index = given.get_field_index(field.name)
    kind = field.type if index < 0 else given.field(index).type
    return field.with_type(kind) if stored_type(kind) == field.type else field


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type that a Parquet file stores a column as: it has no seconds, and days for ``date64``."""
    if pa.types.is_timestamp(kind) and kind.unit == "s":
        return pa.timestamp("ms", kind.tz)
    if pa.types.is_time32(kind):
        return pa.time32("ms")
    if pa.types.is_date64(kind):
        return pa.date32()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(stored_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(stored_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(stored_type(kind.key_type), stored_type(kind.item_type))
    return kind
