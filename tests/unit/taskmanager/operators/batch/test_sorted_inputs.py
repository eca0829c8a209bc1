"""BATCH execution mode in an operator: sorted keys, timers at the end of a key, spilled runs, held inputs."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import Running, spec, start
from tests.unit.taskmanager.operators.keyed_kit import PAIR, first
from tests.unit.taskmanager.operators.rows.test_broadcast import RULES, Counting, Scale
from tests.unit.taskmanager.operators.rows.test_interval_join import Pairs
from tidegate.common.time import Time
from tidegate.common.typeinfo import Types
from tidegate.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from tidegate.functions.adapters import FinalReduce
from tidegate.functions.interfaces import (
    KeyedContext,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedTimerContext,
    ReduceFunction,
    RuntimeContext,
)
from tidegate.functions.state import ValueStateDescriptor
from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.errors import InvalidJob
from tidegate.model.program import KeySpec
from tidegate.records.batch import MIN_TIMESTAMP, ArrowBatch
from tidegate.records.record_codec import decode, encode
from tidegate.taskmanager.operators.batch.sorting import ExternalSorter
from tidegate.taskmanager.operators.operator import Ending

KEY = KeySpec(selector=first)
Pair = tuple[str, int]


def columns(
    running: Running, values: Sequence[Pair], stamps: Sequence[int | None] | None = None, side: int = 0
) -> None:
    times = None if stamps is None else pa.array(stamps, pa.int64())
    running.operator.process(ArrowBatch(encode(PAIR, list(values), "test"), times), side)


def end(running: Running) -> list[Any]:
    running.operator.on_watermark(END_OF_TIME)
    assert running.out.order == []
    while running.operator.ending() is Ending.IN_FLIGHT:
        assert running.operator.emit_some()
    running.operator.finish()
    assert running.out.watermarks == [END_OF_TIME]
    return running.out.values()


def batch(
    kind: Any, modes: Sequence[str] = ("KEYED",), configuration: dict[str, str] | None = None, **options: Any
) -> Running:
    made = spec(
        kind, input_types=(PAIR, PAIR), key=KEY, second_key=KEY, options={**options, "batch_inputs": list(modes)}
    )
    return start(made, configuration=configuration)


class Seen(KeyedProcessFunction):
    """Tells what it sees of a key, in order; a timer of each domain tells the count, and registers another."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedContext) -> Iterable[Any]:
        assert ctx.timer_service().current_watermark() == MIN_TIMESTAMP
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(1000 - value[1])
        ctx.timer_service().register_processing_time_timer(5)
        yield (value[0], value[1])

    def on_timer(self, timestamp: int, ctx: KeyedTimerContext) -> Iterable[Any]:
        assert ctx.timer_service().current_watermark() == END_OF_TIME
        ctx.timer_service().register_event_time_timer(timestamp + 1)
        ctx.timer_service().register_processing_time_timer(timestamp + 1)
        yield (ctx.time_domain().name, ctx.get_current_key(), timestamp, self.count.value())


def test_one_key_after_the_other_in_the_order_of_time_then_its_timers() -> None:
    running = batch("keyed_process", func=Seen())
    columns(running, [("b", 2), ("a", 1)], [20, 10])
    columns(running, [("b", 1), ("a", 3), ("a", 2)], [10, 30, 20])
    running.operator.on_watermark(15)
    assert end(running) == [
        ("a", 1), ("a", 2), ("a", 3),
        ("EVENT_TIME", "a", 997, 3), ("EVENT_TIME", "a", 998, 3), ("EVENT_TIME", "a", 999, 3),
        ("PROCESSING_TIME", "a", 5, 3),
        ("b", 1), ("b", 2),
        ("EVENT_TIME", "b", 998, 2), ("EVENT_TIME", "b", 999, 2),
        ("PROCESSING_TIME", "b", 5, 2),
    ]  # fmt: skip
    assert running.out.stamps()[:4] == [10, 20, 30, 997]


def test_without_timestamps_records_keep_their_order() -> None:
    running = batch("keyed_process", func=Seen())
    columns(running, [("a", 3), ("b", 9), ("a", 1), ("a", 2)])
    assert [value for value in end(running) if len(value) == 2] == [("a", 3), ("a", 1), ("a", 2), ("b", 9)]


def test_both_inputs_of_a_key_come_together_in_the_order_of_time() -> None:
    class Sides(KeyedCoProcessFunction):
        def process_element1(self, value: Any, ctx: KeyedContext) -> Iterable[Any]:
            yield ("left", *value)

        def process_element2(self, value: Any, ctx: KeyedContext) -> Iterable[Any]:
            yield ("right", *value)

    running = batch("keyed_co_process", ("KEYED", "KEYED"), func=Sides())
    columns(running, [("a", 1), ("b", 5), ("a", 3)], [1, 5, 3])
    columns(running, [("a", 2), ("a", 1)], [2, 1], side=1)
    assert end(running) == [("left", "a", 1), ("right", "a", 1), ("right", "a", 2), ("left", "a", 3), ("left", "b", 5)]


def test_a_window_is_never_late() -> None:
    running = batch(
        "window",
        assigner=TumblingEventTimeWindows.of(Time.milliseconds(10)),
        function=("reduce", lambda left, right: (left[0], left[1] + right[1])),
    )
    columns(running, [("a", 1), ("b", 1), ("a", 1)], [25, 5, 5])
    running.operator.on_watermark(100)
    columns(running, [("a", 1)], [3])
    assert end(running) == [("a", 2), ("a", 1), ("b", 1)]
    assert running.out.stamps() == [9, 29, 9]
    assert running.out.counts == {}


def test_a_reduce_gives_one_result_for_each_key_also_from_spilled_runs() -> None:
    class Sum(ReduceFunction):
        def reduce(self, value1: Any, value2: Any) -> Any:
            return (value1[0], value1[1] + value2[1])

    rng, expected = random.Random(7), dict[str, int]()
    running = batch(
        "keyed_process", configuration={"execution.sorted-inputs.memory": "1 kb"}, func=FinalReduce(Sum(), PAIR)
    )
    for _ in range(20):
        values = [(f"key-{rng.randrange(40)}", rng.randrange(100)) for _ in range(50)]
        for key, number in values:
            expected[key] = expected.get(key, 0) + number
        columns(running, values)
    assert running.operator._sorters[0].runs > 5  # type: ignore[attr-defined]
    assert sorted(end(running)) == sorted(expected.items())
    running.operator.close()


def test_the_broadcast_side_is_read_first() -> None:
    running = batch("broadcast_process", ("HELD", "DIRECT"), func=Scale(), states=[RULES])
    columns(running, [("b", 2), ("a", 3)], [20, 10])
    columns(running, [("a", 10), ("b", 100)], side=1)
    assert [value[:2] for value in end(running)] == [("b", 200), ("a", 30)]


def test_the_broadcast_side_is_read_first_beside_keys_too() -> None:
    running = batch("keyed_broadcast_process", ("KEYED", "DIRECT"), func=Counting(), states=[RULES])
    columns(running, [("b", 2), ("a", 3), ("b", 4)])
    columns(running, [("limit", 10)], side=1)
    counts = [value for value in end(running) if value[0] != "timer"]
    assert counts == [("a", 1), ("b", 1), ("b", 2)]


def test_there_are_no_snapshots() -> None:
    running = batch("keyed_process", func=Seen())
    with pytest.raises(InvalidJob, match="has no checkpoints or savepoints"):
        running.operator.freeze(1)


def test_runs_are_files_that_go() -> None:
    with tempfile.TemporaryDirectory() as directory:
        sorter = ExternalSorter(directory, 100, lambda data: decode(PAIR, data, "test"))
        for number in (3, 1, 2):
            sorter.add(encode(PAIR, [("k", number)] * 10, "test"), [b"%d" % number] * 10, None)
        assert len(list(Path(directory).iterdir())) == sorter.runs == 3
        found = [[row[5][1] for row in run] for run in sorter.sorted_runs()]
        assert found == [[3] * 10, [1] * 10, [2] * 10]
        sorter.close()
        assert not list(Path(directory).iterdir())


def test_sessions_are_of_one_key() -> None:
    running = batch(
        "window",
        assigner=EventTimeSessionWindows.with_gap(Time.milliseconds(10)),
        function=("reduce", lambda left, right: (left[0], left[1] + right[1])),
    )
    columns(running, [("a", 1), ("b", 1), ("a", 1)], [25, 5, 5])
    columns(running, [("a", 1), ("b", 1)], [15, 30])
    assert end(running) == [("a", 3), ("b", 1), ("b", 1)]
    assert running.out.stamps() == [34, 14, 39]


def test_buffers_of_an_interval_join_are_of_one_key() -> None:
    running = batch("interval_join", ("KEYED", "KEYED"), func=Pairs(), lower_ms=-5, upper_ms=5, late_tags=(None, None))
    columns(running, [("b", 1), ("a", 2)], [20, 10])
    columns(running, [("a", 3), ("b", 4), ("a", 5)], [12, 10, 30], side=1)
    assert [value[:2] for value in end(running)] == [(2, 3)]
