"""Asynchronous I/O in running subtasks: results in flight over a break, at the end of data, and at a stop."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tidegate.common import Time, Types, WatermarkStrategy
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.datastream.async_data_stream import AsyncDataStream
from tidegate.functions.interfaces import AsyncFunction
from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import CheckpointOptions, SnapshotType

TOTAL = 500
CAPACITY = 7
LONG = Types.LONG()


class Gate:
    """Lets calls through while it is open; counts those that wait for it."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.waiting = threading.Semaphore(0)

    async def passed(self) -> None:
        if not self.is_open.is_set():
            self.waiting.release()
            await asyncio.get_running_loop().run_in_executor(None, self.is_open.wait)


GATES: dict[str, Gate] = {}


class Doubled(AsyncFunction[int, int]):
    """The second half of the numbers waits for the gate."""

    def __init__(self, gate: str, closed_from: int = TOTAL // 2) -> None:
        self.gate = gate
        self.closed_from = closed_from

    async def async_invoke(self, value: int) -> list[int]:
        if value > self.closed_from:
            await GATES[self.gate].passed()
        else:
            await asyncio.sleep(0)
        return [2 * value]


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short, since the path of a Unix socket may be 100 characters long."""
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        yield Path(path)


@pytest.fixture
def gate(request: pytest.FixtureRequest) -> Iterator[str]:
    name = request.node.name
    GATES[name] = Gate()
    yield name
    GATES[name].is_open.set()


def built(world: str, *, ordered: bool, chained: bool, closed_from: int = TOTAL // 2) -> BuiltJob:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    env.enable_checkpointing(3_600_000)
    numbers = env.from_source(NumberSequenceSource(1, TOTAL), WatermarkStrategy.no_watermarks(), "numbers")
    wait = AsyncDataStream.ordered_wait if ordered else AsyncDataStream.unordered_wait
    stream = wait(
        numbers if chained else numbers.rebalance(), Doubled(world, closed_from), Time.hours(1), CAPACITY, LONG
    )
    stream.sink_to(CollectingSink(world))
    return env.build()


def values(world: str) -> list[int]:
    return [row[0] for row in committed(world)]


@pytest.mark.parametrize("ordered", [True, False])
def test_what_was_in_flight_at_the_checkpoint_is_there_once_after_a_break(
    directory: Path, gate: str, ordered: bool
) -> None:
    job = InProcessJob(built(gate, ordered=ordered, chained=True), directory)
    job.start()
    for _ in range(CAPACITY):
        assert GATES[gate].waiting.acquire(timeout=10)
    completed = job.checkpoint()
    job.cut_off()
    GATES[gate].is_open.set()
    again = InProcessJob(job.built, directory, completed, 1, first_checkpoint=100)
    again.start()
    again.finish()
    found = values(gate)
    assert (found if ordered else sorted(found)) == [2 * value for value in range(1, TOTAL + 1)]


@pytest.mark.parametrize("chained", [True, False])
def test_the_end_of_data_waits_for_what_is_in_flight(directory: Path, gate: str, chained: bool) -> None:
    job = InProcessJob(built(gate, ordered=False, chained=chained, closed_from=TOTAL - 3), directory)
    job.start()
    for _ in range(3):
        assert GATES[gate].waiting.acquire(timeout=10)
    assert not any(task.ended for task in job.tasks.values() if "async" in task.vertex.name)
    GATES[gate].is_open.set()
    job.finish()
    assert sorted(values(gate)) == [2 * value for value in range(1, TOTAL + 1)]


@pytest.mark.parametrize("chained", [True, False])
@pytest.mark.parametrize("kind", [SnapshotType.TERMINATE, SnapshotType.SUSPEND])
def test_a_stop_drains_or_keeps_what_is_in_flight(
    directory: Path, gate: str, kind: SnapshotType, chained: bool
) -> None:
    job = InProcessJob(built(gate, ordered=True, chained=chained), directory)
    job.start()
    for _ in range(CAPACITY):
        assert GATES[gate].waiting.acquire(timeout=10)
    location = directory / "stop"
    location.mkdir()
    (source,) = (task for task in job.tasks.values() if task.vertex.is_source)
    job.acks[job.next_id] = {}
    options = CheckpointOptions(str(location), snapshot_type=kind)
    source.mailbox.put(Barrier(job.next_id, time.time_ns() // 1_000_000, options))
    GATES[gate].is_open.set()
    job._waits_for = list(job.tasks)
    completed = job.complete(job.next_id)
    for task in job.tasks.values():
        assert task.ended
    job._may_finish = {vertex.vertex_id for vertex in job.built.graph.vertices}
    job.confirm(completed.checkpoint_id)
    job.until(lambda: job.is_over, "the end")
    job.join()
    stopped = values(gate)
    assert stopped == [2 * value for value in range(1, len(stopped) + 1)]
    if kind is SnapshotType.SUSPEND:
        again = InProcessJob(job.built, directory, completed, 1, first_checkpoint=100)
        again.start()
        again.finish()
        assert values(gate) == [2 * value for value in range(1, TOTAL + 1)]
