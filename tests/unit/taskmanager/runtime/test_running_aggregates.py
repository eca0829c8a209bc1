"""``key_by(...).agg(...)`` in a whole job with incremental checkpoints: cut off, restored with other parallelism, exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import Completed, InProcessJob
from tidegate.common import WatermarkStrategy
from tidegate.common.configuration import Configuration
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.datastream.aggregates import count, sum

KEYS = 20_011
ROWS = 150_000


def rows(first: int, number: int) -> pa.RecordBatch:
    index = np.arange(first, first + number, dtype=np.int64)
    return pa.RecordBatch.from_arrays([pa.array(keys_of(index)), pa.array(index)], names=["key", "value"])


def keys_of(index: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """First all of them, then few again and again: so that a checkpoint has little to write."""
    return np.where(index < KEYS, index, index % 50)


def job(world: str, parallelism: int) -> BuiltJob:
    configuration = Configuration().set_string("execution.checkpointing.data-inline-threshold", "0")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism).set_max_parallelism(16)
    env.enable_checkpointing(1000)
    source = DataGeneratorSource(rows, ROWS, rows_per_second=50_000.0)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows").uid("rows")
    totals = stream.key_by("key").agg(count().alias("n"), sum("value").alias("total")).uid("totals")
    totals.sink_to(CollectingSink(world)).uid("sink")
    return env.build()


def levels(completed: Completed) -> set[int]:
    snapshots = [s for ack in completed.acks.values() for s in ack.snapshot.operators.values()]
    return {segment.level for snapshot in snapshots for segment in snapshot.keyed}


def test_totals_are_exact_after_a_restore_of_levels_at_another_parallelism(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    first = InProcessJob(job("totals", 2), tmp_path, shared_location=str(shared))
    first.start()
    first.checkpoint_until(lambda: len(committed("totals")) > KEYS + 1000)
    last_one = first.checkpoint()
    while levels(last_one) == {0} and not any(task.ended for task in first.tasks.values()):
        last_one = first.checkpoint()
    first.cut_off()
    assert any(path.is_file() for path in shared.iterdir())
    again = InProcessJob(
        job("totals", 3), tmp_path, restore=last_one, attempt=1, first_checkpoint=100, shared_location=str(shared)
    )
    again.start()
    again.finish()
    last: dict[int, tuple[int, int]] = {}
    for key, n, total in committed("totals"):
        last[key] = max(last.get(key, (0, 0)), (n, total))
    index = np.arange(ROWS)
    counts = np.bincount(keys_of(index), minlength=KEYS)
    totals = np.bincount(keys_of(index), weights=index.astype(float), minlength=KEYS)
    assert last == {key: (int(counts[key]), int(totals[key])) for key in range(KEYS)}
