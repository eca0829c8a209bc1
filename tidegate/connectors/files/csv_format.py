"""Files of comma-separated values as columns: each column is found by its name in the header of each file.

A quoted cell may hold line ends, so a file is cut, and read in blocks, only where a record begins. A bare empty cell is null,
a quoted one (``""``) is an empty string, which is how the sink writes them; in a column of another type, which has no empty values, it is
null as well (as in DuckDB, pandas and Spark).
"""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.fs as pafs

from tidegate.connectors.files.bad_lines import BadLines, Lines, checked, line_number, rows_of
from tidegate.connectors.files.batches import one_batch
from tidegate.connectors.files.block import Block
from tidegate.connectors.files.compression import RandomAccess, open_range
from tidegate.connectors.files.csv_blocks import BOM, CsvBlocks, Head
from tidegate.connectors.files.csv_quotes import QUOTE, RecordEnds
from tidegate.connectors.files.decimal_text import decimals_of, has_tiny
from tidegate.connectors.files.file_range import FileRange, byte_ranges, codec_of
from tidegate.connectors.files.file_system import resolve
from tidegate.connectors.files.formats import BLOCK_BYTES, FileFormat, check_names
from tidegate.connectors.files.json_text import changes_as_floats
from tidegate.model.errors import InvalidJob, SchemaMismatch

NULL_VALUES = ("", "NA", "null", "NULL")
_INFINITIES = ["inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"]
_ENCODINGS = ("cp1252", "iso-8859-15", "latin-1")
"""Encodings suggested for a file that is not UTF-8: those of Western Europe, the last of which takes any bytes."""


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
    """What is done with bad lines; ``None``: one fails the job."""

    ends_anywhere = True

    def without(self, names: Collection[str]) -> CsvFormat:
        return replace(self, schema=pa.schema([f for f in self.schema if f.name not in names]))

    def ranges(self, info: pafs.FileInfo, uri: str, range_bytes: int) -> list[FileRange]:
        """Splits a file into ranges. Raises ``SchemaMismatch`` for a header that lacks a column."""
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
                yield from self._blocks_of(Lines(raw, inside.path, offset), skip, head, file)
                offset += len(raw)
                skip = 0

    def _blocks_of(self, lines: Lines, skip: int, head: Head, file: RandomAccess) -> Iterator[Block]:
        def cut(records: bytes, place: int) -> int:
            return ends.first(records, place) or len(records)

        parse = checked(lambda raw, offset: self._parse(raw, lines.path, offset, head), lines.path)
        ends = RecordEnds(self.delimiter, self.newlines_in_values)
        if self.bad_lines is None:
            data = rows_of(lines, parse, cut, file)
            yield Block(data.slice(skip), lines.offset, skip, lines.offset + len(lines.raw))
        else:
            yield from self.bad_lines.blocks(lines, skip, self.schema, parse, cut)

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
            table = self._without_overflow(raw, columns, self._table(raw, columns))
        except Exception as error:
            named = _column_named(str(error), columns)
            hint = "" if self.encoding != "utf-8" else not_utf_8(raw, offset)
            raise SchemaMismatch(f"{path}, in the block at byte {offset}: {named}{hint}") from error
        return one_batch(table, self.schema)

    def _table(self, raw: bytes, columns: list[str]) -> pa.Table:
        exact = [f for f in self.schema if pa.types.is_decimal(f.type)]
        if not exact or not has_tiny(raw):
            return self._by_arrow(raw, columns, list(self.schema))
        texts = self.read(raw, columns, [f.with_type(pa.string()) for f in exact], are_quoted_null=True)
        found = {f.name: decimals_of(texts.column(f.name).to_pylist(), f) for f in exact}
        if rest := [f for f in self.schema if f.name not in found]:
            table = self._by_arrow(raw, columns, rest)
            found |= {f.name: table.column(f.name) for f in rest}
        return pa.table([found[name] for name in self.schema.names], self.schema.names)

    def _by_arrow(self, raw: bytes, columns: list[str], fields: list[pa.Field]) -> pa.Table:
        """Parses records by Arrow. A quoted null value is a text in text columns and null in others: files with such values are parsed once for each."""
        texts = [field for field in fields if _keeps_quoted(field.type)]
        others = [field for field in fields if not _keeps_quoted(field.type)]
        if not others:
            return self.read(raw, columns, texts)
        if not texts:
            return self.read(raw, columns, others, are_quoted_null=True)
        try:
            return self.read(raw, columns, fields)
        except pa.ArrowInvalid:
            if QUOTE not in raw:
                raise
        parts = [self.read(raw, columns, texts), self.read(raw, columns, others, are_quoted_null=True)]
        named = {field.name: part.column(field.name) for part in parts for field in part.schema}
        return pa.table([named[field.name] for field in fields], [field.name for field in fields])

    def read(self, raw: bytes, columns: list[str], fields: list[pa.Field], are_quoted_null: bool = False) -> pa.Table:
        """Parses records with cells for ``columns`` to the columns ``fields``; to all columns, with inferred types, if that is empty. Raises what Arrow
        raises."""
        return pa.csv.read_csv(
            pa.BufferReader(raw),
            read_options=pa.csv.ReadOptions(
                column_names=columns, use_threads=False, block_size=_one_block(raw), encoding=self.encoding
            ),
            parse_options=pa.csv.ParseOptions(
                delimiter=self.delimiter, ignore_empty_lines=len(columns) > 1, newlines_in_values=False
            ),
            convert_options=pa.csv.ConvertOptions(
                column_types=pa.schema(fields),
                include_columns=[field.name for field in fields],
                null_values=list(self.null_values),
                strings_can_be_null=True,
                quoted_strings_can_be_null=are_quoted_null,
            ),
        )

    def _without_overflow(self, raw: bytes, columns: list[str], table: pa.Table) -> pa.Table:
        """Raises ``ArrowInvalid`` for a number that overflowed to infinity."""
        for field in self.schema:
            if pa.types.is_floating(field.type) and pc.any(is_inf := pc.is_inf(table.column(field.name))).as_py():
                cells = self.read(raw, columns, [pa.field(field.name, pa.string())]).column(0)
                names = pc.is_in(pc.utf8_lower(pc.utf8_trim_whitespace(cells)), pa.array(_INFINITIES))
                lost = pc.and_(is_inf, pc.invert(names))
                if (row := pc.index(pc.fill_null(lost, False), True).as_py()) >= 0:
                    cell = cells[row].as_py()
                    raise pa.ArrowInvalid(f"column {field.name!r}: row {row}: {cell!r} is too large for {field.type}")
        return table

    def _columns(self, header: tuple[str, ...]) -> list[str]:
        """Returns the header's names; those that the schema lacks may be duplicate."""
        wanted = set(self.schema.names)
        return [name if name in wanted else f"{name}\0{place}" for place, name in enumerate(header)]


def _keeps_quoted(kind: pa.DataType) -> bool:
    """Returns whether a column of the type keeps quoted null values, such as ``"NA"``, as texts."""
    if pa.types.is_dictionary(kind):
        return _keeps_quoted(kind.value_type)
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def not_utf_8(raw: bytes, offset: int) -> str:
    """Returns a message with the place where the bytes at ``offset`` are not UTF-8 and the encodings that can read them; empty when they are UTF-8."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        fitting = " or ".join(f"encoding={name!r}" for name in _ENCODINGS if _reads(name, raw))
        return f"; byte {offset + error.start} is not UTF-8: give {fitting}, or convert the file to UTF-8"
    return ""


def _reads(encoding: str, raw: bytes) -> bool:
    try:
        return bool(raw.decode(encoding))
    except UnicodeDecodeError:
        return False


def _one_block(raw: bytes) -> int:
    """Returns a block size with which Arrow does not split ``raw``, even converted to UTF-8, where a byte may become three."""
    return 3 * len(raw) + 1


def _column_named(message: str, columns: list[str]) -> str:
    """Replaces column numbers in Arrow's message by column names."""
    for index in range(len(columns) - 1, -1, -1):
        message = message.replace(f"CSV column #{index}:", f"column {columns[index]!r}:")
    return message


def infer_csv_schema(uri: str, settings: CsvFormat) -> pa.Schema:
    """Infers the schema from the header and the first block, read with these settings; a column without a value is text. Raises ``InvalidJob``."""
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
        found = _inferred(uri, raw, list(head.names), settings)
        if any(pa.types.is_binary(kind) for kind in found.types):
            number = _line_of_other_text(raw, line_number(file, head.end))
            name = next(f.name for f in found if pa.types.is_binary(f.type))
            raise InvalidJob(
                f"{uri}, line {number}: column {name!r} is not {settings.encoding} text{not_utf_8(raw, head.end)}; with schema= a column "
                "can be of bytes"
            )
    return found


def _line_of_other_text(raw: bytes, first: int) -> int:
    """Returns the number of the first line that is not UTF-8; ``first``: the number of the first line."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return first + raw.count(b"\n", 0, error.start)
    return first


def _inferred(uri: str, raw: bytes, names: list[str], settings: CsvFormat) -> pa.Schema:
    """Infers a schema; a column of floats that holds whole numbers beyond int64 is text, since floats would change them."""
    try:
        table = settings.read(raw, names, [], are_quoted_null=True)
        floats = [f.name for f in table.schema if pa.types.is_floating(f.type)]
        texts = settings.read(raw, names, [pa.field(name, pa.string()) for name in floats], are_quoted_null=True)
    except Exception as error:
        raise InvalidJob(f"cannot infer the columns of {uri}: {error}; give them with schema=") from error
    changed = [
        name
        for name in floats
        if changes_as_floats([t.strip() for t in texts.column(name).to_pylist() if t is not None])
    ]
    return pa.schema(
        [f.with_type(pa.string()) if pa.types.is_null(f.type) or f.name in changed else f for f in table.schema]
    )


def check_csv_columns(schema: pa.Schema) -> None:
    """Raises ``InvalidJob`` for a column type that CSV cannot be read into, and for duplicate names."""
    check_names(schema)
    for field in schema:
        options = pa.csv.ConvertOptions(column_types={"a": field.type})
        try:
            pa.csv.read_csv(pa.BufferReader(b"a,b\n,\n"), convert_options=options)
        except pa.ArrowException as error:
            raise InvalidJob(
                f"column {field.name!r} of the schema: CSV cannot hold {field.type} ({error}); read it as a string, and parse it in a function"
            ) from error


def check_settings(delimiter: str, encoding: str) -> None:
    """Raises ``InvalidJob`` for an invalid separator, and for an encoding in which an ASCII byte may be part of another character, so that line ends
    cannot be found."""
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
