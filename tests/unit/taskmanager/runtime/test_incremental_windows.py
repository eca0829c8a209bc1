"""A job whose windows are checkpointed by their changes: cut off again and again, restored at another parallelism, and the result is exact."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import Completed, InProcessJob
from tidegate.common import Configuration, Time, WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import StreamExecutionEnvironment, aggregates
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.datastream.window import TumblingEventTimeWindows

KEYS = 4_000
WINDOWS = 8
ROWS = WINDOWS * 2 * KEYS
"""Each key comes twice in a window."""


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short, since the path of a Unix socket may be 100 characters long."""
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        (Path(path) / "shared").mkdir()
        yield Path(path)


def rows(first: int, number: int) -> pa.RecordBatch:
    index = np.arange(first, first + number)
    return pa.RecordBatch.from_arrays([pa.array(index), pa.array(index % KEYS)], names=["ts", "key"])


def build(world: str, parallelism: int) -> BuiltJob:
    options = Configuration().set_string("execution.checkpointing.data-inline-threshold", "0 b")
    env = StreamExecutionEnvironment.get_execution_environment(options).set_parallelism(parallelism)
    env.set_max_parallelism(12).enable_checkpointing(60_000)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    source = DataGeneratorSource(rows, ROWS, rows_per_second=8_000.0)
    stream = env.from_source(source, strategy, "rows").set_parallelism(1)
    windows = stream.key_by("key").window(TumblingEventTimeWindows.of(Time.milliseconds(2 * KEYS)))
    windows.agg(aggregates.count().alias("n"), aggregates.sum("ts").alias("total")).sink_to(CollectingSink(world))
    return env.build()


def expected() -> Counter[tuple[int, ...]]:
    size = 2 * KEYS
    return Counter(
        (at * size, (at + 1) * size, key, 2, 2 * (at * size + key) + KEYS)
        for at in range(WINDOWS)
        for key in range(KEYS)
    )


def levels_of(completed: Completed) -> set[int]:
    parts = [part for ack in completed.acks.values() for part in ack.snapshot.operators.values()]
    return {segment.level for part in parts for segment in part.keyed if segment.state_name == "windows"}


def test_a_job_is_cut_off_at_every_level_and_stays_exact(directory: Path) -> None:
    shared, latest, built = str(directory / "shared"), None, build("incremental-windows", 2)
    for run, parallelism in enumerate((2, 2, 3)):
        if parallelism != 2:
            built = build("incremental-windows", parallelism)
        job = InProcessJob(built, directory, latest, run, first_checkpoint=1 + 1000 * run, shared_location=shared)
        job.start()
        latest = job.checkpoint()
        before = len(committed("incremental-windows"))
        while not (max(levels_of(latest), default=0) and len(committed("incremental-windows")) > before):
            latest = job.checkpoint()
        job.cut_off()
    job = InProcessJob(built, directory, latest, 3, first_checkpoint=4000, shared_location=shared)
    job.start()
    job.finish()
    assert Counter(tuple(row) for row in committed("incremental-windows")) == expected()
