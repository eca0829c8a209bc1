"""Asynchronous I/O in an operator: order, watermarks, capacity, failures, and what a snapshot holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import MemoryStore, Running, restored_of, spec, split_mode, start
from tidegate.common.row import Row
from tidegate.common.typeinfo import ArrowTypeInfo, TypeInformation, Types
from tidegate.functions.async_retry_strategies import NO_RETRY_STRATEGY, FixedDelayRetryStrategy
from tidegate.functions.interfaces import AsyncFunction
from tidegate.model.checkpoint import RestoredOperator, StateRedistribution
from tidegate.model.errors import UserFunctionError
from tidegate.model.program import OperatorSpec
from tidegate.taskmanager.operators.operator import Ending


class Twice(AsyncFunction[Any, Any]):
    async def async_invoke(self, value: Any) -> list[Any]:
        return [value, value]


def wait(*, ordered: bool, capacity: int = 10, kind: TypeInformation | None = None, **options: Any) -> OperatorSpec:
    given = {"func": Twice(), "timeout_ms": 1000, "strategy": NO_RETRY_STRATEGY, **options}
    return spec(
        "async_wait",
        input_types=(kind or Types.LONG(),),
        output_type=Types.LONG(),
        options={**given, "ordered": ordered, "capacity": capacity},
    )


def running(*, restored: RestoredOperator | None = None, **options: Any) -> Running:
    return start(wait(**options), restored=restored)


@pytest.mark.parametrize(("ordered", "expected"), [(True, [7, 7, 8, 8, 9, 9]), (False, [9, 9, 7, 7, 8, 8])])
def test_results_leave_with_the_timestamps_of_their_records(ordered: bool, expected: Sequence[int]) -> None:
    one = running(ordered=ordered)
    one.feed([7, 8, 9], [70, 80, 90])
    one.calls[0].answer(3)
    one.calls[0].answer(1, 2)
    assert one.out.values() == expected
    assert one.out.stamps() == [10 * value for value in expected]


def test_a_watermark_and_a_status_overtake_nothing() -> None:
    one = running(ordered=False)
    one.feed([7])
    one.operator.on_watermark(100)
    one.operator.on_idle(True)
    one.feed([8])
    one.calls[0].answer(4)
    assert one.out.order == []
    one.calls[0].answer(1)
    assert one.out.order == ["batch", "watermark", "batch"]
    assert one.out.idle == [True]
    assert one.operator.ending() is not Ending.IN_FLIGHT


def test_there_is_no_room_beyond_the_capacity_and_slices_are_no_larger() -> None:
    one = running(ordered=False, capacity=2)
    one.feed([7, 8, 9])
    assert one.operator.slice_records == 2
    assert set(one.calls[0].waiting) == {1, 2}
    assert not one.operator.has_room()
    one.calls[0].answer(2)
    assert set(one.calls[0].waiting) == {1, 3}
    one.calls[0].answer(1, 3)
    assert one.operator.has_room()
    assert one.out.values() == [8, 8, 7, 7, 9, 9]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_snapshot_holds_what_was_not_emitted_and_a_restore_invokes_it_again(ordered: bool) -> None:
    one = running(ordered=ordered, capacity=2)
    one.feed([7, 8, 9], [70, None, 90])
    one.calls[0].answer(2)
    done = [] if ordered else [8, 8]
    assert one.out.values() == done
    snapshot = one.snapshot(store=MemoryStore())
    assert list(split_mode(snapshot).values()) == [StateRedistribution.SPLIT]
    again = running(ordered=ordered, restored=restored_of([snapshot]))
    again.feed([10])
    again.calls[0].answer(*list(again.calls[0].waiting))
    assert again.out.values() == ([7, 7, 8, 8, 9, 9, 10, 10] if ordered else [7, 7, 9, 9, 10, 10])
    assert again.out.stamps()[0] == 70
    assert not again.snapshot(2).operator


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Types.PICKLED_BYTE_ARRAY(), {"any": ("thing",)}),
        (Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.LONG()]), Row(a="x", b=None)),
        (ArrowTypeInfo(pa.schema([("a", pa.string())])), Row(a="x")),
    ],
)
def test_records_of_every_type_are_kept(kind: TypeInformation, value: Any) -> None:
    one = running(ordered=True, kind=kind)
    one.feed([value])
    again = running(ordered=True, kind=kind, restored=restored_of([one.snapshot()]))
    again.calls[0].answer(1)
    assert again.out.values() == [value, value]


def test_what_a_function_raises_fails_the_operator() -> None:
    one = running(ordered=False)
    one.feed([7])
    with pytest.raises(UserFunctionError, match="operator 'op': ValueError: no such number"):
        one.calls[0].answer(1, error=ValueError("no such number"))


@pytest.mark.parametrize("result", ["text", 5])
def test_results_must_be_a_list(result: Any) -> None:
    one = running(ordered=False)
    one.feed([7])
    with pytest.raises(UserFunctionError, match="should be of list type, please check the methods"):
        one.calls[0].answer(1, result=result)


def test_the_strategy_says_when_attempts_end() -> None:
    strategy: FixedDelayRetryStrategy[Any] = FixedDelayRetryStrategy(2, 30, lambda result: not result, None)
    one = running(ordered=False, strategy=strategy, timeout_ms=500)
    one.feed([7])
    policy = one.calls[0].waiting[1]
    assert [policy["backoff_ms"](attempts) for attempts in (1, 2, 3)] == [30, 30, None]
    assert policy["timeout_ms"] == 500
    assert policy["retries_result"]([])
    assert policy["retries_error"] is None
    with pytest.raises(TimeoutError, match="timed out for input: 7"):
        policy["on_timeout"]()


def test_after_a_suspension_nothing_is_emitted() -> None:
    one = running(ordered=False)
    one.feed([7])
    one.operator.suspend()
    one.calls[0].answer(1)
    assert one.out.values() == []
    assert len(one.snapshot().operator) == 1
    one.operator.close()
    assert one.calls[0].closed
