"""Accumulators: what they are worth, how they travel, and how those of several subtasks become one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tidegate.common import accumulators as acc
from tidegate.model.accumulators import LIST_MAX_BYTES, Accumulator, check_known, merged, results, serialized
from tidegate.model.errors import InvalidJob

INF = float("inf")
CASES: list[tuple[type[Accumulator[Any, Any]], list[list[Any]], Any, Any]] = [
    (acc.IntCounter, [[1, 2], [], [-5]], 0, -2),
    (acc.LongCounter, [[2**63], [2**63]], 0, 2**64),
    (acc.DoubleCounter, [[0.5], [0.25]], 0.0, 0.75),
    (acc.IntMinimum, [[3, 1], [2]], 2**31 - 1, 1),
    (acc.IntMaximum, [[3, 1], [], [2]], -(2**31), 3),
    (acc.LongMinimum, [[3, 1], [2]], 2**63 - 1, 1),
    (acc.LongMaximum, [[3, 1], [2]], -(2**63), 3),
    (acc.DoubleMinimum, [[0.5], []], INF, 0.5),
    (acc.DoubleMaximum, [[-0.5], []], -INF, -0.5),
    (acc.AverageAccumulator, [[1, 2, 3], [10.0]], 0.0, 4.0),
    (acc.Histogram, [[2, 1, 2], [2, -7]], {}, {-7: 1, 1: 1, 2: 3}),
    (acc.ListAccumulator, [["a", 1], [None, [2.5]]], [], ["a", 1, None, [2.5]]),
]


def filled(kind: type[Accumulator[Any, Any]], values: list[Any]) -> Accumulator[Any, Any]:
    found = kind()
    for value in values:
        found.add(value)
    return found


@pytest.mark.parametrize(("kind", "parts", "empty", "whole"), CASES)
def test_those_of_subtasks_become_one(
    kind: type[Accumulator[Any, Any]], parts: list[list[Any]], empty: Any, whole: Any
) -> None:
    assert kind().get_local_value() == empty
    subtasks = [serialized({"it": filled(kind, values)}) for values in parts]
    assert results(merged(subtasks)) == {"it": whole}
    assert results(merged([serialized(merged(subtasks))])) == {"it": whole}, "what was merged travels on"
    found = filled(kind, parts[0])
    found.reset_local()
    assert found.get_local_value() == empty


def test_numbers_of_numpy_travel() -> None:
    parts = {
        "sum": filled(acc.IntCounter, [np.int64(3)]),
        "mean": filled(acc.AverageAccumulator, [np.float32(0.5)]),
        "often": filled(acc.Histogram, [np.int32(3), 3]),
    }
    assert results(merged([serialized(parts)])) == {"sum": 3, "mean": 0.5, "often": {3: 2}}


def test_two_types_under_one_name_are_an_error_for_who_asks() -> None:
    one, other = {"seen": acc.IntCounter(), "sure": filled(acc.IntCounter, [1])}, {"seen": acc.Histogram()}
    found = merged([serialized(merged([serialized(one), serialized(other)])), serialized(other), serialized(one)])
    assert found["sure"].get_local_value() == 2
    with pytest.raises(InvalidJob, match="Histogram in one operator and IntCounter in another"):
        found["seen"].get_local_value()
    assert "give them different names" in found["seen"].shown()


def test_a_list_takes_what_json_can_say_and_not_more_than_a_message_bears() -> None:
    found = acc.ListAccumulator()
    with pytest.raises(InvalidJob, match="takes texts, numbers"):
        found.add(object())
    found.add("x" * (LIST_MAX_BYTES // 2))
    with pytest.raises(InvalidJob, match="write the others to a sink"):
        found.add("x" * (LIST_MAX_BYTES // 2))


def test_types_that_nobody_can_merge_are_refused() -> None:
    class Mine(acc.IntCounter):
        """A user's own."""

    check_known("seen", acc.IntCounter())
    with pytest.raises(InvalidJob, match=r"'seen' is a Mine.*IntCounter"):
        check_known("seen", Mine())
    with pytest.raises(InvalidJob, match="is a int"):
        check_known("seen", 3)
