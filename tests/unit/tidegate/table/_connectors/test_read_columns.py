"""A table of Parquet files reads the columns that a statement needs, and no others."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tidegate.connectors.file_source import FileSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.plan import decode_plan
from tidegate.table import EnvironmentSettings, TableEnvironment
from tidegate.table._connectors.sources import read_table


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT c, a FROM t", ["a", "c"]),
        ("SELECT c, a FROM t WHERE b = 'y'", ["a", "b", "c"]),
        ("SELECT c, c FROM t", ["c"]),
        ("SELECT COUNT(*), COUNT(*) FROM t", ["a"]),
    ],
)
def test_columns_that_a_statement_does_not_need_are_not_read(
    query: str, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = pa.table({"a": [1, 2], "b": ["x", "y"], "c": [10, 20]})
    pq.write_table(data, tmp_path / "0.parquet")
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.execute_sql(
        f"CREATE TABLE t (a BIGINT, b STRING, c BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'parquet')"
    )
    tables.execute_sql("CREATE TABLE nowhere (x BIGINT, y BIGINT) WITH ('connector' = 'blackhole')")
    plan = decode_plan(tables.compile_plan_sql(f"INSERT INTO nowhere {query}").as_json_string())
    scan = next(node for node in plan.nodes if node.kind.startswith("stream-exec-table-source-scan"))
    made: list[list[str]] = []
    for_parquet = FileSource.for_parquet

    def noted(path: str, schema: pa.Schema) -> FileSource:
        made.append(schema.names)
        return for_parquet(path, schema=schema)

    monkeypatch.setattr(FileSource, "for_parquet", noted)
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    stream = read_table(env, scan, {})
    assert made == [names]
    wanted = [field.name for field in scan.output_type.fields]
    assert stream.get_type().arrow_schema().names == wanted
    stream.sink_to(CollectingSink(str(tmp_path)))
    job = InProcessJob(env.build(), tmp_path)
    job.start()
    job.finish()
    assert sorted(committed(str(tmp_path))) == [[row[name] for name in wanted] for row in data.to_pylist()]
