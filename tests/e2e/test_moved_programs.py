"""Programs of Structured Streaming and what becomes of them here (``examples/from_spark``): each pair writes the same rows.

One Spark runs all programs of the one kind at the same time, and one cluster those of the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.moved_programs import PAIRS, Output, Pair, Row, taps_of, write_taps
from tests.e2e.pool import SLOTS, made_ready
from tests.e2e.waiting import wait_until
from tests.own import own_signing, own_transport
from tidegate.cli.client import JobManagerClient
from tidegate.cli.executor import ClusterExecutor
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream._graph.executor import installed
from tidegate.taskmanager.spark.cluster.session_settings import SessionSettings
from tidegate.taskmanager.spark.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LIMIT_S = 240
FILES = 5
TAPS = 200
WORKER_IS_LATE = "Python worker failed to connect back"


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[SparkSession]:
    settings = {"spark.sql.shuffle.partitions": "1", "spark.sql.session.timeZone": "UTC"}
    session = start_session(SessionSettings(tmp_path / "spark", "local[2]", settings))
    yield session.sql()
    session.close()


def test_each_pair_of_programs_writes_the_same_rows(cluster: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    made_ready(cluster, -(-len(PAIRS) // SLOTS))
    source = tmp_path / "in"
    source.mkdir()
    taps = [tap for number in range(FILES) for tap in taps_of(number, TAPS)]
    for number in range(FILES):
        write_taps(source, number, taps_of(number, TAPS))
    theirs = {pair.name: Output(pair, tmp_path / "theirs" / pair.name) for pair in PAIRS}
    ours = {pair.name: Output(pair, tmp_path / "ours" / pair.name) for pair in PAIRS}
    queries = [Query(spark, pair, source, theirs[pair.name].directory) for pair in PAIRS]
    below = {"execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    with (
        closing(JobManagerClient(cluster.address, transport=own_transport(), signing=own_signing())) as client,
        installed(ClusterExecutor(client), below),
    ):
        jobs = []
        for pair in PAIRS:
            env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
            env.enable_checkpointing(500)
            pair.tidegate.build(env, str(source), str(ours[pair.name].directory))
            jobs.append(env.execute_async(pair.name))
        for pair, query in zip(PAIRS, queries, strict=True):
            expected = sorted(pair.expected(taps))
            assert len(expected) >= 3
            assert rows_of(theirs[pair.name], len(expected), query) == expected, pair.name
            assert rows_of(ours[pair.name], len(expected)) == expected, pair.name
        for query in queries:
            query.running.stop()
        for job in jobs:
            job.cancel().result()


class Query:
    """A program of theirs. Spark gives the worker that prepares ``transformWithState`` ten seconds to start, which no option changes: where a busy
    machine takes longer, the query is started again, and goes on from its checkpoint."""

    def __init__(self, spark: SparkSession, pair: Pair, source: Path, target: Path) -> None:
        self._start = partial(pair.spark.start, spark, str(source), str(target))
        self.running: StreamingQuery = self._start()

    def check(self) -> None:
        failure = self.running.exception()
        if failure is not None:
            assert WORKER_IS_LATE in str(failure), failure
            self.running = self._start()


def rows_of(output: Output, count: int, query: Query | None = None) -> list[Row]:
    """All that is there when there are so many."""

    def are_there() -> bool:
        if query is not None:
            query.check()
        return output.count() >= count

    wait_until(are_there, LIMIT_S, f"{count} rows are in {output.directory}")
    return output.rows()
