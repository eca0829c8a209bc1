"""Statements and Table programs up to the operators: one planner for all, no cluster."""

from __future__ import annotations

import datetime
import importlib
import json
from pathlib import Path

import pytest

from tidegate.datastream import StreamExecutionEnvironment
from tidegate.model.errors import InvalidJob
from tidegate.plan import UnsupportedPlan
from tidegate.table import (
    DataTypes,
    EnvironmentSettings,
    ExplainDetail,
    Schema,
    StreamTableEnvironment,
    TableDescriptor,
    TableEnvironment,
)
from tidegate.table._planner import InvalidStatement
from tidegate.table.expressions import call, col, concat, if_then_else, lit
from tidegate.table.udf import udf
from tidegate.table.window import Tumble

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def tables() -> TableEnvironment:
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.create_temporary_view("v", made.from_elements([(1, "a"), (2, "b")], ["id", "name"]))
    made.execute_sql("CREATE TABLE p (id BIGINT, name STRING) WITH ('connector' = 'print')")
    return made


def rows(tables: TableEnvironment, statement: str) -> list[list[object]]:
    with tables.execute_sql(statement).collect() as found:
        return [list(row) for row in found]


def test_statements_that_run_no_job_give_flinks_rows(tables: TableEnvironment) -> None:
    assert rows(tables, "SHOW TABLES") == [["p"], ["v"]]
    assert rows(tables, "SHOW VIEWS") == [["v"]]
    assert rows(tables, "DESCRIBE p")[0][:3] == ["id", "BIGINT", True]
    assert rows(tables, "CREATE DATABASE d") == [["OK"]]
    assert rows(tables, "USE d;") == [["OK"]]
    assert tables.get_current_database() == "d"
    assert rows(tables, "SET 'table.local-time-zone' = 'Europe/Berlin'") == [["OK"]]
    assert tables.get_config().get_local_timezone() == "Europe/Berlin"
    assert rows(tables, "SET") == [["table.local-time-zone", "Europe/Berlin"]]
    assert rows(tables, "RESET 'table.local-time-zone'") == [["OK"]]
    assert tables.list_catalogs() == ["default_catalog"]


def test_a_time_zone_that_is_not_there_is_refused_when_it_is_set(tables: TableEnvironment) -> None:
    with pytest.raises(InvalidJob, match="there is no time zone 'Europe/Berln'; did you mean 'Europe/Berlin'\\?"):
        tables.execute_sql("SET 'table.local-time-zone' = 'Europe/Berln'")
    assert rows(tables, "SET") == []
    with pytest.raises(InvalidJob, match="there is no time zone"):
        tables.get_config().set_local_timezone("Mars")


def test_explain_draws_the_plan(tables: TableEnvironment) -> None:
    ((text,),) = rows(tables, "EXPLAIN SELECT id + 1 FROM v WHERE name = 'a'")
    assert "== Optimized Execution Plan ==" in str(text)
    assert "Calc(select=[(id + 1) AS EXPR$0], where=[(name = 'a')])" in str(text)
    assert "Sink(table=[default_catalog.default_database.p]" in tables.explain_sql("INSERT INTO p SELECT * FROM v")


def test_explanations_have_flinks_plans_and_details(tables: TableEnvironment) -> None:
    counted = tables.from_path("v").group_by(col("name")).select(col("name"), lit(1).count.alias("n"))
    text = counted.explain(ExplainDetail.CHANGELOG_MODE, ExplainDetail.ESTIMATED_COST)
    parts = ("== Abstract Syntax Tree ==", "== Optimized Physical Plan ==", "== Optimized Execution Plan ==")
    assert all(part in text for part in parts)
    assert "changelogMode=[I,UA]): rowcount" in text
    assert "changelogMode" not in counted.explain()
    assert '"type" : "GroupAggregate[' in counted.explain(ExplainDetail.JSON_EXECUTION_PLAN)
    assert "No available advice" in tables.explain_sql("SELECT * FROM v", ExplainDetail.PLAN_ADVICE)
    ((asked,),) = rows(tables, "EXPLAIN CHANGELOG_MODE SELECT name, COUNT(*) FROM v GROUP BY name")
    assert "changelogMode=[I,UA]" in str(asked)
    both = tables.create_statement_set().add_insert_sql("INSERT INTO p SELECT * FROM v")
    assert "LogicalSink(table=[default_catalog.default_database.p]" in both.explain()
    pipeline = tables.from_path("v").insert_into("p")
    assert "LogicalSink" in pipeline.explain()
    assert "Sink(" in pipeline.compile_plan().explain()
    same = udf(lambda i: i, result_type=DataTypes.BIGINT())
    assert "PythonCalc(" in tables.from_path("v").select(same(col("id"))).explain()


def test_schemas_of_tables_and_results(tables: TableEnvironment) -> None:
    view = tables.from_path("v")
    schema = view.get_schema()
    assert schema.get_field_names() == ["id", "name"]
    assert schema.get_field_data_type("name") == DataTypes.STRING()
    assert str(schema) == "root\n |-- id: BIGINT\n |-- name: STRING\n"
    assert tables.execute_sql("SHOW TABLES").get_table_schema().get_field_count() == 1
    resolved = view.get_resolved_schema()
    assert resolved.get_column_names() == ["id", "name"]
    assert str(resolved) == "(\n  `id` BIGINT,\n  `name` STRING\n)"
    columns = tables.sql_query(
        "SELECT CAST(1 AS DECIMAL(5, 2)) AS d, ARRAY[1] AS a, MAP['a', 1] AS m, ROW(1, 'x') AS r, CURRENT_TIMESTAMP AS t"
    ).get_resolved_schema()
    assert [str(column.get_data_type()) for column in columns.get_columns()][:2] == [
        "DECIMAL(5, 2) NOT NULL",
        "ARRAY<INT NOT NULL> NOT NULL",
    ]
    row = columns.to_physical_row_data_type()
    assert row.field_names() == ["d", "a", "m", "r", "t"]


def test_names_are_listed_and_dropped_as_in_pyflink(tables: TableEnvironment) -> None:
    sink = TableDescriptor.for_connector("print").schema(Schema.new_builder().column("a", DataTypes.INT()).build())
    tables.create_table("q", sink.comment("of numbers").build())
    tables.create_table("q", sink.build(), ignoreIfExists=True)
    with pytest.raises(InvalidStatement, match="already exists"):
        tables.create_table("q", sink.build())
    tables.create_view("w", tables.from_path("v"))
    tables.create_view("w", tables.from_path("v"), True)
    assert tables.list_temporary_tables() == ["v"]
    assert tables.list_temporary_views() == ["v"]
    assert tables.list_modules() == ["core"]
    assert tables.drop_view("w")
    assert tables.drop_table("q")
    assert not tables.drop_table("q")
    with pytest.raises(InvalidStatement, match="does not exist"):
        tables.drop_table("q", False)
    config = tables.get_config()
    config.set_idle_state_retention(datetime.timedelta(hours=1))
    assert config.get("table.exec.state.ttl", "") == "3600000 ms"
    assert config.get_idle_state_retention() == datetime.timedelta(hours=1)
    assert sink.build().get_options() == {"connector": "print"}


def test_the_names_of_pyflinks_modules_are_there() -> None:
    for module, names in {
        "catalog": "ResolvedSchema Column HiveCatalog",
        "compiled_plan": "CompiledPlan",
        "explain_detail": "ExplainDetail",
        "result_kind": "ResultKind",
        "schema": "Schema",
        "statement_set": "StatementSet",
        "table_config": "TableConfig",
        "table_descriptor": "TableDescriptor FormatDescriptor",
        "table_environment": "StreamTableEnvironment TableEnvironment",
        "table_pipeline": "TablePipeline",
        "table_schema": "TableSchema",
    }.items():
        found = importlib.import_module(f"tidegate.table.{module}")
        assert all(hasattr(found, name) for name in names.split()), module


def test_table_programs_become_flinks_plans(tables: TableEnvironment) -> None:
    view = tables.from_path("v")
    made = (
        view.where((col("id") > 1) & view.name.is_not_null)
        .select(
            col("id").cast(DataTypes.INT()).alias("i"), if_then_else(col("id") == 2, lit("x"), col("name")).alias("n")
        )
        .add_columns(concat(col("n"), "!").alias("m"))
        .drop_columns(col("n"))
        .rename_columns(col("m").alias("o"))
    )
    assert made.get_column_names() == ["i", "o"]
    assert "GroupAggregate" in view.group_by(col("name")).select(col("name"), col("id").sum.alias("s")).explain()
    assert "Join(" in view.join(view.alias("a", "b"), col("id") == col("a")).explain()
    assert "Union(" in view.union_all(view).explain()
    assert call("UPPER", col("name")) is not None
    assert str(col("a") + 1) == "plus(a, 1)"


def test_columns_of_all_kinds_stand_as_they_are_declared(tables: TableEnvironment) -> None:
    builder = Schema.new_builder().column_by_expression("twice", "id * 2").column("id", DataTypes.INT())
    builder.column_by_metadata("at", "TIMESTAMP_LTZ(3)", "timestamp", True).column("name", "STRING")
    options = {"topic": "t", "properties.bootstrap.servers": "localhost:1", "format": "json"}
    for schema in (builder.build(), Schema.new_builder().from_schema(builder.build()).build()):
        descriptor = TableDescriptor.for_connector("kafka").schema(schema)
        for key, text in options.items():
            descriptor.option(key, text)
        assert tables.from_descriptor(descriptor.build()).get_column_names() == ["twice", "id", "at", "name"]


def test_windows_of_the_table_api_are_planned(tables: TableEnvironment) -> None:
    schema = Schema.new_builder().column("id", DataTypes.BIGINT()).column("ts", DataTypes.TIMESTAMP(3))
    descriptor = TableDescriptor.for_connector("datagen").schema(schema.watermark("ts", "ts").build()).build()
    window = Tumble.over(lit(10).seconds).on(col("ts")).alias("w")
    made = tables.from_descriptor(descriptor).window(window).group_by(col("w"), col("id"))
    assert "GroupWindowAggregate" in made.select(col("id"), col("w").start, col("id").count).explain()


def test_what_cannot_be_run_yet_is_named_before_anything_runs(tables: TableEnvironment) -> None:
    tables.execute_sql("CREATE TABLE endless (name STRING) WITH ('connector' = 'datagen')")
    with pytest.raises(UnsupportedPlan, match=r"node \d+, stream-exec-sort_1: ORDER BY .* needs bounded tables"):
        tables.execute_sql("SELECT name FROM endless ORDER BY name")
    with pytest.raises(InvalidJob, match="not supported yet: CREATE TABLE AS"):
        tables.execute_sql("CREATE TABLE c WITH ('connector' = 'print') AS SELECT id FROM v")
    with pytest.raises(AttributeError, match="TableEnvironment.create_java_function takes a class of Java"):
        tables.create_java_function  # noqa: B018


def test_refusals_of_names_and_types_point_into_the_statement(tables: TableEnvironment) -> None:
    with pytest.raises(InvalidStatement) as refused:
        tables.execute_sql("SELECT\n  nme\nFROM v")
    assert refused.value.message.endswith("  nme\n  ^^^")
    with pytest.raises(InvalidStatement, match="Cannot resolve field"):
        tables.from_path("v").select(col("nme"))
    with pytest.raises(AttributeError, match="no column named 'nme', available columns: \\[id, name\\]"):
        tables.from_path("v").nme  # noqa: B018
    with pytest.raises(InvalidStatement, match="nowhere"):
        tables.from_path("nowhere").select(col("a"))


def test_plans_are_files_that_are_read_without_java(tables: TableEnvironment, tmp_path: Path) -> None:
    plan = tables.compile_plan_sql("INSERT INTO p SELECT id * 2, name FROM v")
    plan.write_to_file(tmp_path / "plan.json")
    assert json.loads((tmp_path / "plan.json").read_text())["flinkVersion"] == "2.3"
    other = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    assert "Calc(select=[(id * 2)" in other.load_plan(tmp_path / "plan.json").explain()
    assert other._made is None, "a plan is read without a planner"
    with pytest.raises(InvalidJob, match="the rows of .* belong to another program"):
        other.load_plan(tmp_path / "plan.json").execute()
    with pytest.raises(InvalidJob, match="there is a file"):
        plan.write_to_file(tmp_path / "plan.json")


@pytest.mark.parametrize("is_streaming", [True, False])
def test_a_plan_holds_temporary_tables_with_what_hints_say(is_streaming: bool) -> None:
    mode = EnvironmentSettings.in_streaming_mode() if is_streaming else EnvironmentSettings.in_batch_mode()
    tables = TableEnvironment.create(mode)
    tables.execute_sql(
        "CREATE TEMPORARY TABLE `a \"quoted\" name` (id INT) WITH ('connector' = 'datagen', 'number-of-rows' = '3')"
    )
    written = Schema.new_builder().column("id", DataTypes.INT()).build()
    tables.create_temporary_table("s", TableDescriptor.for_connector("blackhole").schema(written).build())
    hint = "/*+ OPTIONS('number-of-rows' = '4') */"
    text = tables.compile_plan_sql(f'INSERT INTO s SELECT id FROM `a "quoted" name` {hint}').as_json_string()
    (scan,), (sink,) = (
        [node[key]["table"] for node in json.loads(text)["nodes"] if key in node]
        for key in ("scanTableSource", "dynamicTableSink")
    )
    assert scan["resolvedTable"]["options"] == {"connector": "datagen", "number-of-rows": "4"}
    assert sink["identifier"] == "`default_catalog`.`default_database`.`s`"
    assert sink["resolvedTable"]["options"] == {"connector": "blackhole"}


@pytest.mark.parametrize("is_streaming", [True, False])
def test_a_plan_holds_the_temporary_table_that_a_lookup_join_asks(is_streaming: bool) -> None:
    mode = EnvironmentSettings.in_streaming_mode() if is_streaming else EnvironmentSettings.in_batch_mode()
    tables = TableEnvironment.create(mode)
    options = {"connector": "filesystem", "path": "/names", "format": "csv"}
    given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    tables.execute_sql(f"CREATE TEMPORARY TABLE names (k INT, name STRING) WITH ({given})")
    tables.execute_sql(
        "CREATE TABLE rows_in (k INT, p AS PROCTIME()) WITH ('connector' = 'datagen', 'number-of-rows' = '3')"
    )
    tables.execute_sql("CREATE TABLE rows_out (name STRING) WITH ('connector' = 'blackhole')")
    join = "SELECT n.name FROM rows_in AS r JOIN names FOR SYSTEM_TIME AS OF r.p AS n ON r.k = n.k"
    text = tables.compile_plan_sql(f"INSERT INTO rows_out {join}").as_json_string()
    (asked,) = (node["temporalTable"] for node in json.loads(text)["nodes"] if "temporalTable" in node)
    assert asked["lookupTableSource"]["table"]["resolvedTable"]["options"] == options


def test_statement_sets_are_one_plan(tables: TableEnvironment) -> None:
    both = tables.create_statement_set().add_insert_sql("INSERT INTO p SELECT * FROM v")
    tables.execute_sql("CREATE TABLE q (id BIGINT, name STRING) WITH ('connector' = 'blackhole')")
    both.add_insert("q", tables.from_path("v").where(col("id") > 1))
    assert both.explain().count("LogicalSink(") == 2


def test_batch_mode_plans_tables_that_end_and_refuses_others() -> None:
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    view = tables.from_elements([(1, "a")], ["id", "name"])
    assert "HashAggregate" in view.group_by(col("name")).select(col("name"), col("id").sum).explain()
    tables.execute_sql("CREATE TABLE endless (a INT) WITH ('connector' = 'datagen')")
    with pytest.raises(InvalidStatement, match="unbounded table"):
        tables.from_path("endless").explain()


def test_streams_of_datagen_tables_need_no_java() -> None:
    tables = StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment())
    schema = Schema.new_builder().column("id", DataTypes.BIGINT()).build()
    tables.create_temporary_table(
        "g", TableDescriptor.for_connector("datagen").schema(schema).option("number-of-rows", 3).build()
    )
    stream = tables.to_data_stream(tables.from_path("g"))
    assert stream.get_type().arrow_schema().names == ["id"]
    assert tables._made is None
