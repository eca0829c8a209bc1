"""BATCH execution mode in running subtasks: sorted inputs, results at the end, no checkpoints."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tests.unit.tidegate.datastream.graph_kit import make_env, numbers
from tidegate.common import Configuration, Time, Types, WatermarkStrategy
from tidegate.connectors.spark.source import SparkSource
from tidegate.datastream import (
    AsyncDataStream,
    AsyncFunction,
    KeyedProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from tidegate.functions.interfaces import KeyedContext, KeyedTimerContext
from tidegate.functions.state import ListStateDescriptor
from tidegate.model.errors import InvalidJob

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short, since the path of a Unix socket may be 100 characters long."""
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        yield Path(path)


def batch_env(mode: RuntimeExecutionMode = RuntimeExecutionMode.BATCH) -> StreamExecutionEnvironment:
    env = make_env(2).set_runtime_mode(mode)
    env.enable_checkpointing(1000)
    return env


def run(env: StreamExecutionEnvironment, directory: Path) -> None:
    job = InProcessJob(env.build(), directory)
    job.start_failing()
    job.until(lambda: job.is_over, "the end")
    job.join()


class InOrder(KeyedProcessFunction):
    """All of a key at its end, as one record."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedContext) -> None:
        self.seen.add(value)
        ctx.timer_service().register_event_time_timer(0)

    def on_timer(self, timestamp: int, ctx: KeyedTimerContext) -> Iterable[Any]:
        seen = list(self.seen.get())
        assert seen == sorted(seen)
        yield (ctx.get_current_key(), len(seen))


def test_a_reduce_gives_one_result_for_each_key(directory: Path) -> None:
    env = batch_env(RuntimeExecutionMode.AUTOMATIC)
    pairs = numbers(env).map(lambda value: (value % 7, value), PAIR)
    pairs.key_by(lambda pair: pair[0]).sum(1).sink_to(CollectingSink("batch-reduce"))
    run(env, directory)
    expected = [[key, sum(value for value in range(1, 101) if value % 7 == key)] for key in range(7)]
    assert sorted(committed("batch-reduce")) == expected


def test_one_key_after_the_other_by_time_whatever_the_watermarks(directory: Path) -> None:
    env = batch_env()
    backwards = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    shuffled = numbers(env).map(lambda value: 101 - value, Types.LONG()).assign_timestamps_and_watermarks(backwards)
    keyed = shuffled.key_by(lambda value: value % 5, Types.LONG())
    keyed.process(InOrder(), PAIR).sink_to(CollectingSink("batch-order"))
    run(env, directory)
    assert sorted(committed("batch-order")) == [[key, 20] for key in range(5)]


def test_the_job_has_no_checkpoints_and_says_its_mode() -> None:
    env = batch_env(RuntimeExecutionMode.AUTOMATIC)
    numbers(env).print()
    configuration = env.build().graph.configuration
    assert configuration["execution.runtime-mode"] == "BATCH"
    assert "execution.checkpointing.interval" not in configuration


def test_exchanges_block_unless_the_program_says_otherwise() -> None:
    assert exchanges(batch_env()) == "ALL_EXCHANGES_BLOCKING"
    pipelined = configured({"execution.batch-shuffle-mode": "ALL_EXCHANGES_PIPELINED"})
    assert exchanges(pipelined) == "ALL_EXCHANGES_PIPELINED"


def configured(settings: dict[str, str]) -> StreamExecutionEnvironment:
    env = batch_env()
    env.configure(Configuration.from_dict(settings))
    return env


def exchanges(env: StreamExecutionEnvironment) -> str:
    numbers(env).print()
    graph = env.build().graph
    assert graph.has_blocking_exchanges == (
        graph.configuration["execution.batch-shuffle-mode"] == "ALL_EXCHANGES_BLOCKING"
    )
    return graph.configuration["execution.batch-shuffle-mode"]


@pytest.mark.parametrize("materialize", [False, True])
def test_rows_straight_from_spark_are_pipelined(materialize: bool, caplog: pytest.LogCaptureFixture) -> None:
    schema = pa.schema([("id", pa.int64())])

    def program(**settings: str) -> str:
        env = configured({"execution.checkpointing.dir": "/tmp/checkpoints"} | settings)
        source = SparkSource(lambda spark: spark.range(3), schema, materialize)
        env.from_source(source, WatermarkStrategy.no_watermarks(), "rows").print()
        return env.build().graph.configuration["execution.batch-shuffle-mode"]

    with caplog.at_level("INFO"):
        assert program() == ("ALL_EXCHANGES_BLOCKING" if materialize else "ALL_EXCHANGES_PIPELINED")
    assert ("come straight from Spark" in caplog.text) is not materialize
    if not materialize:
        with pytest.raises(InvalidJob, match="execution.batch-shuffle-mode is ALL_EXCHANGES_BLOCKING, but the rows of"):
            program(**{"execution.batch-shuffle-mode": "ALL_EXCHANGES_BLOCKING"})


def test_only_strategies_of_event_time_lose_their_watermarks(directory: Path) -> None:
    env = batch_env()
    waited = AsyncDataStream.unordered_wait(numbers(env), Same(), Time.seconds(60), 5, Types.LONG())
    waited.sink_to(CollectingSink("batch-async"))
    run(env, directory)
    assert sorted(row[0] for row in committed("batch-async")) == list(range(1, 101))


class Same(AsyncFunction[int, int]):
    async def async_invoke(self, value: int) -> list[int]:
        return [value]
