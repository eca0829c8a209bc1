"""Windows of counts and global ones, triggers and evictors, windows of everything (after Flink's ``WindowOperatorTest``,
``EvictingWindowOperatorTest``, ``ContinuousEventTimeTriggerTest``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import MemoryStore, Running, restored_of, start
from tests.unit.taskmanager.operators.keyed_kit import MeanAggregate, keyed
from tests.unit.taskmanager.operators.keyed_kit import backends as backends
from tidegate.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    DeltaEvictor,
    Evictor,
    GlobalWindow,
    GlobalWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SlidingProcessingTimeWindows,
    TimeEvictor,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from tidegate.functions.interfaces import ProcessWindowFunction
from tidegate.model.errors import UserFunctionError
from tidegate.model.program import OperatorSpec


class Values(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield key, [element[1] for element in elements]


def add_pairs(a: Any, b: Any) -> Any:
    return (a[0], a[1] + b[1])


def windowed(assigner: Any, function: tuple[Any, ...] = ("process", Values()), **options: Any) -> OperatorSpec:
    options.setdefault("trigger", None)
    return keyed("window", assigner=assigner, function=function, **options)


def feed(one: Running, *values: int, stamps: Iterable[int] | None = None) -> list[Any]:
    """Feeds records of one key. Returns what came out of that."""
    before = len(one.out.values())
    one.feed([("a", value) for value in values], None if stamps is None else list(stamps))
    return one.out.values()[before:]


class TestCounts:
    def test_windows_of_two_records_by_key_go_on_after_a_restore(self) -> None:
        spec = windowed(CountTumblingWindowAssigner.of(2))
        one = start(spec)
        one.feed([("a", 1), ("b", 2), ("a", 3), ("b", 4), ("a", 5)])
        assert one.out.values() == [("a", [1, 3]), ("b", [2, 4])]
        assert one.out.stamps() == [2**63 - 1] * 2
        store = MemoryStore()
        again = start(spec, restored=restored_of([one.snapshot(store=store)]))
        assert feed(again, 6, 7) == [("a", [5, 6])]
        tables = [pa.ipc.open_file(content).read_all() for content in store.contents]
        contents = next(t for t in tables if b"_window_contents" in t.schema.metadata[b"tidegate"])
        assert contents["window_id"].to_pylist() == [1]

    def test_a_full_window_leaves_only_the_number_of_records(self) -> None:
        one = start(windowed(CountTumblingWindowAssigner.of(2), ("reduce", add_pairs)))
        assert feed(one, 1, 2, 3, 4) == [("a", 3), ("a", 7)]
        assert [segment.state_name for segment in one.snapshot().keyed] == ["tumble-count-assigner"]

    def test_sliding_windows_of_counts(self) -> None:
        one = start(windowed(CountSlidingWindowAssigner.of(3, 2)))
        assert feed(one, *range(1, 9)) == [("a", [1, 2, 3]), ("a", [3, 4, 5]), ("a", [5, 6, 7])]
        sparse = start(windowed(CountSlidingWindowAssigner.of(2, 3)))
        assert feed(sparse, *range(1, 9)) == [("a", [1, 2]), ("a", [4, 5]), ("a", [7, 8])]


class AtEnd(Trigger[Any, GlobalWindow]):
    """Fires when event time ends."""

    def on_element(self, element: Any, timestamp: int, window: GlobalWindow, ctx: Any) -> TriggerResult:
        assert window is GlobalWindow.get()
        ctx.register_event_time_timer(window.max_timestamp())
        ctx.get_metric_group().counter("seen").inc()
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: GlobalWindow, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: GlobalWindow, ctx: Any) -> TriggerResult:
        assert window is GlobalWindow.get()
        return TriggerResult.FIRE_AND_PURGE

    def clear(self, window: GlobalWindow, ctx: Any) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class TestGlobalWindows:
    def test_without_a_trigger_nothing_ever_fires(self) -> None:
        one = start(windowed(GlobalWindows.create()))
        feed(one, 1, 2)
        one.operator.on_watermark(2**63 - 1)
        assert one.out.values() == []

    def test_state_of_a_global_window_is_state_of_the_key_and_is_restored(self) -> None:
        spec = windowed(GlobalWindows.create(), trigger=CountTrigger.of(2))
        one = start(spec)
        feed(one, 1)
        store = MemoryStore()
        again = start(spec, restored=restored_of([one.snapshot(store=store)]))
        assert feed(again, 2, 3, 4) == [("a", [1, 2]), ("a", [1, 2, 3, 4])]
        names = {name for content in store.contents for name in pa.ipc.open_file(content).read_all().schema.names}
        assert names == {"key_group", "key", "value"}

    def test_a_trigger_of_ones_own(self) -> None:
        spec = windowed(GlobalWindows.create(), ("reduce", add_pairs), trigger=AtEnd())
        one = start(spec)
        feed(one, 1, 2)
        again = start(spec, restored=restored_of([one.snapshot()]))
        again.operator.on_watermark(2**63 - 1)
        assert again.out.values() == [("a", 3)]
        assert again.snapshot().keyed == ()


def by_the_clock(interval_ms: int, is_purged: bool = False) -> Trigger[Any, Any]:
    trigger = ContinuousProcessingTimeTrigger.of(interval_ms)
    return PurgingTrigger.of(trigger) if is_purged else trigger


class TestContinuousTriggers:
    def test_fires_each_time_that_event_time_has_gone_on_by_the_interval(self) -> None:
        one = start(windowed(TumblingEventTimeWindows.of(10), trigger=ContinuousEventTimeTrigger.of(3)))
        feed(one, 1, stamps=[4])
        for watermark, fired in ((5, 0), (6, 1), (8, 1), (9, 2), (20, 2)):
            one.operator.on_watermark(watermark)
            assert len(one.out.values()) == fired, watermark
        assert one.snapshot().keyed == ()

    def test_a_late_record_fires_at_once(self) -> None:
        spec = windowed(
            TumblingEventTimeWindows.of(10), trigger=ContinuousEventTimeTrigger.of(3), allowed_lateness_ms=5
        )
        one = start(spec)
        one.operator.on_watermark(10)
        assert feed(one, 1, stamps=[4]) == [("a", [1])]

    def test_by_the_clock(self) -> None:
        one = start(windowed(TumblingProcessingTimeWindows.of(10), trigger=ContinuousProcessingTimeTrigger.of(4)))
        one.timers.advance_to(2)
        feed(one, 1)
        for now_ms, fired in ((3, 0), (4, 1), (8, 2), (9, 3), (30, 3)):
            one.timers.advance_to(now_ms)
            assert len(one.out.values()) == fired, now_ms
        assert one.snapshot().keyed == ()

    @pytest.mark.parametrize("is_purged", [False, True])
    def test_by_the_clock_a_window_of_the_past_fires_once_for_what_came(self, is_purged: bool) -> None:
        one = start(windowed(TumblingEventTimeWindows.of(10), trigger=by_the_clock(4, is_purged)))
        one.timers.advance_to(1_000_000)
        for values in ((1, 2), (3,), ()):
            feed(one, *values, stamps=[3] * len(values))
            one.timers.advance_to(1_000_000)
        assert one.out.values() == [("a", [1, 2]), ("a", [3] if is_purged else [1, 2, 3])]

    @pytest.mark.parametrize("is_purged", [False, True])
    def test_what_is_due_by_the_clock_fires_before_the_watermark_ends_its_window(self, is_purged: bool) -> None:
        """A batch of records and the watermark behind it may come before the subtask looks at the clock."""
        spec = windowed(TumblingEventTimeWindows.of(10), trigger=by_the_clock(4, is_purged), allowed_lateness_ms=5)
        one = start(spec)
        one.timers.advance_to(50)
        feed(one, 1, stamps=[3])
        one.operator.on_watermark(12)
        assert feed(one, 2, stamps=[4]) == []
        one.operator.on_watermark(20)
        one.timers.advance_to(60)
        assert one.out.values() == [("a", [1, 2])]
        assert one.snapshot().keyed == ()

    def test_what_is_not_due_by_the_clock_goes_with_the_watermark_as_in_flink(self) -> None:
        one = start(windowed(TumblingEventTimeWindows.of(10), trigger=by_the_clock(4)))
        feed(one, 1, stamps=[3])
        one.operator.on_watermark(9)
        one.timers.advance_to(60)
        assert one.out.values() == []

    @pytest.mark.parametrize(
        "assigner", [TumblingProcessingTimeWindows.of(10), SlidingProcessingTimeWindows.of(10, 10)]
    )
    def test_by_the_clock_a_record_of_the_last_millisecond_of_a_window_is_in_it(self, assigner: Any) -> None:
        one = start(windowed(assigner, trigger=by_the_clock(3)))
        one.timers.advance_to(9)
        feed(one, 1)
        one.timers.advance_to(10)
        assert one.out.values() == [("a", [1])]

    def test_a_global_window_that_is_purged_goes_on_firing(self) -> None:
        trigger = PurgingTrigger.of(ContinuousProcessingTimeTrigger.of(5))
        one = start(windowed(GlobalWindows.create(), trigger=trigger))
        feed(one, 1)
        one.timers.advance_to(5)
        one.timers.advance_to(12)  # nothing there: nothing comes out, but the next time is kept
        feed(one, 2)
        one.timers.advance_to(15)
        assert one.out.values() == [("a", [1]), ("a", [2])]


class TestProcessingTime:
    def test_sliding_windows_by_the_clock(self) -> None:
        one = start(windowed(SlidingProcessingTimeWindows.of(10, 5)))
        one.timers.advance_to(6)
        feed(one, 1)
        one.timers.advance_to(12)
        feed(one, 2)
        one.timers.advance_to(30)
        assert one.out.values() == [("a", [1]), ("a", [1, 2]), ("a", [2])]
        assert one.out.stamps() == [9, 14, 19]

    def test_event_time_windows_that_fire_by_the_clock(self) -> None:
        one = start(windowed(TumblingEventTimeWindows.of(10), trigger=ProcessingTimeTrigger.create()))
        feed(one, 1, stamps=[3])
        one.timers.advance_to(9)
        assert one.out.values() == [("a", [1])]
        one.operator.on_watermark(9)
        assert one.snapshot().keyed == ()


class Halves(Evictor):
    """Drops odd values before the function, and all after it; tells what it saw."""

    def evict_before(self, elements: list[Any], size: int, window: Any, evictor_context: Any) -> None:
        assert size == len(elements)
        assert isinstance(window, TimeWindow)
        evictor_context.get_metric_group().counter("evicted").inc(evictor_context.get_current_watermark())
        elements[:] = [e for e in elements if e.get_value()[1] % 2 == 0]

    def evict_after(self, elements: list[Any], size: int, window: Any, evictor_context: Any) -> None:
        assert evictor_context.get_current_processing_time() == 0
        elements.clear()


class TestEvictors:
    @pytest.mark.parametrize(
        ("function", "expected"),
        [
            (("process", Values()), [("a", [1, 2]), ("a", [3, 4]), ("a", [5, 6])]),
            (("reduce", add_pairs), [("a", 3), ("a", 7), ("a", 11)]),
            (("aggregate", MeanAggregate()), [1.5, 3.5, 5.5]),
        ],
    )
    def test_the_last_two_of_each_two(self, function: tuple[Any, ...], expected: list[Any]) -> None:
        spec = windowed(GlobalWindows.create(), function, trigger=CountTrigger.of(2), evictor=CountEvictor.of(2))
        one = start(spec)
        feed(one, 1, 2, 3)
        again = start(spec, restored=restored_of([one.snapshot()]))
        feed(again, 4, 5, 6)
        assert one.out.values() + again.out.values() == expected

    def test_after_the_function(self) -> None:
        spec = windowed(
            GlobalWindows.create(), trigger=CountTrigger.of(2), evictor=CountEvictor.of(1, do_evict_after=True)
        )
        assert feed(start(spec), 1, 2, 3, 4) == [("a", [1, 2]), ("a", [2, 3, 4])]

    def test_a_sliding_window_of_counts_as_in_java(self) -> None:
        """``countWindow(3, 2)`` of Flink's Java API."""
        spec = windowed(GlobalWindows.create(), trigger=CountTrigger.of(2), evictor=CountEvictor.of(3))
        assert feed(start(spec), 1, 2, 3, 4, 5, 6) == [("a", [1, 2]), ("a", [2, 3, 4]), ("a", [4, 5, 6])]

    def test_by_time_before_and_after(self) -> None:
        spec = windowed(GlobalWindows.create(), trigger=CountTrigger.of(3), evictor=TimeEvictor.of(10))
        assert feed(start(spec), 1, 2, 3, 4, 5, 6, stamps=[1, 20, 11, 5, 21, 30]) == [("a", [2, 3]), ("a", [5, 6])]
        spec = windowed(GlobalWindows.create(), trigger=CountTrigger.of(2), evictor=TimeEvictor.of(10, True))
        assert feed(start(spec), 1, 2, 3, 4, stamps=[1, 20, 21, 22]) == [("a", [1, 2]), ("a", [2, 3, 4])]
        assert feed(start(spec), 1, 2, 3, 4) == [("a", [1, 2]), ("a", [1, 2, 3, 4])]  # without times nothing goes

    def test_by_the_difference_to_the_last_one(self) -> None:
        evictor = DeltaEvictor.of(3, lambda record, last: last[1] - record[1])
        spec = windowed(GlobalWindows.create(), trigger=CountTrigger.of(2), evictor=evictor)
        assert feed(start(spec), 1, 2, 4, 7) == [("a", [1, 2]), ("a", [7])]

    def test_one_of_ones_own(self) -> None:
        spec = windowed(TumblingEventTimeWindows.of(10), evictor=Halves(), allowed_lateness_ms=10)
        one = start(spec)
        feed(one, 1, 2, 3, 4, stamps=[1, 2, 3, 4])
        one.operator.on_watermark(9)
        assert one.out.values() == [("a", [2, 4])]
        assert feed(one, 6, stamps=[1]) == [("a", [6])]
        one.operator.on_watermark(19)
        assert one.snapshot().keyed == ()

    def test_nothing_left_calls_process_but_not_reduce(self) -> None:
        options: dict[str, Any] = {"trigger": CountTrigger.of(1), "evictor": CountEvictor.of(0)}
        assert feed(start(windowed(GlobalWindows.create(), **options)), 1) == [("a", [])]
        assert feed(start(windowed(GlobalWindows.create(), ("reduce", add_pairs), **options)), 1) == []


class Nowhere(WindowAssigner[Any, TimeWindow]):
    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        assert context.get_runtime_context().get_index_of_this_subtask() == 0
        return []

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, Any]:
        return CountTrigger.of(1)

    def is_event_time(self) -> bool:
        return True


def test_a_record_in_no_window_is_late_only_by_its_own_time() -> None:
    one = start(windowed(Nowhere(), late_tag="late"))
    one.operator.on_watermark(5)
    one.feed([("a", 1), ("a", 2)], [5, 6])
    assert [batch.values for batch in one.out.sides["late"]] == [[("a", 1)]]  # type: ignore[union-attr]


def test_an_error_in_a_trigger_is_the_users() -> None:
    class Broken(AtEnd):
        def on_element(self, element: Any, timestamp: int, window: GlobalWindow, ctx: Any) -> TriggerResult:
            raise ValueError("no")

    with pytest.raises(UserFunctionError, match="operator 'op': ValueError: no"):
        feed(start(windowed(GlobalWindows.create(), trigger=Broken())), 1)
