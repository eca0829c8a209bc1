"""The smallest whole data plane: real operators, state, exchange and mailbox loops, in threads of this process."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tidegate.common import Types, WatermarkStrategy
from tidegate.common.time import Time
from tidegate.connectors.number_sequence import DataGeneratorSource, NumberSequenceSource
from tidegate.datastream import CheckpointingMode, OutputTag, ProcessFunction, StreamExecutionEnvironment, aggregates
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import CheckpointOptions, DeclineReason
from tidegate.model.ids import AttemptId
from tidegate.model.states import ExecutionState
from tidegate.taskmanager.runtime.measuring.stack_sampler import sample_stacks
from tidegate.taskmanager.runtime.ports import AbortCheckpoint, ConfirmCheckpoint, ControlLost

KEYS = 10
WINDOW_ROWS = 1000
CONSUMED = threading.Event()


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short, since the path of a Unix socket may be 100 characters long."""
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        yield Path(path)


def env_of(parallelism: int, *, checkpointing: bool = True) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)
    if checkpointing:
        env.enable_checkpointing(60_000)
    return env


def rows(first: int, number: int) -> pa.RecordBatch:
    index = np.arange(first, first + number, dtype=np.int64)
    columns = [pa.array(index % KEYS), pa.array(index), pa.array(index)]
    return pa.RecordBatch.from_arrays(columns, names=["key", "value", "ts"])


def windows(
    world: str, total: int, *, parallelism: int = 2, rate: float | None = None, checkpointing: bool = True
) -> BuiltJob:
    env = env_of(parallelism, checkpointing=checkpointing)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    stream = env.from_source(DataGeneratorSource(rows, total, rows_per_second=rate), strategy, "rows")
    (
        stream.key_by("key")
        .window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_ROWS)))
        .agg(aggregates.count().alias("n"), aggregates.sum("value").alias("total"))
        .sink_to(CollectingSink(world))
    )
    return env.build()


def expected_windows(total: int) -> Counter[tuple[Any, ...]]:
    found: dict[tuple[int, int], list[int]] = {}
    for i in range(total):
        entry = found.setdefault((i // WINDOW_ROWS * WINDOW_ROWS, i % KEYS), [0, 0])
        entry[0] += 1
        entry[1] += i
    return Counter((start, start + WINDOW_ROWS, key, n, value) for (start, key), (n, value) in found.items())


def as_counter(world: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in committed(world))


def test_a_bounded_job_commits_everything_by_its_final_checkpoint(directory: Path) -> None:
    job = InProcessJob(windows("bounded", 20_000), directory)
    job.start()
    job.until(lambda: all(task.ended for task in job.tasks.values()), "end of data")
    assert committed("bounded") == []
    assert job.states == {ExecutionState.RUNNING}
    job.finish()
    assert job.states == {ExecutionState.FINISHED}
    assert as_counter("bounded") == expected_windows(20_000)


def test_sources_step_back_behind_what_works_on_their_data(directory: Path) -> None:
    job = InProcessJob(windows("bounded", 100, checkpointing=False), directory)
    job.start()
    job.until(lambda: job.is_over, "FINISHED")
    job.join()
    sources = [(attempt, 5) for attempt, task in job.tasks.items() if not task.deployment.inputs]
    assert sorted(job.stepped_back) == sorted(sources)


def test_without_checkpointing_the_job_ends_by_itself(directory: Path) -> None:
    job = InProcessJob(windows("unchecked", 20_000, checkpointing=False), directory)
    job.start()
    job.until(lambda: job.is_over, "FINISHED")
    job.join()
    assert job.states == {ExecutionState.FINISHED}
    assert as_counter("unchecked") == expected_windows(20_000)


@pytest.mark.parametrize("confirmed", [True, False], ids=["confirmed", "not confirmed"])
@pytest.mark.parametrize("parallelism", [2, 3, 1])
def test_a_job_that_broke_off_continues_from_its_checkpoint(directory: Path, parallelism: int, confirmed: bool) -> None:
    world = f"restored-{parallelism}-{confirmed}"
    total = 40_000
    first = InProcessJob(windows(world, total, rate=10_000.0), directory)
    first.start()
    first.checkpoint()
    first.checkpoint_until(lambda: len(committed(world)) >= 5 * KEYS)
    latest = first.checkpoint(confirm=confirmed)
    first.cut_off()
    early = as_counter(world)
    assert early < expected_windows(total)
    second = InProcessJob(windows(world, total, parallelism=parallelism), directory, latest, 1, first_checkpoint=1000)
    second.start()
    second.finish()
    assert as_counter(world) == expected_windows(total)


def test_an_aborted_checkpoint_changes_nothing(directory: Path) -> None:
    job = InProcessJob(windows("aborted", 30_000, rate=30_000.0), directory)
    job.start()
    job.abort(job.trigger())
    job.checkpoint()
    job.abort(job.next_id)
    aborted = job.trigger()
    job.checkpoint()
    job.finish()
    assert all(len(job.acks[n]) <= len(job.tasks) for n in job.acks)
    assert len(job.acks[aborted]) < len(job.tasks)
    assert as_counter("aborted") == expected_windows(30_000)


def test_a_canceled_job_leaves_nothing_behind(directory: Path) -> None:
    job = InProcessJob(windows("canceled", 10_000_000, rate=10_000.0), directory)
    job.start()
    job.checkpoint(confirm=False)
    job.cancel()
    assert job.states == {ExecutionState.CANCELED}
    assert committed("canceled") == []


def test_a_trigger_before_the_task_runs_is_declined(directory: Path) -> None:
    job = InProcessJob(windows("early", 1000), directory)
    consumer = next(task for task in job.tasks.values() if task.deployment.inputs)
    consumer.mailbox.put(Barrier(1, 0, CheckpointOptions("mem")))
    job.start()
    assert [(n, reason) for _, n, reason in job.declined] == [(1, DeclineReason.TASK_NOT_READY)]
    job.cancel()


def records(world: str, *, fail_at: int | None = None, total: int = 2000) -> BuiltJob:
    def plus_one(value: int) -> tuple[int, int]:
        if value == fail_at:
            raise ValueError(f"no {value} today")
        return value % KEYS, value + 1

    env = env_of(2)
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    (
        env.from_source(NumberSequenceSource(1, total), WatermarkStrategy.no_watermarks(), "numbers")
        .map(plus_one, pair)
        .key_by(lambda pair: pair[0], Types.LONG())
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .sink_to(CollectingSink(world, "records"))
    )
    return env.build()


def test_record_functions_with_a_key_selector(directory: Path) -> None:
    job = InProcessJob(records("records"), directory)
    job.start()
    job.finish()
    last: dict[int, int] = {}
    for key, value in committed("records"):
        last[key] = max(value, last.get(key, 0))
    assert last == {key: sum(i + 1 for i in range(1, 2001) if i % KEYS == key) for key in range(KEYS)}
    assert len(committed("records")) == 2000


def test_a_failing_user_function_fails_the_attempt_with_its_own_traceback(directory: Path) -> None:
    job = InProcessJob(records("failing", fail_at=700), directory)
    job.start_failing()
    job.until(lambda: any(error.code == "user-function" for error in job.errors), "FAILED", failing=True)
    error = next(error for error in job.errors if error.code == "user-function")
    assert "no 700 today" in error.message
    assert "plus_one" in error.details
    assert error.origin.startswith("Source: numbers -> Map (")
    job.cut_off()
    assert committed("failing") == []


def test_a_consumer_whose_producer_fails_is_told_why_its_channel_delivers_nothing_more(directory: Path) -> None:
    def fails(value: int) -> int:
        if value == 700:
            from tests.unit.taskmanager.runtime.test_data_plane import CONSUMED

            assert CONSUMED.wait(60), "a consumer that works is connected to all of its producers"
            raise ValueError("no 700 today")
        return value

    def consumed(value: int) -> int:
        from tests.unit.taskmanager.runtime.test_data_plane import CONSUMED

        CONSUMED.set()
        return value

    env = env_of(2)
    numbers = env.from_source(NumberSequenceSource(1, 2000), WatermarkStrategy.no_watermarks(), "numbers")
    failing = numbers.map(fails, Types.LONG()).rebalance()
    failing.map(consumed, Types.LONG()).sink_to(CollectingSink("told", "records"))
    job = InProcessJob(env.build(), directory)
    job.start_failing()
    told = "the producer lost its data: operator 'Map': ValueError: no 700 today"
    job.until(lambda: any(told in error.message for error in job.errors), "the consumer's failure", failing=True)
    job.cut_off()


def test_a_damaged_state_file_is_named_and_never_used(directory: Path) -> None:
    world, total = "damaged", 40_000
    first = InProcessJob(windows(world, total, rate=10_000.0), directory)
    first.start()
    first.checkpoint_until(lambda: len(committed(world)) >= KEYS)
    latest = first.checkpoint(confirm=False)
    first.cut_off()
    second = InProcessJob(windows(world, total), directory, latest.damaged(), 1, first_checkpoint=1000)
    second.start_failing()
    second.until(lambda: bool(second.errors), "FAILED", failing=True)
    assert {error.code for error in second.errors} & {"corrupt-data"}
    second.cut_off()


def test_vertices_that_had_finished_pass_the_end_on(directory: Path) -> None:
    world, total = "finished", 20_000
    built = windows(world, total)
    first = InProcessJob(built, directory)
    first.start()
    first.until(lambda: all(task.ended for task in first.tasks.values()), "end of data")
    latest = first.checkpoint(confirm=False)
    first.cut_off()
    assert committed(world) == []
    sources = frozenset(vertex.vertex_id for vertex in built.graph.vertices if vertex.is_source)
    second = InProcessJob(built, directory, latest, 1, first_checkpoint=2, finished=sources)
    second.start()
    second.finish()
    assert second.states == {ExecutionState.FINISHED}
    assert as_counter(world) == expected_windows(total)
    empty = [ack for attempt, ack in second.acks[2].items() if attempt.vertex_id in sources]
    assert len(empty) == 2
    assert not any(ack.snapshot.operators for ack in empty)


class SplitByParity(ProcessFunction):
    def __init__(self, odd: OutputTag) -> None:
        self._odd = odd

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        if value % 2:
            yield self._odd, value
        else:
            yield value


def test_side_outputs_and_unions_keep_every_record(directory: Path) -> None:
    odd = OutputTag("odd", Types.LONG())
    env = env_of(2)
    env.get_checkpoint_config().set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    numbers = env.from_source(NumberSequenceSource(1, 1000), WatermarkStrategy.no_watermarks(), "numbers")
    even = numbers.process(SplitByParity(odd), Types.LONG())
    united = even.union(even.get_side_output(odd)).rebalance()
    united.sink_to(CollectingSink("united", "records"))
    job = InProcessJob(env.build(), directory)
    job.start()
    job.checkpoint()
    job.finish()
    assert sorted(committed("united")) == list(range(1, 1001))


def test_a_broken_off_subtask_says_nothing_more(directory: Path) -> None:
    job = InProcessJob(windows("silent", 10_000_000, rate=10_000.0), directory)
    job.start()
    n = job.trigger()
    job.complete(n)
    for task in job.tasks.values():
        task.mailbox.put(ControlLost())
        task.mailbox.put(ConfirmCheckpoint(n))
    job.join()
    assert job.states == {ExecutionState.RUNNING}
    assert job.inbox.empty()
    assert committed("silent") == []


def test_the_protocol_points_are_seen_in_their_order(directory: Path) -> None:
    seen: dict[AttemptId, list[str]] = {}
    points = ("listening", "initialized", "before-barrier", "barrier-sent", "frozen", "before-ack", "after-ack")
    commits = ("before-commit", "during-commit", "after-commit", "end-of-data")

    def note(point: str) -> Callable[[AttemptId, Mapping[str, object]], None]:
        return lambda attempt, told: seen.setdefault(attempt, []).append(point)

    probes = {point: note(point) for point in (*points, *commits)}
    job = InProcessJob(windows("probed", 10_000_000, rate=10_000.0), directory, probes=probes)
    job.start()
    job.checkpoint()
    job.checkpoint(confirm=False)
    job.cancel()
    for order in seen.values():
        assert tuple(order[:7]) == points
        assert "before-commit" in order
        assert order.index("before-commit") < order.index("during-commit") < order.index("after-commit")


def test_a_lost_producer_is_told_only_when_nobody_cancels(directory: Path) -> None:
    job = InProcessJob(windows("lost", 10_000_000, rate=10_000.0), directory)
    job.start()
    source, sink = (next(t for t in job.tasks.values() if bool(t.deployment.inputs) is has) for has in (False, True))
    source.mailbox.put(ControlLost())
    sink.mailbox.put(AbortCheckpoint(1))  # some other mail, which is no verdict
    job.until(lambda: bool(job.errors), "FAILED", failing=True)
    assert {error.code for error in job.errors} == {"subtask-lost"}
    assert str(source.attempt) in job.errors[0].message
    job.cut_off()


def test_a_sampled_stack_begins_with_the_loop_or_with_its_wait_for_a_mail(directory: Path) -> None:
    """A subtask that waits has no frame of its loop on the stack: what drives the loop waits in its place."""
    job = InProcessJob(windows("sampled", 1_000_000, rate=100.0), directory)
    job.start()
    idents = [task.thread.ident for task in job.tasks.values() if task.thread is not None]
    outermost = {
        stack.frames[0].rpartition(":")[0] for ident in idents for stack in sample_stacks(ident or 0, 50, 1, 100)
    }
    job.cancel()
    waits = "tidegate.taskmanager.runtime.mailbox.Mailbox.wait"
    assert waits in outermost
    assert outermost <= {
        "tidegate.taskmanager.runtime.subtask.SubtaskLoop.steps",
        waits,
        "tidegate.taskmanager.runtime.launch.SubtaskRun.steps",
    }
