"""A table of Delta written on a standalone cluster of Spark, whose executors are killed: each row once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.test_spark_cluster import CORES, SparkCluster, options_of
from tests.e2e.test_spark_streams import Run
from tests.e2e.waiting import HANG_LIMIT_S
from tests.lakehouse.test_tables import Table, settings_of
from tidegate.taskmanager.spark.cluster.session_settings import SessionSettings
from tidegate.taskmanager.spark.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(600, method="signal"),
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in.*socket:pytest.PytestUnraisableExceptionWarning"
    ),  # py4j's, of older releases
]


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[tuple[Cluster, SparkCluster]]:
    """Two workers of Spark, and one TaskManager whose executors are on both."""
    settings = settings_of(tmp_path / "warehouse")
    cluster = Cluster(tmp_path / "cluster")
    spark = SparkCluster(cluster.directory, cluster.tmp, workers=2)
    try:
        with cluster:
            given = [f"-D{key}={value}" for key, value in settings.items()]
            cluster.add_taskmanager(4, *options_of(spark, 2 * CORES), *given)
            cluster.wait_slots(4)
            yield cluster, spark
    finally:
        spark.end()


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[SparkSession]:
    """Reads the table, as another program would."""
    session = start_session(SessionSettings(tmp_path / "reader", "local[2]", settings_of(tmp_path / "warehouse")))
    yield session.sql()
    session.close()


def test_each_row_is_in_the_table_once_although_executors_are_killed(
    workers: tuple[Cluster, SparkCluster], spark: SparkSession, tmp_path: Path
) -> None:
    cluster, _ = workers
    table = Table(spark, "delta", tmp_path)
    run = Run(cluster, tmp_path, source="files", sink="delta", table=table.path, interval="1000")
    run.add_files(3)
    watch = run.submit()
    table.wait_rows(1)
    for _ in range(2):
        run.add_files(6)
        watch.wait_running()
        assert watch.last is not None
        restarts, since = watch.last.status.restarts, watch.last.at
        executor = next(parent for parent in run.reader().parents() if parent.name() == "java")
        executor.kill()
        watch.wait_running_again(restarts, since, limit_s=HANG_LIMIT_S)
        table.wait_rows(run.add_files(3))
    total = run.add_files(3)
    table.wait_rows(total)
    cluster.cancel(watch)
    assert sorted(table.ids()) == list(range(total))
