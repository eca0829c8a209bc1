"""The operator harness that users get: what it shows is what the runtime's operators do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pytest

from tidegate.common import Time, Types
from tidegate.common.accumulators import IntCounter
from tidegate.datastream import (
    AsyncDataStream,
    AsyncFunction,
    DataStream,
    EventListener,
    OutputTag,
    ProcessFunction,
    TaskEventListener,
    register_user_event,
)
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.functions.interfaces import CoMapFunction, KeyedProcessFunction, MapFunction, RuntimeContext
from tidegate.functions.state import ValueStateDescriptor
from tidegate.model.errors import InvalidJob, Misuse
from tidegate.taskmanager.harness.operators import OperatorHarness

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
LATE = OutputTag("late", PAIR)


class Sum(KeyedProcessFunction):
    """Emits a key's sum when event time is 10 ms behind its last record; negative amounts go aside."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        if value[1] < 0:
            yield LATE, value
            return
        self.total.update(value[1] + (self.total.value() or 0))
        ctx.timer_service().register_event_time_timer((ctx.timestamp() or 0) + 10)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), self.total.value()


def sums(stream: DataStream) -> DataStream:
    return stream.key_by(itemgetter(0), Types.STRING()).process(Sum(), PAIR).uid("sums")


def test_timers_fire_when_event_time_passes_them() -> None:
    with OperatorHarness(sums, PAIR) as harness:
        harness.push(("a", 1), timestamp=100)
        harness.push_all([("a", 2), ("b", 5)], [101, 102])
        assert harness.take() == []
        harness.push_watermark(111)
        assert harness.take() == [("a", 3), ("a", 3)]
        harness.push_watermark(200)
        assert harness.take() == [("b", 5)]
        assert harness.output == [("a", 3), ("a", 3), ("b", 5)]
        assert harness.watermarks == [111, 200]


def test_side_outputs_are_kept() -> None:
    with OperatorHarness(sums, PAIR) as harness:
        harness.push(("a", -1), timestamp=1)
        assert harness.side_output(LATE) == [("a", -1)]
        assert harness.output == []


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_snapshot_is_restored_by_the_same_uid_behind_other_operators(backend: str) -> None:
    configuration = {"state.backend.type": backend}
    with OperatorHarness(sums, PAIR, configuration=configuration) as first:
        first.push(("a", 1), timestamp=100)
        snapshot = first.snapshot()
        first.push(("a", 100), timestamp=100)
    changed = OperatorHarness(
        lambda s: sums(s.map(lambda pair: (pair[0], pair[1] * 10), PAIR)),
        PAIR,
        restore=snapshot,
        configuration=configuration,
    )
    with changed as second:
        second.push(("a", 1), timestamp=100)
        second.push_watermark(110)
        assert second.output == [("a", 11)]
        assert second.snapshot().checkpoint_id == snapshot.checkpoint_id + 1


def test_windows_and_what_stands_behind_them() -> None:
    def piece(stream: DataStream) -> DataStream:
        windows = stream.key_by(itemgetter(0), Types.STRING()).window(
            TumblingEventTimeWindows.of(Time.milliseconds(10))
        )
        return windows.reduce(lambda a, b: (a[0], a[1] + b[1])).map(lambda pair: pair[1], Types.INT())

    with OperatorHarness(piece, PAIR) as harness:
        harness.push_all([("a", 1), ("a", 2), ("a", 4)], [1, 9, 10])
        harness.push_watermark(9)
        assert harness.take() == [3]
        harness.push_watermark(19)
        assert harness.take() == [4]


def test_two_inputs_share_the_smaller_event_time() -> None:
    class Both(CoMapFunction):
        def map1(self, value: Any) -> str:
            return f"number {value}"

        def map2(self, value: Any) -> str:
            return f"text {value}"

    def piece(numbers: DataStream, texts: DataStream) -> DataStream:
        return numbers.connect(texts).map(Both(), Types.STRING())

    with OperatorHarness(piece, Types.INT(), Types.STRING()) as harness:
        harness.push(1)
        harness.push("one", input=1)
        assert harness.take() == ["number 1", "text one"]
        harness.push_watermark(50, input=0)
        assert harness.watermarks == []
        harness.push_watermark(30, input=1)
        assert harness.watermarks == [30]


def test_processing_time_is_the_tests() -> None:
    class Soon(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
            ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 100)
            yield from ()

        def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
            yield f"{ctx.get_current_key()} at {timestamp}"

    with OperatorHarness(
        lambda s: s.key_by(lambda n: n, Types.INT()).process(Soon(), Types.STRING()), Types.INT(), processing_time=1_000
    ) as harness:
        harness.push(7)
        harness.advance_processing_time(1_099)
        assert harness.output == []
        harness.advance_processing_time(5_000)
        assert harness.output == ["7 at 1100"]


def test_a_function_that_raises_says_so_in_the_test() -> None:
    with (
        OperatorHarness(lambda s: s.map(lambda n: 1 // n, Types.INT()).name("divide"), Types.INT()) as harness,
        pytest.raises(Exception, match=r"divide.*ZeroDivisionError"),
    ):
        harness.push(0)


def test_asynchronous_calls_are_waited_for() -> None:
    class Ask(AsyncFunction[int, str]):
        async def async_invoke(self, value: int) -> list[str]:
            return [f"answer to {value}"]

    def piece(stream: DataStream) -> DataStream:
        return AsyncDataStream.ordered_wait(stream, Ask(), Time.seconds(30), 10, Types.STRING())

    with OperatorHarness(piece, Types.INT()) as harness:
        harness.push_all([1, 2])
        assert harness.wait_for_output(2) == ["answer to 1", "answer to 2"]
        harness.push(3)
        harness.finish()
        assert harness.output[2:] == ["answer to 3"]


class Counting(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_int_counter("seen")
        with pytest.raises(InvalidJob, match="has an accumulator 'seen' already"):
            runtime_context.add_accumulator("seen", IntCounter())
        with pytest.raises(InvalidJob, match="no accumulator 'other'"):
            runtime_context.get_accumulator("other")

    def map(self, value: Any) -> Any:
        self.seen.add(value)
        return value


def test_accumulators_are_shown() -> None:
    with OperatorHarness(lambda s: s.map(Counting(), Types.INT()).map(Counting(), Types.INT()), Types.INT()) as harness:
        harness.push_all([1, 2])
        assert harness.accumulators == {"seen": 6}


def test_what_is_no_piece() -> None:
    with pytest.raises(Misuse, match="the type of each of its inputs"):
        OperatorHarness(sums)
    with pytest.raises(InvalidJob, match="must return a DataStream, not int"):
        OperatorHarness(lambda s: 5, Types.INT())  # type: ignore[arg-type,return-value]


@dataclass(frozen=True)
class Rung:
    times: int


register_user_event("test.rung", Rung)


class Counts(ProcessFunction, EventListener, TaskEventListener):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value
        self.context.emit_event(Rung(value))

    def on_event(self, event: object) -> Iterator[Any]:
        assert isinstance(event, Rung)
        self.context.send_task_event(Rung(event.times + 1))
        yield -event.times

    def on_task_event(self, event: object) -> Iterator[Any]:
        assert isinstance(event, Rung)
        yield 100 * event.times


def test_events_go_in_and_come_out_on_both_ways() -> None:
    def piece(stream: DataStream) -> DataStream:
        return stream.process(Counts(), Types.INT()).map(lambda value: value, Types.INT())

    with OperatorHarness(piece, Types.INT()) as harness:
        harness.push(3)
        harness.push_event(Rung(5))
        harness.push_task_event(Rung(7))
        assert harness.take() == [3, -5, 700]
        assert harness.events == [Rung(3)]
        assert harness.task_events == [Rung(6)]
