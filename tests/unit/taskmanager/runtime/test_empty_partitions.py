"""Subtasks without rows hold nobody up: splits that are empty, more subtasks than splits, all rows with one key; and rows larger
than any buffer pass."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tidegate.common import Duration, Time, Types, WatermarkStrategy
from tidegate.connectors.file_source import FileSource
from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.datastream.aggregates import count, sum
from tidegate.datastream.window import TumblingEventTimeWindows

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])
A_SECOND = TumblingEventTimeWindows.of(Time.seconds(1))
PARALLELISM = 3


def source(directory: Path, *files: list[tuple[int, int, int]]) -> DataStream:
    """One Parquet file, and so one split, for each list of rows."""
    for number, rows in enumerate(files):
        columns = [pa.array(column, pa.int64()) for column in (zip(*rows, strict=True) if rows else ([], [], []))]
        pq.write_table(pa.Table.from_arrays(columns, schema=SCHEMA), directory / f"{number}.parquet")
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(PARALLELISM)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_column("ts")
    return env.from_source(FileSource.for_parquet(str(directory)), strategy, "rows")


def results(directory: Path, stream: DataStream) -> list[list[Any]]:
    world = str(directory)
    stream.sink_to(CollectingSink(world))
    job = InProcessJob(stream.get_execution_environment().build(), directory)
    job.start()
    job.finish()
    return sorted(committed(world))


def windows(stream: DataStream) -> DataStream:
    return stream.key_by("k").window(A_SECOND).agg(count().alias("n"), sum("v"))


def running_sums(stream: DataStream) -> DataStream:
    pairs = stream.map(lambda row: (row.k, row.v), Types.TUPLE([Types.LONG(), Types.LONG()]))
    return pairs.key_by(lambda pair: pair[0], Types.LONG()).reduce(lambda a, b: (a[0], a[1] + b[1]))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.mkdir()
    return made


def test_windows_of_columns_over_empty_splits(data: Path) -> None:
    stream = source(data, [], [(1, 10, 100), (2, 20, 1_500), (1, 30, 200)], [], [], [(2, 5, 1_600)])
    assert results(data, windows(stream)) == [[0, 1_000, 1, 2, 40], [1_000, 2_000, 2, 2, 25]]


def test_functions_over_fewer_splits_than_subtasks(data: Path) -> None:
    assert results(data, running_sums(source(data, [(1, 10, 0), (2, 1, 0), (1, 5, 0)]))) == [[1, 10], [1, 15], [2, 1]]


@pytest.mark.parametrize("piece", [windows, running_sums])
def test_no_rows_at_all(piece: Any, data: Path) -> None:
    assert results(data, piece(source(data, [], []))) == []


def test_half_of_the_rows_with_one_key(data: Path) -> None:
    keys = [0 if i % 2 else i for i in range(1, 12_001)]
    rows = [(key, 1, 0) for key in keys]
    found = results(data, windows(source(data, rows[:8_000], rows[8_000:])))
    assert {key: n for _, _, key, n, _ in found} == Counter(keys)


def test_texts_larger_than_a_batch_pass_the_exchange(data: Path) -> None:
    kind = Types.TUPLE([Types.LONG(), Types.STRING()])
    stream = source(data, [(i, 2**20 if i else 5 * 2**20, 0) for i in range(12)])
    texts = stream.map(lambda row: (row.k, "é" * row.v), kind).key_by(lambda pair: pair[0] % 4, Types.LONG())
    lengths = texts.map(lambda pair: (pair[0], len(pair[1])), Types.TUPLE([Types.LONG(), Types.LONG()]))
    assert results(data, lengths) == [[i, 2**20 if i else 5 * 2**20] for i in range(12)]
