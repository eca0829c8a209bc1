"""Continuous reading of files: new files are found and read while the job runs.

    one reader lists (``split_discovery``) ──▶ the coordinator in the JobManager ──▶ the reader that asks        as a source of its own
    listed at the switch ──read──▶ wait ──▶ list ──▶ files of mine that were not read ──read──▶ wait ──▶ ...    as part of a hybrid source

Laws: a file is read once, as it was when it was first seen (what is appended to it later is not read: write it elsewhere
and rename it). As part of a hybrid source, and where watermarks are made, it belongs to the subtask that its path names.
Follows Flink's ``ContinuousFileSplitEnumerator.java``: the paths that were read are the splits in the state, marked done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import xxhash

from tidegate.connectors.base import ReaderContext, Split, SplitState
from tidegate.connectors.file_reader import Fetched, FileReader
from tidegate.connectors.files.formats import FileFormat


class EndlessFileReader(FileReader):
    """Reads the splits that it is assigned, and waits for more."""

    def is_finished(self) -> bool:
        return False


class MonitoringReader(FileReader):
    """Reads files and looks for new ones by itself. ``unread``: lists the splits of files that exist now, belong to this subtask and are not among the
    paths given."""

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
        seen = {path_of(state.split) for state in self._states.values()}
        yield from super()._read(states)
        while not self._closing.wait(self._interval_s):
            found = self._unread(seen)
            seen.update(map(path_of, found))
            for split in found:
                yield split.split_id, split
            yield from super()._read([SplitState(split) for split in found])

    def is_finished(self) -> bool:
        return False

    def close(self) -> None:
        self._closing.set()
        super().close()


def path_of(split: Split) -> str:
    """Returns the path of a split's file."""
    path: str = split.payload[0]
    return path


def split_id_of(path: str, start: int) -> str:
    """Returns the id of the split that begins at this byte or row group."""
    return f"{path}@{start:012d}"


def path_in(split_id: str) -> str:
    """Returns the path in a split's id."""
    return split_id.rpartition("@")[0]


def owner_of(path: str, parallelism: int) -> int:
    """Returns the subtask that reads a file."""
    return int(xxhash.xxh32_intdigest(path.encode())) % parallelism
