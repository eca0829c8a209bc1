"""Parquet part files hold what was written, in few row groups, and leave little to encode when a barrier comes."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.connectors.files.encoders import ParquetEncoderFactory

ROWS_OF_BATCH = 5_000


def written(table: pa.Table, **options: Any) -> tuple[pq.ParquetFile, int]:
    """The file, and how many of its bytes were there before the end."""
    content, before = bytes_of(table, ROWS_OF_BATCH, **options)
    return pq.ParquetFile(io.BytesIO(content)), before


def bytes_of(table: pa.Table, rows_of_batch: int, **options: Any) -> tuple[pa.Buffer, int]:
    sink = pa.BufferOutputStream()
    encoder = ParquetEncoderFactory(options=options).open(sink, table.schema)
    for batch in table.to_batches(max_chunksize=rows_of_batch):
        encoder.write(batch)
    before = sink.tell()
    encoder.finish()
    return sink.getvalue(), before


def numbers(rows: int) -> pa.Table:
    return pa.table({"n": pa.array(range(rows), pa.int64())})


def encodings(file: pq.ParquetFile, column: int) -> set[str]:
    return set(file.metadata.row_group(0).column(column).encodings)


def test_whole_numbers_and_times_are_written_as_differences_and_come_back() -> None:
    table = pa.table(
        {
            "small": pa.array([1, None, -3], pa.int8()),
            "large": pa.array([2**64 - 1, 0, 1], pa.uint64()),
            "at": pa.array([datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3)], pa.timestamp("us", "UTC")),
            "day": pa.array([1, 2, 3], pa.date32()),
            "name": ["a", "b", "a"],
            "price": [1.5, 2.5, None],
        }
    )
    file, _ = written(table)
    assert file.read().equals(table)
    assert all("DELTA_BINARY_PACKED" in encodings(file, column) for column in range(4))
    assert all("RLE_DICTIONARY" in encodings(file, column) for column in (4, 5))


def test_options_of_the_user_are_all_that_counts() -> None:
    file, _ = written(numbers(10), compression="zstd")
    assert "RLE_DICTIONARY" in encodings(file, 0)
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"


def test_nested_columns_are_written_as_pyarrow_does() -> None:
    table = pa.table({"n": [1, 2], "inside": [{"a": 1}, {"a": 2}]})
    file, _ = written(table)
    assert file.read().equals(table)


def test_row_groups_grow_so_that_they_are_few_and_little_is_left_for_the_barrier() -> None:
    file, before = written(numbers(1_000_000))
    groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
    assert sum(groups) == 1_000_000
    assert len(groups) <= 16
    assert groups[0] <= 4 * ROWS_OF_BATCH
    assert groups[-1] <= sum(groups[:-1]) / 2 + ROWS_OF_BATCH
    assert before > 0


def test_a_few_rows_are_one_row_group() -> None:
    file, _ = written(numbers(12_000))
    assert file.metadata.num_row_groups == 1


@pytest.mark.parametrize("rows_of_batch", [100, 5_000])
def test_a_row_group_is_the_same_whatever_batches_it_came_in(rows_of_batch: int) -> None:
    names = pa.array([f"name {i % 70}" for i in range(12_000)])
    coded = pa.chunked_array(
        [names[:6_000].dictionary_encode(), names[6_030:].dictionary_encode(), names[:30].dictionary_encode()]
    )
    table = pa.table({"n": range(12_000), "name": names, "coded": coded})
    whole = table.combine_chunks()
    assert bytes_of(table, rows_of_batch)[0].equals(bytes_of(whole, 12_000)[0])
