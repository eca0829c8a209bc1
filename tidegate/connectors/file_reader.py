"""The reader of file splits: a background thread decodes ahead, and requests splits when it has none."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from tidegate.connectors.base import Polled, ReaderContext, SourceReader, Split, SplitState
from tidegate.connectors.fetcher import Fetcher
from tidegate.connectors.files import hive, reading
from tidegate.connectors.files.block import Block
from tidegate.connectors.files.file_range import FileRange
from tidegate.connectors.files.formats import FileFormat
from tidegate.records.batch import ArrowBatch

_READ_AHEAD_BLOCKS = 4
"""How many blocks are read ahead. Chosen, not measured."""
_FIRST_RECORDS_AT_A_TIME = 8
"""How many first records are read concurrently. Chosen, not measured: requests that an object store answers side by side."""
_FIRST_RECORDS_TOLD = 64
"""How many first records are reported at once, since the subtask's thread computes the time of each."""


@dataclass(frozen=True, slots=True)
class _FirstRecords:
    """First records by split, of splits that are read later; ``None``: the split is empty. ``are_last``: all splits are reported."""

    of: dict[str, pa.RecordBatch | None]
    are_last: bool


@dataclass(frozen=True, slots=True)
class _AllRead:
    """All splits of the reader were read to their end."""


Fetched = tuple[str, Block | Split | None] | _FirstRecords | _AllRead
"""A split's id with a block of it, with the split itself when it was just found, or with ``None`` at its end."""


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
        self._request_split = context.request_split
        self._added: queue.SimpleQueue[list[SplitState] | None] = queue.SimpleQueue()
        """From the subtask's thread to the fetcher's: what the coordinator has handed out; ``None``: it has none left."""
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
        self._fetcher = Fetcher(lambda: self._read_all(todo), _READ_AHEAD_BLOCKS, self._wakeup)

    def _read_all(self, states: list[SplitState]) -> Iterator[Fetched]:
        """Reads these splits, then those of the coordinator. More are requested only when the last block was emitted, so that an idle reader gets them
        first."""
        found: list[SplitState] | None = states
        while found is not None:
            yield from self._read(found)
            if self._request_split is None:
                return
            yield _AllRead()
            found = self._added.get()

    def _read(self, states: list[SplitState]) -> Iterator[Fetched]:
        if self._times is not None and len(states) > 1:
            yield from self._first_records(states)
            times = self._told_times.get()
            states = sorted(states, key=lambda state: _in_time(times.get(state.split.split_id)))
        for state in states:
            for block in reading.blocks(self._format, *_rest_of(state)):
                yield state.split.split_id, block
            yield state.split.split_id, None

    def _first_records(self, states: list[SplitState]) -> Iterator[Fetched]:
        """Reads the first records of splits, several concurrently, since opening a file of an object store is slow."""
        pool = ThreadPoolExecutor(_FIRST_RECORDS_AT_A_TIME, "tidegate-first-records")
        try:
            found = pool.map(lambda state: reading.first_record(self._format, *_rest_of(state)), states)
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
            if isinstance(taken, _AllRead):
                assert self._request_split is not None
                self._request_split()
                continue
            split_id, block = taken
            if isinstance(block, Split):
                self._found(block)
            elif block is None:
                self._states[split_id] = SplitState(self._states[split_id].split, None, done=True)
                self._finished.add(split_id)
            elif block.data.num_rows:
                self._open_blocks.append((split_id, block, 0))
                return Polled(ArrowBatch(block.data), split_id, block.side, block.bad)
            elif block.bad:
                return Polled(ArrowBatch(block.data), split_id, errors=block.bad)
        return None

    def advance(self, records: int) -> None:
        split_id, block, emitted = self._open_blocks.popleft()
        emitted += records
        if emitted < block.data.num_rows:
            position = [block.start, block.skip + emitted]
            self._open_blocks.appendleft((split_id, block, emitted))
        else:
            position = [block.next_start, block.next_skip]
        self._states[split_id] = SplitState(self._states[split_id].split, position)

    def add_splits(self, splits: Sequence[Split]) -> None:
        added = [SplitState(split) for split in splits]
        for state in added:
            self._states[state.split.split_id] = state
            if self._times is not None:
                self._times.expected(state.split.split_id)
        self._added.put(added)

    def no_more_splits(self) -> None:
        self._added.put(None)

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
            self._added.put(None)

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
    """Returns the remaining range of a split, its directory values, and the position in it."""
    start, skip = state.position if state.position is not None else (None, 0)
    path, begin, end, size_bytes, *values = state.split.payload
    return FileRange(path, begin, end, size_bytes), values[0] if values else {}, start, skip


def _in_time(time: int | None) -> tuple[bool, int]:
    """Returns the sort key of a split by the time of its first record; splits without one come first."""
    return (False, 0) if time is None else (True, time)
