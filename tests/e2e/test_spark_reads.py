"""What the sinks wrote is read back by Spark: committed rows, all of them, and nothing that is only pending."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from tests.servers import spark_reading
from tests.servers.jars import fetched
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.postgres_server import PostgresServer
from tests.unit.taskmanager.operators.harness import spec, start
from tidegate.common.typeinfo import Types
from tidegate.connectors.base import DeliveryGuarantee, Sink
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.kafka.records import KafkaRecordSerializationSchema
from tidegate.connectors.kafka.sink import KafkaSink
from tidegate.connectors.postgres.sink import PostgresSink
from tidegate.datastream.formats.json import JsonRowSerializationSchema
from tidegate.records.batch import ArrowBatch

ROW = Types.ROW_NAMED(["id", "name", "share"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])
SERVERS = Path(spark_reading.__file__).parent
FIRST = [{"id": n, "name": f'name, "{n}"', "share": n / 4} for n in range(1000)]
PENDING = [{"id": -1, "name": "pending", "share": 0.0}]


def write(sink: Sink) -> None:
    """An epoch that is committed, and one that only voted."""
    running = start(spec("sink", input_types=(ROW,), options={"sink": sink}))
    for checkpoint_id, rows in enumerate((FIRST, PENDING), start=1):
        data = pa.RecordBatch.from_pylist(rows, ROW.arrow_schema())
        running.operator.process(ArrowBatch(data, None), 0)
        running.snapshot(checkpoint_id)
    running.operator.notify_checkpoint_complete(1)
    running.operator.close()


def topic(broker: KafkaBroker, name: str) -> KafkaSink:
    broker.create_topic(name, 2)
    records = KafkaRecordSerializationSchema.builder().set_topic(name)
    records.set_value_serialization_schema(JsonRowSerializationSchema.builder().build())
    sink = KafkaSink.builder().set_bootstrap_servers(broker.servers).set_record_serializer(records.build())
    return sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix(name).build()


def test_spark_reads_files_tables_and_topics(server: PostgresServer, broker: KafkaBroker, tmp_path: Path) -> None:
    schema = "id long, name string, share double"
    server.query("CREATE TABLE read_by_spark (id bigint, name text, share double precision)")
    write(FileSink.for_parquet(str(tmp_path / "parquet")))
    write(FileSink.for_csv(str(tmp_path / "csv")))
    write(FileSink.for_json_lines(str(tmp_path / "json")))
    write(PostgresSink(server.conninfo, "read_by_spark"))
    write(topic(broker, "read-by-spark"))
    driver = "org.postgresql.Driver"
    jdbc = f"jdbc:postgresql://127.0.0.1:{server.port}/postgres"
    sources = {
        "parquet": {"format": "parquet", "path": str(tmp_path / "parquet")},
        "csv": {"format": "csv", "path": str(tmp_path / "csv"), "header": "true", "schema": schema, "escape": '"'},
        "json": {"format": "json", "path": str(tmp_path / "json"), "schema": schema},
        "table": {
            "format": "jdbc",
            "driver": driver,
            "url": jdbc,
            "dbtable": "read_by_spark",
            "user": "tidegate",
            "password": "-",
        },
        "topic": {
            "format": "kafka",
            "kafka.bootstrap.servers": broker.servers,
            "kafka.isolation.level": "read_committed",
            "subscribe": "read-by-spark",
        },
    }
    names = ("postgres", "postgres-jdbc"), ("spark_kafka", "spark-kafka")
    jars = [jar for folder, name in names for jar in sorted(fetched(SERVERS / folder / "pom.xml", name).glob("*.jar"))]
    found = spark_reading.read(sources, jars, tmp_path)
    found["topic"] = [json.loads(message["value"]) for message in found["topic"]]
    for name, rows in found.items():
        assert sorted(rows, key=lambda row: int(row["id"])) == FIRST, name
    for (gid,) in server.query("SELECT gid FROM pg_prepared_xacts"):
        server.query(f"ROLLBACK PREPARED '{gid}'")
