"""Catalogs, settings, references to plans and types that programs name as PyFlink has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.common.config_options import ConfigOptions
from tidegate.common.configuration import Configuration
from tidegate.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from tidegate.model.errors import InvalidJob
from tidegate.records.data_types import DataType
from tidegate.table import (
    DataTypes,
    EnvironmentSettings,
    FormatDescriptor,
    PlanReference,
    Schema,
    SqlDialect,
    StreamTableEnvironment,
    TableConfig,
    TableDescriptor,
    TableEnvironment,
    TableSchema,
)
from tidegate.table._planner import InvalidStatement
from tidegate.table.catalog import CatalogBaseTable, CatalogDatabase, CatalogDescriptor, ObjectIdentifier, ObjectPath

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def tables() -> TableEnvironment:
    return TableEnvironment.create(EnvironmentSettings.in_streaming_mode())


def test_databases_and_tables_of_a_catalog(tables: TableEnvironment) -> None:
    catalog = tables.get_catalog("default_catalog")
    assert catalog is not None
    assert tables.get_catalog("none") is None
    catalog.create_database("d", CatalogDatabase.create_instance({"owner": "ann"}, "of numbers"), False)
    assert catalog.list_databases() == ["default_database", "d"]
    assert catalog.get_database("d").get_properties() == {"owner": "ann"}
    assert catalog.get_database("d").get_comment() == "of numbers"
    schema = TableSchema(["a", "b"], [DataTypes.INT(), DataTypes.STRING()])
    path = ObjectPath("d", "t")
    catalog.create_table(path, CatalogBaseTable.create_table(schema, properties={"connector": "print"}), False)
    assert catalog.table_exists(path)
    assert tables.execute_sql("SHOW TABLES FROM d").get_resolved_schema().get_column_names() == ["table name"]
    assert catalog.get_table(path).get_options() == {"connector": "print"}
    assert catalog.get_table(path).get_unresolved_schema().columns == {"a": "INT", "b": "STRING"}
    catalog.rename_table(path, "u", False)
    assert catalog.list_tables("d") == ["u"]
    with pytest.raises(InvalidStatement, match="d.t"):
        catalog.drop_table(path, False)


def test_a_catalog_is_made_of_a_descriptor(tables: TableEnvironment) -> None:
    memory = Configuration().set_string("type", "generic_in_memory").set_string("default-database", "d")
    tables.create_catalog("mine", CatalogDescriptor.of("mine", memory))
    tables.use_catalog("mine")
    assert tables.get_current_database() == "d"
    made = tables.get_catalog("mine")
    assert made is not None
    assert made.get_default_database() == "d"


def test_names_of_objects() -> None:
    name = ObjectIdentifier.of("c", "d", "a`b")
    assert (str(name), name.as_summary_string()) == ("`c`.`d`.`a``b`", "c.d.a`b")
    assert name.to_object_path() == ObjectPath.from_string("d.a`b")
    assert ObjectPath("a", "b") < ObjectPath("a", "c")
    with pytest.raises(InvalidJob, match="Cannot split 'a' to get"):
        ObjectPath.from_string("a")


def test_a_pipeline_names_its_sink_and_a_plan_is_loaded_from_a_reference(
    tables: TableEnvironment, tmp_path: Path
) -> None:
    tables.execute_sql("CREATE TABLE p (id INT) WITH ('connector' = 'print')")
    pipeline = tables.sql_query("SELECT 1 AS id").insert_into("p")
    assert pipeline.get_sink_identifier() == ObjectIdentifier.of("default_catalog", "default_database", "p")
    plan = pipeline.compile_plan()
    assert plan.get_flink_version().startswith("2.3")
    assert tables.load_plan(PlanReference.from_json_string(plan.as_json_string())).explain() == plan.explain()
    plan.write_to_file(tmp_path / "plan")
    assert tables.load_plan(PlanReference.from_file(tmp_path / "plan")).explain() == plan.explain()


def test_settings_take_their_mode_from_options() -> None:
    batch = Configuration().set_string("execution.runtime-mode", "batch")
    settings = EnvironmentSettings.Builder().with_configuration(batch)
    assert not settings.build().is_streaming_mode()
    assert settings.in_streaming_mode().build().is_streaming_mode()
    env = StreamExecutionEnvironment.get_execution_environment().set_runtime_mode(RuntimeExecutionMode.BATCH)
    assert "HashAggregate" in StreamTableEnvironment.create(env).explain_sql(
        "SELECT COUNT(*) FROM (VALUES (1)) AS t(a)"
    )
    streaming = StreamTableEnvironment.create(env, EnvironmentSettings.in_streaming_mode())
    assert "HashAggregate" not in streaming.explain_sql("SELECT COUNT(*) FROM (VALUES (1)) AS t(a)")
    with pytest.raises(InvalidJob, match="can only be set when instantiating the table environment"):
        streaming.get_config().set("execution.runtime-mode", "batch")
    env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
    with pytest.raises(InvalidJob, match="Unsupported mode 'AUTOMATIC' for 'execution.runtime-mode'"):
        StreamTableEnvironment.create(env)


def test_the_first_catalog_and_database_have_names_of_the_settings() -> None:
    named = EnvironmentSettings.new_instance().with_built_in_catalog_name("c").with_built_in_database_name("d").build()
    assert (named.get_built_in_catalog_name(), named.get_built_in_database_name()) == ("c", "d")
    made = TableEnvironment.create(named)
    assert (made.get_current_catalog(), made.get_current_database()) == ("c", "d")


def test_options_of_no_environment() -> None:
    config = TableConfig.get_default()
    config.set("a", "b")
    config.set_python_executable("python3")
    config.set_max_generated_code_length(5000)
    assert config.to_map() == {"a": "b", "python.executable": "python3", "table.generated-code.max-length": "5000"}
    assert TableConfig.get_default().to_map() == {}
    assert config.get_sql_dialect() == SqlDialect.DEFAULT
    with pytest.raises(InvalidJob, match="only Flink's own dialect"):
        config.set_sql_dialect(SqlDialect.HIVE)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (DataTypes.INTERVAL(DataTypes.DAY(), DataTypes.SECOND(3)), "INTERVAL DAY(2) TO SECOND(3)"),
        (DataTypes.INTERVAL(DataTypes.YEAR(4), DataTypes.MONTH()), "INTERVAL YEAR(4) TO MONTH"),
        (DataTypes.INTERVAL(DataTypes.MONTH()), "INTERVAL MONTH"),
        (DataTypes.MULTISET(DataTypes.STRING()), "MULTISET<STRING>"),
    ],
)
def test_types_are_columns(tables: TableEnvironment, kind: DataType, text: str) -> None:
    made = tables.from_descriptor(
        TableDescriptor.for_connector("print").schema(Schema.Builder().column("a", kind).build()).build()
    )
    (column,) = made._j_table.getResolvedSchema().getColumns()
    assert str(column.getDataType()) == text


def test_intervals_have_units_that_go_together() -> None:
    with pytest.raises(InvalidJob, match=r"there is no INTERVAL SECOND\(6\) TO DAY\(2\)"):
        DataTypes.INTERVAL(DataTypes.SECOND(), DataTypes.DAY())


def test_a_format_has_the_option_that_names_it_before_its_own() -> None:
    key = ConfigOptions.key("key.format").string_type().no_default_value()
    json = FormatDescriptor.for_format("json").option("fail-on-missing-field", True).build()
    made = TableDescriptor.for_connector("kafka").format(json, key).build()
    assert made.get_options() == {
        "connector": "kafka",
        "key.format": "json",
        "key.json.fail-on-missing-field": "true",
    }


def test_what_is_refused_says_what_to_do(tables: TableEnvironment) -> None:
    with pytest.raises(AttributeError, match="takes a class of Java.*create_temporary_function"):
        getattr(tables, "create_java_function")  # noqa: B009 - it is no attribute
