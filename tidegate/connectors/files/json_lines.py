"""Files of JSON, one object a line."""

from __future__ import annotations

import io
from collections.abc import Collection
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.json

from tidegate.connectors.files.compression import open_range
from tidegate.connectors.files.file_range import FileRange
from tidegate.connectors.files.file_system import resolve
from tidegate.connectors.files.formats import BLOCK_BYTES, LineFormat
from tidegate.connectors.files.json_text import json_rows
from tidegate.model.errors import InvalidJob, SchemaMismatch


@dataclass(frozen=True)
class JsonLinesFormat(LineFormat):
    """One JSON object a line; fields that the schema does not name are ignored, missing ones are null."""

    def without(self, names: Collection[str]) -> JsonLinesFormat:
        return replace(self, schema=pa.schema([f for f in self.schema if f.name not in names]))

    def _parse(self, raw: bytes, path: str, offset: int) -> pa.RecordBatch:
        try:
            return json_rows(raw, self.schema, are_lines=True)
        except pa.ArrowInvalid as error:
            raise SchemaMismatch(f"{path}, in the block at byte {offset}: {error}") from error


def infer_json_schema(uri: str) -> pa.Schema:
    """Schema from the first block of lines. Raises ``InvalidJob``."""
    filesystem, path = resolve(uri)
    size = int(filesystem.get_file_info(path).size)
    with open_range(FileRange(uri, 0, size, size)) as (file, _):
        head = file.read_at(BLOCK_BYTES, 0)
    if len(head) == BLOCK_BYTES:
        head = head[: head.rfind(b"\n") + 1]
    try:
        return pa.json.read_json(io.BytesIO(head)).schema
    except pa.ArrowInvalid as error:
        raise InvalidJob(f"cannot infer the fields of {uri}: {error}; give them with schema=") from error
