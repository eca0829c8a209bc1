"""Streams as tables, and tables as streams, up to the operators; rows are computed by the functions of the operators."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from tidegate.common.row import Row
from tidegate.common.typeinfo import Types
from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.datastream._graph.transformation import OperatorTransformation
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.plan import decode_plan
from tidegate.table import ChangelogMode, DataTypes, Schema, StreamTableEnvironment, Table
from tidegate.table._connectors.sinks import write_table
from tidegate.table._connectors.streams import StreamColumns, WithEventTime, WithTimestamp
from tidegate.table._planner import InvalidStatement
from tidegate.table.expressions import col, lit

pytestmark = pytest.mark.timeout(300)

ROW = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
ROWS = [Row(1, "a"), Row(2, None)]
Place = tuple[StreamExecutionEnvironment, StreamTableEnvironment, DataStream]


@pytest.fixture
def place() -> Place:
    env = StreamExecutionEnvironment.get_execution_environment()
    return env, StreamTableEnvironment.create(env), env.from_collection(ROWS, ROW)


def columns(table: Table) -> list[str]:
    schema = table._j_table.getResolvedSchema()
    return [f"{column.getName()} {column.getDataType()}" for column in schema.getColumns()]


def functions(stream: DataStream) -> list[Any]:
    """The functions of the operators, from the source on."""
    found: list[Any] = []
    at = stream._transformation
    assert isinstance(at, OperatorTransformation)
    while at.inputs:
        found.insert(0, at.options["func"])
        (at,) = at.inputs
        assert isinstance(at, OperatorTransformation)
    return found


def run(stream: DataStream, batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """The rows that the operators behind the source make of columns."""
    for function in functions(stream):
        batch = function(batch)
    return [tuple(row.values()) for row in batch.to_pylist()]


BATCH = pa.RecordBatch.from_pydict({"id": [1, 2], "name": ["a", None]})


def test_columns_are_the_fields_of_the_records(place: Place) -> None:
    env, tables, stream = place
    assert columns(tables.from_data_stream(stream)) == ["id BIGINT", "name STRING"]
    numbers = env.from_collection([1, 2], Types.INT())
    assert columns(tables.from_data_stream(numbers)) == ["f0 INT NOT NULL"]
    pairs = env.from_collection([(1, "a")], Types.TUPLE([Types.LONG(), Types.STRING()]))
    assert columns(tables.from_data_stream(pairs)) == ["f0 BIGINT NOT NULL", "f1 STRING"]
    arrow = env.from_collection(pa.table({"x": [1.5]}))
    assert columns(tables.from_data_stream(arrow)) == ["x DOUBLE"]
    made = tables.from_data_stream(stream).where(col("id") > 1).select(col("id") * 10, col("name"))
    assert run(tables.to_data_stream(made), BATCH) == [(20, None)]


def test_a_schema_picks_types_and_adds_columns(place: Place) -> None:
    _, tables, stream = place
    schema = (
        Schema.new_builder()
        .column("name", DataTypes.STRING())
        .column("id", DataTypes.INT())
        .column_by_expression("twice", "id * 2")
        .build()
    )
    made = tables.from_data_stream(stream, schema)
    assert columns(made) == ["name STRING", "id INT", "twice INT"]
    assert run(tables.to_data_stream(made), BATCH) == [("a", 1, 2), (None, 2, 4)]
    derived = Schema.new_builder().column_by_expression("p", "PROCTIME()").build()
    assert columns(tables.from_data_stream(stream, derived))[:2] == ["id BIGINT", "name STRING"]
    with pytest.raises(
        InvalidStatement, match=r"Unable to find a field named 'nam' .* available fields are: \[id, name\]"
    ):
        tables.from_data_stream(stream, Schema.new_builder().column("nam", "STRING").build())


def test_computed_columns_see_fields_that_are_no_columns_and_keys_are_not_null(place: Place) -> None:
    _, tables, stream = place
    schema = Schema.new_builder().column_by_expression("twice", "id * 2").column("name", DataTypes.STRING()).build()
    made = tables.from_data_stream(stream, schema)
    assert columns(made) == ["twice BIGINT", "name STRING"], "as they are declared"
    assert run(tables.to_data_stream(made.select(col("twice"), col("name"))), BATCH) == [(2, "a"), (4, None)]
    keyed = tables.from_changelog_stream(stream, Schema.new_builder().primary_key("id").build(), ChangelogMode.upsert())
    assert columns(keyed) == ["id BIGINT NOT NULL", "name STRING"]


def test_the_timestamp_and_the_watermarks_of_a_stream_are_declared(place: Place) -> None:
    _, tables, stream = place
    schema = (
        Schema.new_builder()
        .column_by_metadata("rowtime", DataTypes.TIMESTAMP_LTZ(3))
        .watermark("rowtime", "SOURCE_WATERMARK()")
        .build()
    )
    made = tables.from_data_stream(stream, schema)
    assert columns(made) == ["id BIGINT", "name STRING", "rowtime TIMESTAMP_LTZ(3) *ROWTIME*"]
    first, second, *others = functions(tables.to_data_stream(made))
    assert isinstance(first, WithTimestamp)
    assert isinstance(second, StreamColumns)
    (row,) = first.process_element(Row(1, "a"), Stamped(5))  # type: ignore[arg-type]
    assert row == Row(1, "a", 5)
    stamped = BATCH.append_column("$timestamp", pa.array([0, 1500]))
    assert second(stamped)["rowtime"].to_pylist() == [
        datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC),
        datetime.datetime(1970, 1, 1, 0, 0, 1, 500000, tzinfo=datetime.UTC),
    ]
    with pytest.raises(SchemaMismatch, match="whose records have none: put assign_timestamps_and_watermarks"):
        second(BATCH.append_column("$timestamp", pa.array([0, None])))
    last = others[-1]
    assert isinstance(last, WithEventTime)
    assert last.event_time(second(stamped)).to_pylist() == [0, 1500], "the stream of the table has that event time"


class Stamped:
    def __init__(self, stamp: int) -> None:
        self._stamp = stamp

    def timestamp(self) -> int:
        return self._stamp


def test_expressions_name_fields_by_name_or_in_order(place: Place) -> None:
    _, tables, stream = place
    by_name = tables.from_data_stream(stream, col("name").alias("n"), col("t").rowtime, col("id"))
    assert columns(by_name) == ["n STRING", "t TIMESTAMP(3) *ROWTIME*", "id BIGINT"]
    in_order = tables.from_data_stream(stream, col("a"), col("b"), col("p").proctime)
    assert columns(in_order) == ["a BIGINT", "b STRING", "p TIMESTAMP_LTZ(3) NOT NULL *PROCTIME*"]
    assert run(tables.to_data_stream(in_order.select(col("b"), col("a"))), BATCH) == [("a", 1), (None, 2)]
    with pytest.raises(InvalidStatement, match="Number of expressions does not match number of input fields."):
        tables.from_data_stream(stream, col("a"), col("b"), col("c"))
    with pytest.raises(InvalidStatement, match="Field reference expression or alias on field expression expected."):
        tables.from_data_stream(stream, col("id") + lit(1))


def test_a_view_of_a_stream_is_queried_by_sql_and_is_part_of_the_program(place: Place) -> None:
    env, tables, stream = place
    tables.create_temporary_view("v", stream)
    tables.create_temporary_view("w", stream, Schema.new_builder().column("id", "BIGINT").build())
    made = tables.sql_query("SELECT UPPER(name), id FROM v UNION ALL SELECT 'w', id FROM w")
    tables.to_data_stream(made).print()
    assert env.get_execution_plan().count('"type": "Source') == 1
    with pytest.raises(InvalidStatement, match="Column 'nme' not found"):
        tables.sql_query("SELECT nme FROM v")


def test_jobs_of_statements_read_streams_and_leave_the_program_as_it_is(place: Place) -> None:
    env, tables, stream = place
    tables.create_temporary_view("v", stream.filter(lambda row: row[0] > 0))
    before = len(env._transformations)
    job = tables._new_environment()
    ends: list[DataStream] = []
    with tables.planner.errors():
        target = tables.planner.api.TableDescriptor.forConnector("tidegate-collect").build()
        from tidegate.plan import decode_plan

        plan = decode_plan(
            str(tables.sql_query("SELECT id FROM v")._j_table.insertInto(target).compilePlan().asJsonString())
        )
    tables._translate(plan, job, lambda node, end: ends.append(end), "UTC")
    ends[0].print()
    assert job.build("job").graph.vertices
    assert len(env._transformations) == before


def test_append_streams_have_the_type_that_is_asked_for(place: Place) -> None:
    _, tables, stream = place
    table = tables.from_data_stream(stream)
    assert tables.to_append_stream(table).get_type().arrow_schema().names == ["id", "name"]
    pairs = tables.to_append_stream(table, Types.TUPLE([Types.LONG(), Types.STRING()]))
    assert pairs.get_type() == Types.TUPLE([Types.LONG(), Types.STRING()])
    assert tables.to_append_stream(table, ROW).get_type() == ROW
    assert tables.to_append_stream(table.select(col("id")), Types.LONG()).get_type().arrow_schema().names == ["id"]
    with pytest.raises(InvalidStatement, match="Cause: Different number of columns"):
        tables.to_append_stream(table, Types.LONG())
    assert tables.to_changelog_stream(table).get_type().arrow_schema().names == ["id", "name"]


def test_what_cannot_be_a_table_or_a_stream_is_refused(place: Place) -> None:
    _, tables, stream = place
    declared = Schema.new_builder().column("f0", "STRING").build()
    objects = tables.from_data_stream(stream.map(lambda row: row), declared)
    with pytest.raises(InvalidJob, match="objects of unknown type there: give the operator before it an output_type"):
        tables.to_data_stream(objects)
    other = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(InvalidJob, match="the stream is of another environment"):
        tables.from_data_stream(other.from_collection(ROWS, ROW))


def test_what_makes_rows_one_by_one_has_the_parallelism_of_its_input(place: Place) -> None:
    env, tables, stream = place
    env.set_parallelism(4)
    stream.print()
    schema = (
        Schema.new_builder()
        .column_by_metadata("rowtime", DataTypes.TIMESTAMP_LTZ(3))
        .watermark("rowtime", "rowtime - INTERVAL '1' SECOND")
        .build()
    )
    tables.create_temporary_view("s", stream, schema)
    tables.execute_sql("CREATE TABLE p (id BIGINT, n BIGINT) WITH ('connector' = 'print')")
    for query, expected in (
        ("SELECT id + 1, CHAR_LENGTH(name) FROM s WHERE id > 1", [1, 1, 1, 1, 1]),
        ("SELECT id, n * 2 FROM (SELECT id, COUNT(*) AS n FROM s GROUP BY id)", [1, 1, 1, 1, 4, 4, 4]),
        ("SELECT n * 2, n FROM (SELECT COUNT(*) AS n FROM s)", [1, 1, 1, 1, 1, 1, 1]),
    ):
        plan = decode_plan(tables.compile_plan_sql(f"INSERT INTO p {query}").as_json_string())
        before = len(env.stream_graph().nodes)
        tables._translate(plan, env, write_table, "UTC")
        made = env.stream_graph().nodes[before:]
        assert [node.parallelism for node in made] == expected, [node.name for node in made]
