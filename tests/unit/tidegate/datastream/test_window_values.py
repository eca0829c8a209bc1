"""Windows as values: merging, bytes, names; assigners of sessions and counts; streams without keys."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterable
from io import BytesIO
from typing import Any

import pytest

from tests.unit.tidegate.datastream.graph_kit import make_env
from tests.unit.tidegate.datastream.options_kit import given
from tidegate.common import Time, Types
from tidegate.common.serializer import TypeSerializer, VoidNamespaceSerializer
from tidegate.datastream import (
    AllWindowedStream,
    AllWindowFunction,
    CountWindow,
    GlobalWindow,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    TimeWindow,
)
from tidegate.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    CountWindowSerializer,
    DeltaEvictor,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    GlobalWindowSerializer,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindowSerializer,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tidegate.model.errors import InvalidJob


class Merges:
    def __init__(self) -> None:
        self.told: list[tuple[set[Any], Any]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.told.append((set(to_be_merged), merge_result))


class Now:
    def get_current_processing_time(self) -> int:
        return 12_345

    def get_runtime_context(self) -> Any:
        raise AssertionError("not asked for")


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return int(element)


def test_windows_that_overlap_or_touch_are_merged() -> None:
    """``TimeWindowTest`` of Flink."""
    merges = Merges()
    windows = [
        TimeWindow(8, 9),
        TimeWindow(0, 1),
        TimeWindow(4, 6),
        TimeWindow(1, 2),
        TimeWindow(5, 8),
        TimeWindow(20, 25),
    ]
    TimeWindow.merge_windows(windows, merges)
    assert merges.told == [
        ({TimeWindow(0, 1), TimeWindow(1, 2)}, TimeWindow(0, 2)),
        ({TimeWindow(4, 6), TimeWindow(5, 8), TimeWindow(8, 9)}, TimeWindow(4, 9)),
    ]
    TimeWindow.merge_windows([], merges)
    assert len(merges.told) == 2


def test_a_window_is_a_value() -> None:
    window = TimeWindow(5, 10)
    assert (window.start, window.end, window.max_timestamp()) == (5, 10, 9)
    assert repr(window) == "TimeWindow(start=5, end=10)"
    for same in (pickle.loads(pickle.dumps(window)), copy.deepcopy(window)):
        assert same == window
        assert type(same) is TimeWindow
    assert sorted([TimeWindow(5, 7), TimeWindow(1, 9), TimeWindow(5, 6)])[0] == TimeWindow(1, 9)
    assert TimeWindow(5, 6) < TimeWindow(5, 7)
    assert CountWindow(3).max_timestamp() == GlobalWindow.get().max_timestamp() == 2**63 - 1
    assert (repr(CountWindow(3)), repr(GlobalWindow.get())) == ("CountWindow(id=3)", "GlobalWindow")
    assert GlobalWindow() == GlobalWindow.get()


@pytest.mark.parametrize(
    ("serializer", "window", "size"),
    [
        (TimeWindowSerializer(), TimeWindow(-5, 2**40), 16),
        (CountWindowSerializer(), CountWindow(7), 8),
        (GlobalWindowSerializer(), GlobalWindow.get(), 8),
        (CountTumblingWindowAssigner.of(2).get_window_serializer(), CountWindow(0), 8),
        (VoidNamespaceSerializer(), b"", 0),
    ],
)
def test_windows_as_bytes(serializer: TypeSerializer[Any], window: Any, size: int) -> None:
    stream = BytesIO()
    serializer.serialize(window, stream)
    assert len(stream.getvalue()) == size
    stream.seek(0)
    assert serializer.deserialize(stream) == window
    assert serializer == type(serializer)()
    assert serializer != object()


@pytest.mark.parametrize(
    ("assigner", "text", "trigger", "is_event_time"),
    [
        (TumblingEventTimeWindows.of(10, 3), "TumblingEventTimeWindows(10, 3)", EventTimeTrigger, True),
        (TumblingProcessingTimeWindows.of(10), "TumblingProcessingTimeWindows(10, 0)", ProcessingTimeTrigger, False),
        (SlidingEventTimeWindows.of(10, 5, 1), "SlidingEventTimeWindows(10, 5, 1)", EventTimeTrigger, True),
        (SlidingProcessingTimeWindows.of(10, 5), "SlidingProcessingTimeWindows(10, 5, 0)", ProcessingTimeTrigger, False),
        (EventTimeSessionWindows.with_gap(Time.seconds(1)), "EventTimeSessionWindows(1000)", EventTimeTrigger, True),
        (ProcessingTimeSessionWindows.with_gap(5), "ProcessingTimeSessionWindows(5)", ProcessingTimeTrigger, False),
        (DynamicEventTimeSessionWindows.with_dynamic_gap(Gap()), "DynamicEventTimeSessionWindows(Gap)", EventTimeTrigger, True),
        (
            ProcessingTimeSessionWindows.with_dynamic_gap(Gap()),
            "DynamicProcessingTimeSessionWindows(Gap)",
            ProcessingTimeTrigger,
            False,
        ),
        (GlobalWindows.create(), "GlobalWindows()", NeverTrigger, False),
        (CountTumblingWindowAssigner.of(3), "CountTumblingWindowAssigner(3)", PurgingTrigger, False),
        (CountSlidingWindowAssigner.of(3, 2), "CountSlidingWindowAssigner(3, 2)", PurgingTrigger, False),
    ],
)  # fmt: skip
def test_assigners(assigner: Any, text: str, trigger: type, is_event_time: bool) -> None:
    assert repr(assigner) == text
    assert type(assigner.get_default_trigger(None)) is trigger
    assert assigner.is_event_time() is is_event_time
    assert repr(pickle.loads(pickle.dumps(assigner))) == text


def test_sessions_begin_with_a_window_for_each_record() -> None:
    assert EventTimeSessionWindows.with_gap(5).assign_windows(None, 7, Now()) == [TimeWindow(7, 12)]
    assert ProcessingTimeSessionWindows.with_gap(5).assign_windows(None, 7, Now()) == [TimeWindow(12_345, 12_350)]
    assert DynamicProcessingTimeSessionWindows(Gap()).assign_windows(2, 7, Now()) == [TimeWindow(12_345, 12_347)]


@pytest.mark.parametrize("size", [10, 12, 4])
def test_sliding_windows_in_any_order_of_records(size: int) -> None:
    assigner = SlidingEventTimeWindows.of(size, 5, 2)
    for moment in (17, 16, 3, -4, 18, 16, 21):
        found = assigner.assign_windows(None, moment, Now())
        starts = [start for start in range(-40, 40) if (start - 2) % 5 == 0 and start <= moment < start + size]
        assert sorted(window.start for window in found) == starts


@pytest.mark.parametrize(
    "make",
    [
        lambda: EventTimeSessionWindows.with_gap(0),
        lambda: DynamicEventTimeSessionWindows(None),  # type: ignore[arg-type]
        lambda: CountTumblingWindowAssigner.of(0),
        lambda: CountSlidingWindowAssigner.of(2, -1),
        lambda: CountTrigger.of(0),
        lambda: ContinuousEventTimeTrigger.of(0),
        lambda: PurgingTrigger.of(None),  # type: ignore[arg-type]
        lambda: CountEvictor.of(-1),
        lambda: DeltaEvictor.of(1, 5),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_is_told(make: Any) -> None:
    with pytest.raises(InvalidJob):
        make()


class Everything(AllWindowFunction[Any, Any, Any]):
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return [(window, list(inputs))]


class Processed(ProcessAllWindowFunction[Any, Any, Any]):
    cleared = 0

    def process(self, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        return [(context.window(), list(elements))]

    def clear(self, context: Any) -> None:
        Processed.cleared += 1


class OfKeys(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        return []


class At:
    def window(self) -> TimeWindow:
        return TimeWindow(0, 5)


class TestAllWindows:
    def windowed(self) -> tuple[Any, AllWindowedStream]:
        env = make_env()
        return env, env.from_collection([1, 2], Types.LONG()).window_all(TumblingEventTimeWindows.of(5))

    def made(self, env: Any) -> Any:
        job = env.build()
        return job.graph.vertices[-1], list(job.programs.values())[-1].operators[0]

    def test_one_subtask_has_all_records_under_one_key(self) -> None:
        env, windowed = self.windowed()
        tag = OutputTag("late", Types.LONG())
        reduced = windowed.allowed_lateness(3).side_output_late_data(tag).evictor(CountEvictor.of(1)).reduce(max)
        assert reduced.get_type() == Types.LONG()
        with pytest.raises(InvalidJob, match="cannot be parallel"):
            reduced.set_parallelism(2)
        vertex, operator = self.made(env)
        assert vertex.parallelism == 1
        assert operator.key.selector("anything") == 0
        assert given(operator)["allowed_lateness_ms"] == 3
        assert type(given(operator)["evictor"]) is CountEvictor

    @pytest.mark.parametrize("call", ["apply", "process", "reduce"])
    def test_functions_see_the_window_without_a_key(self, call: str) -> None:
        env, windowed = self.windowed()
        match call:
            case "apply":
                windowed.apply(Everything(), Types.LONG())
            case "process":
                windowed.process(Processed(), Types.LONG())
            case _:
                windowed.reduce(max, window_function=Processed(), output_type=Types.LONG())
        function = given(self.made(env)[1])["function"][-1]
        assert function.process(0, At(), [1]) == [(TimeWindow(0, 5), [1])]
        before = Processed.cleared
        function.clear(At())
        assert Processed.cleared - before == (0 if call == "apply" else 1)

    def test_functions_with_keys_are_refused(self) -> None:
        _, windowed = self.windowed()
        with pytest.raises(InvalidJob, match="process needs a ProcessAllWindowFunction"):
            windowed.process(OfKeys())  # type: ignore[arg-type]
        with pytest.raises(InvalidJob, match="must be an AllWindowFunction or a ProcessAllWindowFunction"):
            windowed.reduce(max, OfKeys())


def test_count_windows_of_a_keyed_stream() -> None:
    keyed = make_env().from_collection([1], Types.LONG()).key_by(lambda value: value)
    assert keyed.count_window(3).reduce(max).get_name() == "CountTumblingWindowAssigner"
    assert keyed.count_window(3, 1).reduce(max).get_name() == "CountSlidingWindowAssigner"


def test_a_trigger_that_cannot_merge_is_refused_for_sessions() -> None:
    keyed = make_env().from_collection([1], Types.LONG()).key_by(lambda value: value)
    with pytest.raises(InvalidJob, match="NeverTrigger cannot be used with EventTimeSessionWindows"):
        keyed.window(EventTimeSessionWindows.with_gap(5)).trigger(NeverTrigger())
    with pytest.raises(InvalidJob, match="not an Evictor"):
        keyed.window(EventTimeSessionWindows.with_gap(5)).evictor(5)  # type: ignore[arg-type]
