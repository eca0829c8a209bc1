"""Files of comma-separated values as columns: each column is found by its name in the header of each file.

A quoted cell may hold line ends, so a file is cut, and read in blocks, only where a record begins. A bare empty cell is null,
a quoted one (``""``) is an empty string, which is how the sink writes them.
"""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.csv
import pyarrow.fs as pafs

from tidegate.connectors.files.bad_lines import BadLines, Lines
from tidegate.connectors.files.batches import one_batch
from tidegate.connectors.files.block import Block
from tidegate.connectors.files.compression import RandomAccess, open_range
from tidegate.connectors.files.csv_blocks import BOM, CsvBlocks, Head
from tidegate.connectors.files.csv_quotes import QUOTE, RecordEnds
from tidegate.connectors.files.file_range import FileRange, byte_ranges, codec_of
from tidegate.connectors.files.file_system import resolve
from tidegate.connectors.files.formats import BLOCK_BYTES, FileFormat
from tidegate.model.errors import InvalidJob, SchemaMismatch

NULL_VALUES = ("", "NA", "null", "NULL")


@dataclass(frozen=True)
class CsvFormat(FileFormat):
    """Columns by ``schema``. A value that does not fit is a ``SchemaMismatch``, never a null. Empty lines are skipped, unless
    there is one column only: then they are nulls.

    ``header_lines``: 1, or 0 for files whose columns are those of ``schema`` in its order. ``newlines_in_values=False`` promises that
    every line is a record, so that a file can be cut without looking at what is before the cut.
    """

    schema: pa.Schema
    header_lines: int = 0
    delimiter: str = ","
    null_values: tuple[str, ...] = NULL_VALUES
    newlines_in_values: bool = True
    encoding: str = "utf-8"
    bad_lines: BadLines | None = None
    """``None``: one fails the job."""

    ends_anywhere = True

    def without(self, names: Collection[str]) -> CsvFormat:
        return replace(self, schema=pa.schema([f for f in self.schema if f.name not in names]))

    def ranges(self, info: pafs.FileInfo, uri: str, range_bytes: int) -> list[FileRange]:
        """Raises ``SchemaMismatch`` for a header that lacks a column."""
        size = int(info.size)
        whole = FileRange(uri, 0, size, size)
        with open_range(whole) as (file, inside):
            head = self._head(file, inside)
            if not self.newlines_in_values or codec_of(uri) is not None:
                return byte_ranges(info, uri, range_bytes)
            starts = [0, *self.reader().cuts(file, whole, head.end, range_bytes)]
        return [FileRange(uri, start, end, size) for start, end in zip(starts, [*starts[1:], size], strict=True)]

    def blocks(self, part: FileRange, start: int | None, skip: int) -> Iterator[Block]:
        with open_range(part) as (file, inside):
            blocks = self.reader()
            head = self._head(file, inside)
            offset = blocks.first(file, inside, head) if start is None else start
            while offset < inside.end and (raw := blocks.read(file, offset, inside)):
                yield from self._blocks_of(raw, offset, skip, head, inside)
                offset += len(raw)
                skip = 0

    def _blocks_of(self, raw: bytes, offset: int, skip: int, head: Head, part: FileRange) -> Iterator[Block]:
        def parse(records: bytes, at: int) -> pa.RecordBatch:
            return self._parse(records, part.path, at, head)

        def cut(records: bytes, place: int) -> int:
            return ends.first(records, place) or len(records)

        if self.bad_lines is None:
            yield Block(parse(raw, offset).slice(skip), offset, skip, offset + len(raw))
        else:
            ends = RecordEnds(self.delimiter, self.newlines_in_values)
            yield from self.bad_lines.blocks(Lines(raw, part.path, offset), skip, self.schema, parse, cut)

    def reader(self) -> CsvBlocks:
        """Returns the reader that cuts a file where records begin."""
        return CsvBlocks(RecordEnds(self.delimiter, self.newlines_in_values), self.encoding, BLOCK_BYTES)

    def _head(self, file: RandomAccess, part: FileRange) -> Head:
        head = self.reader().head(file, part, self.header_lines > 0)
        for name in self.schema.names if head.names is not None else ():
            found = head.names.count(name) if head.names is not None else 0
            if found != 1:
                problem = "has no column" if not found else f"has {found} columns"
                names = ", ".join(head.names or ())
                raise SchemaMismatch(f"{part.path} {problem} {name!r}; its header is {names}")
        return head

    def _parse(self, raw: bytes, path: str, offset: int, head: Head) -> pa.RecordBatch:
        columns = list(self.schema.names) if head.names is None else self._columns(head.names)
        if offset > 0 and raw.startswith(BOM) and self.encoding == "utf-8":
            raw = BOM + raw  # Arrow takes one away, and this one is not the file's
        try:
            table = pa.csv.read_csv(
                pa.BufferReader(raw),
                read_options=pa.csv.ReadOptions(
                    column_names=columns, use_threads=False, block_size=_one_block(raw), encoding=self.encoding
                ),
                parse_options=pa.csv.ParseOptions(
                    delimiter=self.delimiter, ignore_empty_lines=len(columns) > 1, newlines_in_values=False
                ),
                convert_options=self._conversion(),
            )
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            named = _column_named(str(error), columns)
            raise SchemaMismatch(f"{path}, in the block at byte {offset}: {named}") from error
        return one_batch(table, self.schema)

    def _columns(self, header: tuple[str, ...]) -> list[str]:
        """Returns the header's names; those that the schema does not have may be there twice."""
        wanted = set(self.schema.names)
        return [name if name in wanted else f"{name}\0{place}" for place, name in enumerate(header)]

    def _conversion(self) -> pa.csv.ConvertOptions:
        return pa.csv.ConvertOptions(
            column_types=self.schema,
            include_columns=self.schema.names,
            null_values=list(self.null_values),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )


def _one_block(raw: bytes) -> int:
    """Returns a block size with which Arrow does not cut ``raw``, even as UTF-8: a byte of another encoding may become
    three."""
    return 3 * len(raw) + 1


def _column_named(message: str, columns: list[str]) -> str:
    """Arrow counts CSV columns; people know their names."""
    for index in range(len(columns) - 1, -1, -1):
        message = message.replace(f"CSV column #{index}:", f"column {columns[index]!r}:")
    return message


def infer_csv_schema(uri: str, settings: CsvFormat) -> pa.Schema:
    """Schema from the header line and the first block, read with these settings; a column without a value is of texts. Raises
    ``InvalidJob``."""
    filesystem, path = resolve(uri)
    size = int(filesystem.get_file_info(path).size)
    with open_range(FileRange(uri, 0, size, size)) as (file, whole):
        blocks = settings.reader()
        head = blocks.head(file, whole, True)
        raw = blocks.read(file, head.end, whole) if head.end < whole.size_bytes else b""
    if not head.names:
        raise InvalidJob(f"cannot infer the columns of {uri}: it is empty; give them with schema=")
    if len(set(head.names)) < len(head.names):
        raise InvalidJob(f"cannot infer the columns of {uri}: its header has a name twice: {', '.join(head.names)}")
    if not raw:
        return pa.schema([pa.field(name, pa.string()) for name in head.names])
    return _inferred(uri, raw, list(head.names), settings)


def _inferred(uri: str, raw: bytes, names: list[str], settings: CsvFormat) -> pa.Schema:
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(raw),
            read_options=pa.csv.ReadOptions(
                column_names=names, use_threads=False, block_size=_one_block(raw), encoding=settings.encoding
            ),
            parse_options=pa.csv.ParseOptions(delimiter=settings.delimiter, ignore_empty_lines=len(names) > 1),
            convert_options=pa.csv.ConvertOptions(
                null_values=list(settings.null_values), strings_can_be_null=True, quoted_strings_can_be_null=False
            ),
        )
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise InvalidJob(f"cannot infer the columns of {uri}: {error}; give them with schema=") from error
    return pa.schema([f.with_type(pa.string()) if pa.types.is_null(f.type) else f for f in table.schema])


def check_settings(delimiter: str, encoding: str) -> None:
    """Raises ``InvalidJob`` for what cannot separate cells, and for an encoding in which a byte of ASCII may be part of another
    character, so that ends of lines cannot be found in it."""
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter.encode() in (QUOTE, b"\n", b"\r"):
        raise InvalidJob(f"a CSV delimiter is one ASCII character other than a quote or a line end, not {delimiter!r}")
    try:
        name = codecs.lookup(encoding).name
        ascii_text = bytes(range(128))
        is_fit = name == "utf-8" or (
            ascii_text.decode(name) == ascii_text.decode("ascii")
            and len(bytes(range(256)).decode(name, "replace")) == 256
        )
    except (LookupError, UnicodeError) as error:
        raise InvalidJob(f"the encoding {encoding!r} cannot be used for CSV: {error}") from error
    if not is_fit:
        raise InvalidJob(f"CSV in {encoding!r} cannot be read: convert it to UTF-8")
