"""Whole programs with windows, in this process: the cases of PyFlink's ``test_window.py``, with what Flink answers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tidegate.common import Time, Types, WatermarkStrategy
from tidegate.common.watermark_strategy import WatermarkGenerator, WatermarkOutput
from tidegate.datastream import (
    AggregateFunction,
    DataStream,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TimeWindow,
)
from tidegate.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    TumblingEventTimeWindows,
)

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
LETTERS = [("a", 1), ("a", 2), ("b", 3), ("a", 6), ("b", 8), ("b", 9), ("a", 15)]


class PerElement(WatermarkGenerator):
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(event_timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Every element has its own."""


class Counted(ProcessWindowFunction[Any, Any, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Any]
    ) -> Iterable[Any]:
        return [(key, context.window().start, context.window().end, len(list(elements)))]


class Everything(ProcessAllWindowFunction[Any, Any, TimeWindow]):
    def process(self, context: ProcessAllWindowFunction.Context[TimeWindow], elements: Iterable[Any]) -> Iterable[Any]:
        yield context.window().start, context.window().end, list(elements)


class Parity(AggregateFunction):
    """The last letter, and how many even numbers there are more than odd ones."""

    def create_accumulator(self) -> Any:
        return "", {0: 0, 1: 0}

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator[1][value[1] % 2] += 1
        return value[0], accumulator[1]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0], accumulator[1][0] - accumulator[1][1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0], {parity: acc_a[1][parity] + acc_b[1][parity] for parity in (0, 1)}


def timed(values: list[Any], strategy: WatermarkStrategy | None = None) -> DataStream:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    strategy = strategy or WatermarkStrategy.for_monotonous_timestamps()
    return env.from_collection(values, PAIR).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(lambda value, _: value[1])
    )


def results(directory: Path, *streams: DataStream) -> list[list[Any]]:
    """What each stream of one program gives, sorted."""
    worlds = [f"windows-{directory.name}-{number}" for number in range(len(streams))]
    for stream, world in zip(streams, worlds, strict=True):
        stream.map(repr, Types.STRING()).sink_to(CollectingSink(world))
    job = InProcessJob(streams[0].get_execution_environment().build(), directory)
    job.start()
    job.finish()
    return [sorted((ast.literal_eval(text) for (text,) in committed(world)), key=repr) for world in worlds]


def add(a: Any, b: Any) -> Any:
    return b[0], a[1] + b[1]


def sessions_of(stream: DataStream) -> Any:
    return stream.window_all(EventTimeSessionWindows.with_gap(Time.milliseconds(2)))


SESSIONS_OF_ALL: dict[str, tuple[Callable[[DataStream], DataStream], list[Any]]] = {
    "reduce": (lambda s: sessions_of(s).reduce(add), [("a", 15), ("b", 23), ("b", 6)]),
    "reduce, process": (
        lambda s: sessions_of(s).reduce(add, Everything()),
        [(1, 5, [("b", 6)]), (15, 17, [("a", 15)]), (6, 11, [("b", 23)])],
    ),
    "aggregate": (lambda s: sessions_of(s).aggregate(Parity()), [("a", -1), ("b", -1), ("b", 1)]),
    "aggregate, process": (
        lambda s: sessions_of(s).aggregate(Parity(), Everything()),
        [(1, 5, [("b", -1)]), (15, 17, [("a", -1)]), (6, 11, [("b", 1)])],
    ),
}


@pytest.mark.parametrize("case", SESSIONS_OF_ALL)
def test_sessions_of_all_records(case: str, tmp_path: Path) -> None:
    make, expected = SESSIONS_OF_ALL[case]
    assert results(tmp_path, make(timed(LETTERS))) == [expected]


def test_sessions_and_counts_by_key(tmp_path: Path) -> None:
    stream = timed(LETTERS)
    keyed = stream.key_by(lambda value: value[0], Types.STRING())
    sessions = keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(2)))
    purged = keyed.window(EventTimeSessionWindows.with_gap(2)).trigger(PurgingTrigger.of(EventTimeTrigger.create()))
    pairs = keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2)))
    assert results(
        tmp_path, sessions.reduce(add), purged.process(Counted()), pairs.reduce(add), keyed.count_window(3).reduce(add)
    ) == [
        [("a", 15), ("a", 3), ("a", 6), ("b", 17), ("b", 3)],
        [("a", 1, 4, 2), ("a", 15, 17, 1), ("a", 6, 8, 1), ("b", 3, 5, 1), ("b", 8, 11, 2)],
        [("a", 21), ("a", 3), ("b", 11)],
        [("a", 9), ("b", 20)],
    ]


def test_late_records_go_aside_where_each_record_moves_the_watermark(tmp_path: Path) -> None:
    tag = OutputTag("late", PAIR)
    records = [("a", 0), ("a", 8), ("a", 4), ("a", 6)]
    windowed = (
        timed(records, WatermarkStrategy.for_generator(PerElement))
        .key_by(lambda value: value[0], Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(5)))
        .allowed_lateness(0)
        .side_output_late_data(tag)
        .process(Counted())
    )
    main, late = results(tmp_path, windowed, windowed.get_side_output(tag))
    assert main == [("a", 0, 5, 1), ("a", 5, 10, 2)]
    assert late == [("a", 4)]


def test_a_session_that_a_late_record_joins(tmp_path: Path) -> None:
    stream = timed([("hi", 0), ("hi", 8), ("hi", 4)]).key_by(lambda value: value[0], Types.STRING())
    merged = stream.window(EventTimeSessionWindows.with_gap(Time.milliseconds(5))).process(Counted())
    assert results(tmp_path, merged) == [[("hi", 0, 13, 3)]]
