"""A Table program with processes: rows of Python through files, SQL and the Table API, to files, the screen and back."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any

import fastavro
import pytest

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.jobs.avro_of_kafka import KEYS
from tests.e2e.pool import made_ready
from tests.e2e.waiting import HANG_LIMIT_S
from tests.e2e.watching import JobWatch
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_reading import read_topic, read_values
from tests.servers.schema_registry import SchemaRegistryServer, schema_registry

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

_PROGRAM = """
import sys
from tidegate.table import DataTypes, EnvironmentSettings, ScalarFunction, TableEnvironment
from tidegate.table.udf import udf
from tidegate.table.expressions import col, lit

@udf(result_type=DataTypes.BIGINT())
def add(i, j):
    return i + j

class Shout(ScalarFunction):
    def open(self, context):
        self.subtask = context.get_index_of_this_subtask()

    def eval(self, name):
        return f"{name}!{self.subtask}"

folder = sys.argv[1]
t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
t_env.get_config().set("parallelism.default", "1")
orders = t_env.from_elements([(1, "a", 1.5), (2, "b", None), (3, None, 3.5)], ["id", "name", "price"])
t_env.create_temporary_view("orders", orders)
for kind in ("csv", "json", "parquet"):
    nulls = ", 'csv.null-literal' = ''" if kind == "csv" else ""
    t_env.execute_sql(
        f"CREATE TABLE {kind}_files (id BIGINT, name STRING, price DOUBLE) "
        f"WITH ('connector' = 'filesystem', 'path' = '{folder}/{kind}', 'format' = '{kind}'{nulls})"
    )
t_env.create_temporary_function("shout", udf(Shout(), result_type="STRING"))
both = t_env.create_statement_set()
for kind in ("csv", "json", "parquet"):
    both.add_insert_sql(f"INSERT INTO {kind}_files SELECT id * 10, name, price FROM orders WHERE id > 1")
both.execute().wait()
for kind in ("csv", "json", "parquet"):
    print(kind, sorted(list(row) for row in t_env.execute_sql(f"SELECT * FROM {kind}_files").collect()))
t_env.execute_sql("CREATE TABLE screen (id BIGINT, price DOUBLE) WITH ('connector' = 'print', 'print-identifier' = 'out')")
orders.where(col("price").is_not_null).select(col("id") + lit(100), col("price")).execute_insert("screen").wait()
orders.select(col("id"), col("name")).execute().print()
t_env.create_temporary_system_function("add_up", add)
print(sorted(tuple(row) for row in t_env.execute_sql("SELECT add_up(id, 1), shout(name) FROM orders WHERE add_up(id, 1) > 2").collect()))
print(orders.select(col("id").alias("number")).to_pandas()["number"].tolist())
batch = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
batch.get_config().set("parallelism.default", "2")
batch.execute_sql(
    "CREATE TABLE f (id BIGINT, name STRING, price DOUBLE) "
    f"WITH ('connector' = 'filesystem', 'path' = '{folder}/csv', 'format' = 'csv', 'csv.null-literal' = '')"
)
by_name = batch.execute_sql("SELECT name, COUNT(*) AS n, MAX(id) FROM (SELECT * FROM f UNION ALL SELECT * FROM f) GROUP BY name ORDER BY name DESC")
print([list(row) for row in by_name.collect()])
batch.execute_sql("INSERT OVERWRITE f SELECT id + 1, name, price FROM f WHERE id > 20").wait()
print([list(row) for row in batch.execute_sql("SELECT * FROM f").collect()])
batch.execute_sql(
    "CREATE TABLE p (a INT, b STRING) PARTITIONED BY (b) "
    f"WITH ('connector' = 'filesystem', 'path' = '{folder}/parts', 'format' = 'csv')"
)
batch.execute_sql("INSERT INTO p VALUES (1, 'x'), (2, 'y')").wait()
batch.execute_sql("INSERT OVERWRITE p PARTITION (b = 'x') SELECT 7").wait()
batch.execute_sql("INSERT OVERWRITE p VALUES (8, 'y'), (9, 'z')").wait()
print(sorted(list(row) for row in batch.execute_sql("SELECT * FROM p").collect()))
batch.execute_sql("INSERT OVERWRITE f SELECT * FROM f WHERE id > 300").wait()
print([list(row) for row in batch.execute_sql("SELECT * FROM f").collect()])
"""


def test_a_table_program_runs_as_jobs(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path)], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for kind in ("csv", "json", "parquet"):
        assert f"{kind} [[20, 'b', None], [30, None, 3.5]]" in lines
    assert [line for line in lines if line.startswith("out> ")] == ["out> +I[101, 1.5]", "out> +I[103, 3.5]"]
    assert "| +I |                    3 |                         <NULL> |" in lines
    assert lines[-7:-4] == ["3 rows in set", "[(3, 'b!0'), (4, 'None!0')]", "[1, 2, 3]"]
    assert lines[-4] == "[['b', 2, 20], [None, 2, 30]]"
    assert lines[-3:] == ["[[31, None, 3.5]]", "[[7, 'x'], [8, 'y'], [9, 'z']]", "[]"], "overwritten, as in Flink 2.3"


_SCRIPT = """
-- writes; and reads
SET 'parallelism.default' = '1';
CREATE TABLE files (id BIGINT, name STRING) WITH ('connector' = 'filesystem', 'path' = '{folder}/files', 'format' = 'csv');
INSERT INTO files VALUES (1, 'a;b'), (2, CAST(NULL AS STRING));
SELECT id, name FROM files WHERE id < 2;
SET 'execution.runtime-mode' = 'batch';
SELECT id * 2 AS d FROM files WHERE id = 2;
COMPILE PLAN '{folder}/plan.json' FOR INSERT INTO files SELECT id + 10, name FROM (VALUES (1, 'c')) AS t(id, name);
  SELECT id,
    nme FROM files;
SHOW TABLES;
"""


def _tidegate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidegate.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)


def test_a_script_runs_up_to_its_error_and_its_plan_runs_alone(tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text(_SCRIPT.format(folder=tmp_path))
    done = _tidegate("sql", "--local", "-f", str(script))
    assert done.returncode == 1, done.stderr
    printed = done.stdout.splitlines()
    assert "| +I |                    1 |                            a;b |" in printed
    assert "|                    4 |" in printed
    assert not any("table name" in line for line in printed), "nothing runs behind the error"
    *_, error, text, marks = done.stderr.splitlines()
    assert error.startswith(
        "error: script.sql, statement 8, line 10, column 3: SQL validation failed. From line 11, column 5"
    )
    assert (text, marks) == ("    nme FROM files", "    ^^^")
    done = _tidegate("run", "--local", str(tmp_path / "plan.json"))
    assert done.returncode == 0, done.stderr
    written = [row for path in (tmp_path / "files").glob("part-*") for row in csv.reader(path.read_text().splitlines())]
    assert sorted(written) == [["1", "a;b"], ["11", "c"], ["2", ""]]


_STREAMS = """
from tidegate.common import Row, Types, WatermarkStrategy
from tidegate.common.watermark_strategy import TimestampAssigner
from tidegate.datastream import ProcessFunction, StreamExecutionEnvironment
from tidegate.table import Schema, StreamTableEnvironment
from tidegate.table.expressions import col

class Field(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]

class Times(ProcessFunction):
    def process_element(self, value, ctx):
        yield f"{value[0]} at {ctx.timestamp()}"

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
t_env = StreamTableEnvironment.create(env)
rows = env.from_collection([Row("a", 1000), Row("b", 2000), Row("c", 3000)], Types.ROW_NAMED(["name", "ms"], [Types.STRING(), Types.LONG()]))
timed = rows.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Field()))
t_env.create_temporary_view("v", timed, col("name"), col("ms"), col("t").rowtime)
print(sorted(row[0] for row in t_env.execute_sql("SELECT UPPER(name) FROM v WHERE ms > 1000").collect()))
back = t_env.to_data_stream(t_env.sql_query("SELECT UPPER(name) AS n, t FROM v WHERE ms > 1000"))
back.process(Times(), Types.STRING()).print()
env.execute()
"""


def test_streams_and_tables_are_one_job_with_its_event_time(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_STREAMS)
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["['B', 'C']", "B at 2000", "C at 3000"]


_CHANGELOGS = """
from tidegate.table import EnvironmentSettings, TableEnvironment

t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
t_env.get_config().set("parallelism.default", "2")
rows = [(1, "a", 5), (2, "b", 7), (3, "a", 2), (4, "c", 1), (5, "a", None)]
t_env.create_temporary_view("orders", t_env.from_elements(rows, ["id", "name", "qty"]))
t_env.create_temporary_view("names", t_env.from_elements([("a", "Ann"), ("b", "Bob")], ["name", "long_name"]))
total = "SELECT name, COUNT(*) AS n, SUM(qty) AS q, MAX(qty) AS m FROM orders GROUP BY name"
t_env.execute_sql("CREATE TABLE screen (n BIGINT, c BIGINT) WITH ('connector' = 'print', 'print-identifier' = 'out')")
t_env.execute_sql(f"INSERT INTO screen SELECT n, COUNT(*) FROM ({total}) GROUP BY n HAVING n > 2").wait()
left = []
joined = f"SELECT t.name, n, q, m, long_name FROM ({total}) t LEFT JOIN names ON t.name = names.name"
with t_env.execute_sql(joined).collect() as rows:
    for row in rows:
        (left.append if str(row.get_row_kind()) in ("+I", "+U") else left.remove)(list(row))
print(sorted(left))
first = "SELECT *, ROW_NUMBER() OVER (PARTITION BY name ORDER BY id DESC) AS rn FROM orders"
with t_env.execute_sql(f"SELECT name, id FROM ({first}) WHERE rn <= 2").collect() as rows:
    print([(str(row.get_row_kind()), row[1]) for row in rows if row[0] == "a"])
"""


def test_queries_with_updates_run_as_jobs(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_CHANGELOGS)
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    out, joined, first = done.stdout.splitlines()[-3:]
    assert out.partition("> ")[2] == "+I[3, 1]"
    assert joined == "[['a', 3, 7, 5, 'Ann'], ['b', 1, 7, 7, 'Bob'], ['c', 1, 1, 1, None]]"
    assert first == "[('+I', 1), ('+I', 3), ('-D', 1), ('+I', 5)]"


_KAFKA = """
import sys
from tidegate.table import EnvironmentSettings, TableEnvironment

servers, exactly = sys.argv[1], "'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'tables'"
t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
t_env.get_config().set("parallelism.default", "2")
t_env.get_config().set("execution.checkpointing.interval", "300 ms")
columns = "id BIGINT, name STRING, moment TIMESTAMP(3), price DECIMAL(10, 2)"
kafka = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{servers}'"
scan = "'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'"
t_env.execute_sql(f"CREATE TABLE orders ({columns}) WITH ({kafka}, 'topic' = 'orders', 'format' = 'json', {scan}, {exactly})")
t_env.execute_sql(f"CREATE TABLE dear ({columns}) WITH ({kafka}, 'topic' = 'dear', 'format' = 'csv', {exactly})")
t_env.execute_sql(
    "CREATE TABLE numbers (id BIGINT) WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1', "
    "'fields.id.end' = '20000', 'rows-per-second' = '1000000')"
)
t_env.execute_sql(
    "INSERT INTO orders SELECT id, CONCAT('a,', CAST(id AS STRING)), TIMESTAMP '2020-01-02 03:04:05.5', CAST(id AS DECIMAL(10, 2)) / 4 "
    "FROM numbers"
).wait()
t_env.execute_sql("INSERT INTO dear SELECT id, name, moment, price FROM orders WHERE price > 1000").wait()
"""


def test_tables_of_kafka_are_written_and_read_exactly_once(broker: KafkaBroker, tmp_path: Path) -> None:
    broker.create_topic("orders", 3)
    broker.create_topic("dear", 1)
    program = tmp_path / "program.py"
    program.write_text(_KAFKA)
    done = subprocess.run(
        [sys.executable, str(program), broker.servers], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    assert sorted(message.value for message in read_topic(broker.servers, "dear")) == sorted(
        f'{number},"a,{number}","2020-01-02 03:04:05.5",{_plain(number)}' for number in range(4001, 20_001)
    )


def _plain(number: int) -> str:
    """A quarter of it, as Flink writes a DECIMAL(10, 2): without zeros at its end."""
    quarter = Decimal(number).scaleb(-2) * 25
    return str(quarter.normalize())


_CHANGES_OF_KAFKA = """
import sys
from tidegate.table import EnvironmentSettings, TableEnvironment

servers, exactly = sys.argv[1], "'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'changes'"
t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
t_env.get_config().set("parallelism.default", "2")
t_env.get_config().set("execution.checkpointing.interval", "300 ms")
kafka = f"'properties.bootstrap.servers' = '{servers}'"
scan = "'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'"
t_env.execute_sql(
    "CREATE TABLE orders (id BIGINT, name STRING, qty INT, sent TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', tags MAP<STRING, BYTES> METADATA FROM 'headers', "
    "place BIGINT METADATA FROM 'offset' VIRTUAL, part INT METADATA FROM 'partition' VIRTUAL) "
    f"WITH ('connector' = 'kafka', {kafka}, 'topic' = 'keyed', 'key.format' = 'raw', 'key.fields' = 'name', 'value.format' = 'json', "
    f"'value.fields-include' = 'EXCEPT_KEY', 'sink.partitioner' = 'fixed', {scan}, {exactly})"
)
t_env.execute_sql(
    "CREATE TABLE totals (name STRING, n BIGINT, qty INT, PRIMARY KEY (name) NOT ENFORCED) "
    f"WITH ('connector' = 'upsert-kafka', {kafka}, 'topic' = 'totals', 'key.format' = 'json', 'value.format' = 'json', "
    f"'scan.bounded.mode' = 'latest-offset', 'sink.buffer-flush.max-rows' = '1000', 'sink.buffer-flush.interval' = '1 s', {exactly})"
)
t_env.execute_sql(
    "CREATE TABLE log (name STRING, n BIGINT, qty INT) "
    f"WITH ('connector' = 'kafka', {kafka}, 'topic' = 'log', 'format' = 'debezium-json', {scan}, {exactly})"
)
t_env.execute_sql(
    "INSERT INTO orders SELECT *, TO_TIMESTAMP_LTZ(1600000000000 + id, 3), MAP['k', ENCODE(name, 'UTF-8')] "
    "FROM (VALUES (1, 'a', 5), (2, 'b', 7), (3, 'a', 2), (4, 'c', -1), (5, 'c', 1)) AS t(id, name, qty)"
).wait()
read = "SELECT id, name, UNIX_TIMESTAMP(CAST(sent AS STRING)) > 0, DECODE(tags['k'], 'UTF-8'), place < 5 FROM orders WHERE part < 2"
with t_env.execute_sql(read).collect() as rows:
    print(sorted(list(row) for row in rows))
both = t_env.create_statement_set()
total = "SELECT name, COUNT(*) AS n, SUM(qty) AS qty FROM orders GROUP BY name HAVING SUM(qty) <> 0"
both.add_insert_sql(f"INSERT INTO totals {total}")
both.add_insert_sql(f"INSERT INTO log {total}")
both.execute().wait()
for table in ("totals", "log"):
    found = {}
    with t_env.execute_sql(f"SELECT * FROM {table}").collect() as rows:
        for row in rows:
            if str(row.get_row_kind()) in ("+I", "+U"):
                found[row[0]] = list(row)
            else:
                found.pop(row[0], None)
    print(table, sorted(found.values()))
"""


def test_keys_metadata_and_changes_of_kafka(broker: KafkaBroker, tmp_path: Path) -> None:
    for topic in ("keyed", "totals", "log"):
        broker.create_topic(topic, 2)
    program = tmp_path / "program.py"
    program.write_text(_CHANGES_OF_KAFKA)
    done = subprocess.run(
        [sys.executable, str(program), broker.servers], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    names = ((1, "a"), (2, "b"), (3, "a"), (4, "c"), (5, "c"))
    orders, *tables = done.stdout.splitlines()[-3:]
    assert orders == str([[number, name, True, name, True] for number, name in names])
    assert tables == ["totals [['a', 2, 7], ['b', 1, 7]]", "log [['a', 2, 7], ['b', 1, 7]]"]
    last = {message.key: message.value for message in read_topic(broker.servers, "totals")}
    assert last == {
        '{"name":"a"}': '{"name":"a","n":2,"qty":7}',
        '{"name":"b"}': '{"name":"b","n":1,"qty":7}',
        '{"name":"c"}': "",
    }


def test_avro_of_kafka_with_a_schema_registry(cluster: Cluster, broker: KafkaBroker, tmp_path: Path) -> None:
    """Exactly once although the TaskManager of a writer is killed, as fastavro reads it, and as our own tables do."""
    rows, kills = 5_000, 1
    for topic, partitions in (("orders", 2), ("copies", 2), ("changes", 1), ("totals", 1)):
        broker.create_topic(f"avro-{topic}", partitions)
    made_ready(cluster, 2 + kills)
    settings = {"execution.checkpointing.dir": str(tmp_path / "checkpoints"), **QUICK_RESTART}
    with schema_registry() as registry:

        def submitted(queries: str) -> JobWatch:
            words = ("--servers", broker.servers, "--registry", registry.url, "--rows", str(rows), "--rate", "500")
            job = JOBS / "avro_of_kafka.py"
            return cluster.submit(job, queries, *words, parallelism=2, settings=settings)

        def read(topic: str) -> list[Any]:
            return [_decoded(message, registry) for message in read_values(broker.servers, topic)]

        writing = submitted("write")
        writing.wait_running()
        writing.wait_checkpoints(2)
        killed_at = cluster.kill9(cluster.task_manager_of(writing, "numbers", 0))
        writing.wait_running_again(0, killed_at)
        assert writing.wait_finished(HANG_LIMIT_S).status.restarts == kills
        assert sorted(read("avro-orders"), key=itemgetter("id")) == [_order(number) for number in range(1, rows + 1)]
        totals: dict[int, Any] = {}
        changes = read("avro-changes")
        for change in changes:
            if change["op"] == "d":
                assert totals.pop(change["before"]["k"]) == change["before"]
            else:
                assert totals.setdefault(change["after"]["k"], change["after"]) is change["after"]
        of_key = {key: range(key or KEYS, rows + 1, KEYS) for key in range(KEYS)}
        assert totals == {key: {"k": key, "n": len(ids), "total": sum(ids)} for key, ids in of_key.items()}
        assert len(changes) > 2 * KEYS, "there were updates"

        submitted("copy").wait_finished(HANG_LIMIT_S)
        assert sorted(read("avro-copies"), key=itemgetter("id")) == [_order(number) for number in range(1, rows + 1)]
    last = {message.key: message.value for message in read_topic(broker.servers, "avro-totals")}
    assert {row["k"]: row for row in map(json.loads, last.values())} == totals


def _decoded(message: bytes, registry: SchemaRegistryServer) -> Any:
    """By the schema that it names: a zero, and the number of the schema in four bytes, stand before the record."""
    assert message[0] == 0
    version = registry.versions[int.from_bytes(message[1:5], "big") - 1]
    return fastavro.schemaless_reader(io.BytesIO(message[5:]), json.loads(version.schema))


def _order(number: int) -> dict[str, Any]:
    name = None if number % 3 == 0 else f"order {number}"
    return {"id": number, "name": name, "price": Decimal(number) / 4, "tags": ["a", str(number)]}
