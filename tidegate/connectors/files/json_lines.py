"""Files with one JSON object a line."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import pyarrow as pa

from tidegate.connectors.files.bad_lines import BadLines, Lines, checked, good_lines, line_end, rows_of
from tidegate.connectors.files.compression import open_range
from tidegate.connectors.files.csv_blocks import UTF_16_MARKS
from tidegate.connectors.files.file_range import FileRange
from tidegate.connectors.files.file_system import resolve
from tidegate.connectors.files.formats import LineFormat, check_names, read_lines
from tidegate.connectors.files.json_text import BOM, json_rows, json_schema
from tidegate.connectors.files.json_values import check_type
from tidegate.model.errors import CorruptData, InvalidJob, SchemaMismatch


@dataclass(frozen=True)
class JsonLinesFormat(LineFormat):
    """Reads one JSON object a line; unknown fields are ignored, missing ones are null."""

    def without(self, names: Collection[str]) -> JsonLinesFormat:
        return replace(self, schema=pa.schema([f for f in self.schema if f.name not in names]))

    def _parse(self, raw: bytes, path: str, offset: int) -> pa.RecordBatch:
        if offset == 0:
            raw = without_mark(raw, path)
        try:
            return json_rows(raw, self.schema, are_lines=True)
        except pa.ArrowInvalid as error:
            raise SchemaMismatch(f"{path}, in the block at byte {offset}: {error}") from error


def check_json_columns(schema: pa.Schema) -> None:
    """Raises ``InvalidJob`` for a column type that JSON cannot be read into, and for duplicate names."""
    check_names(schema)
    for field in schema:
        try:
            check_type(field)
        except pa.ArrowInvalid as error:
            raise InvalidJob(
                f"column {field.name!r} of the schema: {error}; read it as a string, and parse it in a function"
            ) from error


def without_mark(raw: bytes, path: str) -> bytes:
    """Removes the byte order mark at the beginning of a file. Raises ``CorruptData`` for one of UTF-16."""
    if raw[:2] in UTF_16_MARKS:
        raise CorruptData(f"{path} is UTF-16 text; convert it to UTF-8")
    return raw.removeprefix(BOM)


def infer_json_schema(uri: str, bad_lines: BadLines | None = None) -> pa.Schema:
    """Infers the schema from the first block of lines; bad lines are skipped, unless one fails the job. Raises ``InvalidJob``."""
    filesystem, path = resolve(uri)
    size = int(filesystem.get_file_info(path).size)
    with open_range(FileRange(uri, 0, size, size)) as (file, inside):
        raw = read_lines(file, 0, inside) if size else b""
        parse = checked(lambda lines, offset: JsonLinesFormat(pa.schema([]))._parse(lines, uri, offset), uri)
        try:
            whole = Lines(without_mark(raw, uri), uri, len(raw) - len(without_mark(raw, uri)))
            if bad_lines is None:
                rows_of(whole, parse, line_end, file)
            else:
                whole = replace(whole, raw=good_lines(whole, parse, line_end))
            return json_schema(whole.raw)
        except (pa.ArrowException, CorruptData, SchemaMismatch) as error:
            raise InvalidJob(f"cannot infer the fields of {uri}: {error}; give them with schema=") from error
