"""Window assigners and record windows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.unit.tidegate.datastream.options_kit import given
from tidegate.common import Time, Types
from tidegate.datastream import (
    AggregateFunction,
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from tidegate.datastream.data_stream import WindowedStream
from tidegate.datastream.window import (
    EventTimeTrigger,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tidegate.functions.base import RuntimeContext
from tidegate.model.errors import InvalidJob


class At:
    """A clock for assigners."""

    def get_current_processing_time(self) -> int:
        return 12_345

    def get_runtime_context(self) -> RuntimeContext:
        raise AssertionError("these assigners ask for none")


@pytest.mark.parametrize(
    ("timestamp", "offset", "start"), [(0, 0, 0), (999, 0, 0), (1000, 0, 1000), (-1, 0, -1000), (250, 300, -700)]
)
def test_tumbling_windows_also_before_the_epoch(timestamp: int, offset: int, start: int) -> None:
    windows = TumblingEventTimeWindows.of(Time.seconds(1), Time.milliseconds(offset))
    assert windows.assign_windows(None, timestamp, At()) == [TimeWindow(start, start + 1000)]


def test_sliding_windows_hold_every_record_size_by_slide_times() -> None:
    windows = SlidingEventTimeWindows.of(Time.seconds(3), Time.seconds(1)).assign_windows(None, 3500, At())
    assert windows == [TimeWindow(3000, 6000), TimeWindow(2000, 5000), TimeWindow(1000, 4000)]


def test_processing_time_windows_look_at_the_clock() -> None:
    assert TumblingProcessingTimeWindows.of(Time.seconds(10)).assign_windows(None, 5, At()) == [
        TimeWindow(10_000, 20_000)
    ]


def test_a_record_without_timestamp_is_refused_with_what_to_do() -> None:
    with pytest.raises(InvalidJob, match="give the stream a WatermarkStrategy"):
        TumblingEventTimeWindows.of(Time.seconds(1)).assign_windows(None, -(2**63), At())


@pytest.mark.parametrize(("size", "offset"), [(0, 0), (-5, 0), (1000, 1000)])
def test_impossible_windows(size: int, offset: int) -> None:
    with pytest.raises(InvalidJob, match="TumblingEventTimeWindows"):
        TumblingEventTimeWindows.of(size, offset)


class Apply(WindowFunction[Any, Any, Any, TimeWindow]):
    def apply(self, key: Any, window: TimeWindow, inputs: Iterable[Any]) -> Iterable[Any]:
        return [(key, window.start, len(list(inputs)))]


class Process(ProcessWindowFunction[Any, Any, Any, TimeWindow]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        return elements


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class TestWindowedStream:
    def windowed(self) -> tuple[StreamExecutionEnvironment, WindowedStream]:
        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        keyed = env.from_collection([1, 2], Types.LONG()).key_by(lambda x: x % 2)
        return env, keyed.window(TumblingEventTimeWindows.of(Time.seconds(1)))

    def options(self, env: StreamExecutionEnvironment) -> dict[str, Any]:
        return given(list(env.build().programs.values())[1].operators[0])

    def test_all_settings_reach_the_operator(self) -> None:
        env, windowed = self.windowed()
        trigger, tag = EventTimeTrigger.create(), OutputTag("late", Types.LONG())
        windowed.trigger(trigger).allowed_lateness(500).side_output_late_data(tag)
        reduced = windowed.reduce(max)
        assert reduced.get_type() == Types.LONG()
        assert reduced.get_name() == "TumblingEventTimeWindows"
        reduced.get_side_output(tag).print()
        options = self.options(env)
        assert options["trigger"] is trigger
        assert (options["allowed_lateness_ms"], options["late_tag"]) == (500, "late")
        assert options["function"] == ("reduce", max)

    def test_reduce_with_a_window_function(self) -> None:
        env, windowed = self.windowed()
        output = Types.TUPLE([Types.LONG()] * 3)
        assert windowed.reduce(max, Apply(), output).get_type() == output
        kind, _, adapted = self.options(env)["function"]
        assert kind == "reduce"

        class Context:
            def window(self) -> TimeWindow:
                return TimeWindow(0, 1000)

        assert adapted.process("k", Context(), [1, 2]) == [("k", 0, 2)]

    def test_aggregate_takes_types(self) -> None:
        env, windowed = self.windowed()
        accumulator = Types.TUPLE([Types.LONG(), Types.LONG()])
        found = windowed.aggregate(Mean(), accumulator_type=accumulator, output_type=Types.DOUBLE())
        assert found.get_type() == Types.DOUBLE()
        options = self.options(env)
        assert options["function"][0] == "aggregate"
        assert options["accumulator_type"] == accumulator

    def test_process_and_apply(self) -> None:
        env, windowed = self.windowed()
        windowed.process(Process())
        windowed.apply(Apply())
        heads = [program.operators[0] for program in env.build().programs.values()][1:]
        assert [given(head)["function"][0] for head in heads] == ["process", "process"]

    def test_wrong_functions_are_named(self) -> None:
        _, windowed = self.windowed()
        with pytest.raises(InvalidJob, match=r"aggregate needs an AggregateFunction.*use agg"):
            windowed.aggregate("sum")  # type: ignore[arg-type]
        with pytest.raises(InvalidJob, match="process needs a ProcessWindowFunction"):
            windowed.process(Apply())  # type: ignore[arg-type]
        with pytest.raises(InvalidJob, match="window_function must be"):
            windowed.reduce(max, 5)
