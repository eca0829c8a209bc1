"""Unaligned checkpoints of a real data plane with a slow consumer: what was in flight comes back, once, at any parallelism."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.taskmanager.runtime import test_data_plane as data_plane
from tests.unit.taskmanager.runtime.assigned import Assigned
from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import Completed, InProcessJob
from tidegate.common import Row, Types, WatermarkStrategy
from tidegate.common.configuration import Configuration
from tidegate.common.time import Time
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment, aggregates
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.functions.state import ValueStateDescriptor
from tidegate.model.checkpoint import Alignment, ChannelStateHandle
from tidegate.store.segments import open_segment_source
from tidegate.taskmanager.runtime.checkpointing.in_flight import read_channel

KEYS, TOTAL = 23, 6_000
TIMEOUT_MS = 30
UNALIGNED = Configuration()
UNALIGNED.set_string("execution.checkpointing.unaligned.enabled", "true")


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short, since the path of a Unix socket may be 100 characters long."""
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        yield Path(path)


class Pace:
    """How long a record takes, until it is released."""

    def __init__(self, record_s: float = 0.01) -> None:
        self._record_s = record_s
        self.released = threading.Event()

    def take(self) -> None:
        self.released.wait(self._record_s)


PACES: dict[str, Pace] = {}


class SlowCount(KeyedProcessFunction):
    """Numbers the records of each key, from state."""

    def __init__(self, world: str) -> None:
        self._world = world

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        PACES[self._world].take()
        number = (self.count.value() or 0) + 1
        self.count.update(number)
        yield value, number


def numbers(first: int, number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(np.arange(first, first + number))], names=["value"])


def build(world: str, parallelism: int, *, by: str = "selector") -> BuiltJob:
    """``by``: how the edge in front of the slow function is dealt."""
    PACES.setdefault(world, Pace())
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)
    env.enable_checkpointing(60_000)
    env.configure(UNALIGNED)
    source = DataGeneratorSource(numbers, TOTAL)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows")
    types = Types.TUPLE([Types.LONG(), Types.LONG()])
    if by == "columns":
        named = Types.ROW_NAMED(["key", "value"], [Types.LONG(), Types.LONG()])
        keyed = stream.map(lambda row: Row(row[0] % KEYS, row[0]), named).key_by("key")
        counted = keyed.process(SlowCount(world), Types.TUPLE([named, Types.LONG()])).uid("count")
        counted.map(lambda pair: (pair[0][1], pair[1]), types).sink_to(CollectingSink(world))
        return env.build()
    values = stream.map(lambda row: row[0], Types.LONG())
    values.key_by(lambda value: value % KEYS, Types.LONG()).process(SlowCount(world), types).uid("count").sink_to(
        CollectingSink(world)
    )
    return env.build()


def expected() -> Counter[tuple[int, int]]:
    """Each value once, each number of a key once."""
    return Counter((key, number) for key in range(KEYS) for number in range(1, len(range(key, TOTAL, KEYS)) + 1))


def check(world: str) -> None:
    rows = committed(world)
    assert sorted(value for value, _ in rows) == list(range(TOTAL))
    assert Counter((value % KEYS, number) for value, number in rows) == expected()


def channels_of(completed: Completed) -> list[ChannelStateHandle]:
    return [
        channel
        for ack in completed.acks.values()
        for part in ack.snapshot.operators.values()
        for channel in (*part.input_channels, *part.output_channels)
    ]


def rows_in_flight(completed: Completed) -> int:
    source = open_segment_source(completed.location)
    return sum(b.data.num_rows for channel in channels_of(completed) for b in read_channel(source, channel)[1])


def checkpoint_with(rows: int, job: InProcessJob) -> Completed:
    """The first one with so many rows in flight: a source begins with few at a time."""
    while rows_in_flight(latest := job.checkpoint()) < rows:
        pass
    return latest


def restored_job(
    world: str, directory: Path, latest: Completed, before: BuiltJob, parallelism: int, attempt: int, by: str
) -> tuple[InProcessJob, BuiltJob]:
    built = build(world, parallelism, by=by)
    restored = Assigned.of(latest, before, built)
    return (
        InProcessJob(
            built, directory, restored, attempt, first_checkpoint=1000 * attempt, alignment=Alignment.UNALIGNED
        ),
        built,
    )


@pytest.mark.parametrize("by", ["selector", "columns"])
@pytest.mark.parametrize("parallelism", [2, 3, 1])
def test_data_in_flight_is_replayed_exactly_once(directory: Path, parallelism: int, by: str) -> None:
    world = f"unaligned-{parallelism}-{by}"
    built = build(world, 2, by=by)
    job = InProcessJob(built, directory, alignment=Alignment.UNALIGNED)
    job.start()
    job.checkpoint()
    latest = checkpoint_with(1, job)
    job.cut_off()
    assert any(ack.metrics.unaligned and ack.metrics.in_flight_bytes for ack in latest.acks.values())
    PACES[world].released.set()
    again, _ = restored_job(world, directory, latest, built, parallelism, 1, by)
    again.start()
    again.finish()
    check(world)


def test_a_checkpoint_during_the_replay_holds_what_was_not_replayed(directory: Path) -> None:
    world, by = "replayed-again", "selector"
    PACES[world] = Pace(0.1)
    built = build(world, 2, by=by)
    job = InProcessJob(built, directory, alignment=Alignment.UNALIGNED)
    job.start()
    latest = checkpoint_with(100, job)
    for attempt, parallelism in enumerate([2, 3, 2], start=1):
        job.cut_off()
        in_flight = rows_in_flight(latest)
        job, built = restored_job(world, directory, latest, built, parallelism, attempt, by)
        job.start()
        latest = job.checkpoint()
        assert rows_in_flight(latest) > in_flight // 2, "a record takes 100 ms: most of it is still in flight"
    PACES[world].released.set()
    job.cut_off()
    job, _ = restored_job(world, directory, latest, built, 2, 9, by)
    job.start()
    job.finish()
    check(world)


def test_an_aligned_checkpoint_that_takes_too_long_becomes_unaligned(directory: Path) -> None:
    world = "in-time"
    built = build(world, 2)
    job = InProcessJob(built, directory, aligned_timeout_ms=TIMEOUT_MS)
    job.start()
    latest = checkpoint_with(1, job)
    job.cut_off()
    assert any(ack.metrics.unaligned for ack in latest.acks.values())
    PACES[world].released.set()
    again, _ = restored_job(world, directory, latest, built, 2, 1, "selector")
    again.aligned_timeout_ms = TIMEOUT_MS
    again.alignment = Alignment.ALIGNED
    again.start()
    again.finish()
    check(world)


def test_an_aborted_unaligned_checkpoint_is_forgotten_and_the_next_one_is_whole(directory: Path) -> None:
    world = "aborted-unaligned"
    built = build(world, 2)
    job = InProcessJob(built, directory, alignment=Alignment.UNALIGNED)
    job.start()
    for _ in range(5):
        job.abort(job.trigger())
    latest = job.checkpoint()
    job.cut_off()
    PACES[world].released.set()
    again, _ = restored_job(world, directory, latest, built, 2, 1, "selector")
    again.start()
    again.finish()
    check(world)


def test_a_forward_edge_behind_a_keyed_one_is_aligned_and_nothing_is_lost(directory: Path) -> None:
    """The slow function is behind a pointwise edge: its input is never in flight of a checkpoint."""
    world = "forced"

    def job_of() -> BuiltJob:
        PACES.setdefault(world, Pace())
        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
        env.enable_checkpointing(60_000)
        env.configure(UNALIGNED)
        stream = env.from_source(DataGeneratorSource(numbers, TOTAL), WatermarkStrategy.no_watermarks(), "rows")
        types = Types.TUPLE([Types.LONG(), Types.LONG()])
        counted = (
            stream.map(lambda row: row[0], Types.LONG())
            .key_by(lambda value: value % KEYS, Types.LONG())
            .process(SlowCount(world), types)
            .uid("count")
        )
        counted.map(lambda pair: pair, types).start_new_chain().sink_to(CollectingSink(world))
        return env.build()

    built = job_of()
    job = InProcessJob(built, directory, alignment=Alignment.UNALIGNED)
    job.start()
    latest = job.checkpoint()
    job.cut_off()
    forward = {edge.edge_id for edge in built.graph.edges if edge.partitioner.is_pointwise}
    assert forward
    assert not forward & {channel.edge_id for channel in channels_of(latest)}
    PACES[world].released.set()
    again = job_of()
    restored = Assigned.of(latest, built, again)
    second = InProcessJob(again, directory, restored, 1, first_checkpoint=1000, alignment=Alignment.UNALIGNED)
    second.start()
    second.finish()
    check(world)


@pytest.mark.parametrize("parallelism", [2, 3])
def test_event_time_windows_lose_no_row_as_late_when_watermarks_were_in_flight(
    directory: Path, parallelism: int
) -> None:
    world, total = f"windows-{parallelism}", 60_000

    def job_of(rows_per_second: float | None, subtasks: int) -> BuiltJob:
        env = StreamExecutionEnvironment.get_execution_environment(UNALIGNED).set_parallelism(subtasks)
        env.enable_checkpointing(60_000)
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
        source = DataGeneratorSource(data_plane.rows, total, rows_per_second=rows_per_second)
        named = Types.ROW_NAMED(["key", "value", "ts"], [Types.LONG()] * 3)
        stream = env.from_source(source, strategy, "rows").rebalance().map(lambda row: row, named)
        windowed = stream.key_by("key").window(TumblingEventTimeWindows.of(Time.milliseconds(data_plane.WINDOW_ROWS)))
        summed = windowed.agg(aggregates.count().alias("n"), aggregates.sum("value").alias("total"))
        summed.sink_to(CollectingSink(world))
        return env.build()

    built = job_of(60_000.0, 2)
    job = InProcessJob(built, directory, alignment=Alignment.UNALIGNED)
    job.start()
    job.checkpoint_until(lambda: len(committed(world)) >= 5 * data_plane.KEYS)
    latest = job.checkpoint()
    job.cut_off()
    rescaled = job_of(None, parallelism)
    restored = Assigned.of(latest, built, rescaled)
    again = InProcessJob(rescaled, directory, restored, 1, first_checkpoint=1000, alignment=Alignment.UNALIGNED)
    again.start()
    again.finish()
    assert data_plane.as_counter(world) == data_plane.expected_windows(total)


def test_damaged_in_flight_data_is_refused_by_name(directory: Path) -> None:
    world = "damaged-in-flight"
    built = build(world, 2)
    job = InProcessJob(built, directory, alignment=Alignment.UNALIGNED)
    job.start()
    latest = job.checkpoint()
    job.cut_off()
    PACES[world].released.set()
    damaged = replace(latest, acks={a: replace(ack, snapshot=flipped(ack.snapshot)) for a, ack in latest.acks.items()})
    again, _ = restored_job(world, directory, damaged, built, 2, 1, "selector")
    again.start_failing()
    again.until(lambda: bool(again.errors), "the refusal", failing=True)
    assert again.errors[0].code == "corrupt-data"
    again.cut_off()


def flipped(snapshot: Any) -> Any:
    def one(channel: ChannelStateHandle) -> ChannelStateHandle:
        return replace(channel, handle=replace(channel.handle, checksum="0" * 16))

    operators = {
        op: replace(
            part,
            input_channels=tuple(map(one, part.input_channels)),
            output_channels=tuple(map(one, part.output_channels)),
        )
        for op, part in snapshot.operators.items()
    }
    return replace(snapshot, operators=operators)
