"""A file source without an end: it looks again and again for files that were not there before, and reads them.

    listed at submission ──read──▶ wait ──▶ list ──▶ files of mine that were not read ──read──▶ wait ──▶ ...

Laws: a file is read once, as it was when it was first seen (what is appended to it later is not read: write it elsewhere
and rename it); it belongs to the subtask that its path names, so that each subtask alone knows which files are new.
Follows Flink's ``ContinuousFileSplitEnumerator.java``, without an enumerator: the paths that were read are the splits in
the state, marked done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import xxhash

from tidegate.connectors.base import ReaderContext, SourceReader, Split, SplitState
from tidegate.connectors.file_source import Fetched, FileReader, FileSource, uri_prefix
from tidegate.connectors.files.file_system import list_files
from tidegate.connectors.files.formats import FileFormat
from tidegate.model.errors import InvalidJob


class MonitoringFileSource(FileSource):
    """``interval_ms``: how long to wait between two listings."""

    bounded = False

    def __init__(self, paths: Sequence[str], file_format: FileFormat, range_bytes: int, interval_ms: int) -> None:
        super().__init__(paths, file_format, range_bytes)
        if interval_ms < 1:
            raise InvalidJob(f"a directory is looked at every {interval_ms} ms: the interval must be 1 ms or more")
        self._interval_ms = interval_ms

    def list_splits(self, parallelism: int) -> list[Split]:
        return self._splits(lambda path: True)

    def owner_of(self, split: Split, parallelism: int) -> int:
        """Returns a subtask by the file alone: all ranges of a file belong to one."""
        return _owner(_path_of(split), parallelism)

    def make_reader(self, context: ReaderContext) -> SourceReader:
        def unread(seen: set[str]) -> list[Split]:
            mine, parallelism = context.subtask_index, context.parallelism
            return self._splits(lambda path: path not in seen and _owner(path, parallelism) == mine)

        return MonitoringReader(self._format, context, unread, self._interval_ms / 1000)

    def _splits(self, is_wanted: Callable[[str], bool]) -> list[Split]:
        """Lists the splits of the files whose path is wanted; others are not opened."""
        found = []
        for root in self._paths:
            prefix = uri_prefix(root)
            files = [f for f in list_files(root, may_be_empty=True) if is_wanted(prefix + f.path)]
            found += self._splits_of(root, files)
        return found


class MonitoringReader(FileReader):
    """``unread``: the splits of files that are there now, belong to this subtask and are not among the paths given."""

    def __init__(
        self,
        file_format: FileFormat,
        context: ReaderContext,
        unread: Callable[[set[str]], list[Split]],
        interval_s: float,
    ) -> None:
        super().__init__(file_format, context)
        self._unread = unread
        self._interval_s = interval_s
        self._closing = threading.Event()

    def _read(self, states: list[SplitState]) -> Iterator[Fetched]:
        seen = {_path_of(state.split) for state in self._states.values()}
        yield from super()._read(states)
        while not self._closing.wait(self._interval_s):
            found = self._unread(seen)
            seen.update(map(_path_of, found))
            for split in found:
                yield split.split_id, split
            yield from super()._read([SplitState(split) for split in found])

    def is_finished(self) -> bool:
        return False

    def close(self) -> None:
        self._closing.set()
        super().close()


def _path_of(split: Split) -> str:
    path: str = split.payload[0]
    return path


def _owner(path: str, parallelism: int) -> int:
    return int(xxhash.xxh32_intdigest(path.encode())) % parallelism
