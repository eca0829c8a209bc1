"""Sums of FLOAT are those of Flink 2.3, which adds numbers of 32 bits; averages are of sums of DOUBLE there."""

from __future__ import annotations

import struct

import pytest

from tests.unit.taskmanager.operators.relational.test_against_duckdb import call
from tidegate.functions.sql.aggregates.functions import Avg, Sum
from tidegate.plan.logical_types import LogicalType, TypeRoot

FLOAT = LogicalType(TypeRoot.FLOAT)


def single(value: float) -> float:
    (rounded,) = struct.unpack("f", struct.pack("f", value))
    assert isinstance(rounded, float)
    return rounded


@pytest.mark.parametrize(
    ("values", "total", "average"),
    [  # SELECT SUM(f), AVG(f) of Flink 2.3, in this order of rows
        ([1e8, 1.0, 1.0, -1e8], 0.0, 0.5),
        ([0.1, 0.2, 0.7, 16.1, 33.33], 50.43, 10.086),
        ([0.1, 0.2, 0.7, 16.1, 33.33, 1e8, 1.0, 1.0, -1e8, 3.3], 51.3, 5.5730004),
    ],
)
def test_sums_and_averages_are_those_of_flink(values: list[float], total: float, average: float) -> None:
    added, averaged = Sum(call("$SUM$1", FLOAT, 0), [FLOAT]), Avg(call("$AVG$1", FLOAT, 0), [FLOAT])
    sums, averages = added.create(), averaged.create()
    for value in values:
        added.add(sums, [single(value)])
        averaged.add(averages, [single(value)])
    assert added.value(sums) == single(total)
    assert single(averaged.value(averages)) == single(average)
