"""Spark's own stream objects, one real Spark: each kind of source is rewound to any row, and what needs state in Spark is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.e2e.waiting import wait_until
from tests.servers import spark_reading
from tests.servers.jars import fetched
from tests.servers.kafka_broker import KafkaBroker
from tidegate.connectors.base import ReaderContext, SinkContext, Split, SplitState
from tidegate.connectors.spark.query import describe_stream
from tidegate.connectors.spark.sink import TAG, SparkEpoch, SparkSink
from tidegate.connectors.spark.stream_source import SparkStreamSource
from tidegate.connectors.spark.writes import delta_writer, iceberg_writer, jdbc_writer
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.model.errors import ExternalError, InvalidJob, UserFunctionError
from tidegate.taskmanager.spark.cluster.session_settings import SessionSettings
from tidegate.taskmanager.spark.session import Session, start_session
from tidegate.taskmanager.spark.streams.service import SparkDoor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.servers.postgres_server import PostgresServer

Query = Callable[["SparkSession"], "DataFrame"]
LIMIT_S = 120
SERVERS = Path(spark_reading.__file__).parent


def jars() -> str:
    names = ("postgres", "postgres-jdbc"), ("spark_kafka", "spark-kafka")
    found = [jar for folder, name in names for jar in sorted(fetched(SERVERS / folder / "pom.xml", name).glob("*.jar"))]
    return ",".join(map(str, found))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    directory = tmp_path_factory.mktemp("spark")
    session = start_session(SessionSettings(directory / "spark", "local[8]", {"spark.jars": jars()}))
    session.sql()
    yield session
    session.close()


def read(
    session: Session, query: Query, count: int, state: list[SplitState], schema: pa.Schema | None = None
) -> tuple[list[Any], list[SplitState]]:
    """So many rows from a position, and the position behind them, as a checkpoint keeps it."""
    source = SparkStreamSource(query, schema or describe_stream(query, 2, {}), 2, 0.05)
    service = SparkDoor(session, "127.0.0.1", "attempt", "task", {"op": source})
    about = ReaderContext(0, 1, 128, "j", "a", "op", spark_service=service.address, operator_name="numbers")
    reader = source.make_reader(about)
    rows: list[Any] = []
    try:
        reader.open(state or [SplitState(split) for split in source.list_splits(1)])
        while len(rows) < count:
            polled = wait_until(reader.poll, LIMIT_S, "rows come")
            assert polled is not None
            taken = polled.batch.data.slice(0, count - len(rows))  # type: ignore[union-attr]
            reader.advance(taken.num_rows)
            rows += [tuple(row.values()) for row in taken.to_pylist()]
        kept = msgspec.msgpack.decode(msgspec.msgpack.encode(reader.snapshot_state()[0].position))
        return rows, [SplitState(Split("stream"), kept)]
    finally:
        reader.close()
        service.close()


def in_pieces(session: Session, query: Query, pieces: list[int]) -> list[Any]:
    """All rows, each piece by a reader that begins where the last one stopped."""
    rows: list[Any] = []
    state: list[SplitState] = []
    for count in pieces:
        found, state = read(session, query, count, state)
        rows += found
    return rows


def from_an_older_position(session: Session, query: Query, first: int, total: int) -> list[Any]:
    """All rows of a source that has no more than ``total``: after all were read, those behind the first ones are read again."""
    begin, older = read(session, query, first, [])
    rest, _ = read(session, query, total - first, older)
    again, _ = read(session, query, total - first, older)
    assert sorted(again) == sorted(rest)
    return begin + again


def test_files_that_come_are_read_once_and_again_from_any_row(session: Session, tmp_path: Path) -> None:
    for number in range(13):
        ids = list(range(number * 100, number * 100 + 100))
        pq.write_table(pa.table({"id": ids}), tmp_path / f"{number}.parquet")

    def query(spark: SparkSession) -> DataFrame:
        stream = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
        return stream.parquet(str(tmp_path)).where("id % 2 = 0")

    every = [(n,) for n in range(0, 1300, 2)]
    assert sorted(in_pieces(session, query, [25, 120, 1, 504])) == every
    assert sorted(from_an_older_position(session, query, 175, 650)) == every


def test_rate_goes_on_with_the_times_of_its_first_start(session: Session) -> None:
    def query(spark: SparkSession) -> DataFrame:
        return spark.readStream.format("rate").option("rowsPerSecond", 200).option("numPartitions", 2).load()

    rows = in_pieces(session, query, [250, 170])
    numbers = sorted(value for _, value in rows)
    assert len(set(numbers)) == 420
    first = min(time for time, _ in rows)
    assert all(abs((time - first).total_seconds() - number / 200) < 0.01 for time, number in rows)


def test_columns_have_any_names(session: Session) -> None:
    def query(spark: SparkSession) -> DataFrame:
        found = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).option("numPartitions", 2).load()
        return found.selectExpr("value AS `a.b`", "value + 1 AS `A.B`", "value + 2 AS `b``c`")

    rows, _ = read(session, query, 10, [])
    assert sorted(rows) == [(n, n + 1, n + 2) for n in range(10)]


def test_rate_by_batch_a_union_a_table_and_a_function_in_python(session: Session) -> None:
    def query(spark: SparkSession) -> DataFrame:
        from pyspark.sql.functions import udf

        streams = [
            spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 40).option("numPartitions", 2).load()
            for _ in range(2)
        ]
        table = spark.range(10_000).withColumnRenamed("id", "value")
        joined = streams[0].select("value").union(streams[1].selectExpr("value + 5000 AS value")).join(table, "value")
        return joined.withColumn("text", udf(lambda n: f"<{n}>")("value"))

    rows = in_pieces(session, query, [50, 110])
    assert len(set(rows)) == 160
    assert all(text == f"<{number}>" for number, text in rows)
    assert {number for number, _ in rows} >= {*range(80 - 20), *range(5000, 5060)}


def test_a_data_source_in_python(session: Session) -> None:
    from tests.e2e.jobs.spark_rows import counting

    rows = in_pieces(session, counting, [150, 333])
    numbers = sorted(number for number, _ in rows)
    assert len(set(numbers)) == 483


def test_a_simple_data_source_in_python(session: Session) -> None:
    def query(spark: SparkSession) -> DataFrame:
        from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

        class Reader(SimpleDataSourceStreamReader):
            def initialOffset(self) -> dict[str, int]:
                return {"n": 0}

            def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
                return iter([(start["n"] + i,) for i in range(70)]), {"n": start["n"] + 70}

            def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[int]]:
                return iter([(n,) for n in range(start["n"], end["n"])])

        class Simple(DataSource):
            @classmethod
            def name(cls) -> str:
                return "simple"

            def schema(self) -> str:
                return "n long"

            def simpleStreamReader(self, schema: Any) -> Reader:
                return Reader()

        spark.dataSource.register(Simple)
        return spark.readStream.format("simple").load()

    assert sorted(in_pieces(session, query, [100, 110])) == [(n,) for n in range(210)]


def test_kafka(session: Session, broker: KafkaBroker) -> None:
    from confluent_kafka import Producer

    broker.create_topic("spark-stream", 3)
    client = Producer({"bootstrap.servers": broker.servers})
    for number in range(600):
        client.produce("spark-stream", str(number), partition=number % 3)
    assert client.flush(30) == 0

    def query(spark: SparkSession) -> DataFrame:
        stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.servers)
        stream = stream.option("subscribe", "spark-stream").option("startingOffsets", "earliest")
        return stream.option("maxOffsetsPerTrigger", 100).load().selectExpr("CAST(value AS STRING) AS value")

    every = list(range(600))
    assert sorted(int(text) for (text,) in in_pieces(session, query, [130, 70, 400])) == every
    assert sorted(int(text) for (text,) in from_an_older_position(session, query, 130, 600)) == every


def test_rows_by_jdbc_are_written_once_however_often_an_epoch_comes(session: Session, server: PostgresServer) -> None:
    url = f"jdbc:postgresql://127.0.0.1:{server.port}/postgres"
    write = jdbc_writer(
        url, "by_spark", driver="org.postgresql.Driver", properties={"user": "tidegate", "password": "-"}
    )
    server.query("CREATE TABLE by_spark (id bigint, name text)")
    rows = pa.table({"id": [1, 2], "name": ["a", 'b"']})
    for epoch in (1, 1, 2, 1, 2):
        write(session.sql().createDataFrame(rows), SparkEpoch("app", epoch))
    write(session.sql().createDataFrame(rows), SparkEpoch("other", 1))
    assert server.query("SELECT id, name, count(*) FROM by_spark GROUP BY 1, 2 ORDER BY 1") == [
        (1, "a", 3),
        (2, 'b"', 3),
    ]
    later = jdbc_writer(url, "later", driver="org.postgresql.Driver", properties={"user": "tidegate", "password": "-"})
    with pytest.raises(ExternalError, match='write of epoch 3 failed.*relation "later" does not exist'):
        write_epoch(session, later, 3)
    server.query("CREATE TABLE later (id bigint, name text)")
    write_epoch(session, later, 3)
    assert server.query("SELECT id, name FROM later") == [(1, "a")]


def write_epoch(session: Session, write: Callable[[DataFrame, SparkEpoch], None], epoch: int) -> None:
    """One row, as a sink whose checkpoint is confirmed writes it."""
    sink = SparkSink(write)
    service = SparkDoor(session, "127.0.0.1", "attempt", "task", {"op": sink})
    committer = sink.make_committer(SinkContext(0, 1, "j", "a", "op", spark_service=service.address))
    content = pa.BufferOutputStream()
    rows = pa.table({"id": [1], "name": ["a"]})
    with pa.ipc.new_stream(content, rows.schema) as stream:
        stream.write_table(rows)
    try:
        committer.commit([[TAG, "app", epoch, 1, content.getvalue().to_pybytes()]])
    finally:
        committer.close()
        service.close()


def raising(rows: DataFrame, epoch: SparkEpoch) -> None:
    raise KeyError("cents")


def leaving(rows: DataFrame, epoch: SparkEpoch) -> None:
    sys.exit("no such warehouse")


HINDERED: list[tuple[Callable[[DataFrame, SparkEpoch], None], str]] = [
    (raising, "KeyError: 'cents'"),
    (leaving, "SystemExit: no such warehouse"),
    (lambda rows, epoch: rows.write.parquet("/dev/null/out"), "/dev/null"),
    (lambda rows, epoch: rows.writeTo("not_there").append(), "TABLE_OR_VIEW_NOT_FOUND.*not_there"),
    (delta_writer("/tmp/table"), "delta.*name it with -D spark.jars.packages"),
    (iceberg_writer("lake.tables.orders"), "lake.*configure it with -D spark.sql.catalog"),
    (
        jdbc_writer("jdbc:x", "t", driver="org.example.Driver"),
        "org.example.Driver.*name it with -D spark.jars.packages",
    ),
]


@pytest.mark.parametrize(("write", "message"), HINDERED)
def test_what_hinders_a_write_is_said_with_its_epoch(
    session: Session, write: Callable[[DataFrame, SparkEpoch], None], message: str
) -> None:
    with pytest.raises(ExternalError, match=f"(?s)the write of epoch 7 failed: .*{message}"):
        write_epoch(session, write, 7)


def test_a_file_of_another_type_is_named_and_its_batch_is_read_when_it_is_mended(
    session: Session, tmp_path: Path
) -> None:
    def query(spark: SparkSession) -> DataFrame:
        return spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(str(tmp_path))

    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "good.parquet")
    rows, state = read(session, query, 2, [])
    pq.write_table(pa.table({"id": ["three"]}), tmp_path / "other.parquet")
    message = r"(?s)operator 'numbers': batch 1 of the Spark stream, from .* to .*: .*other\.parquet"
    with pytest.raises(ExternalError, match=message):
        read(session, query, 1, state)
    pq.write_table(pa.table({"id": [3]}), tmp_path / "other.parquet")
    more, _ = read(session, query, 1, state)
    assert sorted(rows + more) == [(1,), (2,), (3,)]


def test_columns_that_are_others_than_those_of_the_submission_are_refused(session: Session, tmp_path: Path) -> None:
    def query(spark: SparkSession) -> DataFrame:
        spark.conf.set("spark.sql.streaming.schemaInference", "true")
        return spark.readStream.parquet(str(tmp_path))

    pq.write_table(pa.table({"id": ["three"]}), tmp_path / "0.parquet")
    submitted = pa.schema([("id", pa.int64()), ("part", pa.int64())])
    with pytest.raises(
        UserFunctionError,
        match="operator 'numbers': .*columns id string now, and gave id int64, part int64 in the client",
    ):
        read(session, query, 1, [], submitted)


def test_a_source_that_only_the_client_knows_is_refused_in_the_task_manager(session: Session) -> None:
    with pytest.raises(ExternalError, match="operator 'numbers': .*pulsar.*name it with -D spark.jars.packages"):
        read(session, lambda spark: spark.readStream.format("pulsar").load(), 1, [], pa.schema([("id", pa.int64())]))


def rate(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load()


REFUSED: list[tuple[Query, str]] = [
    (lambda spark: rate(spark).groupBy("value").count(), "has the operator Aggregate over a stream.*behind the source"),
    (lambda spark: rate(spark).dropDuplicates(["value"]), "has the operator Deduplicate"),
    (lambda spark: rate(spark).limit(3), "has the operator .*Limit"),
    (lambda spark: rate(spark).orderBy("value"), "has the operator Sort"),
    (lambda spark: rate(spark).join(rate(spark), "value"), "joins two streams"),
    (lambda spark: rate(spark).selectExpr("now() AS at"), "gives another value when a batch is read again"),
    (lambda spark: rate(spark).selectExpr("rand() AS r"), "non-deterministic expression"),
    (lambda spark: spark.range(3), "reads no stream"),
    (lambda spark: spark.readStream.table("not_there"), "from_spark_stream failed.*not_there"),
    (lambda spark: spark.readStream.format("pulsar").load(), "name it with -D spark.jars.packages"),
]


def test_the_client_names_the_source_that_is_refused(session: Session) -> None:
    """A program may have several."""
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(InvalidJob, match="source 'orders': .*has the operator Aggregate over a stream"):
        env.from_spark_stream(lambda spark: rate(spark).groupBy("value").count(), source_name="orders")
    with pytest.raises(
        InvalidJob, match="source 'prices': .*reads a stream, which has no end: give it to from_spark_stream"
    ):
        env.from_spark(rate, source_name="prices")
    with pytest.raises(InvalidJob, match="source 'prices': the query of from_spark failed: .*not_there"):
        env.from_spark(lambda spark: spark.table("not_there"), source_name="prices")
    with pytest.raises(
        InvalidJob, match="source 'prices': the rows of from_spark cannot be read from Spark: .*CalendarInterval"
    ):
        env.from_spark(lambda spark: spark.sql("SELECT make_interval(1) AS every"), source_name="prices")


@pytest.mark.parametrize(("query", "message"), REFUSED)
def test_what_spark_would_need_state_for_is_refused(session: Session, query: Query, message: str) -> None:
    with pytest.raises(InvalidJob, match=f"(?s){message}"):
        describe_stream(query, 2, {})
