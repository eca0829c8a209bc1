"""Runs a user's ``SplitEnumerator`` as the source of one subtask, whose records are its messages to the readers.

    on_reader_event ─▶ enumerator ─▶ outbox ─▶ emitted ─▶ the edge to the readers        snapshot: [enumerator, outbox, readers at their ends]

Laws. The enumerator's snapshot and what it said but was not emitted are one state. The barrier goes to the readers behind what was emitted before
it: so a split is with the enumerator, in its outbox, or with a reader, in every checkpoint. It is at its end when all readers are.
"""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, assert_never

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors import base
from tidegate.connectors.source.async_work import AsyncCall, AsyncWork
from tidegate.connectors.source.enumerator import ReaderInfo, SplitEnumerator, SplitEnumeratorContext, SplitsAssignment
from tidegate.connectors.source.protocol import (
    SAID,
    Arrivals,
    AskForSplit,
    EncodedSplit,
    EndSplits,
    EnumeratorMessage,
    ForReader,
    GiveSplits,
    Heard,
    ReachEnd,
    Register,
    TellEnumerator,
    TellReader,
)
from tidegate.connectors.source.serializers import SimpleVersionedSerializer
from tidegate.connectors.source.source import Source
from tidegate.connectors.source.splits import SourceSplit
from tidegate.model.errors import CorruptData, InvalidJob
from tidegate.model.values import StateValue, UserObject
from tidegate.records.batch import RecordsBatch
from tidegate.records.pickling import dumps

T = TypeVar("T")
SPLIT_ID = "enumerator"
"""The one split of an enumerator's own source."""
FORMAT = 1
"""The format of that split's position."""

UserSource = Source[UserObject, UserObject]


@dataclass(frozen=True)
class EnumeratorSource(base.Source):
    """The source of the enumerator's vertex, with ``readers`` readers."""

    source: UserSource
    bounded: bool
    readers: int = 1

    def list_splits(self, parallelism: int) -> list[base.Split]:
        return [base.Split(SPLIT_ID)]

    def make_reader(self, context: base.ReaderContext) -> base.SourceReader:
        return EnumeratorHost(self.source, self.readers, report_backlog=context.report_backlog)

    def produced_type(self) -> TypeInformation:
        return SAID


class EnumeratorHost(base.SourceReader):
    """Calls the user's enumerator, and buffers its messages until they are emitted."""

    def __init__(
        self,
        source: UserSource,
        readers: int,
        work: AsyncWork | None = None,
        report_backlog: Callable[[bool], None] | None = None,
    ) -> None:
        self._source = source
        self._readers = readers
        self._work = work or AsyncWork(lambda: time.monotonic() * 1000)
        self._report_backlog = report_backlog
        self._outbox: deque[ForReader] = deque()
        self._arrivals = Arrivals()
        self._registered: dict[int, ReaderInfo] = {}
        self._ended: set[int] = set()
        self._enumerator: SplitEnumerator[SourceSplit, UserObject] | None = None
        self._splits: SimpleVersionedSerializer[SourceSplit] = source.get_split_serializer()

    def open(self, states: Sequence[base.SplitState]) -> None:
        for state in states:
            self._restore(state.position)
        if states:
            self._running.start()
            self.give_back()

    def _restore(self, position: StateValue) -> None:
        context = _Context(self._readers, self._registered, self._say, self._work, self._splits, self._report_backlog)
        if position is None:
            self._enumerator = self._source.create_enumerator(context)
        else:
            form, version, content, readers, ended, outbox = position
            if form != FORMAT:
                raise CorruptData(
                    f"the restored state of the source's enumerator has format {form}, and this version of tidegate reads format {FORMAT}; restore it with the "
                    "tidegate that wrote it"
                )
            stored = self._source.get_enumerator_checkpoint_serializer().deserialize(version, content)
            self._enumerator = self._source.restore_enumerator(context, stored)
            self._outbox.extend(pickle.loads(outbox))
            if readers == self._readers:
                self._ended.update(ended)
        if not isinstance(self._enumerator, SplitEnumerator):
            raise InvalidJob(f"{type(self._source).__name__} made {self._enumerator!r}, which is not a SplitEnumerator")
        self._restored_readers = self._readers if position is None else position[3]

    def give_back(self) -> None:
        """Returns splits in the outbox to the enumerator after a restore at another parallelism."""
        if self._restored_readers == self._readers:
            return
        waiting = list(self._outbox)
        self._outbox.clear()
        for said in waiting:
            if isinstance(said.message, GiveSplits):
                splits = [decoded_split(self._splits, split) for split in said.message.splits]
                self._running.add_splits_back(splits, said.subtask)

    @property
    def _running(self) -> SplitEnumerator[SourceSplit, UserObject]:
        assert self._enumerator is not None
        return self._enumerator

    def on_reader_event(self, subtask: int, content: bytes) -> None:
        message, answer = self._arrivals.take(subtask, content)
        self._say(subtask, answer)
        match message:
            case None:
                pass
            case Register(host):
                self._registered[subtask] = ReaderInfo(subtask, host)
                self._running.add_reader(subtask)
            case AskForSplit(host):
                self._running.handle_split_request(subtask, host)
            case TellEnumerator(event):
                self._running.handle_source_event(subtask, pickle.loads(event))
            case ReachEnd():
                self._ended.add(subtask)
            case _:
                assert_never(message)

    def poll(self) -> base.Polled | None:
        self._work.handle_results()
        return base.Polled(RecordsBatch(list(self._outbox)), SPLIT_ID) if self._outbox else None

    def advance(self, records: int) -> None:
        for _ in range(records):
            self._outbox.popleft()

    def is_finished(self) -> bool:
        return len(self._ended) >= self._readers and not self._outbox

    def snapshot_state(self) -> list[base.SplitState]:
        raise AssertionError(
            "snapshot_state() was called on the enumerator of a user's source, which takes snapshots by snapshot_for(checkpoint_id)"
        )

    def snapshot_for(self, checkpoint_id: int) -> list[base.SplitState]:
        if self._enumerator is None:
            return []
        serializer = self._source.get_enumerator_checkpoint_serializer()
        content = serializer.serialize(self._enumerator.snapshot_state(checkpoint_id))
        outbox = [said for said in self._outbox if not isinstance(said.message, Heard)]
        position: StateValue = [
            FORMAT,
            serializer.get_version(),
            content,
            self._readers,
            sorted(self._ended),
            pickle.dumps(outbox),
        ]
        return [base.SplitState(base.Split(SPLIT_ID), position)]

    def finished_splits(self) -> set[str]:
        return set()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if self._enumerator is not None:
            self._enumerator.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        if self._enumerator is not None:
            self._enumerator.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        self._work.close()
        if self._enumerator is not None:
            self._enumerator.close()

    def _say(self, subtask: int, message: EnumeratorMessage) -> None:
        self._outbox.append(ForReader(subtask, message))


class _Context(SplitEnumeratorContext[SourceSplit]):
    def __init__(
        self,
        readers: int,
        registered: dict[int, ReaderInfo],
        say: Callable[[int, EnumeratorMessage], None],
        work: AsyncWork,
        splits: SimpleVersionedSerializer[SourceSplit],
        report_backlog: Callable[[bool], None] | None,
    ) -> None:
        self._report_backlog = report_backlog
        self._is_backlog = False
        self._readers = readers
        self._registered = registered
        self._say = say
        self._work = work
        self._splits = splits

    def current_parallelism(self) -> int:
        return self._readers

    def registered_readers(self) -> dict[int, ReaderInfo]:
        return dict(self._registered)

    def assign_splits(
        self, new_split_assignments: SplitsAssignment[SourceSplit] | Mapping[int, Sequence[SourceSplit]]
    ) -> None:
        given = new_split_assignments
        for subtask, splits in (given.assignment if isinstance(given, SplitsAssignment) else given).items():
            encoded = tuple(encoded_split(self._splits, split) for split in splits)
            self._say(self._checked(subtask), GiveSplits(encoded))

    def signal_no_more_splits(self, subtask: int) -> None:
        self._say(self._checked(subtask), EndSplits())

    def send_event_to_source_reader(self, subtask_id: int, event: UserObject) -> None:
        self._say(self._checked(subtask_id), TellReader(dumps(event)))

    def call_async(
        self,
        callable: Callable[[], T],
        handler: Callable[[T | None, BaseException | None], None],
        initial_delay_ms: int = 0,
        period_ms: int | None = None,
    ) -> None:
        call: AsyncCall[UserObject] = AsyncCall(callable, handler, period_ms)
        self._work.call(call, initial_delay_ms)

    def set_is_processing_backlog(self, is_processing_backlog: bool) -> None:
        if is_processing_backlog != self._is_backlog and self._report_backlog is not None:
            self._report_backlog(is_processing_backlog)
        self._is_backlog = is_processing_backlog

    def run_in_coordinator_thread(self, runnable: Callable[[], None]) -> None:
        self._work.run_later(runnable)

    def _checked(self, subtask: int) -> int:
        if not 0 <= subtask < self._readers:
            raise InvalidJob(
                f"an enumerator addressed reader {subtask}, but there are {self._readers} readers, 0 to {self._readers - 1}"
            )
        return subtask


def encoded_split(serializer: SimpleVersionedSerializer[SourceSplit], split: SourceSplit) -> EncodedSplit:
    """Serializes a split. Raises ``InvalidJob`` for what is not a split."""
    if not isinstance(split, SourceSplit):
        raise InvalidJob(f"splits must be subclasses of SourceSplit, and {split!r} is not")
    return EncodedSplit(split.split_id(), [serializer.get_version(), serializer.serialize(split)])


def decoded_split(serializer: SimpleVersionedSerializer[SourceSplit], split: EncodedSplit) -> SourceSplit:
    """Deserializes a split. Raises what the serializer raises."""
    version, content = split.payload
    return serializer.deserialize(version, content)
