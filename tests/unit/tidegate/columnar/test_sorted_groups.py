"""Partials of keys that were sorted are those of keys that have codes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidegate.columnar.aggregates.plan import AggregatePlan, input_rows, plan_of_rows
from tidegate.columnar.grouping import encoded, group
from tidegate.columnar.keys import codes as key_codes

ROWS = 5_000
AGGREGATES = (
    ("n", "count", None),
    ("nv", "count", "v"),
    *(
        (f"{function}_{column}", function, column)
        for function in ("sum", "min", "max", "avg")
        for column in ("v", "u", "f", "i")
    ),
    *((f"{function}_{column}", function, column) for function in ("min", "max") for column in ("t", "b", "d")),
)


def rows(with_nulls: bool) -> pa.RecordBatch:
    rng = np.random.default_rng(8)
    mask = rng.random(ROWS) < 0.2 if with_nulls else None
    floats = rng.integers(-100, 100, ROWS) / 4
    floats[rng.random(ROWS) < 0.3] = np.nan
    numbers = rng.integers(-(2**62), 2**62, ROWS)
    columns = {
        "k": rng.integers(0, 2_000, ROWS) * 2**40,
        "v": pa.array(numbers, mask=mask),
        "u": pa.array(numbers.view(np.uint64)),
        "f": pa.array(floats, mask=mask),
        "i": pa.array((numbers % 1_000).astype(np.int8)),
        "t": pa.array(numbers % 2**50).view(pa.timestamp("us")),
        "b": pa.array(numbers % 2 == 0),
        "d": pa.array((numbers % 9_000).astype(np.int32)).view(pa.date32()),
    }
    return pa.record_batch(columns)


def by_key(batch: pa.RecordBatch) -> pa.Table:
    return pa.table(batch).sort_by("k")


@pytest.mark.parametrize("with_nulls", [False, True])
@pytest.mark.filterwarnings("ignore:overflow")
def test_sorted_rows_have_the_same_partials(with_nulls: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    data = rows(with_nulls)
    plan: AggregatePlan = plan_of_rows("w", ["k"], AGGREGATES, data.schema)
    data = input_rows(plan, data)
    expected = by_key(group(plan, data))
    assert encoded(plan, data).rows_by_key is None
    monkeypatch.setattr(key_codes, "MIN_SORTED_ROWS", 1)
    monkeypatch.setattr(key_codes, "MANY_KEYS", 0.0)
    assert encoded(plan, data).rows_by_key is not None
    found = by_key(group(plan, data))
    assert found.schema.equals(expected.schema)
    for name in found.schema.names:
        if pa.types.is_floating(found.schema.field(name).type):
            np.testing.assert_array_equal(found[name].to_numpy(), expected[name].to_numpy(), name)
        else:
            assert found[name].equals(expected[name]), name
    assert found["n"].to_pylist() == expected["n"].to_pylist()
