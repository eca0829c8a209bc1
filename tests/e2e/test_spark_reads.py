"""What the sinks wrote is read back by Spark: committed rows, all of them, and nothing that is only pending."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from tests.servers import spark_reading
from tests.servers.jars import fetched
from tests.servers.postgres_server import PostgresServer
from tests.unit.taskmanager.operators.harness import spec, start
from tidegate.common.batch import ArrowBatch
from tidegate.common.typeinfo import Types
from tidegate.connectors.base import Sink
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.postgres.sink import PostgresSink

ROW = Types.ROW_NAMED(["id", "name", "share"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])
POM = Path(spark_reading.__file__).parent / "postgres" / "pom.xml"
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


def test_spark_reads_files_and_tables(server: PostgresServer, tmp_path: Path) -> None:
    schema = "id long, name string, share double"
    server.query("CREATE TABLE read_by_spark (id bigint, name text, share double precision)")
    write(FileSink.for_parquet(str(tmp_path / "parquet")))
    write(FileSink.for_csv(str(tmp_path / "csv")))
    write(FileSink.for_json_lines(str(tmp_path / "json")))
    write(PostgresSink(server.conninfo, "read_by_spark"))
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
    }
    found = spark_reading.read(sources, sorted(fetched(POM, "postgres-jdbc").glob("*.jar")), tmp_path)
    for name, rows in found.items():
        assert sorted(rows, key=lambda row: int(row["id"])) == FIRST, name
    for (gid,) in server.query("SELECT gid FROM pg_prepared_xacts"):
        server.query(f"ROLLBACK PREPARED '{gid}'")
