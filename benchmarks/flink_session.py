"""Runs SQL on a Flink cluster, order by order, by PyFlink's Table API in Flink's own environment (no Python at run time).

Arguments: REST port, parallelism, checkpoint interval in ms. Each line of the standard input is an order in JSON, and is answered by
a line: ``{"job": id}``, ``{"rows": [[kind, values]]}`` or ``{"error": text}``.

    numbers     streams of row numbers: [name of the view, expression of f0, the row number, for the column n, another for the event
                time in ms, rows]
    settings    of the table environment; before the statements
    functions   statements before the streams
    statements  behind them
    query       a SELECT, which is collected if ``collect`` is set, else written to nowhere; or an INSERT
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

common: Any = importlib.import_module("pyflink.common")
datastream: Any = importlib.import_module("pyflink.datastream")
sequences: Any = importlib.import_module("pyflink.datastream.connectors.number_seq")
tables: Any = importlib.import_module("pyflink.table")
java_gateway: Any = importlib.import_module("pyflink.java_gateway")


def environment(rest_port: str, parallelism: int, interval_ms: int) -> tuple[Any, Any]:
    configuration = common.Configuration()
    for key, text in (
        ("parallelism.default", str(parallelism)),
        ("execution.checkpointing.interval", f"{interval_ms} ms"),
        ("pipeline.object-reuse", "true"),
        ("table.local-time-zone", "UTC"),
    ):
        configuration.set_string(key, text)
    gateway = java_gateway.get_gateway()  # Python has no name for an environment of a running cluster
    no_jars = gateway.new_array(gateway.jvm.java.lang.String, 0)
    environments = gateway.jvm.org.apache.flink.streaming.api.environment.StreamExecutionEnvironment
    made = environments.createRemoteEnvironment("127.0.0.1", int(rest_port), configuration._j_configuration, no_jars)
    env = datastream.StreamExecutionEnvironment(made)
    env.set_parallelism(parallelism)
    return env, tables.StreamTableEnvironment.create(env)


def add_numbers(env: Any, table_env: Any, name: str, number: str, time_ms: str, rows: int) -> None:
    source = sequences.NumberSequenceSource(0, rows - 1)
    stream = env.from_source(source, common.WatermarkStrategy.no_watermarks(), name, common.Types.LONG())
    schema = tables.Schema.new_builder().column("f0", tables.DataTypes.BIGINT())
    at = f"CAST(TO_TIMESTAMP_LTZ({time_ms}, 3) AS TIMESTAMP(3))"
    schema = schema.column_by_expression("n", number).column_by_expression("dateTime", at)
    table_env.create_temporary_view(name, stream, schema.watermark("dateTime", "`dateTime`").build())


def answer(order: dict[str, Any], arguments: tuple[str, int, int]) -> dict[str, Any]:
    env, table_env = environment(*arguments)
    for key, text in order.get("settings", {}).items():
        table_env.get_config().set(key, text)
    for statement in order.get("functions", []):
        table_env.execute_sql(statement)
    for numbers in order.get("numbers", []):
        add_numbers(env, table_env, *numbers)
    for statement in order.get("statements", []):
        table_env.execute_sql(statement)
    query = order["query"]
    if query.lstrip().upper().startswith("INSERT"):
        return {"job": str(table_env.execute_sql(query).get_job_client().get_job_id())}
    table = table_env.sql_query(query)
    if order.get("collect"):
        with table.execute().collect() as rows:
            return {"rows": [[row.get_row_kind().name, [_plain(value) for value in row]] for row in rows]}
    nowhere = tables.TableDescriptor.for_connector("blackhole").build()
    return {"job": str(table.execute_insert(nowhere).get_job_client().get_job_id())}


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (str, int, float)) else float(value)


def main(rest_port: str, parallelism: int, interval_ms: int) -> None:
    for line in sys.stdin:
        try:
            told = answer(json.loads(line), (rest_port, parallelism, interval_ms))
        except Exception as error:  # noqa: BLE001  what a planner refuses is told to who asked
            text = str(error)
            told = {"error": text if len(text) < 4000 else f"{text[:2000]} ... {text[-2000:]}"}
        print("ANSWER " + json.dumps(told), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
