"""The Spark that hosts subtasks, by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tidegate.connectors.spark.query import frame_of_rows, session_for_rows
from tidegate.taskmanager.spark.cluster.settings import SessionSettings
from tidegate.taskmanager.spark.session import Session, start_session
from tidegate.taskmanager.spark.streams.plan import partitions_of

THRESHOLD = "spark.sql.execution.arrow.localRelationThreshold"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    session = start_session(SessionSettings(tmp_path / "spark", log_file=tmp_path / "spark.log"))
    yield session
    session.close()


def workers(session: Session) -> list[psutil.Process]:
    """What Spark's Python daemon has forked."""
    daemons = psutil.Process(session.jvm_pid).children()
    return [worker for daemon in daemons for worker in daemon.children()]


def test_a_rehearsed_cancellation_ends_by_itself(session: Session, tmp_path: Path) -> None:
    """Else Spark ends it by force after three seconds, in which the JVM's thread for it takes a processor."""
    session.warm_up(1)
    session.rehearse()
    wait_until(lambda: not workers(session), HANG_LIMIT_S, "the workers of the rehearsal have ended")
    assert "Attempting to kill" not in (tmp_path / "spark.log").read_text()


def test_a_session_that_follows_another_one_is_the_active_one(tmp_path: Path) -> None:
    """PySpark itself asks for it: ``readStream.schema``, say."""
    from pyspark.sql import SparkSession

    for number in range(2):
        session = start_session(SessionSettings(tmp_path / str(number), "local[1]"))
        try:
            assert session.sql() is SparkSession.getActiveSession()
            session.sql().readStream.schema("number long")
        finally:
            session.close()


def test_rows_of_an_epoch_are_arrow_until_a_task_writes_them(session: Session) -> None:
    """In a session that has the settings and views of the one that the job runs in, and changes none of its own."""
    spark = session.sql()
    spark.sql("SELECT 7 AS seven").createOrReplaceTempView("sevens")
    spark.conf.set("tidegate.test", "kept")
    before = spark.conf.get(THRESHOLD)
    rows = pa.table({"id": range(25_000), "at": pa.array(range(25_000), pa.timestamp("us", "UTC"))})
    frame = frame_of_rows(session_for_rows(spark), rows)
    assert "LocalTableScan" not in frame._jdf.queryExecution().executedPlan().toString(), "Spark has decoded none"
    assert partitions_of(frame) == 1
    assert frame.toArrow().equals(rows)
    assert frame.sparkSession.conf.get("tidegate.test") == "kept"
    assert frame.sparkSession.table("sevens").collect()[0].seven == 7
    assert spark.conf.get(THRESHOLD) == before
