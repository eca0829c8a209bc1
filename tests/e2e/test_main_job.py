"""The examples on real input, each against the same query by Spark SQL; and who it is that counts the records."""

from __future__ import annotations

from pathlib import Path

import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from tests.e2e.cluster import JOBS, REPOSITORY, Cluster
from tests.e2e.spark_sql import query
from tests.e2e.waiting import HANG_LIMIT_S

EXAMPLES = REPOSITORY / "examples"
WORDS_SQL = """
    SELECT word, count(*) FROM (
        SELECT explode(regexp_extract_all(lower(value), "(?U)([\\\\w']+)", 1)) AS word FROM texts
    ) GROUP BY word"""
FLIGHTS_SQL = """
    SELECT CAST(unix_millis(date_trunc('HOUR', scheduled_departure)) AS BIGINT), carrier, origin, count(*), avg(dep_delay)
    FROM flights WHERE dep_delay IS NOT NULL GROUP BY 1, 2, 3"""


def test_flights_per_hour_are_those_of_spark_sql(cluster: Cluster, tmp_path: Path) -> None:
    data, output = tmp_path / "flights.parquet", tmp_path / "hourly"
    watch = cluster.submit(EXAMPLES / "flights.py", "--input", str(data), "--output", str(output), parallelism=4)
    watch.wait_finished(HANG_LIMIT_S)
    columns = pq.read_table(output).to_pydict()
    hours = [int(hour.timestamp() * 1000) for hour in columns["hour"]]
    rest = [columns[name] for name in ("carrier", "origin", "departures", "mean_delay")]
    found = sorted(zip(hours, *rest, strict=True))
    right = query(FLIGHTS_SQL, {"flights": ("parquet", str(data))}, tmp_path)
    assert len(found) == len(right) > 10_000
    assert found == right
    assert sum(row[3] for row in found) == 328_521, "flights that departed"


def test_word_counts_are_those_of_spark_sql(cluster: Cluster, tmp_path: Path) -> None:
    texts, output = tmp_path / "texts", tmp_path / "counts"
    texts.mkdir()
    for file in [*(REPOSITORY / "docs").rglob("*.md"), REPOSITORY / "LICENSE"]:
        (texts / file.name).write_bytes(file.read_bytes())
    watch = cluster.submit(EXAMPLES / "word_count.py", "--output", str(output), str(texts), parallelism=2)
    watch.wait_finished(HANG_LIMIT_S)
    found = []
    for file in sorted(output.glob("*.csv")):
        columns = pacsv.read_csv(file, convert_options=pacsv.ConvertOptions(strings_can_be_null=False)).to_pydict()
        found += list(zip(map(str, columns["word"]), columns["count"], strict=True))
    right = query(WORDS_SQL, {"texts": ("text", str(texts))}, tmp_path)
    assert len(right) > 1_000
    assert sorted(found) == right


def test_the_spark_worker_of_a_partition_counts_its_records(cluster: Cluster, tmp_path: Path) -> None:
    rows, parallelism = 2_000, 3
    watch = cluster.submit(
        JOBS / "who_counts.py", "--rows", str(rows), "--output", str(tmp_path / "out"), parallelism=parallelism
    )
    watch.wait_finished(HANG_LIMIT_S)
    table = pq.read_table(tmp_path / "out").to_pydict()
    assert len(table["key"]) == rows
    assert table["subtask"] == table["partition"], "subtask i is partition i"
    assert set(table["attempt"]) == {0}
    assert set(table["subtask"]) == set(range(parallelism))
    by_subtask = dict(zip(table["subtask"], table["pid"], strict=True))
    assert len(set(by_subtask.values())) == parallelism, "one process for each subtask"
    assert len(set(zip(table["subtask"], table["pid"], strict=True))) == parallelism
    task_managers = {process.pid for process in cluster.task_managers}
    assert not task_managers & set(table["pid"])
    daemons = {member.pid for process in cluster.task_managers for member in process.family()} - task_managers
    assert set(table["parent"]) <= daemons, "children of Spark's Python daemon in a TaskManager"
