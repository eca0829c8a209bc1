"""Local recovery of a running job: the checkpoint's own files are not read, unless a copy is missing or damaged."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import Completed, InProcessJob
from tests.unit.taskmanager.runtime.test_data_plane import KEYS, WINDOW_ROWS, as_counter, expected_windows, rows
from tidegate.common import Types, WatermarkStrategy
from tidegate.common.configuration import Configuration
from tidegate.common.time import Time
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, aggregates
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.functions.state import ValueStateDescriptor

TOTAL = 40_000


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short, since the path of a Unix socket may be 100 characters long."""
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        yield Path(path)


def configured(enabled: bool) -> StreamExecutionEnvironment:
    options = Configuration().set_string("execution.checkpointing.data-inline-threshold", "0 b")
    if enabled:
        options.set_string("execution.checkpointing.local-backup.enabled", "true")
        options.set_string("execution.state-recovery.from-local", "true")
    env = StreamExecutionEnvironment.get_execution_environment(options).set_parallelism(2)
    return env.enable_checkpointing(60_000)


def build(world: str, *, enabled: bool = True) -> BuiltJob:
    env = configured(enabled)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    stream = env.from_source(DataGeneratorSource(rows, TOTAL, rows_per_second=8_000.0), strategy, "rows")
    windows = stream.key_by("key").window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_ROWS)))
    windows.agg(aggregates.count().alias("n"), aggregates.sum("value").alias("total")).sink_to(CollectingSink(world))
    return env.build()


def broken_off(built: BuiltJob, directory: Path, world: str) -> Completed:
    job = InProcessJob(built, directory, local_state=str(directory / "local"))
    job.start()
    job.checkpoint()
    job.checkpoint_until(lambda: len(committed(world)) >= 5 * KEYS)
    latest = job.checkpoint()
    job.cut_off()
    return latest


def copied(directory: Path) -> list[Path]:
    return [path for path in (directory / "local").rglob("*") if path.is_file()]


def test_a_restore_reads_no_file_of_the_checkpoint(directory: Path) -> None:
    built = build("local")
    latest = broken_off(built, directory, "local")
    assert f"chk_{latest.checkpoint_id}" in {path.parent.name for path in copied(directory)}
    removed = own_files(latest)
    assert len(removed) >= 2
    for path in removed:
        path.unlink()
    job = InProcessJob(built, directory, latest, 1, first_checkpoint=1000, local_state=str(directory / "local"))
    job.start()
    job.finish()
    assert as_counter("local") == expected_windows(TOTAL)


def test_a_damaged_or_missing_copy_falls_back_to_the_checkpoint(directory: Path) -> None:
    built = build("fallback")
    latest = broken_off(built, directory, "fallback")
    first, second, *_ = sorted(copied(directory))
    content = bytearray(first.read_bytes())
    content[len(content) // 2] ^= 1
    first.write_bytes(content)
    second.unlink()
    job = InProcessJob(built, directory, latest, 1, first_checkpoint=1000, local_state=str(directory / "local"))
    job.start()
    job.finish()
    assert as_counter("fallback") == expected_windows(TOTAL)


def test_nothing_is_copied_unless_it_is_wanted(directory: Path) -> None:
    broken_off(build("unwanted", enabled=False), directory, "unwanted")
    assert copied(directory) == []


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield (ctx.get_current_key(), count)


def test_shared_files_of_incremental_checkpoints_are_copied_along(directory: Path) -> None:
    keys, each = 500, 60
    shared, local = directory / "shared", str(directory / "local")
    shared.mkdir()

    def one_key_after_the_other(first: int, number: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array(np.arange(first, first + number) // each)], names=["key"])

    env = configured(True)
    source = DataGeneratorSource(one_key_after_the_other, keys * each, rows_per_second=5_000.0)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows").key_by(lambda row: row[0], Types.LONG())
    stream.process(Count(), Types.TUPLE([Types.LONG(), Types.LONG()])).sink_to(CollectingSink("increments"))
    built = env.build()
    job = InProcessJob(built, directory, local_state=local, shared_location=str(shared))
    job.start()
    latest = job.checkpoint()
    before = shared_files(latest, shared)
    while not (before and before & shared_files(latest, shared) and latest.checkpoint_id > 4):
        before = shared_files(latest, shared)
        latest = job.checkpoint()
    job.cut_off()
    for path in [*shared.iterdir(), *own_files(latest)]:
        path.unlink(missing_ok=True)
    again = InProcessJob(
        built, directory, latest, 1, first_checkpoint=1000, local_state=local, shared_location=str(shared)
    )
    again.start()
    again.finish()
    expected = Counter((key, count) for key in range(keys) for count in range(1, each + 1))
    assert Counter(tuple(row) for row in committed("increments")) == expected


def shared_files(completed: Completed, shared: Path) -> set[str]:
    parts = [part for ack in completed.acks.values() for part in ack.snapshot.operators.values()]
    return {s.handle.path for part in parts for s in part.keyed if s.handle.path.startswith(str(shared))}


def own_files(completed: Completed) -> list[Path]:
    """Of keyed state: operator state is dealt anew at a restore, so a subtask may read its siblings' files too."""
    parts = [part for ack in completed.acks.values() for part in ack.snapshot.operators.values()]
    handles = [segment.handle for part in parts for segment in part.keyed]
    return [Path(completed.location, handle.path) for handle in handles]
