"""Tables of Delta and Iceberg, written by ``to_spark`` and read by ``from_spark_stream``, through ``kill -9``: each record once.

They exist for older releases of Spark than the newest: `.ci/versions` runs this with the lowest that is promised, and `.ci/versions spark`
with the newest that Delta knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.pool import made_ready
from tests.e2e.test_spark_streams import LIMIT_S, Run, kill_source, kill_task_manager, killed
from tests.e2e.waiting import wait_until
from tests.servers import spark_reading
from tests.servers.jars import fetched
from tidegate.taskmanager.spark.cluster.session_settings import SessionSettings
from tidegate.taskmanager.spark.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SERVERS = Path(spark_reading.__file__).parent
RELEASES = {
    "4.0": (SERVERS / "lakehouse" / "pom.xml", "lakehouse", ["delta", "iceberg"]),
    "4.2": (SERVERS / "lakehouse" / "spark_4_2" / "pom.xml", "delta-4.2", ["delta"]),
}
"""By Spark's version: the jars, their name in the cache, and whose tables they are."""
VERSION = ".".join(pyspark.__version__.split(".")[:2])
POM, NAME, KINDS = RELEASES.get(VERSION, RELEASES["4.2"])

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(600, method="signal"),
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in.*socket:pytest.PytestUnraisableExceptionWarning"
    ),  # py4j's, of older releases
]


def settings_of(warehouse: Path) -> dict[str, str]:
    if VERSION not in RELEASES:
        raise RuntimeError(
            f"Delta has no release for Spark {VERSION}: `.ci/versions` runs these tests with {', '.join(RELEASES)}"
        )
    jars = sorted(fetched(POM, NAME).glob("*.jar"))
    delta = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    if "iceberg" not in KINDS:
        return delta
    return {
        **delta,
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.cache-enabled": "false",
        "spark.sql.catalog.lake.warehouse": str(warehouse),
    }


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, warehouse: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), settings_of(warehouse)) as cluster:
        made_ready(cluster, 2)
        yield cluster


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory, warehouse: Path) -> Iterator[SparkSession]:
    """Reads the tables, as another program would."""
    session = start_session(SessionSettings(tmp_path_factory.mktemp("spark"), "local[2]", settings_of(warehouse)))
    yield session.sql()
    session.close()


class Table:
    def __init__(self, spark: SparkSession, kind: str, directory: Path) -> None:
        self.path = str(directory / "table") if kind == "delta" else f"lake.tables.{directory.name.replace('-', '_')}"
        self._sql = f"delta.`{self.path}`" if kind == "delta" else self.path
        self._spark = spark
        spark.sql(f"CREATE TABLE {self._sql} (id BIGINT, part BIGINT) USING {kind}")

    def insert(self, first: int, end: int, more: str = "") -> None:
        self._spark.sql(f"INSERT INTO {self._sql} SELECT id, id % 2{more} FROM range({first}, {end})")

    def add_column(self) -> None:
        self._spark.sql(f"ALTER TABLE {self._sql} ADD COLUMNS (added STRING)")

    def ids(self) -> list[int]:
        return [row["id"] for row in self._spark.sql(f"SELECT id FROM {self._sql}").collect()]

    def wait_rows(self, count: int) -> None:
        wait_until(lambda: len(self.ids()) >= count, LIMIT_S, f"{count} rows are in the table")


@pytest.mark.parametrize("kind", KINDS)
def test_each_row_is_in_the_table_once(lake: Cluster, spark: SparkSession, tmp_path: Path, kind: str) -> None:
    made_ready(lake, 3)
    table = Table(spark, kind, tmp_path)
    run = Run(lake, tmp_path, source="files", sink=kind, table=table.path, interval="1000")
    run.add_files(3)
    watch = run.submit()
    table.wait_rows(1)
    run.add_files(6)
    killed(run, watch, kill_source)
    table.wait_rows(run.add_files(3))
    killed(run, watch, kill_task_manager)
    total = run.add_files(6)
    table.wait_rows(total)
    lake.cancel(watch)
    assert sorted(table.ids()) == list(range(total))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_added_to_a_table_are_read_once(
    lake: Cluster, spark: SparkSession, warehouse: Path, tmp_path: Path, kind: str
) -> None:
    """A column that the table gets meanwhile is not among those that the query selects."""
    made_ready(lake, 3)
    table = Table(spark, kind, tmp_path)
    run = Run(lake, tmp_path, source=kind, table=table.path, interval="1000")
    watch = run.submit(parallelism=1, spark=settings_of(warehouse))
    table.insert(0, 500)
    run.wait_rows(1)
    killed(run, watch, kill_source)
    table.insert(500, 1000)
    run.wait_rows(1000)
    killed(run, watch, kill_task_manager)
    table.add_column()
    table.insert(1000, 1500, ", 'new'")
    run.wait_rows(1500)
    lake.cancel(watch)
    assert sorted(run.ids()) == list(range(1500))


def test_a_data_source_of_the_second_interface_is_read_once(lake: Cluster, tmp_path: Path) -> None:
    """Its relation has other parameters in each of the older releases."""
    made_ready(lake, 3)
    run = Run(lake, tmp_path, source="counting")
    watch = run.submit(parallelism=1)
    run.wait_rows(300)
    killed(run, watch, kill_source)
    run.wait_rows(len(run.ids()) + 300)
    lake.cancel(watch)
    ids = run.ids()
    assert len(set(ids)) == len(ids)
    assert set(range(min(ids), min(ids) + 300)) <= set(ids)
