"""Calls for batches in an operator: order, watermarks, capacity, failures, retries, and what a snapshot holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import MemoryStore, Running, restored_of, spec, split_mode, start
from tidegate.common.typeinfo import ArrowTypeInfo
from tidegate.functions.async_batches import AskedBatch, AsyncBatchFunction, BatchCall
from tidegate.jobmanager.machines.restore.state_assignment import deal_elements
from tidegate.model.channel_events import UserEvent
from tidegate.model.checkpoint import RestoredOperator, StateRedistribution
from tidegate.model.errors import UserFunctionError
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.compatibility.states import StateOutcome, StoredState, examine_states
from tidegate.taskmanager.operators.columns.async_batches import AsyncBatchesOperator
from tidegate.taskmanager.operators.operator import Ending

SCHEMA = pa.schema([("v", pa.int64())])


class Tens(AsyncBatchFunction):
    """Ten times each number, by a call for each different one; 0 needs none, and 13 fails."""

    def __init__(self, **options: Any) -> None:
        for name, value in options.items():
            setattr(self, name, value)
        self.came: list[Any] = []

    def ask(self, batch: pa.RecordBatch) -> AskedBatch:
        values = batch.column(0).to_numpy()
        used = sorted(set(values.tolist()) - {0})
        codes = np.array([used.index(value) if value else -1 for value in values], np.int64)
        return AskedBatch(batch, codes, [self._call(value) for value in used], {}, used)

    def _call(self, value: int) -> BatchCall:
        async def invoke() -> list[int]:
            return [value * 10]

        return BatchCall(invoke, lambda: [-value])

    def answered(self, asked: AskedBatch, call: int, results: list[Any]) -> None:
        self.came += results

    def result(
        self, asked: AskedBatch, rows: npt.NDArray[np.int64], results: Mapping[int, list[Any]]
    ) -> pa.RecordBatch:
        codes = asked.codes[rows].tolist()
        if any(code >= 0 and asked.about[code] == 13 for code in codes):
            raise ValueError("no luck")
        return batch(*[0 if code < 0 else results[code][0] for code in codes])


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)


def running(
    restored: RestoredOperator | None = None, *, subtask: int = 0, parallelism: int = 1, **options: Any
) -> Running:
    kind = ArrowTypeInfo(SCHEMA)
    return start(
        spec("async_batches", input_types=(kind,), output_type=kind, options={"func": Tens(**options)}),
        subtask,
        parallelism,
        restored=restored,
    )


def feed(one: Running, *values: int) -> None:
    one.operator.process(ArrowBatch(batch(*values), None), 0)


def values_of(one: Running) -> list[int]:
    return [row["v"] for row in one.out.values()]


@pytest.mark.parametrize("ordered", [True, False])
def test_calls_of_two_batches_run_together_and_rows_leave_in_their_order_or_as_they_come(ordered: bool) -> None:
    one = running(ordered=ordered)
    feed(one, 1, 0, 2)
    feed(one, 3, 3)
    assert set(one.calls[0].waiting) == {1, 2, 3}
    one.calls[0].answer(3)
    assert values_of(one) == ([] if ordered else [0, 30, 30])
    one.calls[0].answer(1)
    assert values_of(one) == ([10, 0] if ordered else [0, 30, 30, 10])
    one.calls[0].answer(2)
    assert values_of(one) == ([10, 0, 20, 30, 30] if ordered else [0, 30, 30, 10, 20])
    assert one.operator.ending() is Ending.DONE


def test_a_watermark_and_a_status_overtake_nothing() -> None:
    one = running(ordered=False)
    feed(one, 1)
    one.operator.on_watermark(100)
    one.operator.on_idle(True)
    feed(one, 2)
    one.calls[0].answer(2)
    assert one.out.order == []
    assert one.operator.ending() is Ending.IN_FLIGHT
    one.calls[0].answer(1)
    assert one.out.order == ["batch", "watermark", "batch"]
    assert one.out.idle == [True]


def test_there_is_no_room_while_as_many_rows_wait_as_calls_may_run() -> None:
    one = running(capacity=2)
    feed(one, 1)
    assert one.operator.has_room()
    feed(one, 2, 3, 4)
    assert set(one.calls[0].waiting) == {1, 2}
    assert not one.operator.has_room()
    one.calls[0].answer(1, 2)
    assert set(one.calls[0].waiting) == {3, 4}
    one.calls[0].answer(3)
    assert one.operator.has_room()
    assert values_of(one) == [10, 20, 30]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_snapshot_holds_the_rows_and_events_in_flight_and_a_restore_asks_again(ordered: bool) -> None:
    one = running(ordered=ordered)
    feed(one, 1, 2)
    one.operator.on_user_event(UserEvent(b"x"), 0)
    feed(one, 3)
    one.calls[0].answer(2)
    assert values_of(one) == ([] if ordered else [20])
    snapshot = one.snapshot(store=MemoryStore())
    assert list(split_mode(snapshot).values()) == [StateRedistribution.SPLIT]
    again = running(restored_of([snapshot]), ordered=ordered)
    feed(again, 4)
    assert again.out.order == []
    again.calls[0].answer(*list(again.calls[0].waiting))
    assert values_of(again) == ([10, 20, 30, 40] if ordered else [10, 30, 40])
    assert again.out.order == ["batch", "event", "batch", "batch"]
    assert not again.snapshot(2).operator


@pytest.mark.parametrize("ordered", [True, False])
def test_rows_in_flight_are_dealt_to_other_numbers_of_subtasks(ordered: bool) -> None:
    subtasks = [running(subtask=at, parallelism=2, ordered=ordered) for at in range(2)]
    for number in range(1, 13):
        feed(subtasks[number % 2], number, number)
    found: list[int] = []
    for parallelism in (3, 2):
        for at, one in enumerate(subtasks):
            waiting = sorted(one.calls[0].waiting)
            one.calls[0].answer(*waiting[at : at + 1])
            found += values_of(one)
        handles = [handle for one in subtasks for handle in one.snapshot().operator]
        dealt = deal_elements(handles, parallelism)
        assert sum(map(bool, dealt)) == parallelism, "every subtask has rows"
        subtasks = [
            running(
                RestoredOperator(
                    operator=tuple(handle for handle, _, _ in mine),
                    slices=tuple((first, end) for _, first, end in mine),
                ),
                subtask=at,
                parallelism=parallelism,
                ordered=ordered,
            )
            for at, mine in enumerate(dealt)
        ]
    assert 0 < len(found) < 24
    for one in subtasks:
        while one.calls[0].waiting:
            one.calls[0].answer(*one.calls[0].waiting)
        found += values_of(one)
    assert sorted(found) == [10 * number for number in range(1, 13) for _ in range(2)]


def test_a_check_of_a_savepoint_knows_the_state() -> None:
    one = running()
    feed(one, 1)
    stored = one.snapshot(store=MemoryStore()).operator
    kind = ArrowTypeInfo(SCHEMA)
    made = spec("async_batches", input_types=(kind,), output_type=kind, options={"func": Tens()})
    (handle,) = stored
    state = StoredState(handle.state_name, "list", StateRedistribution.SPLIT, pa.schema([]))
    (verdict,) = examine_states(made, [state])
    assert verdict.outcome is not StateOutcome.DROPPED


def test_nothing_is_emitted_behind_a_savepoint_that_stops_the_job() -> None:
    one = running()
    feed(one, 1)
    one.operator.suspend()
    one.calls[0].answer(1)
    assert values_of(one) == []


def test_what_a_call_raises_and_what_the_function_raises_fails_the_operator() -> None:
    one = running()
    feed(one, 1)
    with pytest.raises(UserFunctionError, match="operator 'op': ValueError: no such number"):
        one.calls[0].answer(1, error=ValueError("no such number"))
    one = running()
    feed(one, 13)
    with pytest.raises(UserFunctionError, match="operator 'op': ValueError: no luck"):
        one.calls[0].answer(1)


def test_a_call_without_results_is_made_again_so_often_and_has_a_limit() -> None:
    one = running(attempts=2, delay_ms=30, timeout_ms=500)
    feed(one, 1)
    call: Mapping[str, Any] = one.calls[0].waiting[1]
    found: Sequence[int | None] = [call["backoff_ms"](attempts) for attempts in (1, 2, 3)]
    assert (found, call["timeout_ms"], call["on_timeout"]()) == ([30, 30, None], 500, [-1])
    assert call["retries_result"]([])
    assert not call["retries_result"]([1])
    assert call["retries_error"] is None
    assert running().operator.has_room()


def test_the_function_is_told_of_each_answer() -> None:
    one = running()
    feed(one, 1, 2)
    one.calls[0].answer(2, 1)
    operator = one.operator
    assert isinstance(operator, AsyncBatchesOperator)
    assert isinstance(operator._func, Tens)
    assert operator._func.came == [20, 10]
