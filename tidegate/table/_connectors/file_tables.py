"""Reading of tables whose rows are in files: partition directories (``dt=2020-01-01/``), path patterns and metadata columns (Flink:
``FileSystemTableSource``)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from tidegate.connectors.file_source import FileSource
from tidegate.connectors.files.block import Block
from tidegate.connectors.files.file_range import FileRange
from tidegate.connectors.files.formats import FileFormat
from tidegate.functions.sql.scalar.arrow_types import arrow_schema, arrow_type
from tidegate.functions.sql.scalar.patterns import expression
from tidegate.plan.logical_types import LogicalType, parse_type
from tidegate.records.row_kinds import has_kinds, with_kinds
from tidegate.table._connectors.partitions import PartitionColumns

MONITOR_INTERVAL: Final = "source.monitor-interval"
PATH_PATTERN: Final = "source.path.regex-pattern"
METADATA: Final[Mapping[str, str]] = {
    "file.path": "STRING NOT NULL",
    "file.name": "STRING NOT NULL",
    "file.size": "BIGINT NOT NULL",
    "file.modification-time": "TIMESTAMP_LTZ(3) NOT NULL",
}
"""Metadata columns that file tables can read, with their SQL types (Flink: ``FileSystemTableSource.ReadableFileInfo``)."""


@dataclass(frozen=True)
class TableFormat(FileFormat):
    """A file format that appends partition columns and metadata columns to the columns read from a file. ``schema``: all columns, with those appended."""

    schema: pa.Schema
    stored: FileFormat

    def without(self, names: Collection[str]) -> FileFormat:
        return self.stored

    def ranges(self, info: pafs.FileInfo, uri: str, range_bytes: int) -> list[FileRange]:
        return self.stored.ranges(info, uri, range_bytes)

    def blocks(self, part: FileRange, start: int | None, skip: int) -> Iterator[Block]:
        return self.stored.blocks(part, start, skip)


class TableFileSource(FileSource):
    """A file source of a partitioned table, or of one with metadata columns or a path pattern. ``stored``: the format of the files, which lack
    partition columns. ``metadata``: keys of the metadata columns, which come last. ``pattern``: a regular expression that whole paths must match."""

    def __init__(
        self,
        path: str,
        stored: FileFormat,
        row_type: LogicalType,
        partitions: PartitionColumns | None = None,
        metadata: Sequence[str] = (),
        pattern: str | None = None,
    ) -> None:
        schema = arrow_schema(row_type)
        for key in metadata:
            schema = schema.append(pa.field(_column(key), arrow_type(parse_type(METADATA[key]))))
        super().__init__((path,), TableFormat(with_kinds(schema) if has_kinds(stored.schema) else schema, stored))
        self._partitions = partitions
        self._metadata = tuple(metadata)
        self._pattern = pattern

    def directory_values(self, root: str, file: pafs.FileInfo) -> Mapping[str, str | None] | None:
        place = _place(str(file.path))
        if self._pattern is not None and not _matches(self._pattern, place):
            return None
        values: dict[str, str | None] = {}
        if self._partitions is not None:
            found = self._partitions.values_of(super().directory_values(root, file) or {})
            if found is None:
                return None
            values.update(found)
        values.update((_column(key), _text(key, place, file)) for key in self._metadata)
        return values


def _matches(pattern: str, place: str) -> bool:
    compiled = expression(pattern)
    return compiled is not None and compiled.fullmatch(place) is not None


def check_pattern(text: str) -> None:
    """Raises ``ValueError`` for a text that is not a regular expression."""
    if expression(text) is None:
        raise ValueError(text)


def _column(key: str) -> str:
    """Returns the name of a metadata column; the blank in it keeps it from clashing with columns of the table."""
    return f"metadata {key}"


def _place(path: str) -> str:
    """Returns the path that Flink shows for a file: without the bucket name."""
    return path if path.startswith("/") else f"/{path.partition('/')[2]}"


def _text(key: str, place: str, file: pafs.FileInfo) -> str:
    match key:
        case "file.path":
            return place
        case "file.name":
            return str(file.base_name)
        case "file.size":
            return str(file.size)
        case _:
            return f"{np.datetime64((file.mtime_ns or 0) // 1_000_000, 'ms')}Z"


__all__ = ["METADATA", "MONITOR_INTERVAL", "PATH_PATTERN", "TableFileSource", "check_pattern"]
