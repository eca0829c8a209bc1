"""A source that reads files and directories: text, CSV, JSON lines, Parquet.

Splits are listed once, in the client: byte ranges of line formats, which for CSV
begin where a record does, row groups of Parquet. Its coordinator hands them to the readers that ask. The position in a split is
``[start of the block, rows emitted of it]``; finished splits stay in the state, marked done.
Follows Flink's ``FileSource`` (bounded); ``monitor_continuously`` makes it unbounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from copy import copy
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import ReaderContext, Source, SourceReader, Split
from tidegate.connectors.file_monitoring import (
    EndlessFileReader,
    MonitoringReader,
    owner_of,
    path_in,
    path_of,
    split_id_of,
)
from tidegate.connectors.file_reader import FileReader
from tidegate.connectors.files import hive
from tidegate.connectors.files.bad_lines import BAD_LINE as BAD_LINE
from tidegate.connectors.files.bad_lines import bad_lines_of
from tidegate.connectors.files.csv_format import (
    NULL_VALUES,
    CsvFormat,
    check_csv_columns,
    check_settings,
    infer_csv_schema,
)
from tidegate.connectors.files.file_system import base_of, list_files, resolve
from tidegate.connectors.files.formats import (
    FileFormat,
    ParquetFormat,
    TextFormat,
    parquet_schema,
)
from tidegate.connectors.files.json_lines import JsonLinesFormat, check_json_columns, infer_json_schema
from tidegate.connectors.files.reading import read_errors
from tidegate.functions.output_tag import OutputTag
from tidegate.model.errors import InvalidJob, StorageError

DEFAULT_RANGE_BYTES = 32 << 20
"""The size of the byte ranges into which files are split. Chosen, not measured: some seconds of reading, so that subtasks end at about the same time."""


class FileSource(Source):
    """Bounded source over the files at one or more paths: files, directories read recursively, or patterns (``logs/*.jsonl.gz``,
    ``**`` for directories too). Files whose names end in ``.gz``, ``.bz2``, ``.zst``, ``.lz4`` or ``.xz`` are decompressed; each is one
    split. The case of such an end does not matter.

    ``range_bytes``: size of the byte ranges into which line files are split. A column of the schema that names a directory below
    such a path (``dt=2024-01-01/part.csv``) has that directory's value; an inferred schema has such columns at its end.
    """

    may_be_empty = False
    """Whether directories without files give no rows instead of an error."""

    def __init__(
        self,
        paths: Sequence[str],
        file_format: FileFormat,
        range_bytes: int = DEFAULT_RANGE_BYTES,
        interval_ms: int | None = None,
    ) -> None:
        self._paths = tuple(str(path) if "://" in str(path) else str(Path(path).absolute()) for path in paths)
        self._format = file_format
        self._range_bytes = range_bytes
        self._interval_ms = interval_ms
        self.bounded = interval_ms is None
        self.takes_splits = True
        self.discovery_ms = interval_ms

    @staticmethod
    def for_text(*paths: str, range_bytes: int = DEFAULT_RANGE_BYTES) -> FileSource:
        """Reads text files, one string a line."""
        _check_paths("for_text", paths)
        return FileSource(paths, TextFormat(), range_bytes)

    @staticmethod
    def for_csv(
        *paths: str,
        schema: pa.Schema | None = None,
        delimiter: str = ",",
        header: bool = True,
        null_values: Sequence[str] = NULL_VALUES,
        range_bytes: int = DEFAULT_RANGE_BYTES,
        newlines_in_values: bool = True,
        encoding: str = "utf-8",
        bad_lines: str | OutputTag = "fail",
    ) -> FileSource:
        """Reads CSV files. Without ``schema`` (which ``header=False`` needs) names and types are inferred from the first file. With a header each
        file's columns are found by name, in any order.

        A quoted value may hold line ends, so a file larger than ``range_bytes`` is read once when it is listed, for the places where
        it can be cut; ``newlines_in_values=False`` promises that none does, and saves that. ``bad_lines`` as in ``for_json_lines``.
        Raises ``InvalidJob``."""
        _check_paths("for_csv", paths)
        check_settings(delimiter, encoding)
        if schema is None and not header:
            raise InvalidJob("CSV files without a header need schema=")
        nulls = tuple(null_values)
        found = CsvFormat(
            schema or pa.schema([]),
            int(header),
            delimiter,
            nulls,
            newlines_in_values,
            encoding,
            bad_lines_of(bad_lines),
        )
        if schema is None:
            found = replace(found, schema=_inferred(paths, infer_csv_schema(_first_file(paths), found)))
        check_csv_columns(found.schema)
        return FileSource(paths, found, range_bytes)

    @staticmethod
    def for_json_lines(
        *paths: str,
        schema: pa.Schema | None = None,
        range_bytes: int = DEFAULT_RANGE_BYTES,
        bad_lines: str | OutputTag = "fail",
    ) -> FileSource:
        """Reads files with one JSON object a line. Without ``schema`` it is inferred from the first file. ``bad_lines``: what is done with a line that
        is not a row of the schema: it fails the job (``"fail"``), is skipped with a warning and counted as ``numRecordsInErrors`` (``"skip"``), or
        goes to a side output, an ``OutputTag`` with ``BAD_LINE`` as its type. Raises ``InvalidJob``."""
        _check_paths("for_json_lines", paths)
        choice = bad_lines_of(bad_lines)
        found = schema or _inferred(paths, infer_json_schema(_first_file(paths), choice))
        check_json_columns(found)
        return FileSource(paths, JsonLinesFormat(found, bad_lines=choice), range_bytes)

    @staticmethod
    def for_parquet(
        *paths: str,
        schema: pa.Schema | None = None,
        columns: Sequence[str] | None = None,
        page_checksum_verification: bool = False,
    ) -> FileSource:
        """Reads Parquet files of one schema; with ``columns``, only those. ``page_checksum_verification`` compares the checksum of each page that has
        one (``FileSink.for_parquet(..., write_page_checksum=True)`` writes them): a page that differs fails the job. Columns that Arrow wrote as
        seconds, which Parquet stores as milliseconds, are seconds again. Raises ``InvalidJob``."""
        _check_paths("for_parquet", paths)
        whole = schema or _inferred(paths, parquet_schema(_first_file(paths)))
        if columns is not None:
            whole = pa.schema([whole.field(name) for name in columns])
        return FileSource(paths, ParquetFormat(whole, page_checksum_verification))

    @property
    def schema(self) -> pa.Schema:
        """Returns the columns that are read."""
        return self._format.schema

    def produced_type(self) -> TypeInformation:
        return self._format.produced_type()

    def monitor_continuously(self, interval_ms: int) -> FileSource:
        """Returns an unbounded source that looks for new files every ``interval_ms`` and reads them."""
        if interval_ms < 1:
            raise InvalidJob(f"the interval at which a directory is listed must be at least 1 ms, not {interval_ms} ms")
        made = copy(self)
        made._interval_ms = made.discovery_ms = interval_ms
        made.bounded = False
        return made

    def list_splits(self, parallelism: int) -> list[Split]:
        return self._listed(lambda path: True)

    def owner_of(self, split: Split, parallelism: int) -> int | None:
        """Returns the subtask of a split by its file alone where new files are looked for, so that all ranges of a file belong to one subtask."""
        return super().owner_of(split, parallelism) if self.bounded else owner_of(path_of(split), parallelism)

    def size_of(self, split: Split) -> int:
        """Returns the size of the split's file, which is more than that of a range, so that only splits of small files are assigned together."""
        size_bytes: int = split.payload[3]
        return size_bytes

    def make_reader(self, context: ReaderContext) -> SourceReader:
        if self._interval_ms is None:
            return FileReader(self._format, context)
        if context.request_split is not None:
            return EndlessFileReader(self._format, context)

        def unread(seen: set[str]) -> list[Split]:
            mine, parallelism = context.subtask_index, context.parallelism
            return self._listed(lambda path: path not in seen and owner_of(path, parallelism) == mine)

        return MonitoringReader(self._format, context, unread, self._interval_ms / 1000)

    def discover(self, known: Set[str]) -> list[Split]:
        """Returns the splits of new files. A path that does not exist may reappear."""
        seen = {path_in(split_id) for split_id in known}
        found = []
        for root in self._paths:
            try:
                files = list_files(root, may_be_empty=True)
            except InvalidJob as error:
                raise StorageError(error.message) from error
            prefix = _uri_prefix(root)
            found += self._splits_of(root, [f for f in files if prefix + f.path not in seen])
        return found

    def _listed(self, is_wanted: Callable[[str], bool]) -> list[Split]:
        """Lists the splits of the files whose path is wanted; others are not opened."""
        found = []
        for root in self._paths:
            prefix = _uri_prefix(root)
            files = [
                f
                for f in list_files(root, may_be_empty=self.may_be_empty or not self.bounded)
                if is_wanted(prefix + f.path)
            ]
            found += self._splits_of(root, files)
        return found

    def _splits_of(self, root: str, files: Sequence[pafs.FileInfo]) -> list[Split]:
        prefix = _uri_prefix(root)
        found = [(f, self.directory_values(root, f)) for f in files]
        return [
            split
            for f, values in found
            if values is not None
            for split in self._splits_of_file(prefix + f.path, f, values)
        ]

    def directory_values(self, root: str, file: pafs.FileInfo) -> hive.Values | None:
        """Returns the values in the directory names between a path and a file in it; ``None``: the file is not read."""
        return _below(root, file)

    def _splits_of_file(self, uri: str, info: pafs.FileInfo, directories: hive.Values) -> list[Split]:
        values = hive.known(self._format, directories)
        hive.check_values(uri, values, self._format.schema)
        with read_errors(uri, "when it was listed"):
            parts = hive.stored(self._format, values).ranges(info, uri, self._range_bytes)
        named = [values] if values else []
        return [Split(split_id_of(p.path, p.start), [p.path, p.start, p.end, p.size_bytes, *named]) for p in parts]


def _check_paths(method: str, paths: Sequence[object]) -> None:
    """Raises ``InvalidJob`` for paths that are not strings: several may be given, so a later argument is easily taken for one."""
    if not paths:
        raise InvalidJob(f"FileSource.{method} needs a path")
    for path in paths:
        if not isinstance(path, str | Path):
            what = f"a {type(path).__name__}" + (
                ": give it by its name, schema=" if isinstance(path, pa.Schema) else ""
            )
            raise InvalidJob(f"FileSource.{method} takes paths and was given {what}")


def _uri_prefix(root: str) -> str:
    """Returns the prefix of the paths of files at ``root``: the URI's scheme, unless they are local."""
    return root.split("://", 1)[0] + "://" if "://" in root and not root.startswith("file:") else ""


def _first_file(paths: Sequence[str]) -> str:
    root = paths[0]
    path = str(list_files(root)[0].path)
    filesystem, _ = resolve(root)
    return root.split("://", 1)[0] + "://" + path if filesystem.type_name != "local" else path


def _below(root: str, file: pafs.FileInfo) -> dict[str, str | None]:
    """Returns the values in the directory names between the root and a file."""
    return hive.directory_values(base_of(resolve(root)[1]).rstrip("/") + "/", str(file.path))


def _inferred(paths: Sequence[str], schema: pa.Schema) -> pa.Schema:
    """Returns the columns of the files with those in the names of their directories."""
    return hive.with_fields(schema, [_below(root, file) for root in paths for file in list_files(root)])
