"""The external sort against a plain one, whatever is spilled."""

from __future__ import annotations

import heapq
import tempfile

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.common.typeinfo import Types
from tidegate.records.batch import MIN_TIMESTAMP
from tidegate.records.record_codec import decode, encode
from tidegate.taskmanager.operators.batch.sorting import ExternalSorter

LONG = Types.LONG()
ROWS = st.tuples(
    st.sampled_from([b"", b"a", b"ab", b"b"]), st.one_of(st.none(), st.just(MIN_TIMESTAMP), st.integers(-3, 3))
)


@settings(deadline=None)
@given(st.lists(st.lists(ROWS, max_size=8), max_size=8), st.integers(1, 400))
def test_rows_come_by_key_then_time_then_as_they_were_added(
    batches: list[list[tuple[bytes, int | None]]], limit: int
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        sorter = ExternalSorter(directory, limit, lambda data: decode(LONG, data, "test"))
        expected, number = [], 0
        for rows in batches:
            numbers = list(range(number, number + len(rows)))
            number += len(rows)
            stamps = pa.array([stamp for _, stamp in rows], pa.int64())
            sorter.add(encode(LONG, numbers, "test"), [key for key, _ in rows], stamps)
            expected += [(key, stamp, n) for (key, stamp), n in zip(rows, numbers, strict=True)]
        expected.sort(key=lambda row: (row[0], MIN_TIMESTAMP if row[1] is None else row[1]))
        found = [(row[0], row[6], row[5]) for row in heapq.merge(*sorter.sorted_runs())]
        assert found == expected
        sorter.close()
