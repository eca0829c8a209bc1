"""What the benchmark of many keys expects is what pyarrow finds in the same rows."""

from __future__ import annotations

from benchmarks import in_memory
from benchmarks.many_keys import PARALLELISM, expected_answers, summed
from benchmarks.rows import KEYS, ROWS_PER_MS, WINDOW_MS


def test_the_expected_answer_is_that_of_pyarrow() -> None:
    rows = PARALLELISM * (WINDOW_MS * ROWS_PER_MS + 12_345)  # one window and a part of the next
    _, found = in_memory.run(in_memory.build_table(rows, PARALLELISM), threads=1)
    assert summed(expected_answers(rows, KEYS)) == found
