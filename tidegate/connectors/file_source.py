"""Source over files and directories: text, CSV, JSON lines, Parquet.

Splits are listed once, in the client: byte ranges of line formats, which for CSV
begin where a record does, row groups of Parquet. The position in a split is
``[start of the block, rows emitted of it]``; finished splits stay in the state, marked done.
Follows Flink's ``FileSource`` (bounded), with its splits listed up front; ``monitor_continuously`` makes it unbounded.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from tidegate.common.records.batch import ArrowBatch
from tidegate.connectors.base import Polled, ReaderContext, Source, SourceReader, Split, SplitState
from tidegate.connectors.fetcher import Fetcher
from tidegate.connectors.files import hive
from tidegate.connectors.files.csv_format import NULL_VALUES, CsvFormat, check_settings, infer_csv_schema
from tidegate.connectors.files.file_system import list_files, resolve
from tidegate.connectors.files.formats import (
    Block,
    FileFormat,
    FileRange,
    ParquetFormat,
    TextFormat,
    parquet_schema,
)
from tidegate.connectors.files.json_lines import JsonLinesFormat, infer_json_schema
from tidegate.model.errors import InvalidJob

DEFAULT_RANGE_BYTES = 32 << 20
"""Chosen, not measured: some seconds of reading, so that subtasks end at about the same time."""
_READ_AHEAD_BLOCKS = 4
_FIRST_RECORDS_AT_A_TIME = 8
_FIRST_RECORDS_TOLD = 64
"""At once: the subtask's thread takes the time of each."""


class FileSource(Source):
    """Bounded source over the files at one or more paths (files, or directories read recursively).

    ``range_bytes``: size of the byte ranges into which line files are split. A column of the schema that names a directory below
    such a path (``dt=2024-01-01/part.csv``) has that directory's value; an inferred schema has such columns at its end.
    """

    bounded = True

    def __init__(self, paths: Sequence[str], file_format: FileFormat, range_bytes: int = DEFAULT_RANGE_BYTES) -> None:
        self._paths = tuple(path if "://" in path else str(Path(path).absolute()) for path in paths)
        self._format = file_format
        self._range_bytes = range_bytes

    @staticmethod
    def for_text(*paths: str, range_bytes: int = DEFAULT_RANGE_BYTES) -> FileSource:
        """One string a line."""
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
    ) -> FileSource:
        """Comma-separated values. Without ``schema`` (which ``header=False`` needs) names and types come from the first
        file. With a header each file's columns are found by name, in whatever order they are.

        A quoted value may hold line ends, so a file larger than ``range_bytes`` is read once when it is listed, for the places where
        it can be cut; ``newlines_in_values=False`` promises that none does, and saves that. Raises ``InvalidJob``."""
        check_settings(delimiter, encoding)
        if schema is None and not header:
            raise InvalidJob("CSV files without a header need schema=")
        nulls = tuple(null_values)
        found = CsvFormat(schema or pa.schema([]), int(header), delimiter, nulls, newlines_in_values, encoding)
        if schema is None:
            found = replace(found, schema=_inferred(paths, infer_csv_schema(_first_file(paths), found)))
        return FileSource(paths, found, range_bytes)

    @staticmethod
    def for_json_lines(
        *paths: str, schema: pa.Schema | None = None, range_bytes: int = DEFAULT_RANGE_BYTES
    ) -> FileSource:
        """One JSON object a line. Without ``schema`` it is inferred from the first file. Raises ``InvalidJob``."""
        found = schema or _inferred(paths, infer_json_schema(_first_file(paths)))
        return FileSource(paths, JsonLinesFormat(found), range_bytes)

    @staticmethod
    def for_parquet(*paths: str, schema: pa.Schema | None = None, columns: Sequence[str] | None = None) -> FileSource:
        """Parquet files of one schema; ``columns`` reads only those. Raises ``InvalidJob``."""
        whole = schema or _inferred(paths, parquet_schema(_first_file(paths)))
        if columns is not None:
            whole = pa.schema([whole.field(name) for name in columns])
        return FileSource(paths, ParquetFormat(whole))

    @property
    def schema(self) -> pa.Schema:
        """The columns that are read."""
        return self._format.schema

    def produced_type(self) -> Any:
        return self._format.produced_type()

    def monitor_continuously(self, interval_ms: int) -> FileSource:
        """Returns the source without an end: every ``interval_ms`` it looks for new files, and reads them."""
        from tidegate.connectors.file_monitoring import MonitoringFileSource  # which is a FileSource

        return MonitoringFileSource(self._paths, self._format, self._range_bytes, interval_ms)

    def list_splits(self, parallelism: int) -> list[Split]:
        return [split for root in self._paths for split in self._splits_of(root, list_files(root))]

    def make_reader(self, context: ReaderContext) -> SourceReader:
        return FileReader(self._format, context)

    def _splits_of(self, root: str, files: Sequence[pafs.FileInfo]) -> list[Split]:
        prefix = uri_prefix(root)
        return [split for f in files for split in self._splits_of_file(prefix + f.path, f, _below(root, f))]

    def _splits_of_file(self, uri: str, info: pafs.FileInfo, directories: hive.Values) -> list[Split]:
        values = hive.known(self._format, directories)
        hive.check_values(uri, values, self._format.schema)
        parts = hive.stored(self._format, values).ranges(info, uri, self._range_bytes)
        named = [values] if values else []
        return [Split(f"{p.path}@{p.start:012d}", [p.path, p.start, p.end, p.size_bytes, *named]) for p in parts]


def uri_prefix(root: str) -> str:
    """What stands before the paths of the files at ``root``: the scheme, unless they are local."""
    return root.split("://", 1)[0] + "://" if "://" in root and not root.startswith("file:") else ""


def _first_file(paths: Sequence[str]) -> str:
    root = paths[0]
    path = str(list_files(root)[0].path)
    filesystem, _ = resolve(root)
    return root.split("://", 1)[0] + "://" + path if filesystem.type_name != "local" else path


def _below(root: str, file: pafs.FileInfo) -> dict[str, str | None]:
    """What the directories between the root and the file say."""
    return hive.directory_values(resolve(root)[1].rstrip("/") + "/", str(file.path))


def _inferred(paths: Sequence[str], schema: pa.Schema) -> pa.Schema:
    """Returns the columns in the files, and those in the names of their directories."""
    return hive.with_fields(schema, [_below(root, file) for root in paths for file in list_files(root)])


@dataclass(frozen=True, slots=True)
class _FirstRecords:
    """First records of splits that are read later, by split; ``None``: it has none. ``are_last``: those of all other
    splits were reported."""

    of: dict[str, pa.RecordBatch | None]
    are_last: bool


Fetched = tuple[str, Block | Split | None] | _FirstRecords
"""A split's id with a block, with the split itself when it was just found, or with ``None`` at its end."""


class FileReader(SourceReader):
    """Reads its splits one after the other, with a thread that decodes some blocks ahead.

    Where the source makes watermarks, splits are read in the order of the times of their first records, and those that have
    not begun hold the watermark back (``SplitTimes``): names of files need not sort by time.
    """

    def __init__(self, file_format: FileFormat, context: ReaderContext) -> None:
        self._format = file_format
        self._wakeup = context.wakeup
        self._times = context.times
        self._first_times: dict[str, int | None] = {}
        self._told_times: queue.SimpleQueue[dict[str, int | None]] = queue.SimpleQueue()
        """From the subtask's thread to the fetcher's, when the times of all first records are known."""
        self._finished: set[str] = set()
        self._states: dict[str, SplitState] = {}
        self._fetcher: Fetcher[Fetched] | None = None
        self._open_blocks: deque[tuple[str, Block, int]] = deque()

    def open(self, states: Sequence[SplitState]) -> None:
        self._states = {state.split.split_id: state for state in states}
        todo = [state for state in states if not state.done]
        if self._times is not None:
            for state in todo:
                self._times.expected(state.split.split_id)
        self._fetcher = Fetcher(lambda: self._read(todo), _READ_AHEAD_BLOCKS, self._wakeup)

    def _read(self, states: list[SplitState]) -> Iterator[Fetched]:
        if self._times is not None and len(states) > 1:
            yield from self._first_records(states)
            times = self._told_times.get()
            states = sorted(states, key=lambda state: _in_time(times.get(state.split.split_id)))
        for state in states:
            for block in hive.blocks(self._format, *_rest_of(state)):
                yield state.split.split_id, block
            yield state.split.split_id, None

    def _first_records(self, states: list[SplitState]) -> Iterator[Fetched]:
        """Several at a time, since opening a file of an object store takes long."""
        pool = ThreadPoolExecutor(_FIRST_RECORDS_AT_A_TIME, "tidegate-first-records")
        try:
            found = pool.map(lambda state: hive.first_record(self._format, *_rest_of(state)), states)
            waiting: dict[str, pa.RecordBatch | None] = {}
            for left, (state, data) in zip(
                range(len(states) - 1, -1, -1), zip(states, found, strict=True), strict=True
            ):
                waiting[state.split.split_id] = data
                if len(waiting) == _FIRST_RECORDS_TOLD or not left:
                    yield _FirstRecords(waiting, are_last=not left)
                    waiting = {}
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def poll(self) -> Polled | None:
        assert self._fetcher is not None
        while (taken := self._fetcher.take()) is not None:
            if isinstance(taken, _FirstRecords):
                self._take_first_records(taken)
                continue
            split_id, block = taken
            if isinstance(block, Split):
                self._found(block)
            elif block is None:
                self._states[split_id] = SplitState(self._states[split_id].split, None, done=True)
                self._finished.add(split_id)
            elif block.data.num_rows:
                self._open_blocks.append((split_id, block, 0))
                return Polled(ArrowBatch(block.data), split_id)
        return None

    def advance(self, records: int) -> None:
        split_id, block, emitted = self._open_blocks.popleft()
        emitted += records
        if emitted < block.data.num_rows:
            position = [block.start, block.skip + emitted]
            self._open_blocks.appendleft((split_id, block, emitted))
        else:
            position = [block.next_start, 0]
        self._states[split_id] = SplitState(self._states[split_id].split, position)

    def is_finished(self) -> bool:
        return self._fetcher is not None and self._fetcher.ended and not self._open_blocks

    def snapshot_state(self) -> list[SplitState]:
        return list(self._states.values())

    def finished_splits(self) -> set[str]:
        finished, self._finished = self._finished, set()
        return finished

    def close(self) -> None:
        if self._fetcher is not None:
            self._fetcher.close()
            self._told_times.put({})  # whoever waits for it goes on, and finds that it is over

    def _found(self, split: Split) -> None:
        self._states[split.split_id] = SplitState(split)
        if self._times is not None:
            self._times.expected(split.split_id)

    def _take_first_records(self, first: _FirstRecords) -> None:
        assert self._times is not None
        for split_id, data in first.of.items():
            batch = None if data is None else ArrowBatch(data)
            self._first_times[split_id] = self._times.expected(split_id, batch)
        if first.are_last:
            self._told_times.put(self._first_times)
            self._first_times = {}


def _rest_of(state: SplitState) -> tuple[FileRange, hive.Values, int | None, int]:
    """What is to be read of a split, and the values of its directories."""
    start, skip = state.position if state.position is not None else (None, 0)
    path, begin, end, size_bytes, *values = state.split.payload
    return FileRange(path, begin, end, size_bytes), values[0] if values else {}, start, skip


def _in_time(time: int | None) -> tuple[bool, int]:
    """What has no time (an empty file, say) is soon read."""
    return (False, 0) if time is None else (True, time)
