"""Lookup tables of files, which are read as a whole."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidegate.connectors.file_source import FileSource
from tidegate.connectors.files import hive
from tidegate.connectors.files.file_range import FileRange
from tidegate.functions.sql.scalar import batch_of


class FileRows:
    """The rows of a file table for a full lookup cache. ``columns``: positions of those that are read; ``schema``: of the result."""

    def __init__(self, name: str, source: FileSource, columns: Sequence[int], schema: pa.Schema) -> None:
        self._name, self._source, self._columns, self._schema = name, source, list(columns), schema

    @property
    def name(self) -> str:
        """Returns the name of the table, for messages."""
        return self._name

    @property
    def schema(self) -> pa.Schema:
        """Returns the schema of the rows."""
        return self._schema

    def read(self) -> pa.RecordBatch:
        """Reads all rows of the files that exist now."""
        found = [batch_of([pa.array([], field.type) for field in self._schema], self._schema, 0)]
        for split in self._source.list_splits(1):
            path, begin, end, size_bytes, *values = split.payload
            part = FileRange(path, begin, end, size_bytes)
            for block in hive.blocks(self._source._format, part, values[0] if values else {}, None, 0):
                columns = [
                    block.data.column(at).cast(field.type)
                    for at, field in zip(self._columns, self._schema, strict=True)
                ]
                found.append(batch_of(columns, self._schema, block.data.num_rows))
        return pa.concat_batches(found)


__all__ = ["FileRows"]
