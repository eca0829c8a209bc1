"""A source of a user, as Flink teaches it: an enumerator with ranges of numbers, and readers that ask for them."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.connectors.source import (
    Boundedness,
    InputStatus,
    ReaderOutput,
    Source,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
    SplitEnumerator,
    SplitEnumeratorContext,
)


@dataclass(frozen=True)
class RangeSplit(SourceSplit):
    """``at``: the next number."""

    first: int
    after: int
    at: int

    def split_id(self) -> str:
        return f"{self.first}-{self.after}"


@dataclass(frozen=True)
class Done:
    """An event of a reader: it has read so many splits. What an enumerator said before a checkpoint may come to the reader's next life."""

    life: str
    splits: int


class RangeEnumerator(SplitEnumerator[RangeSplit, "list[RangeSplit] | None"]):
    """Finds its ranges in the worker thread, hands one to each reader that asks, and thanks for events."""

    def __init__(
        self, context: SplitEnumeratorContext[RangeSplit], source: NumbersSource, left: list[RangeSplit] | None
    ) -> None:
        self._context = context
        self._source = source
        self._left = left
        self._waiting: list[int] = []

    def start(self) -> None:
        if self._left is None:
            self._context.call_async(self._source.ranges, self._found)

    def _found(self, ranges: list[RangeSplit] | None, error: BaseException | None) -> None:
        if error is not None:
            raise error
        assert ranges is not None
        self._left = [*(self._left or ()), *ranges]
        waiting, self._waiting = self._waiting, []
        for subtask in waiting:
            self.handle_split_request(subtask, None)

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        if self._left is None:
            self._waiting.append(subtask_id)
        elif self._left:
            self._context.assign_split(self._left.pop(0), subtask_id)
        else:
            self._context.signal_no_more_splits(subtask_id)

    def add_splits_back(self, splits: Sequence[RangeSplit], subtask_id: int) -> None:
        self._left = [*splits, *(self._left or ())]

    def add_reader(self, subtask_id: int) -> None:
        assert subtask_id in self._context.registered_readers()

    def handle_source_event(self, subtask_id: int, source_event: object) -> None:
        assert isinstance(source_event, Done)
        self._context.send_event_to_source_reader(subtask_id, source_event)

    def snapshot_state(self, checkpoint_id: int) -> list[RangeSplit] | None:
        return self._left


class RangeReader(SourceReader[RangeSplit]):
    """Tells its enumerator of each split that it has read, and asks for the next when that is thanked for."""

    def __init__(self, context: SourceReaderContext, pause_s: float) -> None:
        self._context = context
        self._pause_s = pause_s
        self._splits: list[RangeSplit] = []
        self._no_more = False
        self._read = 0
        self._life = uuid.uuid4().hex
        self._told: deque[Done] = deque()

    def start(self) -> None:
        if not self._splits:
            self._context.send_split_request()

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        if not self._splits:
            return InputStatus.END_OF_INPUT if self._no_more else InputStatus.NOTHING_AVAILABLE
        split = self._splits[0]
        output.collect(split.at)
        time.sleep(self._pause_s)
        self._splits[0] = dataclasses.replace(split, at=split.at + 1)
        if split.at + 1 == split.after:
            self._splits.pop(0)
            self._read += 1
            if not self._splits:
                self._told.append(Done(self._life, self._read))
                self._context.send_source_event_to_coordinator(self._told[-1])
        return InputStatus.MORE_AVAILABLE

    def handle_source_events(self, source_event: object) -> None:
        assert isinstance(source_event, Done)
        if source_event.life == self._life:
            assert self._told, "an event comes again"
            assert source_event == self._told.popleft(), "events come in order, once each"
            self._context.send_split_request()

    def snapshot_state(self, checkpoint_id: int) -> Sequence[RangeSplit]:
        return list(self._splits)

    def add_splits(self, splits: Sequence[RangeSplit]) -> None:
        self._splits += splits

    def notify_no_more_splits(self) -> None:
        self._no_more = True


class NumbersSource(Source[RangeSplit, "list[RangeSplit] | None"]):
    """The numbers below ``count``, in ranges of ``size``; ``pause_s`` after each."""

    def __init__(self, count: int, size: int, pause_s: float = 0.0) -> None:
        self._count = count
        self._size = size
        self._pause_s = pause_s

    def ranges(self) -> list[RangeSplit]:
        firsts = range(0, self._count, self._size)
        return [RangeSplit(first, min(first + self._size, self._count), first) for first in firsts]

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_reader(self, reader_context: SourceReaderContext) -> RangeReader:
        return RangeReader(reader_context, self._pause_s)

    def create_enumerator(self, enum_context: SplitEnumeratorContext[RangeSplit]) -> RangeEnumerator:
        return RangeEnumerator(enum_context, self, None)

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[RangeSplit], checkpoint: list[RangeSplit] | None
    ) -> RangeEnumerator:
        return RangeEnumerator(enum_context, self, checkpoint)

    def get_produced_type(self) -> TypeInformation:
        return Types.LONG()
