"""Rows that can be the first of their partition are found by arrays as by comparing each with the ones before it."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.relational.subtasks import Subtasks
from tidegate.plan import nodes
from tidegate.plan.logical_types import Field, LogicalType, TypeRoot
from tidegate.plan.specs import AppendFast, ConstantRange, PartitionSpec, SortField, SortSpec
from tidegate.taskmanager.operators.relational import ranks
from tidegate.taskmanager.operators.relational.first_rows import leading_rows

LEAST, MOST = -(1 << 63), (1 << 63) - 1
NUMBER, TEXT = LogicalType(TypeRoot.BIGINT), LogicalType(TypeRoot.VARCHAR, length=9)
ROWS = LogicalType(TypeRoot.ROW, fields=(Field("k", NUMBER), Field("a", NUMBER), Field("b", NUMBER), Field("t", TEXT)))


def batch(**columns: list[int | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: pa.array(values, pa.int64()) for name, values in columns.items()})


@pytest.mark.parametrize("seed", range(20))
def test_they_are_those_that_precede_all_earlier_ones(seed: int) -> None:
    rng = random.Random(seed)
    order = [SortField(at, rng.random() < 0.5, False) for at in range(rng.choice([1, 2]))]
    values = rng.choice([range(4), range(1000), (LEAST, -1, 0, MOST)])
    rows = [(rng.choice(values), rng.choice(values), rng.randrange(3)) for _ in range(200)]
    data = batch(a=[a for a, _, _ in rows], b=[b for _, b, _ in rows])
    found = leading_rows(data, order, np.array([key for _, _, key in rows], np.intp))
    key_of = ranks.sort_key(order)
    expected = [
        at for at, row in enumerate(rows) if all(key_of(row) < key_of(old) for old in rows[:at] if old[2] == row[2])
    ]
    assert found is not None
    assert found.tolist() == expected


@pytest.mark.parametrize(
    "column", [pa.array([1, None, 2]), pa.array(["a", "b", "c"]), pa.array([1.0, 2.0, float("nan")])]
)
def test_other_columns_are_left_to_comparison(column: pa.Array) -> None:
    data = pa.RecordBatch.from_arrays([column], ["a"])
    assert leading_rows(data, [SortField(0, True, False)], np.zeros(3, np.intp)) is None


@pytest.mark.parametrize("seed", range(5))
def test_the_first_rows_of_a_batch_are_those_of_its_rows_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    node = nodes.Rank1(
        id=1,
        output_type=ROWS,
        description="Rank",
        rank_type="ROW_NUMBER",
        partition=PartitionSpec((0,)),
        order_by=SortSpec((SortField(1, False, True), SortField(2, True, False))),
        rank_range=ConstantRange(1, 1),
        rank_strategy=AppendFast(),
        generate_update_before=rng.random() < 0.5,
        output_row_number=False,
    )
    together, alone = (Subtasks(node, [ROWS], [[0]], 1) for _ in range(2))
    for _ in range(4):
        rows = [(rng.randrange(9), rng.randrange(5), rng.randrange(5), str(at)) for at in range(200)]
        changes = together.feed([(0, row) for row in rows])
        assert len(changes) < 2 * len(rows)
        assert changes == [change for row in rows for change in alone.feed([(0, row)])]
        together.rescale(1)
    together.close()
    alone.close()
