"""Sources: slices, positions, dealing of splits, and event time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import Running, restored_of, spec, split_mode, start
from tidegate.common.time import Duration
from tidegate.common.typeinfo import Types
from tidegate.common.watermark_strategy import WatermarkStrategy
from tidegate.connectors.base import Polled, ReaderContext, Source, SourceReader, Split, SplitState
from tidegate.connectors.fetcher import Fetcher
from tidegate.model.checkpoint import StateRedistribution
from tidegate.model.errors import UserFunctionError
from tidegate.records.batch import ArrowBatch, Batch, RecordsBatch
from tidegate.taskmanager.operators.sources.restored_splits import own_splits
from tidegate.taskmanager.operators.sources.source import SourceOperator

SPLITS = tuple(Split(f"s{i:02}", {"from": i * 100, "rows": 10 + i}) for i in range(7))


class Reader(SourceReader):
    """Reads its splits in turn, five rows a batch, and fetches one batch ahead of what is emitted."""

    def __init__(self, columnar: bool) -> None:
        self._columnar = columnar

    def open(self, states: Sequence[SplitState]) -> None:
        self._splits = [s.split for s in states]
        self._fetched = [s.position or 0 for s in states]
        self._emitted = list(self._fetched)
        self._last = -1
        self.completed: list[int] = []
        self.closed = 0

    def poll(self) -> Polled | None:
        for i, split in enumerate(self._splits):
            at, rows = self._fetched[i], split.payload["rows"]
            if at < rows:
                n = min(5, rows - at)
                values = [split.payload["from"] + at + k for k in range(n)]
                self._fetched[i] += n
                self._last = i
                data = pa.record_batch({"value": pa.array(values, pa.int64())})
                batch: Batch = ArrowBatch(data) if self._columnar else RecordsBatch(values)
                return Polled(batch, split.split_id)
        return None

    def advance(self, records: int) -> None:
        self._emitted[self._last] += records

    def is_finished(self) -> bool:
        return all(e == s.payload["rows"] for e, s in zip(self._emitted, self._splits, strict=True))

    def snapshot_state(self) -> list[SplitState]:
        return [SplitState(s, e, e == s.payload["rows"]) for s, e in zip(self._splits, self._emitted, strict=True)]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.completed.append(checkpoint_id)

    def close(self) -> None:
        self.closed += 1


class Ranges(Source):
    def __init__(self, columnar: bool = True) -> None:
        self.columnar = columnar

    def list_splits(self, parallelism: int) -> list[Split]:
        return list(SPLITS)

    def make_reader(self, context: ReaderContext) -> SourceReader:
        return Reader(self.columnar)

    def produced_type(self) -> Any:
        return Types.LONG()


def source(splits: Sequence[Split] = SPLITS, strategy: Any = None, of: Source | None = None) -> Any:
    options = {"source": of or Ranges(), "splits": tuple(splits), "watermark_strategy": strategy}
    return spec("source", output_type=Types.LONG(), options=options)


def head(running: Running) -> SourceOperator:
    assert isinstance(running.operator, SourceOperator)
    return running.operator


class Fetched(Ranges):
    """Has its reader's records fetched by a thread, whose ``fetcher`` it keeps."""

    def make_reader(self, context: ReaderContext) -> SourceReader:
        self.fetcher = Fetcher(lambda: iter([1]), 1, context.wakeup)
        return super().make_reader(context)


def read(running: Running, polls: int = 10_000, max_records: int = 3) -> list[int]:
    for _ in range(polls):
        if not head(running).poll_next(max_records):
            break
    return [v["value"] if isinstance(v, dict) else v for v in running.out.values()]


ALL = sorted(v["from"] + k for v in (s.payload for s in SPLITS) for k in range(v["rows"]))


def test_the_thread_of_a_reader_wakes_the_subtask() -> None:
    woken, of = threading.Event(), Fetched()
    start(source(of=of), given={"wakeup": woken.set})
    assert woken.wait(60)
    assert of.fetcher.take() == 1


@pytest.mark.parametrize("columnar", [True, False])
def test_slices_hold_at_most_what_was_asked_for(columnar: bool) -> None:
    one = start(source(of=Ranges(columnar)))
    assert sorted(read(one)) == ALL
    assert {len(b) for b in one.out.batches} == {3, 2, 1}
    assert head(one).is_finished()
    assert one.out.watermarks == []


@pytest.mark.parametrize("polls", [0, 1, 7, 40, 10_000])
@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 3), (3, 1)])
def test_a_restore_goes_on_where_the_emitted_records_ended(polls: int, before: int, after: int) -> None:
    first = [start(source(), i, before) for i in range(before)]
    early = [v for one in first for v in read(one, polls)]
    snapshots = [one.snapshot() for one in first]
    assert {m for s in snapshots for m in split_mode(s).values()} == {StateRedistribution.UNION}
    for one in first:
        read(one, 3)  # lost
    other_listing = [Split("zz", {"from": 9000, "rows": 3}), *reversed(SPLITS)]
    second = [start(source(other_listing), i, after, restored_of(snapshots)) for i in range(after)]
    late = [v for one in second for v in read(one)]
    assert sorted(early + late) == ALL
    assert all(head(one).is_finished() for one in second)
    kept = sum(len(restored.elements * [0]) for one in second for restored in one.snapshot().operator)
    assert kept == len(SPLITS)


class Late(Ranges):
    """Says itself who reads a split: by the last digit of its id."""

    def owner_of(self, split: Split, parallelism: int) -> int:
        return int(split.split_id[-1]) % parallelism


def test_splits_are_dealt_by_place_or_by_the_sources_own_rule() -> None:
    states = [SplitState(s) for s in reversed(SPLITS)]
    dealt = [[s.split.split_id for s in own_splits(Ranges(False), states, i, 3)] for i in range(3)]
    assert dealt == [["s00", "s03", "s06"], ["s01", "s04"], ["s02", "s05"]]
    by_rule = [[s.split.split_id for s in own_splits(Late(False), states[:2], i, 3)] for i in range(3)]
    assert by_rule == [["s06"], [], ["s05"]], "whatever else was listed"


def test_a_subtask_without_splits_is_at_its_end_and_says_so_after_a_restore() -> None:
    one = start(source(SPLITS[:1]), 1, 2)
    assert head(one).is_finished()
    assert not head(one).poll_next(10)
    again = start(source(), 1, 2, restored_of([one.snapshot()]))
    assert head(again).is_finished()


def test_hooks_reach_the_reader() -> None:
    one = start(source())
    one.operator.notify_checkpoint_complete(4)
    one.operator.close()
    reader: Any = head(one)._reader
    assert (reader.completed, reader.closed) == ([4], 1)


def test_errors_of_a_reader_name_the_source() -> None:
    class Failing(Reader):
        def poll(self) -> Polled | None:
            raise ValueError("boom")

    class FailingSource(Ranges):
        def make_reader(self, context: ReaderContext) -> SourceReader:
            return Failing(True)

    with pytest.raises(UserFunctionError, match="'op': ValueError: boom"):
        head(start(source(of=FailingSource()))).poll_next(1)


def test_watermarks_inside_a_source_follow_the_slowest_open_split() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v)
    two = [Split("a", {"from": 1000, "rows": 6}), Split("b", {"from": 0, "rows": 20})]
    one = start(source(two, strategy, Ranges(False)))
    head(one).poll_next(5)
    assert one.out.watermarks == [], "the other one has not begun"
    for _ in range(2):
        head(one).poll_next(5)
        one.timers.advance_to(one.clock.ms + 200)
    assert one.out.stamps() == [1000, 1001, 1002, 1003, 1004, 1005, 0, 1, 2, 3, 4]
    assert one.out.watermarks == [3]
    restored = start(source(two, strategy, Ranges(False)), restored=restored_of([one.snapshot()]))
    head(restored).poll_next(5)
    restored.timers.advance_to(restored.clock.ms + 200)
    assert restored.out.watermarks == [8], "a split that is done holds nothing back"


def test_a_quiet_source_turns_idle_and_back() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_seconds(1))

    class Waiting(Reader):
        is_open = False

        def poll(self) -> Polled | None:
            return super().poll() if self.is_open else None

    reader = Waiting(True)

    class WaitingSource(Ranges):
        def make_reader(self, context: ReaderContext) -> SourceReader:
            return reader

    one = start(source(strategy=strategy, of=WaitingSource()))
    head(one).poll_next(5)
    one.timers.advance_to(900)
    assert one.out.idle == []
    one.timers.advance_to(1300)
    assert one.out.idle == [True]
    reader.is_open = True
    head(one).poll_next(5)
    assert one.out.idle == [True, False]
    one.timers.advance_to(5000)
    assert one.out.idle == [True, False], "it was not asked since: busy elsewhere, not quiet"
