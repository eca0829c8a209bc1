"""The Spark that hosts subtasks, by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from py4j.protocol import Py4JError

from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tidegate.connectors.spark.query import check_rows, frame_of_rows, session_for_rows
from tidegate.model.errors import InvalidJob
from tidegate.taskmanager.spark.cluster.session_settings import SessionSettings
from tidegate.taskmanager.spark.partitions import die
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


def test_the_log_of_the_jvm_tells_a_lost_worker_in_a_line_and_nothing_of_a_rehearsal(
    session: Session, tmp_path: Path
) -> None:
    def entries() -> list[str]:
        """What follows the options of the JVM and the addresses of the machine."""
        lines = (tmp_path / "spark.log").read_text().splitlines()
        return [
            line for line in lines if not line.startswith(("WARNING: ", "NOTE: ")) and " WARN  Utils - " not in line
        ]

    session.warm_up(1)
    session.rehearse()
    wait_until(lambda: not workers(session), HANG_LIMIT_S, "the workers of the rehearsal have ended")
    assert entries() == []
    with pytest.raises(Py4JError):
        session.context.parallelize([], 1).mapPartitionsWithIndex(die).count()
    told = entries()
    assert len(told) == 3
    assert sum(line.endswith(": its Python worker has ended; the TaskManager's log says how") for line in told) == 2
    assert told[2].endswith(" ERROR TaskSetManager - Task 0 in stage 3.0 failed 1 times; aborting job")


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


def test_columns_that_spark_does_not_take_are_refused_at_submission_and_no_others(session: Session) -> None:
    """Spark itself is asked to take an epoch of each type."""
    whole = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    floats = [
        pa.float16(),
        pa.float32(),
        pa.float64(),
        pa.decimal128(38, 2),
        pa.decimal256(20, 2),
        pa.decimal256(60, 2),
    ]
    texts = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
    octets = [pa.binary(), pa.large_binary(), pa.binary(4), pa.uuid(), pa.null(), pa.bool_()]
    times = [
        pa.date32(),
        pa.date64(),
        pa.time32("s"),
        pa.time64("us"),
        pa.duration("us"),
        pa.timestamp("us"),
        pa.timestamp("s", "UTC"),
    ]
    nested = [
        pa.list_(pa.uint64()),
        pa.struct({"a": pa.list_(pa.uint8())}),
        pa.map_(pa.string(), pa.int64()),
        pa.list_(pa.decimal256(60, 2)),
    ]
    wrong = []
    for kind in (*whole, *floats, *texts, *octets, *times, *nested):
        rows = pa.table({"v": pa.nulls(1, kind)})
        try:
            check_rows(rows.schema)
            is_taken = True
        except InvalidJob:
            is_taken = False
        try:
            frame_of_rows(session_for_rows(session.sql()), rows).count()
            does_take = True
        except Exception:  # noqa: BLE001  whatever Spark says of it
            does_take = False
        if is_taken != does_take:
            wrong.append(f"{kind}: taken {is_taken}, by Spark {does_take}")
    assert wrong == []
    with pytest.raises(InvalidJob, match=r"column 'n' is list<item: uint64>, and Spark has no type for uint64"):
        check_rows(pa.schema({"n": pa.list_(pa.uint64())}))
