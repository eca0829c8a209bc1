"""Windows that merge: sessions with a fixed and a dynamic gap, their triggers, lateness and state (after Flink's
``WindowOperatorTest``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import MemoryStore, restored_of, start, values_of
from tests.unit.taskmanager.operators.keyed_kit import MeanAggregate, keyed
from tests.unit.taskmanager.operators.keyed_kit import backends as backends
from tidegate.common.typeinfo import Types
from tidegate.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    MergingWindowAssigner,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    TimeWindow,
    Trigger,
    TriggerResult,
)
from tidegate.functions.interfaces import AggregateFunction, ProcessWindowFunction
from tidegate.functions.state import ValueStateDescriptor
from tidegate.model.errors import InvalidJob, TidegateError
from tidegate.model.program import OperatorSpec


class Told(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        window = context.window()
        yield key, window.start, window.end, [e[1] if isinstance(e, tuple) else e for e in elements]


class ByValue(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return int(element[1])


def add_pairs(a: Any, b: Any) -> Any:
    return (a[0], a[1] + b[1])


def sessions(function: tuple[Any, ...] = ("process", Told()), assigner: Any = None, **options: Any) -> OperatorSpec:
    options.setdefault("trigger", None)
    return keyed("window", assigner=assigner or EventTimeSessionWindows.with_gap(3), function=function, **options)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (("reduce", add_pairs), [("b", 9), ("a", 6), ("a", 8)]),
        (("aggregate", MeanAggregate()), [9.0, 2.0, 8.0]),
        (("process", Told()), [("b", 0, 3, [9]), ("a", 0, 7, [1, 3, 2]), ("a", 9, 12, [8])]),
        (("reduce", add_pairs, Told()), [("b", 0, 3, [9]), ("a", 0, 7, [6]), ("a", 9, 12, [8])]),
    ],
)
def test_sessions_merge_also_after_a_restore(function: tuple[Any, ...], expected: list[Any]) -> None:
    """Two sessions of one key become one by a record between them that comes after the restore."""
    one = start(sessions(function))
    one.feed([("a", 1), ("a", 2), ("b", 9), ("a", 8)], [0, 4, 0, 9])
    store = MemoryStore()
    again = start(sessions(function), restored=restored_of([one.snapshot(store=store)]))
    again.feed([("a", 3)], [2])
    again.operator.on_watermark(1)
    assert again.out.values() == []
    again.operator.on_watermark(11)
    if function == ("process", Told()) or function[-1].__class__ is Told:
        assert [(*told[:3], sorted(told[3])) for told in again.out.values()] == [
            (*told[:3], sorted(told[3])) for told in expected
        ]
    else:
        assert again.out.values() == expected
    assert again.out.stamps() == [2, 6, 11]
    assert again.snapshot().keyed == ()
    tables = [pa.ipc.open_file(content).read_all() for content in store.contents]
    windows = next(t for t in tables if b"_merging_windows" in t.schema.metadata[b"tidegate"])
    bounds = {(w["window_start"], w["window_end"]) for value in windows["value"].to_pylist() for w in value}
    assert bounds == {(0, 3), (4, 7), (9, 12)}


def test_windows_that_touch_are_one_and_those_with_a_gap_between_are_not() -> None:
    one = start(sessions())
    one.feed([("a", 1), ("a", 2), ("a", 3)], [0, 3, 7])
    one.operator.on_watermark(100)
    assert one.out.values() == [("a", 0, 6, [1, 2]), ("a", 7, 10, [3])]


def test_a_dynamic_gap_is_that_of_each_record() -> None:
    one = start(sessions(assigner=EventTimeSessionWindows.with_dynamic_gap(ByValue())))
    one.feed([("a", 5), ("a", 1), ("a", 20), ("a", 2)], [0, 2, 5, 21])
    one.operator.on_watermark(100)
    assert one.out.values() == [("a", 0, 25, [5, 1, 20, 2])]
    with pytest.raises(InvalidJob, match="the gap must be positive, but ByValue gave 0 ms"):
        one.feed([("a", 0)], [101])


def test_a_record_within_a_session_changes_no_timer() -> None:
    one = start(sessions(assigner=EventTimeSessionWindows.with_dynamic_gap(ByValue())))
    one.feed([("a", 9), ("a", 2), ("a", 9)], [0, 3, 0])
    one.operator.on_watermark(8)
    assert one.out.values() == [("a", 0, 9, [9, 2, 9])]


def test_late_records_join_a_session_while_it_is_kept_and_go_aside_after_that() -> None:
    one = start(sessions(allowed_lateness_ms=10, late_tag="late"))
    one.feed([("a", 1)], [0])
    one.operator.on_watermark(5)
    one.feed([("a", 2)], [2])  # merges into the session that has fired; its end is over, so it fires at once
    one.operator.on_watermark(13)
    one.feed([("a", 3)], [0])
    one.operator.on_watermark(14)
    one.feed([("a", 4)], [1])
    assert one.out.values() == [("a", 0, 3, [1]), ("a", 0, 5, [1, 2]), ("a", 0, 5, [1, 2, 3])]
    assert values_of(one.out.sides["late"]) == [("a", 4)]
    assert one.snapshot().keyed == ()


def test_a_late_record_may_join_two_sessions() -> None:
    one = start(sessions(("reduce", add_pairs), allowed_lateness_ms=100))
    one.feed([("a", 1), ("a", 2)], [0, 5])
    one.operator.on_watermark(20)
    one.feed([("a", 4)], [3])
    assert one.out.values() == [("a", 1), ("a", 2), ("a", 7)]
    one.operator.on_watermark(107)
    assert one.snapshot().keyed == ()


def test_sessions_by_the_clock() -> None:
    one = start(sessions(assigner=ProcessingTimeSessionWindows.with_gap(3)))
    for at_ms, value in ((3, 1), (4, 2), (20, 3)):
        one.timers.advance_to(at_ms)
        one.feed([("a", value)])
    assert one.out.values() == [("a", 3, 7, [1, 2])]
    one.timers.advance_to(22)
    assert one.out.values()[1:] == [("a", 20, 23, [3])]
    assert one.snapshot().keyed == ()
    two = start(sessions(assigner=ProcessingTimeSessionWindows.with_dynamic_gap(ByValue())))
    two.feed([("a", 5), ("a", 7)])
    two.timers.advance_to(6)
    assert two.out.values() == [("a", 0, 7, [5, 7])]


def test_counts_of_a_trigger_add_up_when_windows_merge() -> None:
    one = start(sessions(trigger=CountTrigger.of(4)))
    one.feed([("a", 1), ("a", 2), ("a", 3)], [0, 5, 6])
    one.feed([("a", 4)], [3])
    assert one.out.values() == [("a", 0, 9, [1, 2, 3, 4])]
    one.operator.on_watermark(100)  # it fires by counts only, and all is cleared at its end
    assert len(one.out.values()) == 1
    assert one.snapshot().keyed == ()


def test_a_purging_trigger_empties_the_session_which_goes_on() -> None:
    one = start(sessions(trigger=PurgingTrigger.of(CountTrigger.of(2))))
    one.feed([("a", 1), ("a", 2), ("a", 3), ("a", 4), ("a", 5)], [0, 1, 3, 5, 6])
    assert one.out.values() == [("a", 0, 4, [1, 2]), ("a", 0, 8, [3, 4])]
    one.operator.on_watermark(100)
    assert one.snapshot().keyed == ()


@pytest.mark.parametrize("lateness_ms", [0, 5])
def test_a_continuous_trigger_goes_on_with_the_merged_session(lateness_ms: int) -> None:
    one = start(sessions(trigger=ContinuousEventTimeTrigger.of(2), allowed_lateness_ms=lateness_ms))
    one.feed([("a", 1), ("a", 2)], [1, 3])
    one.operator.on_watermark(2)
    one.operator.on_watermark(4)
    one.operator.on_watermark(5)
    assert one.out.values() == [("a", 1, 6, [1, 2])] * 3
    one.operator.on_watermark(100)
    assert len(one.out.values()) == 3
    assert one.snapshot().keyed == ()


def test_a_continuous_trigger_by_the_clock_merges() -> None:
    trigger = ContinuousProcessingTimeTrigger.of(5)
    one = start(sessions(assigner=ProcessingTimeSessionWindows.with_gap(8), trigger=trigger))
    one.feed([("a", 1)])
    one.timers.advance_to(4)
    one.feed([("a", 2)])
    one.timers.advance_to(5)
    assert one.out.values() == [("a", 0, 12, [1, 2])]
    one.timers.advance_to(11)
    assert one.out.values() == [("a", 0, 12, [1, 2])] * 3
    assert one.snapshot().keyed == ()


def test_an_evictor_works_on_sessions() -> None:
    one = start(sessions(evictor=CountEvictor.of(2)))
    one.feed([("a", 1), ("a", 2), ("a", 3)], [0, 4, 2])
    one.operator.on_watermark(100)
    assert one.out.values() == [("a", 0, 7, [2, 3])] or one.out.values() == [("a", 0, 7, [3, 2])]
    assert one.snapshot().keyed == ()


class KeepsState(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        total = context.global_state().get_state(ValueStateDescriptor("total", Types.LONG()))
        total.update((total.value() or 0) + len(list(elements)))
        yield total.value()
        context.window_state()


def test_state_of_a_window_that_merges_is_refused() -> None:
    one = start(sessions(("process", KeepsState())))
    one.feed([("a", 1)], [0])
    with pytest.raises(InvalidJob, match="not available in windows that merge"):
        one.operator.on_watermark(100)


class Alone(Trigger[Any, TimeWindow]):
    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: TimeWindow, ctx: Any) -> None:
        pass


class MergesValueState(EventTimeTrigger[Any]):
    def on_merge(self, window: TimeWindow, ctx: Any) -> None:
        ctx.merge_partitioned_state(ValueStateDescriptor("seen", Types.LONG()))


class SaysItMerges(Alone):
    def can_merge(self) -> bool:
        return True


class NoMerge(MeanAggregate, AggregateFunction):
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"trigger": Alone()}, r"Alone cannot merge"),
        (
            {"trigger": SaysItMerges()},
            r"SaysItMerges returns True from can_merge\(\), but does not define on_merge\(\)",
        ),
        ({"trigger": MergesValueState()}, r"state 'seen' of a trigger cannot be merged"),
        ({"function": ("aggregate", NoMerge())}, r"merge returned None"),
    ],
)
def test_what_cannot_merge_is_told(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidJob, match=text):
        start(sessions(**options)).feed([("a", 1), ("a", 2), ("a", 3)], [0, 4, 2])


class Pairs(MergingWindowAssigner[Any, Any]):
    """Windows that are no times: of letters, which all merge."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[Any]:
        return [Letter("abc"[element[1]])]

    def merge_windows(self, windows: Iterable[Any], callback: Any) -> None:
        known = list(windows)
        if len(known) > 1:
            callback.merge(known, Letter("".join(sorted("".join(w.text for w in known)))))

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, Any]:
        return CountTrigger.of(3)

    def is_event_time(self) -> bool:
        return False


class Letter:
    def __init__(self, text: str) -> None:
        self.text = text

    def max_timestamp(self) -> int:
        return 2**63 - 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Letter) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


def test_windows_of_another_kind_merge_and_are_restored() -> None:
    spec = sessions(("reduce", add_pairs), Pairs())
    one = start(spec)
    one.feed([("k", 2), ("k", 0)])
    again = start(spec, restored=restored_of([one.snapshot()]))
    again.feed([("k", 1)])
    assert again.out.values() == [("k", 3)]
    assert again.out.stamps() == [2**63 - 1]


class Backwards(EventTimeSessionWindows[Any]):
    """Merging makes windows end before they did."""

    def merge_windows(self, windows: Iterable[TimeWindow], callback: Any) -> None:
        known = list(windows)
        if len(known) > 1:
            callback.merge(known, TimeWindow(0, 1))


def test_merging_must_not_end_in_the_past() -> None:
    one = start(sessions(assigner=Backwards(10)))
    one.operator.on_watermark(5)
    with pytest.raises(TidegateError, match="merging must not make a window end earlier"):
        one.feed([("a", 1), ("a", 2)], [6, 9])
