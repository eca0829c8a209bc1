"""Numbers that a program gives: whole ones are taken, of numpy too; text, fractions and what is beyond 64 bits is refused where it comes in, with the
operator and the value, and the job is not tried again.

PyFlink 2.3, recorded from it: a timer or timestamp of 5, True, 5.0, Decimal(5) or numpy's 5 is taken; text fails with ``TypeError: an integer is
required``, 2**63 with an ``OverflowError`` that names neither operator nor value; 1.5 is cut to 1, which is refused here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from tidegate.common import Configuration, Duration, Time, Types, WatermarkStrategy
from tidegate.common.watermark_strategy import WatermarkGenerator
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.datastream import (
    DataStream,
    KeyedProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from tidegate.datastream.state import StateTtlConfig
from tidegate.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeEvictor,
    TimeWindow,
    TimeWindowSerializer,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from tidegate.model.errors import InvalidJob, TidegateError, UserError, UserFunctionError
from tidegate.taskmanager.harness.operators import OperatorHarness

LONG = Types.LONG()
BACKENDS = ("hashmap", "rocksdb")
NO_NUMBERS = ("5", 1.5, math.nan, math.inf, Decimal("1.5"), None, np.float64(0.5), b"5", [5])
BEYOND = (2**63, -(2**63) - 1, np.uint64(2**63))
WHOLE = (5, np.int64(5), np.int8(5), np.uint64(5), 5.0, np.float64(5), np.float32(5), Decimal(5), True)
CALLS = [f"{call}_{domain}_time_timer" for call in ("register", "delete") for domain in ("event", "processing")]


def refused(value: Any, *words: str) -> Any:
    """Expects one error that is not tried again, with these words and the value."""

    class Refused:
        def __enter__(self) -> None: ...

        def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
            assert isinstance(error, UserError), f"{value!r} was taken, or {error!r}"
            assert not isinstance(error, UserFunctionError), error
            assert not error.retriable
            for word in (*words, repr(value)):
                assert word in str(error), (word, str(error))
            return True

    return Refused()


class WithTimer(KeyedProcessFunction):
    def __init__(self, call: str, at: Any) -> None:
        self._call, self._at = call, at

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        getattr(ctx.timer_service(), self._call)(self._at)
        yield value

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield timestamp


def by_key(stream: DataStream) -> Any:
    return stream.key_by(lambda value: value, LONG)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("call", CALLS)
def test_a_timer_at_no_whole_number_of_64_bits_is_refused(call: str, backend: str) -> None:
    for at in NO_NUMBERS + BEYOND:
        with OperatorHarness(
            lambda s, at=at: by_key(s).process(WithTimer(call, at), LONG).name("mine"),
            LONG,
            configuration={"state.backend.type": backend},
        ) as harness:
            with refused(at, "operator 'mine'", call):
                harness.push(1, timestamp=1)
            harness.snapshot()


@pytest.mark.parametrize("backend", BACKENDS)
def test_timers_at_the_ends_of_64_bits_are_kept(backend: str) -> None:
    settings = {"state.backend.type": backend}
    for at in (2**63 - 1, -(2**63)):
        piece = lambda s, at=at: by_key(s).process(WithTimer(CALLS[0], at), LONG)  # noqa: E731
        with OperatorHarness(piece, LONG, configuration=settings) as harness:
            harness.push(1, timestamp=1)
            snapshot = harness.snapshot()
        with OperatorHarness(piece, LONG, configuration=settings, restore=snapshot) as again:
            again.push_watermark(2**63 - 1)
            assert again.output == [at]


@pytest.mark.parametrize("at", WHOLE)
def test_numbers_without_a_fraction_are_taken(at: Any) -> None:
    with OperatorHarness(lambda s: by_key(s).process(WithTimer(CALLS[0], at), LONG), LONG) as harness:
        harness.push(7, timestamp=at)
        harness.push_watermark(at)
        assert harness.output == [7, int(at)]
        assert [type(stamp) for stamp in harness.timestamps] == [int, int]


def assigned(at: Any) -> Callable[[DataStream], DataStream]:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: at)
    return lambda s: s.assign_timestamps_and_watermarks(strategy).name("mine")


@pytest.mark.parametrize("at", NO_NUMBERS + BEYOND)
def test_a_timestamp_that_is_no_whole_number_is_refused(at: Any) -> None:
    with OperatorHarness(assigned(at), LONG) as harness, refused(int(at) if at in BEYOND else at, "operator 'mine'"):
        harness.push(1)


def test_a_timestamp_of_numpy_is_taken() -> None:
    with OperatorHarness(assigned(np.int64(7)), LONG) as harness:
        harness.push(1)
        assert [(stamp, type(stamp)) for stamp in harness.timestamps] == [(7, int)]


class Telling(WatermarkGenerator):
    def __init__(self, at: Any) -> None:
        self._at = at

    def on_event(self, event: Any, event_timestamp: int, output: Any) -> None:
        output.emit_watermark(self._at)

    def on_periodic_emit(self, output: Any) -> None: ...


@pytest.mark.parametrize("at", NO_NUMBERS + BEYOND)
def test_a_watermark_that_is_no_whole_number_is_refused(at: Any) -> None:
    strategy = WatermarkStrategy.for_generator(lambda: Telling(at))
    piece = lambda s: s.assign_timestamps_and_watermarks(strategy).name("mine")  # noqa: E731
    with OperatorHarness(piece, LONG) as harness, refused(at, "operator 'mine'", "emit_watermark"):
        harness.push(1, timestamp=1)


class Gap(SessionWindowTimeGapExtractor):
    def __init__(self, gap: Any) -> None:
        self._gap = gap

    def extract(self, element: Any) -> Any:
        return self._gap


class Bounds(WindowAssigner[Any, Any]):
    def __init__(self, end: Any) -> None:
        self._end = end

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        return [TimeWindow(0, self._end)]

    def get_default_trigger(self, env: object = None) -> Any:
        return EventTimeTrigger()

    def get_window_serializer(self) -> Any:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return True


class Timed(Trigger[Any, Any]):
    def __init__(self, call: str, at: Any) -> None:
        self._call, self._at = call, at

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        getattr(ctx, self._call)(self._at)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: Any, ctx: Any) -> None: ...


class Listed(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        yield from elements


def windowed(assigner: Any, trigger: Any = None) -> Callable[[DataStream], DataStream]:
    def piece(stream: DataStream) -> DataStream:
        made = by_key(stream).window(assigner)
        found: DataStream = (made.trigger(trigger) if trigger else made).process(Listed(), LONG)
        return found.name("mine")

    return piece


@pytest.mark.parametrize("value", [value for value in NO_NUMBERS + BEYOND if value is not None])
def test_gaps_bounds_and_timers_of_windows_are_checked(value: Any) -> None:
    pieces = [
        windowed(EventTimeSessionWindows.with_dynamic_gap(Gap(value))),
        windowed(Bounds(value)),
        *(windowed(TumblingEventTimeWindows.of(Time.seconds(1)), Timed(call, value)) for call in CALLS),
    ]
    for piece in pieces:
        if value == BEYOND[1] and piece is pieces[0]:
            continue  # negative, which has its own message
        with OperatorHarness(piece, LONG) as harness, refused_somehow("operator 'mine'"):
            harness.push(1, timestamp=1)


def refused_somehow(*words: str) -> Any:
    return pytest.raises(InvalidJob, match=".*".join(words))


MAKERS: dict[str, Callable[[Any], object]] = {
    "Tumbling size": lambda n: TumblingEventTimeWindows.of(n),
    "Tumbling offset": lambda n: TumblingProcessingTimeWindows.of(Time.hours(9), n),
    "Sliding slide": lambda n: SlidingEventTimeWindows.of(Time.hours(9), n),
    "Sliding constructor": lambda n: SlidingEventTimeWindows(n, 5),
    "session gap": lambda n: ProcessingTimeSessionWindows.with_gap(n),
    "continuous trigger": lambda n: ContinuousEventTimeTrigger.of(n),
    "TimeEvictor": lambda n: TimeEvictor.of(n),
    "Time": lambda n: Time.milliseconds(n),
    "Time.seconds": lambda n: Time.seconds(n),
    "Duration": lambda n: Duration.of_millis(n),
    "Duration.of_days": lambda n: Duration.of_days(n),
    "bound of a strategy": lambda n: WatermarkStrategy.for_bounded_out_of_orderness(n),
}
COUNTS: dict[str, Callable[[Any], object]] = {
    "CountTrigger": lambda n: CountTrigger.of(n),
    "CountEvictor": lambda n: CountEvictor.of(n),
    "count window": lambda n: CountSlidingWindowAssigner.of(n, n),
    "cleanup": lambda n: StateTtlConfig.new_builder(Time.hours(1)).cleanup_incrementally(n),
    "bound of a sequence": lambda n: NumberSequenceSource(n, 100),
    "checkpoints": lambda n: StreamExecutionEnvironment().enable_checkpointing(n),
    "buffer timeout": lambda n: StreamExecutionEnvironment().set_buffer_timeout(n),
    "watermark interval": lambda n: StreamExecutionEnvironment().get_config().set_auto_watermark_interval(n),
    "an option": lambda n: Configuration().set_integer("parallelism.default", n),
}


@pytest.mark.parametrize("where", [*MAKERS, *COUNTS])
def test_lengths_and_counts_are_whole_numbers(where: str) -> None:
    make = MAKERS.get(where) or COUNTS[where]
    for whole in WHOLE:
        make(whole)
    for value in ("5", 1e-21, math.nan, math.inf, Decimal("1e-21"), b"5", 2**63):
        with pytest.raises(InvalidJob, match="was given"):
            make(value)


def test_half_a_second_is_a_length() -> None:
    assert Time.seconds(0.5).to_milliseconds() == 500 == TumblingEventTimeWindows.of(Time.seconds(0.5)).size_ms  # type: ignore[arg-type]
    assert type(Time.seconds(0.5).to_milliseconds()) is int  # type: ignore[arg-type]
    assert Duration.of_days(365_000_000).to_millis() == 365_000_000 * 86_400_000


@pytest.mark.parametrize("value", ["5", 1.5, 2**63])
def test_the_harness_checks_its_times(value: Any) -> None:
    with OperatorHarness(lambda s: s.map(lambda v: v, LONG), LONG) as harness:
        with refused(value, "OperatorHarness: push"):
            harness.push(1, timestamp=value)
        with refused(value, "OperatorHarness: push_watermark"):
            harness.push_watermark(value)
        with refused(value, "OperatorHarness: advance_processing_time"):
            harness.advance_processing_time(value)
    with refused(value, "OperatorHarness: processing_time"):
        OperatorHarness(lambda s: s, LONG, processing_time=value)


def test_the_errors_are_of_the_program_and_final() -> None:
    error = InvalidJob("")
    assert isinstance(error, TidegateError)
    assert not error.retriable
