"""A job of lookup joins of one stream with a table of PostgreSQL, asked and kept, and with classes. Each writes CSV files below a directory."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa

from tidegate.common import WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.table import Schema, StreamTableEnvironment

KEYS = 97
STEP = 5
"""The keys that it divides have no square."""
TABLE = "CREATE TABLE names (k bigint PRIMARY KEY, name text)"
JOINS = {
    "asked": ("name STRING", "LEFT JOIN", "name"),
    "kept": ("name STRING", "JOIN", "name"),
    "squares": ("square BIGINT", "LEFT JOIN", "square"),
    "pairs": ("half BIGINT", "JOIN", "half"),
}
"""By table: the type of its column, how it is joined, and what is read of it."""


def rows(first: int, count: int) -> pa.RecordBatch:
    """Numbers with their keys."""
    ids = np.arange(first, first + count)
    return pa.record_batch({"id": pa.array(ids), "k": pa.array(ids % KEYS)})


def options(port: int) -> dict[str, str]:
    """By table: what it is."""
    postgres = f"'connector' = 'jdbc', 'url' = 'jdbc:postgresql://127.0.0.1:{port}/postgres', 'table-name' = 'names', 'username' = 'tidegate'"
    kept = "'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.max-rows' = '40'"
    return {
        "asked": postgres,
        "kept": f"{postgres}, {kept}",
        "squares": f"'connector' = 'python', 'class' = 'looked_up.Squares', 'arguments.step' = '{STEP}', {kept}",
        "pairs": "'connector' = 'python', 'class' = 'looked_up.Pairs'",
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--port", type=int, required=True, help="of PostgreSQL")
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(500)
    env.add_python_file(str(Path(__file__).with_name("looked_up.py")))
    t_env = StreamTableEnvironment.create(env)
    source = DataGeneratorSource(rows, arguments.rows, arguments.rate, rows(0, 0).schema)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    schema = Schema.new_builder().column("id", "BIGINT").column("k", "BIGINT").column_by_expression("p", "PROCTIME()")
    t_env.create_temporary_view("numbers", stream, schema.build())
    inserts = t_env.create_statement_set()
    for name, given in options(arguments.port).items():
        column, join, read = JOINS[name]
        t_env.execute_sql(f"CREATE TABLE {name} (k BIGINT, {column}) WITH ({given})")
        t_env.execute_sql(
            f"CREATE TABLE of_{name} (id BIGINT, {column}) WITH ('connector' = 'filesystem', 'path' = '{arguments.out}/{name}', 'format' = 'csv')"
        )
        inserts.add_insert_sql(
            f"INSERT INTO of_{name} SELECT n.id, t.{read} FROM numbers AS n {join} {name} FOR SYSTEM_TIME AS OF n.p AS t ON n.k = t.k"
        )
    inserts.execute()


if __name__ == "__main__":
    main()
