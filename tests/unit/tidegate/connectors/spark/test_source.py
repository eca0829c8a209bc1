"""A Spark partition is replayed to the row, and a replay that differs fails by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.connectors.base import ReaderContext, SourceReader, SplitState
from tidegate.connectors.spark.source import MARKER, SparkSource
from tidegate.model.errors import CorruptData, InvalidJob

SCHEMA = pa.schema([("n", pa.int64())])
ROWS = 25_000


def rows(total: int = ROWS, cut: int = 7_000, changed_at: int = -1) -> Iterator[pa.RecordBatch]:
    values = [(-1 if n == changed_at else n) for n in range(total)]
    for start in range(0, total, cut):
        yield pa.record_batch({"n": values[start : start + cut]}, schema=SCHEMA)


def reader(
    spark_rows: Iterator[pa.RecordBatch], states: list[SplitState] | None = None, subtask: int = 0
) -> SourceReader:
    source = SparkSource(lambda spark: spark.table("t"), SCHEMA, materialize=False)
    made = source.make_reader(ReaderContext(subtask, 2, 128, "j", "a", "o", spark_rows=spark_rows))
    made.open(states or [SplitState(source.list_splits(2)[subtask])])
    return made


def drain(source: SourceReader, stop_after: int = ROWS + 1) -> list[int]:
    """Values emitted in slices of 1,000, until at least ``stop_after`` of them."""
    values: list[int] = []
    while not source.is_finished() and len(values) < stop_after:
        polled = source.poll()
        if polled is None:
            continue
        for first in range(0, len(polled.batch), 1000):
            if len(values) >= stop_after:
                break
            piece = polled.batch.slice(first, min(first + 1000, len(polled.batch)))
            values += piece.data["n"].to_pylist()  # type: ignore[union-attr]
            source.advance(len(piece))
    return values


@pytest.mark.parametrize("stop", [1000, 9000, 10_000, 11_000, 20_000, 25_000])
@pytest.mark.parametrize("cut", [3_333, 10_000, 50_000])
def test_a_replay_continues_at_the_row_however_spark_cuts_its_batches(stop: int, cut: int) -> None:
    first = reader(rows())
    head = drain(first, stop)
    again = reader(rows(cut=cut), first.snapshot_state())
    assert head + drain(again) == list(range(ROWS))
    assert again.snapshot_state()[0].done


@pytest.mark.parametrize("changed_at", [0, 9_999, 14_999])
def test_a_replay_with_another_row_fails_by_name(changed_at: int) -> None:
    first = reader(rows())
    drain(first, 15_000)
    again = reader(rows(changed_at=changed_at), first.snapshot_state())
    with pytest.raises(CorruptData, match=r"gave other rows than before.*materialize=True"):
        drain(again)


def test_a_replay_with_fewer_rows_fails_by_name() -> None:
    first = reader(rows())
    drain(first, 15_000)
    with pytest.raises(CorruptData, match="gave other rows than before"):
        drain(reader(rows(total=9_000), first.snapshot_state()))


def test_another_parallelism_is_refused_with_the_remedy() -> None:
    source = SparkSource(lambda spark: spark.table("t"), SCHEMA, materialize=False)
    made = source.make_reader(ReaderContext(0, 3, 128, "j", "a", "o", spark_rows=rows()))
    with pytest.raises(InvalidJob, match="materialize=True"):
        made.open([SplitState(source.list_splits(2)[0])])


def test_a_materialized_result_is_dealt_by_row_group(tmp_path: Path) -> None:
    data, owned = tmp_path / "data", tmp_path / "j" / "taskowned" / "spark-o"
    data.mkdir()
    owned.mkdir(parents=True)
    pq.write_table(pa.table({"n": range(100)}, schema=SCHEMA), data / "part-0.parquet", row_group_size=30)
    (owned / MARKER).write_text(f'{{"directory": "{data}"}}')
    found: list[int] = []
    for subtask in range(3):
        context = ReaderContext(subtask, 3, 128, "j", "a", "o", {"execution.checkpointing.dir": str(tmp_path)})
        made = SparkSource(lambda spark: spark.table("t"), SCHEMA, materialize=True).make_reader(context)
        made.open([])
        found += drain(made)
    assert sorted(found) == list(range(100))
