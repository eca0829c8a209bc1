"""Subtasks of jobs whose exchanges block: each begins when its producers have finished, and the results are those of a pipelined run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import InProcessJob, RecordingPort, Task
from tests.unit.taskmanager.runtime.staged_job import StagedJob
from tests.unit.tidegate.datastream.graph_kit import make_env, numbers
from tidegate.common import Configuration, Time, Types, WatermarkStrategy
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.files.encoders import TextEncoderFactory
from tidegate.datastream import (
    CoMapFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.functions.state import MapStateDescriptor
from tidegate.model.errors import CorruptFrame, OutputLost
from tidegate.model.states import ExecutionState
from tidegate.taskmanager.exchange.blocking.store import StoredBlock
from tidegate.taskmanager.runtime.mailbox import Mailbox

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
FACTORS = MapStateDescriptor("factors", Types.LONG(), Types.LONG())


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        yield Path(path)


def batch_env(parallelism: int = 3) -> StreamExecutionEnvironment:
    return make_env(parallelism).set_runtime_mode(RuntimeExecutionMode.BATCH)


def pairs_of(env: StreamExecutionEnvironment) -> DataStream:
    return numbers(env).map(lambda value: (value % 7, value), PAIR)


class Times(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield (value[0], value[1] * ctx.get_broadcast_state(FACTORS).get(0))

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        ctx.get_broadcast_state(FACTORS).put(0, value)
        return ()


class Both(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return (1, value[1])

    def map2(self, value: Any) -> Any:
        return (2, value[1])


def is_over(job: InProcessJob) -> bool:
    return job.is_over


def has_finished(task: Task) -> bool:
    return task.state is ExecutionState.FINISHED


def sums(env: StreamExecutionEnvironment) -> DataStream:
    return pairs_of(env).key_by(lambda pair: pair[0], Types.LONG()).sum(1)


def windows(env: StreamExecutionEnvironment) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: pair[1])
    stamped = pairs_of(env).assign_timestamps_and_watermarks(strategy)
    keyed = stamped.key_by(lambda pair: pair[0], Types.LONG())
    return keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(20))).reduce(
        lambda a, b: (a[0], a[1] + b[1]), output_type=PAIR
    )


def join_with_itself(env: StreamExecutionEnvironment) -> DataStream:
    """One producer with two edges to the same consumers."""
    pairs = pairs_of(env)
    return pairs.rebalance().connect(pairs.rebalance()).map(Both(), PAIR)


def broadcast(env: StreamExecutionEnvironment) -> DataStream:
    factor = env.from_collection([10], Types.LONG()).broadcast(FACTORS)
    return pairs_of(env).key_by(lambda pair: pair[0], Types.LONG()).connect(factor).process(Times(), PAIR)


def narrowing(env: StreamExecutionEnvironment) -> DataStream:
    return (
        pairs_of(env).rescale().map(lambda pair: pair, PAIR).set_parallelism(2).global_().map(lambda pair: pair, PAIR)
    )


def union(env: StreamExecutionEnvironment) -> DataStream:
    return pairs_of(env).union(pairs_of(env)).key_by(lambda pair: pair[0], Types.LONG()).sum(1)


@pytest.mark.parametrize("program", [sums, windows, join_with_itself, broadcast, narrowing, union])
def test_the_results_are_those_of_a_pipelined_run(
    program: Callable[[StreamExecutionEnvironment], DataStream], directory: Path
) -> None:
    found = []
    for kind, world in ((StagedJob, "staged"), (InProcessJob, "pipelined")):
        env = batch_env()
        program(env).sink_to(CollectingSink(world))
        job = kind(env.build(), directory)
        if isinstance(job, StagedJob):
            job.run()
        else:
            job.start_failing()
            job.until(partial(is_over, job), "the end")
            job.join()
        found.append(sorted(committed(world)))
    assert found[0]
    assert found[0] == found[1]


def test_a_consumer_whose_input_ends_too_early_fails(directory: Path) -> None:
    env = batch_env()
    sums(env).sink_to(CollectingSink("cut"))
    job = StagedJob(env.build(), directory)
    first, consumer = (job._of(vertex) for vertex in job.built.graph.vertices)
    for task in first:
        job.run_task(task)
    job.stored[first[0].attempt, 0].pop()
    job.run_task(consumer[0])
    job.until(lambda: consumer[0].state is ExecutionState.FAILED, "its end", failing=True)
    assert consumer[0].error is not None
    assert consumer[0].error.code == OutputLost.code
    assert "cut off before the end of the partition" in consumer[0].error.message


def test_a_block_that_is_none_is_refused() -> None:
    with pytest.raises(CorruptFrame, match="3 bytes"):
        StoredBlock.decode(b"abc")
    block = StoredBlock.decode(StoredBlock.encode(7, 2, [b"x", memoryview(b"yz")]))
    assert (block.edge_id, block.producer, bytes(block.frames)) == (7, 2, b"xyz")


def file_job(directory: Path, parallelism: int = 3) -> StagedJob:
    env = batch_env(parallelism)
    sums(env).map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING()).sink_to(
        FileSink.for_text(str(directory / "out"))
    )
    return StagedJob(env.build(), directory)


def visible(directory: Path) -> list[str]:
    files = [path for path in (directory / "out").iterdir() if not path.name.startswith(".")]
    return sorted(line for path in files for line in path.read_text().splitlines())


SUMS = sorted(f"{key} {sum(value for value in range(1, 101) if value % 7 == key)}" for key in range(7))


def test_files_appear_together_when_all_writers_have_finished(directory: Path) -> None:
    job = file_job(directory)
    *writers, committer = job.tasks.values()
    assert committer.vertex.name == "Sink: Committer"
    for task in writers:
        job.run_task(task)
        job.until(partial(has_finished, task), "its end")
    assert visible(directory) == []
    job.run_task(committer)
    job.until(lambda: job.is_over, "the end")
    assert visible(directory) == SUMS
    assert [path.name for path in (directory / "out").iterdir() if path.name.startswith(".")] == []


def test_directories_are_whole_when_all_writers_have_finished_also_where_all_run_at_once(directory: Path) -> None:
    env = batch_env()
    env.configure(Configuration.from_dict({"execution.batch-shuffle-mode": "ALL_EXCHANGES_PIPELINED"}))
    sink = FileSink(str(directory / "out"), TextEncoderFactory(), success="_SUCCESS", whole=("",))
    sums(env).map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING()).sink_to(sink)
    job = InProcessJob(env.build(), directory)
    *_, committer = job.tasks.values()
    assert committer.vertex.name == "Sink: Committer"
    job.start_failing()
    job.until(partial(is_over, job), "the end")
    job.join()
    assert visible(directory) == SUMS
    assert (directory / "out" / "_SUCCESS").exists()


def test_a_committer_that_runs_again_commits_nothing_twice(directory: Path) -> None:
    job = file_job(directory)
    job.run()
    *_, committer = job.tasks.values()
    again = replace(committer, mailbox=Mailbox(), ended=False)
    job.tasks[committer.attempt] = again
    job.run_task(again)
    assert visible(directory) == SUMS


def test_a_writer_that_runs_again_takes_back_what_it_had_written(directory: Path) -> None:
    job = file_job(directory)
    *writers, committer = job.tasks.values()
    for task in writers:
        job.run_task(task)
    again = writers[-1]
    attempt = replace(again.attempt, attempt=1)
    deployment = replace(again.deployment, attempt=attempt)
    second = replace(
        again,
        attempt=attempt,
        deployment=deployment,
        mailbox=Mailbox(),
        port=RecordingPort(attempt, job.inbox),
        ended=False,
    )
    job.tasks[attempt] = second
    job.run_task(second)
    (votes,) = committer.deployment.inputs
    producers = (*votes.producers[:-1], attempt)
    committer.deployment = replace(committer.deployment, inputs=(replace(votes, producers=producers),))
    job.run_task(committer)
    job.until(lambda: committer.state is ExecutionState.FINISHED, "the end")
    assert visible(directory) == SUMS
