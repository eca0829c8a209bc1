"""A real checkpoint: a job with every sort of state runs in this process, and what its subtasks acknowledge becomes a
``_metadata``, as in the JobManager."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import Completed, InProcessJob
from tidegate.common import Types, WatermarkStrategy
from tidegate.common.configuration import Configuration
from tidegate.common.time import Time
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, aggregates
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.functions.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidegate.model.checkpoint import CheckpointManifest, OperatorSnapshot, OperatorState, SnapshotType
from tidegate.model.graph import JobVertex
from tidegate.model.ids import CheckpointId
from tidegate.store.checkpoints import CheckpointStorage

KEYS = 10
ROWS = 1_000_000
WINDOW_MS = 1_000_000_000
MAX_PARALLELISM = 16


class Session:
    """A class of the job, which readers do not have."""

    def __init__(self, last: int) -> None:
        self.last = last


class Remember(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.by_parity = runtime_context.get_map_state(MapStateDescriptor("by-parity", Types.STRING(), Types.LONG()))
        self.session = runtime_context.get_state(ValueStateDescriptor("session", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        number = value["value"]
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count <= 3:
            self.seen.add(number)
        self.by_parity.put("even" if number % 2 == 0 else "odd", number)
        self.session.update(Session(number))
        ctx.timer_service().register_event_time_timer(10_000_000 + value["key"])
        yield number

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield from ()


class Last(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.last.update(value["value"])
        yield from ()


def rows(first: int, number: int) -> pa.RecordBatch:
    index = np.arange(first, first + number, dtype=np.int64)
    columns = [pa.array(index % KEYS), pa.array(index), pa.array(index)]
    return pa.RecordBatch.from_arrays(columns, names=["key", "value", "ts"])


def job_of(world: str, parallelism: int, inline_threshold: str) -> BuiltJob:
    """No window ends and no timer fires while it runs."""
    configuration = Configuration().set_string("execution.checkpointing.data-inline-threshold", inline_threshold)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(parallelism)
    env.enable_checkpointing(60_000).set_max_parallelism(MAX_PARALLELISM)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    stream = env.from_source(DataGeneratorSource(rows, ROWS, rows_per_second=4000.0), strategy, "rows").uid("rows")
    windows = stream.key_by("key").window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
    summed = windows.agg(aggregates.count().alias("n"), aggregates.sum("value").alias("total"))
    summed.name("sum").uid("windows").sink_to(CollectingSink(f"{world}-windows"))
    typed = stream.key_by(lambda row: row["key"], Types.LONG())
    typed.process(Remember(), Types.LONG()).name("remember").uid("remember").sink_to(CollectingSink(world))
    untyped = stream.key_by(lambda row: f"k{row['key']}")
    untyped.process(Last(), Types.LONG()).name("last").sink_to(CollectingSink(f"{world}-last"))
    return env.build()


def two_checkpoints(directory: Path, world: str, *, parallelism: int = 2, inline_threshold: str = "0") -> list[str]:
    """Locations of two checkpoints of one run; more rows were read between them."""
    job = InProcessJob(job_of(world, parallelism, inline_threshold), directory)
    job.start()
    locations = []
    for _ in range(2):
        seen = len(committed(world))
        job.checkpoint_until(lambda seen=seen: len(committed(world)) >= seen + 5 * KEYS)  # type: ignore[misc]
        locations.append(write_manifest(job, job.checkpoint()))
    job.cancel()
    return locations


def write_manifest(job: InProcessJob, completed: Completed) -> str:
    """Make a checkpoint of what was acknowledged; its location."""
    operators = [state for vertex in job.built.graph.vertices for state in _operators(vertex, completed)]
    graph = job.built.graph
    manifest = CheckpointManifest(
        graph.job_id,
        graph.name,
        CheckpointId(completed.checkpoint_id),
        1_700_000_000_000,
        SnapshotType.CHECKPOINT,
        tuple(operators),
    )
    assert CheckpointStorage().write_manifest(completed.location, manifest).error is None
    return completed.location


def place_as(location: str, place: str, checkpoint_id: int) -> None:
    """A copy of the checkpoint at ``place``, under the id that a job has for it there."""
    shutil.copytree(location, place, ignore=shutil.ignore_patterns("_metadata"))
    _, manifest = CheckpointStorage().read_checkpoint(location)
    renamed = dataclasses.replace(manifest, checkpoint_id=CheckpointId(checkpoint_id))
    assert CheckpointStorage().write_manifest(place, renamed).error is None


def _operators(vertex: JobVertex, completed: Completed) -> Iterable[OperatorState]:
    for operator in vertex.operators:
        subtasks: dict[int, OperatorSnapshot] = {
            attempt.subtask: ack.snapshot.operators[operator.operator_id]
            for attempt, ack in completed.acks.items()
            if attempt.vertex_id == vertex.vertex_id and operator.operator_id in ack.snapshot.operators
        }
        if subtasks:
            yield OperatorState(
                operator.operator_id,
                operator.uid,
                operator.name,
                vertex.parallelism,
                vertex.max_parallelism,
                subtasks,
            )
