"""Operator state of user functions in a running job that breaks off and comes back rescaled, by the JobManager's assignment."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.taskmanager.runtime.assigned import Assigned
from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import Completed, InProcessJob
from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource, NumberSequenceSource
from tidegate.datastream import (
    CheckpointedFunction,
    CheckpointListener,
    FlatMapFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    StreamExecutionEnvironment,
)
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.functions.state import ListStateDescriptor, MapStateDescriptor
from tidegate.store.segments import open_segment_source

TOTAL, GROUP = 30_000, 64


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short, since the path of a Unix socket may be 100 characters long."""
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        yield Path(path)


class Bundle(FlatMapFunction, CheckpointedFunction):
    """Gathers values and lets them go in bundles of GROUP, the rest (when all have passed here or there) one by one. What
    is gathered is list state; how many passed each old subtask is union state; a rule is broadcast."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.buffer = store.get_list_state(ListStateDescriptor("buffer", Types.LONG()))
        self.passed = store.get_union_list_state(ListStateDescriptor("passed", Types.LONG()))
        self.rules = store.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.LONG()))
        if not context.is_restored():
            self.rules.put("group", GROUP)
        self.held = list(self.buffer.get())
        self.own, before = 0, sum(self.passed.get())
        self.before = before

    def open(self, runtime_context: Any) -> None:
        if runtime_context.get_index_of_this_subtask() == 0:
            self.own = self.before  # one successor goes on counting

    def flat_map(self, value: Any) -> Any:
        self.held.append(value)
        self.own += 1
        if len(self.held) >= (self.rules["group"] or 0):
            bundle, self.held = self.held, []
            yield from bundle

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.buffer.update(self.held)
        self.passed.update([self.own])


def build(world: str, parallelism: int, rate: float | None = None) -> BuiltJob:
    def rows(first: int, number: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array(np.arange(first, first + number))], names=["value"])

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)
    env.enable_checkpointing(60_000)
    source = DataGeneratorSource(rows, TOTAL, rows_per_second=rate)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows").map(lambda row: row[0], Types.LONG())
    stream.rebalance().flat_map(Bundle(), Types.LONG()).uid("bundle").sink_to(CollectingSink(world))
    return env.build()


def test_a_function_with_all_kinds_of_operator_state_is_exact_over_2_3_and_1_subtasks(directory: Path) -> None:
    world = "bundles"
    built = build(world, 2, 5_000.0)
    job = InProcessJob(built, directory)
    job.start()
    job.checkpoint_until(lambda: len(committed(world)) >= 10 * GROUP)
    for attempt, (parallelism, rate) in enumerate([(3, 5_000.0), (1, None)], start=1):
        latest = job.checkpoint(confirm=attempt == 1)
        job.cut_off()
        rescaled = build(world, parallelism, rate)
        restored = Assigned.of(latest, built, rescaled)
        built = rescaled
        job = InProcessJob(built, directory, restored, attempt, first_checkpoint=1000 * attempt)
        job.start()
        enough = len(committed(world)) + (5 * GROUP if rate else 0)
        job.checkpoint_until(lambda enough=enough: len(committed(world)) >= enough)  # type: ignore[misc]
    job.until(lambda: all(task.ended for task in job.tasks.values()), "end of data")
    latest = job.checkpoint()
    job.finish()
    values, state = [value for (value,) in committed(world)], elements_of(latest)
    assert sorted([*values, *state.get("buffer", [])]) == list(range(TOTAL))
    assert state["passed"] == [TOTAL]
    assert state["rules"] == [{"key": "group", "value": GROUP}]


def elements_of(completed: Completed) -> dict[str, list[Any]]:
    source = open_segment_source(completed.location)
    handles = [h for ack in completed.acks.values() for part in ack.snapshot.operators.values() for h in part.operator]
    tables = {h.state_name: pa.ipc.open_file(pa.py_buffer(source.read(h.handle))).read_all() for h in handles}
    return {name: table.column("element").to_pylist() for name, table in tables.items()}


TOLD: dict[str, list[tuple[str, int]]] = {}


class Listener(FlatMapFunction, CheckpointListener):
    def __init__(self, name: str) -> None:
        self.name = name

    def flat_map(self, value: Any) -> Any:
        yield value

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        TOLD[self.name].append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        TOLD[self.name].append(("aborted", checkpoint_id))


def test_listeners_hear_of_every_confirmed_and_every_aborted_checkpoint(directory: Path) -> None:
    TOLD["listener"] = []
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    env.enable_checkpointing(60_000)
    numbers = env.from_source(NumberSequenceSource(0, 5_000_000), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.flat_map(Listener("listener"), Types.LONG()).sink_to(CollectingSink("listener"))
    job = InProcessJob(env.build(), directory)
    job.start()
    first = job.checkpoint().checkpoint_id
    aborted = job.checkpoint(confirm=False).checkpoint_id
    job.abort(aborted)
    last = job.checkpoint().checkpoint_id
    after = job.checkpoint(confirm=False)  # behind the confirmation of the one before it
    job.cancel()
    assert after.checkpoint_id > last
    assert TOLD["listener"] == [("complete", first), ("aborted", aborted), ("complete", last)]
