"""Runs a user's ``SourceReader`` as the reader of one subtask."""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors import base
from tidegate.connectors.source.enumerator_host import UserSource, decoded_split, encoded_split
from tidegate.connectors.source.protocol import EncodedSplit
from tidegate.connectors.source.reader import (
    MAIN_OUTPUT,
    InputStatus,
    ReaderOutput,
    SourceOutput,
    SourceReader,
    SourceReaderContext,
)
from tidegate.connectors.source.source import Boundedness
from tidegate.connectors.source.splits import SourceSplit
from tidegate.model.errors import InvalidJob
from tidegate.model.values import Record, UserObject
from tidegate.model.whole_numbers import whole_number
from tidegate.records.batch import RecordsBatch
from tidegate.records.record_copy import RecordCopy, record_copy, reuses_objects

MOST_RECORDS = 256
"""How many records are polled for a batch: it costs a chain of functions about a millisecond, and its own cost is small."""
MOST_MS = 2.0
"""How many ms a batch is polled for. Chosen, not measured: a slow reader must not hold back barriers."""


class ReadersSource(base.Source):
    """The source of the readers' vertex: splits come from the enumerator."""

    takes_splits = True
    hides_splits = True

    def __init__(self, source: UserSource) -> None:
        self.source = source
        self.bounded = source.get_boundedness() is Boundedness.BOUNDED

    def list_splits(self, parallelism: int) -> list[base.Split]:
        return []

    def make_reader(self, context: base.ReaderContext) -> base.SourceReader:
        return ReaderHost(self.source, context)

    def produced_type(self) -> TypeInformation:
        return self.source.get_produced_type()


class ReaderHost(base.SourceReader):
    """Calls the user's reader. Its batches are emitted whole, so that the reader's position is that of what was emitted."""

    emits_whole_batches = True

    def __init__(
        self,
        source: UserSource,
        context: base.ReaderContext,
        now_ms: Callable[[], float] = lambda: time.monotonic() * 1000,
    ) -> None:
        self._source = source
        self._context = context
        self._now_ms = now_ms
        self._splits = source.get_split_serializer()
        copies = record_copy(
            source.get_produced_type(),
            f"source '{context.operator_name}'",
            reuses_objects=reuses_objects(context.configuration),
        )
        self._output = _Output(context.times, context.operator_name, copies)
        self._reader: SourceReader[SourceSplit] | None = None
        self._restored: list[base.SplitState] = []
        self._is_at_end = False

    def open(self, states: Sequence[base.SplitState]) -> None:
        reader = self._source.create_reader(_Context(self._context))
        if not isinstance(reader, SourceReader):
            raise InvalidJob(f"{type(self._source).__name__} made {reader!r}, which is not a SourceReader")
        self._reader = reader
        if states:
            self.add_splits([state.split for state in states])
        reader.start()

    def poll(self) -> base.Polled | None:
        if self._is_at_end or len(self._output):
            return self._output.take()
        until_ms = self._now_ms() + MOST_MS
        status = InputStatus.MORE_AVAILABLE
        while status is InputStatus.MORE_AVAILABLE and len(self._output) < MOST_RECORDS and self._now_ms() < until_ms:
            status = self._running.poll_next(self._output)
            if not isinstance(status, InputStatus):
                raise InvalidJob(
                    f"poll_next of {type(self._running).__name__} returned {status!r}, which is not an InputStatus"
                )
        self._is_at_end = status is InputStatus.END_OF_INPUT
        return self._output.take()

    def has_records(self) -> bool:
        return len(self._output) > 0

    def advance(self, records: int) -> None:
        """Does nothing: the user's reader advanced when it collected the records."""

    def is_finished(self) -> bool:
        return self._is_at_end and not self.has_records()

    def snapshot_state(self) -> list[base.SplitState]:
        raise AssertionError(
            "snapshot_state() was called on a reader of a user's source, which takes snapshots by snapshot_for(checkpoint_id)"
        )

    def snapshot_for(self, checkpoint_id: int) -> list[base.SplitState]:
        splits = [encoded_split(self._splits, split) for split in self._running.snapshot_state(checkpoint_id)]
        return [base.SplitState(base.Split(split.split_id, split.payload)) for split in splits]

    def finished_splits(self) -> set[str]:
        return self._output.ended()

    def add_splits(self, splits: Sequence[base.Split]) -> None:
        encoded = [EncodedSplit(split.split_id, split.payload) for split in splits]
        self._running.add_splits([decoded_split(self._splits, split) for split in encoded])

    def no_more_splits(self) -> None:
        self._running.notify_no_more_splits()

    def handle_source_event(self, event: UserObject) -> None:
        self._running.handle_source_events(event)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._running.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._running.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    @property
    def _running(self) -> SourceReader[SourceSplit]:
        assert self._reader is not None
        return self._reader


@dataclass
class _Run:
    """Consecutive records of one split."""

    split_id: str
    records: list[Record] = field(default_factory=list)
    timestamps: list[int | None] = field(default_factory=list)


class _Output(ReaderOutput):
    """Collects the records of a reader. ``len()``: how many were collected and not taken."""

    def __init__(self, times: base.SplitTimes | None, operator: str, copies: RecordCopy) -> None:
        self._times = times
        self._operator = operator
        self._shared, self._copy = copies.shared, copies.copy
        self._runs: deque[_Run] = deque()
        self._waiting = 0
        self._released: set[str] = set()

    def __len__(self) -> int:
        return self._waiting

    def collect(self, record: Record, timestamp: int | None = None) -> None:
        self.add(MAIN_OUTPUT, record, timestamp)

    def create_output_for_split(self, split_id: str) -> SourceOutput:
        if self._times is not None:
            self._times.assigned(split_id)
        return _SplitOutput(self, split_id)

    def release_output_for_split(self, split_id: str) -> None:
        self._released.add(split_id)

    def add(self, split_id: str, record: Record, timestamp: int | None) -> None:
        if timestamp is not None and timestamp.__class__ is not int:
            timestamp = whole_number(
                timestamp, f"operator '{self._operator}': the timestamp in collect of {repr(record)[:200]}"
            )
        if not self._runs or self._runs[-1].split_id != split_id:
            self._runs.append(_Run(split_id))
        self._runs[-1].records.append(record if record.__class__ in self._shared else self._copy(record))
        self._runs[-1].timestamps.append(timestamp)
        self._waiting += 1

    def take(self) -> base.Polled | None:
        if not self._runs:
            return None
        run = self._runs.popleft()
        self._waiting -= len(run.records)
        has_times = any(timestamp is not None for timestamp in run.timestamps)
        return base.Polled(RecordsBatch(run.records, run.timestamps if has_times else None), run.split_id)

    def ended(self) -> set[str]:
        """Returns each released split once, when all of its records were taken."""
        ended = self._released - {run.split_id for run in self._runs}
        self._released -= ended
        return ended


class _SplitOutput(SourceOutput):
    def __init__(self, output: _Output, split_id: str) -> None:
        self._output = output
        self._split_id = split_id

    def collect(self, record: Record, timestamp: int | None = None) -> None:
        self._output.add(self._split_id, record, timestamp)


class _Context(SourceReaderContext):
    def __init__(self, context: base.ReaderContext) -> None:
        self._context = context

    def get_index_of_subtask(self) -> int:
        return self._context.subtask_index

    def current_parallelism(self) -> int:
        return self._context.parallelism

    def get_local_host_name(self) -> str:
        return socket.gethostname()

    def get_configuration(self) -> Mapping[str, str]:
        return self._context.configuration

    def send_split_request(self) -> None:
        assert self._context.request_split is not None
        self._context.request_split()

    def send_source_event_to_coordinator(self, source_event: UserObject) -> None:
        assert self._context.send_source_event is not None
        self._context.send_source_event(source_event)
