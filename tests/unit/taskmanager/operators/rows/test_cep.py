"""Patterns on keyed streams: what Flink's operator found, with restores between any two steps, also at another parallelism; late events; time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from tests.contract.cep.patterns import RECORDED, pattern_of
from tests.unit.taskmanager.operators.harness import Running, restored_of, spec, start, values_of
from tests.unit.taskmanager.operators.keyed_kit import PAIR, first
from tests.unit.taskmanager.operators.keyed_kit import backends as backends
from tests.unit.taskmanager.operators.rows.test_keyed import owner
from tidegate.functions.cep.conditions import SimpleCondition
from tidegate.functions.cep.functions import PatternContext, PatternProcessFunction, TimedOutPartialMatchHandler
from tidegate.functions.cep.pattern import Pattern
from tidegate.functions.output_tag import OutputTag
from tidegate.model.checkpoint import RestoredOperator
from tidegate.model.errors import InvalidJob, UserFunctionError
from tidegate.model.program import KeySpec
from tidegate.records.batch import RecordsBatch

TIMED_OUT = OutputTag("timed-out")
IN_EVENT_TIME = [case for case in RECORDED if "found" in case and case["time"] == "event"]


class Numbers(PatternProcessFunction, TimedOutPartialMatchHandler):
    """Emits the numbers of the events by stage."""

    def process_match(self, match: dict[str, list[Any]], ctx: PatternContext) -> Iterable[Any]:
        yield {stage: [event[1] for event in events] for stage, events in match.items()}

    def process_timed_out_match(self, match: dict[str, list[Any]], ctx: PatternContext) -> None:
        ctx.output(TIMED_OUT, {stage: [event[1] for event in events] for stage, events in match.items()})


def operator(
    pattern: Pattern,
    subtask: int = 0,
    parallelism: int = 1,
    restored: RestoredOperator | None = None,
    **options: Any,
) -> Running:
    options = {"func": Numbers(), "late_tag": "late", **options}
    made = spec("cep", input_types=(PAIR,), key=KeySpec(selector=first), options={"pattern": pattern, **options})
    return start(made, subtask, parallelism, restored)


def by_key(running: Sequence[Running], keys: dict[int, str]) -> dict[str, list[Any]]:
    """What was emitted for each key, in order: kind, time, numbers."""
    found: dict[str, list[Any]] = {key: [] for key in keys.values()}
    for one in running:
        side = one.out.sides.get(TIMED_OUT.tag_id, [])
        stamps = [stamp for batch in side if isinstance(batch, RecordsBatch) for stamp in batch.timestamps or ()]
        outputs = (("matches", one.out.values(), one.out.stamps()), ("timed_out", values_of(side), stamps))
        for kind, values, times in outputs:
            for value, time in zip(values, times, strict=True):
                found[keys[min(min(value.values()))]].append([kind, time, value])
    return found


@pytest.mark.parametrize("part", range(2))
def test_what_flink_finds_is_found_across_restores(part: int) -> None:
    for case in IN_EVENT_TIME[part::40]:
        keys = {number: key for kind, _, *event in case["steps"] if kind == "event" for key, number in [event[:2]]}
        running = [operator(pattern_of(case))]
        emitted: list[Running] = [*running]
        for at, (kind, time, *event) in enumerate(case["steps"]):
            if kind == "event":
                running[owner(event[0], len(running))].feed([tuple(event)], [time])
            else:
                for one in running:
                    one.operator.on_watermark(time)
            if at % 5 == 4:  # 1 -> 2 -> 3 -> 2 -> 3 subtasks
                restored = restored_of([one.snapshot() for one in running])
                parallelism = 3 if len(running) == 2 else 2
                watermarks = [step[1] for step in case["steps"][: at + 1] if step[0] == "watermark"]
                running = [operator(pattern_of(case), i, parallelism, restored) for i in range(parallelism)]
                for one in running:
                    for watermark in watermarks[-1:]:
                        one.operator.on_watermark(watermark)
                emitted += running
        expected: dict[str, list[Any]] = {key: [] for key in keys.values()}
        for what in ("matches", "timed_out"):
            for step in case["found"]:
                for time, numbers in step.get(what, ()):
                    expected[keys[min(min(numbers.values()))]].append([what, time, numbers])
        found = by_key(emitted, keys)
        for key in expected:
            assert sorted(found[key], key=lambda one: one[0]) == expected[key], case
        late = [event[1] for one in emitted for event in values_of(one.out.sides.get("late", []))]
        assert sorted(late) == sorted(number for step in case["found"] for number in step.get("late", ())), case


def is_named(letter: str) -> Callable[[Any], bool]:
    return lambda event: bool(event[1] == letter)


AB = Pattern.begin("a").where(is_named("a")).followed_by("b").where(is_named("b"))


class Letters(PatternProcessFunction):
    def process_match(self, match: dict[str, list[Any]], ctx: PatternContext) -> Iterable[Any]:
        yield [event[1:] for events in match.values() for event in events]


def test_events_are_taken_in_the_order_of_their_times() -> None:
    running = operator(AB, func=Letters())
    running.feed([("k", "b", 3), ("k", "a", 2), ("l", "a", 1), ("k", "b", 1)], [3, 2, 1, 1])
    assert running.out.values() == []
    running.operator.on_watermark(2)
    assert running.out.values() == []
    running.operator.on_watermark(3)
    assert running.out.values() == [[("a", 2), ("b", 3)]]
    assert running.out.stamps() == [3]


def test_events_of_one_time_are_in_the_order_of_a_comparator() -> None:
    running = operator(AB, func=Letters(), comparator=lambda one, other: one[2] - other[2])
    running.feed([("k", "b", 2), ("k", "a", 1)], [5, 5])
    running.operator.on_watermark(5)
    assert running.out.values() == [[("a", 1), ("b", 2)]]


def test_late_events_are_counted_without_a_side_output() -> None:
    running = operator(AB, late_tag=None)
    running.operator.on_watermark(5)
    running.feed([("k", "a", 1), ("k", "b", 1)], [5, 4])
    assert running.out.counts == {"numLateRecordsDropped": 2}


def test_nothing_is_kept_once_nothing_can_match() -> None:
    running = operator(AB.within(10))
    running.feed([("k", "a", 1), ("l", "a", 2)], [5, 6])
    running.operator.on_watermark(100)
    assert len(values_of(running.out.sides[TIMED_OUT.tag_id])) == 2
    assert not [segment for segment in running.snapshot().keyed if segment.state_name != "event_timers"]


def test_in_processing_time_events_come_as_they_come_and_the_clock_times_out() -> None:
    running = operator(AB.within(10), func=Letters(), is_event_time=False)
    running.feed([("k", "a", 1), ("k", "b", 2), ("k", "a", 3)])
    assert running.out.values() == [[("a", 1), ("b", 2)]]
    assert running.out.stamps() == [None]
    running.clock.ms = 10
    running.feed([("k", "b", 4)])
    assert len(running.out.values()) == 1


def test_functions_get_events_of_their_own() -> None:
    class Changes(PatternProcessFunction):
        def process_match(self, match: dict[str, list[Any]], ctx: PatternContext) -> Iterable[Any]:
            yield [list(event) for events in match.values() for event in events]
            for events in match.values():
                for event in events:
                    event.append("seen")

    running = operator(Pattern.begin("a").one_or_more(), func=Changes())
    running.feed([["k", "a"], ["k", "b"]], [1, 2])
    running.operator.on_watermark(2)
    assert sorted(running.out.values()) == [[["k", "a"]], [["k", "a"], ["k", "b"]], [["k", "b"]]]


def test_what_a_condition_raises_names_operator_and_event() -> None:
    class Fails(SimpleCondition):
        def filter(self, value: Any, ctx: Any = None) -> bool:
            raise ValueError("no condition")

    running = operator(Pattern.begin("a").where(Fails()))
    running.feed([("k", "a", 1)], [1])
    with pytest.raises(UserFunctionError, match="operator 'op': ValueError: no condition") as failure:
        running.operator.on_watermark(1)
    assert failure.value.inputs == (("k", "a", 1),)


def test_records_need_timestamps() -> None:
    with pytest.raises(InvalidJob, match="has no timestamp: put assign_timestamps_and_watermarks before the pattern"):
        operator(AB).feed([("k", "a", 1)])


def test_a_partial_match_in_a_state_that_is_no_more_is_refused() -> None:
    running = operator(AB)
    running.feed([("k", "a", 1)], [1])
    running.operator.on_watermark(1)
    changed = Pattern.begin("a").where(is_named("a")).followed_by("c").where(is_named("b"))
    restored = operator(changed, restored=restored_of([running.snapshot()]))
    restored.feed([("k", "b", 2)], [2])
    with pytest.raises(
        InvalidJob, match="a partial match was restored in the state 'b' of the pattern, which has no such state"
    ):
        restored.operator.on_watermark(2)
