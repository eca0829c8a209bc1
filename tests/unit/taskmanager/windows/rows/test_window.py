"""Windows of record functions: firing, lateness, state of windows, and restores."""

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
    CountTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tidegate.functions.interfaces import ProcessWindowFunction
from tidegate.functions.state import ValueStateDescriptor
from tidegate.model.errors import InvalidJob
from tidegate.model.program import OperatorSpec


class Summed(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        fired = context.window_state().get_state(ValueStateDescriptor("fired", Types.LONG()))
        total = context.global_state().get_state(ValueStateDescriptor("total", Types.LONG()))
        fired.update((fired.value() or 0) + 1)
        total.update((total.value() or 0) + 1)
        values = [e[1] if isinstance(e, tuple) else e for e in elements]
        yield (key, context.window().start, values, fired.value(), total.value())

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("fired", Types.LONG())).clear()


def add_pairs(a: Any, b: Any) -> Any:
    return (a[0], a[1] + b[1])


def window(function: tuple[Any, ...], assigner: Any = None, **options: Any) -> OperatorSpec:
    assigner = assigner or TumblingEventTimeWindows.of(10)
    return keyed("window", assigner=assigner, trigger=None, function=function, **options)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (("reduce", add_pairs), [("a", 3), ("b", 4), ("a", 5)]),
        (("aggregate", MeanAggregate()), [1.5, 4.0, 5.0]),
        (
            ("process", Summed()),
            [("a", 0, [1, 2], 1, 1), ("b", 0, [4], 1, 1), ("a", 10, [5], 1, 2)],
        ),
        (
            ("aggregate", MeanAggregate(), Summed()),
            [("a", 0, [1.5], 1, 1), ("b", 0, [4.0], 1, 1), ("a", 10, [5.0], 1, 2)],
        ),
    ],
)
def test_tumbling_windows(function: tuple[Any, ...], expected: list[Any]) -> None:
    one = start(window(function))
    one.feed([("a", 1), ("a", 2), ("b", 4), ("a", 5)], [0, 9, 3, 12])
    one.operator.on_watermark(8)
    assert one.out.batches == []
    again = start(window(function), restored=restored_of([one.snapshot()]))
    again.operator.on_watermark(9)
    again.operator.on_watermark(19)
    got = again.out.values()  # timers of one time fire in no particular order of keys
    assert sorted(got[:2], key=repr) + got[2:] == sorted(expected[:2], key=repr) + expected[2:]
    assert again.out.stamps() == [9, 9, 19]
    assert again.snapshot().keyed == () if len(function) == 2 and function[0] != "process" else True


def test_late_records_fire_again_within_the_allowed_lateness_then_go_aside() -> None:
    one = start(window(("reduce", add_pairs), allowed_lateness_ms=5, late_tag="late"))
    one.feed([("a", 1)], [3])
    one.operator.on_watermark(9)
    one.feed([("a", 2)], [4])
    one.operator.on_watermark(14)
    one.feed([("a", 4), ("a", 8)], [5, 11])
    one.operator.on_watermark(50)
    assert one.out.values() == [("a", 1), ("a", 3), ("a", 8)]
    assert values_of(one.out.sides["late"]) == [("a", 4)]
    dropped = start(window(("reduce", add_pairs)))
    dropped.operator.on_watermark(9)
    dropped.feed([("a", 4), ("a", 8)], [5, 11])
    assert dropped.out.counts == {"numLateRecordsDropped": 1}


def test_restored_windows_end_by_the_trigger_of_the_job_whatever_the_other_had_registered() -> None:
    """A late timer only: as after a trigger by count, or a longer lateness."""
    counting = keyed(
        "window",
        assigner=TumblingEventTimeWindows.of(10),
        trigger=CountTrigger.of(5),
        function=("reduce", add_pairs),
        allowed_lateness_ms=20,
    )
    one = start(counting)
    one.feed([("a", 1)], [3])
    again = start(window(("reduce", add_pairs)), restored=restored_of([one.snapshot()]))
    again.feed([("a", 2), ("b", 4), ("b", 8), ("a", 16)], [4, 5, 6, 44])
    again.operator.on_watermark(9)
    assert sorted(again.out.values()) == [("a", 3), ("b", 12)]
    again.operator.on_watermark(49)
    assert again.out.values()[2:] == [("a", 16)]


def test_sliding_and_processing_time_windows() -> None:
    one = start(window(("reduce", add_pairs), SlidingEventTimeWindows.of(10, 5)))
    one.feed([("a", 1), ("a", 2)], [4, 7])
    one.operator.on_watermark(100)
    assert one.out.values() == [("a", 1), ("a", 3), ("a", 2)]
    two = start(window(("reduce", add_pairs), TumblingProcessingTimeWindows.of(10)))
    two.clock.ms = 3
    two.feed([("a", 1), ("a", 2)])
    two.timers.advance_to(9)
    assert two.out.values() == [("a", 3)]
    assert two.snapshot().keyed == ()


def test_windows_without_event_time_are_told() -> None:
    with pytest.raises(InvalidJob, match="WatermarkStrategy"):
        start(window(("reduce", add_pairs))).feed([("a", 1)])


def test_window_state_is_typed_and_readable() -> None:
    one = start(window(("reduce", add_pairs)))
    one.feed([("a", 1), ("b", 2)], [1, 12])
    store = MemoryStore()
    one.snapshot(store=store)
    tables = [pa.ipc.open_file(content).read_all() for content in store.contents]
    contents = next(t for t in tables if "value" in t.schema.names)
    assert sorted(zip(contents["window_start"].to_pylist(), contents["value"].to_pylist(), strict=True)) == [
        (0, {"f0": "a", "f1": 1}),
        (10, {"f0": "b", "f1": 2}),
    ]
    assert contents.schema.field("key").metadata == {b"tidegate.pickled": b"1"}
    assert b'"state": "_window_contents"' in contents.schema.metadata[b"tidegate"]
