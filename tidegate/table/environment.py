"""`TableEnvironment` and `StreamTableEnvironment`, in which tables are registered and statements run (PyFlink: ``pyflink.table.table_environment``).

    statement or Table ─▶ Flink's planner, in a Java process ─▶ compiled plan ─▶ operators on streams of Arrow batches ─▶ a job

Only what plans knows Java; a compiled plan runs without it.
"""

from __future__ import annotations

import datetime
import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import pyarrow as pa

from tidegate.common.configuration import Configuration
from tidegate.common.job_client import JobClient
from tidegate.common.row import Row, RowKind
from tidegate.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation, Types
from tidegate.connectors.tabular import PandasFrame, PandasSchema, pandas_table
from tidegate.datastream._streams.closeable_iterator import execute_and_collect
from tidegate.datastream.data_stream import DataStream
from tidegate.datastream.stream_execution_environment import StreamExecutionEnvironment
from tidegate.model.errors import InvalidJob
from tidegate.model.units import parse_duration_ms
from tidegate.plan import ExecNodeGraph, decode_plan, draw
from tidegate.plan import nodes as plan_nodes
from tidegate.plan.logical_types import Field, LogicalType, TypeRoot, parse_type
from tidegate.plan.nodes import Node
from tidegate.plan.support import calls
from tidegate.records.data_types import DataType, RowType
from tidegate.records.row_kinds import has_kinds
from tidegate.table._connectors.lookups import table_of_lookup
from tidegate.table._connectors.registry import CHANGES, COLLECT, ROWS, STREAM, STREAM_SINK, nearest
from tidegate.table._connectors.sinks import write_table
from tidegate.table._connectors.sources import generated, is_bounded_scan, read_table
from tidegate.table._connectors.streams import (
    ROWTIME_UTC,
    StreamTable,
    WithEventTime,
    WithoutColumn,
    column_names,
    column_types,
    fields_of,
    renamed,
    retracted,
    retracted_tuple,
    retracted_value,
    table_rows,
)
from tidegate.table._execution.elements import sql_type, table_of
from tidegate.table._execution.one_to_one import follow_input, mapped
from tidegate.table._execution.translation import Sinks, translate
from tidegate.table._execution.unbounded_state import warn_of_unbounded_states
from tidegate.table._planner.errors import InvalidStatement
from tidegate.table._planner.plans import plan_text
from tidegate.table.catalog import Catalog, CatalogDescriptor
from tidegate.table.changelog_mode import ChangelogMode
from tidegate.table.datagen import typed_options
from tidegate.table.descriptors import Schema, TableDescriptor
from tidegate.table.environment_settings import MODE, EnvironmentSettings, is_streaming_mode_of
from tidegate.table.explain_detail import ExplainDetail
from tidegate.table.expression import Expression
from tidegate.table.expressions import col, to_java_expressions
from tidegate.table.module import ModuleEntry
from tidegate.table.plan_reference import PlanReference
from tidegate.table.sql_dialect import SqlDialect
from tidegate.table.stream_types import named_fields, record_type
from tidegate.table.table import Table, TablePipeline
from tidegate.table.table_result import TableResult, done
from tidegate.table.udf import UNNAMED, KnownFunctions, function_named, wrapped

if TYPE_CHECKING:
    from tidegate.table._planner.planner import Planner

__all__ = ["CompiledPlan", "StatementSet", "StreamTableEnvironment", "TableConfig", "TableEnvironment"]

_INSERTS = ChangelogMode.insert_only()
_TEXT = LogicalType(TypeRoot.VARCHAR, length=2147483647)
_NEEDS_PYTHON = "The dependency of 'flink-python' is not present"
_TIME_ZONE = "table.local-time-zone"
_MAX_CODE = "table.generated-code.max-length"
_PYTHON = "python.executable"
_NOT_YET = {
    "CreateTableASOperation": "CREATE TABLE AS: create the table, then INSERT INTO it",
    "ReplaceTableAsOperation": "REPLACE TABLE AS: create the table, then INSERT INTO it",
    "DeleteFromFilterOperation": "DELETE",
    "AddJarOperation": "ADD JAR: tables and functions are Python's",
    "CompileAndExecutePlanOperation": "COMPILE AND EXECUTE PLAN: COMPILE PLAN, then EXECUTE PLAN",
}
_OF_JAVA = "takes a class of Java, which tidegate does not run: write the function in Python, and name it with create_temporary_function()"
_MODELS = "is of models, which tidegate does not have: call the model from a function of yours"
_MODULES = "is of modules of Java, which tidegate does not run: those of Flink's core are there"
_REFUSED = {
    **dict.fromkeys(
        ("create_java_function", "create_java_temporary_function", "create_java_temporary_system_function"), _OF_JAVA
    ),
    **dict.fromkeys(
        (
            "create_model", "create_temporary_model", "drop_model", "drop_temporary_model", "list_models", "list_temporary_models",
        ),
        _MODELS,
    ),
    **dict.fromkeys(("load_module", "unload_module", "use_modules"), _MODULES),
    "register_catalog": "takes a catalog of Java: make one with create_catalog(), or with CREATE CATALOG",
}  # fmt: skip
"""Methods of PyFlink that are not supported, with the reason."""


class TableConfig:
    """The options of a table environment, or options that belong to none (PyFlink: ``TableConfig``)."""

    def __init__(self, environment: TableEnvironment | None = None) -> None:
        self._environment = environment
        self._options: dict[str, str] = {} if environment is None else environment._options

    @staticmethod
    def get_default() -> TableConfig:
        """Returns a configuration without options that belongs to no environment."""
        return TableConfig()

    def set(self, key: str, value: str) -> TableConfig:
        """Sets an option of the planner (``table.*``) or of the jobs that follow."""
        environment = self._environment
        if environment is None:
            self._options[key] = str(value)
            return self
        settings = environment._settings
        if key == MODE and is_streaming_mode_of({key: str(value)}) != settings.is_streaming:
            raise InvalidJob(
                "Mismatch between configured runtime mode and actual runtime mode. Currently, the 'execution.runtime-mode' can only be set when "
                "instantiating the table environment. Subsequent changes are not supported. Please instantiate a new TableEnvironment if necessary."
            )
        environment._set_option(key, str(value))
        return self

    def get(self, key: str, default_value: str) -> str:
        """Returns an option's value, or the default."""
        return self._options.get(key, default_value)

    def to_map(self) -> dict[str, str]:
        """Returns all options that were set."""
        return dict(self._options)

    def get_configuration(self) -> TableConfig:
        """Returns this configuration itself, which also has ``set_string``."""
        return self

    def set_string(self, key: str, value: str) -> TableConfig:
        """Sets an option."""
        return self.set(key, value)

    def set_integer(self, key: str, value: int) -> TableConfig:
        """Sets an option to a number."""
        return self.set(key, str(value))

    def set_boolean(self, key: str, value: bool) -> TableConfig:
        """Sets an option to ``true`` or ``false``."""
        return self.set(key, str(value).lower())

    def set_local_timezone(self, timezone_id: str) -> None:
        """Sets the session's time zone, such as ``Europe/Berlin``."""
        self.set(_TIME_ZONE, timezone_id)

    def get_local_timezone(self) -> str:
        """Returns the session's time zone. For a configuration that belongs to no environment this is the option's value, ``default`` if it is not set."""
        return self.get(_TIME_ZONE, "default") if self._environment is None else self._environment._time_zone()

    def set_idle_state_retention(self, duration: datetime.timedelta) -> None:
        """Sets how long the state of an idle key is kept (``table.exec.state.ttl``); zero: without limit."""
        self.set("table.exec.state.ttl", f"{round(duration.total_seconds() * 1000)} ms")

    def get_idle_state_retention(self) -> datetime.timedelta:
        """Returns how long the state of an idle key is kept; zero: without limit."""
        return datetime.timedelta(milliseconds=parse_duration_ms(self.get("table.exec.state.ttl", "0 ms")))

    def set_max_generated_code_length(self, max_generated_code_length: int) -> None:
        """Sets an option of Flink's code generation, which has no effect here."""
        self.set(_MAX_CODE, str(max_generated_code_length))

    def get_max_generated_code_length(self) -> int:
        """Returns the option's value, or Flink's default."""
        return int(self.get(_MAX_CODE, "4000"))

    def set_sql_dialect(self, sql_dialect: int) -> None:
        """Sets ``SqlDialect.DEFAULT``. Raises ``InvalidJob`` for another one."""
        if sql_dialect != SqlDialect.DEFAULT:
            raise InvalidJob("set_sql_dialect(): only Flink's own dialect is supported, SqlDialect.DEFAULT")
        self.set("table.sql-dialect", "default")

    def get_sql_dialect(self) -> int:
        """Returns ``SqlDialect.DEFAULT``."""
        return SqlDialect.DEFAULT

    def set_python_executable(self, python_exec: str) -> None:
        """Sets the Python interpreter of the TaskManagers, which runs users' functions (``python.executable``)."""
        self.set(_PYTHON, python_exec)

    def get_python_executable(self) -> str | None:
        """Returns the Python interpreter that was set; ``None``: none was."""
        return self._options.get(_PYTHON)

    def add_configuration(self, configuration: Configuration) -> None:
        """Sets all options of a configuration."""
        for key, value in configuration.to_dict().items():
            self.set(key, value)


class TableEnvironment:
    """Registers tables and runs statements over them. The planner's Java process starts at the first operation that needs it."""

    def __init__(self, settings: EnvironmentSettings, options: Mapping[str, str] | None = None) -> None:
        self._settings = settings
        self._options: dict[str, str] = {**(options or {}), **settings.options}
        self._made: Any = None
        self._given: dict[str, pa.Table | StreamTable] = {}
        self._known = KnownFunctions(is_streaming=settings.is_streaming)
        self._functions = self._known.named
        self._numbers = itertools.count(1)
        self._prepared: list[Callable[[StreamExecutionEnvironment], object]] = []
        """What is done to the environment of each job before it runs."""

    @staticmethod
    def create(environment_settings: EnvironmentSettings | Configuration) -> TableEnvironment:
        """Creates an environment of these settings."""
        if isinstance(environment_settings, Configuration):
            environment_settings = EnvironmentSettings.new_instance().with_configuration(environment_settings).build()
        return TableEnvironment(environment_settings)

    # --- what tables need ---------------------------------------------------------------------------

    @property
    def planner(self) -> Planner:
        """Returns Flink's planner; the first use starts it. Raises ``PlannerUnavailable``."""
        from tidegate.table._planner.planner import running_planner

        return running_planner()

    @property
    def _j_tenv(self) -> Any:
        if self._made is None:
            from tidegate.table._planner.environments import make_table_environment

            self._made = make_table_environment(
                self.planner, self._options, is_streaming=self._settings.is_streaming, functions=self._known
            )
        return self._made

    def row_type(self, j_resolved_schema: Any) -> LogicalType:
        """Converts a Java ``ResolvedSchema`` to a row type."""
        names = list(j_resolved_schema.getColumnNames())
        types = list(j_resolved_schema.getColumnDataTypes())
        fields = [
            Field(str(name), parse_type(_type_text(kind.getLogicalType())))
            for name, kind in zip(names, types, strict=True)
        ]
        return LogicalType(TypeRoot.ROW, fields=tuple(fields))

    # --- tables by name ------------------------------------------------------------------------------

    def from_path(self, path: str) -> Table:
        """Returns a registered table or view; the name may include catalog and database. Raises ``InvalidStatement``."""
        return Table(lambda: self._from(path), self)

    def scan(self, *table_path: str) -> Table:
        """Returns a registered table or view by the parts of its name."""
        return self.from_path(".".join(f"`{part}`" for part in table_path))

    def from_descriptor(self, descriptor: TableDescriptor) -> Table:
        """Returns the table that a descriptor describes, without registering it."""
        return Table(lambda: self._from(descriptor.to_java(self.planner)), self)

    def from_elements(
        self, elements: Iterable[object], schema: RowType | Sequence[str] | None = None, verify_schema: bool = True
    ) -> Table:
        """Returns a table of the given rows: tuples, lists, ``Row`` or dicts. ``schema``: a ``DataTypes.ROW``, or column names whose types are
        inferred. Raises ``SchemaMismatch`` for a value that does not fit."""
        return self._table_of(table_of(list(elements), schema))

    def from_pandas(self, pdf: PandasFrame, schema: PandasSchema = None, splits_num: int = 1) -> Table:
        """Returns a table of the rows of a pandas frame. ``schema``: names, types or a ``DataTypes.ROW``."""
        found = pandas_table(pdf, schema)
        return self._table_of(found if isinstance(found, pa.Table) else pa.Table.from_pandas(found))

    def create_temporary_view(self, view_path: str, table_or_data_stream: Table) -> None:
        """Registers a query as a temporary view."""
        if not isinstance(table_or_data_stream, Table):
            raise InvalidJob("create_temporary_view() takes a Table; StreamTableEnvironment takes a DataStream, too")
        with self.planner.errors():
            self._j_tenv.createTemporaryView(view_path, table_or_data_stream._j_table)

    register_table = create_temporary_view

    def create_temporary_table(
        self,
        path: str,
        descriptor: TableDescriptor,
        ignoreIfExists: bool | None = False,  # noqa: N803 - PyFlink's name
    ) -> None:
        """Registers a temporary table."""
        with self.planner.errors():
            self._j_tenv.createTemporaryTable(path, descriptor.to_java(self.planner), bool(ignoreIfExists))

    def create_table(
        self,
        path: str,
        descriptor: TableDescriptor,
        ignoreIfExists: bool | None = False,  # noqa: N803 - PyFlink's name
    ) -> None:
        """Registers a table in its catalog."""
        with self.planner.errors():
            self._j_tenv.createTable(path, descriptor.to_java(self.planner), bool(ignoreIfExists))

    def create_view(self, view_path: str, table: Table, ignore_if_exists: bool | None = False) -> None:
        """Registers a query as a view in its catalog."""
        with self.planner.errors():
            self._j_tenv.createView(view_path, table._j_table, bool(ignore_if_exists))

    def drop_table(self, table_path: str, ignore_if_not_exists: bool | None = True) -> bool:
        """Drops a table from its catalog; returns whether it existed. Raises ``InvalidStatement`` for a temporary table, and for a missing one unless
        that is ignored."""
        with self.planner.errors():
            return bool(self._j_tenv.dropTable(table_path, bool(ignore_if_not_exists)))

    def drop_view(self, view_path: str, ignore_if_not_exists: bool | None = True) -> bool:
        """Drops a view from its catalog; returns whether it existed. Raises ``InvalidStatement`` as ``drop_table`` does."""
        with self.planner.errors():
            return bool(self._j_tenv.dropView(view_path, bool(ignore_if_not_exists)))

    def drop_temporary_table(self, table_path: str) -> bool:
        """Drops a temporary table; returns whether it existed."""
        return bool(self._j_tenv.dropTemporaryTable(table_path))

    def drop_temporary_view(self, view_path: str) -> bool:
        """Drops a temporary view; returns whether it existed."""
        return bool(self._j_tenv.dropTemporaryView(view_path))

    def list_tables(self) -> list[str]:
        """Returns the names of tables and views, sorted."""
        return sorted(map(str, self._j_tenv.listTables()))

    def list_views(self) -> list[str]:
        """Returns the names of views, sorted."""
        return sorted(map(str, self._j_tenv.listViews()))

    def list_temporary_tables(self) -> list[str]:
        """Returns the names of temporary tables and views, sorted."""
        return sorted(map(str, self._j_tenv.listTemporaryTables()))

    def list_temporary_views(self) -> list[str]:
        """Returns the names of temporary views, sorted."""
        return sorted(map(str, self._j_tenv.listTemporaryViews()))

    def list_modules(self) -> list[str]:
        """Returns the names of the modules in use, which provide functions."""
        return [name for name in map(str, self._j_tenv.listModules()) if name != "tidegate"]

    def list_catalogs(self) -> list[str]:
        """Returns the names of catalogs."""
        return sorted(map(str, self._j_tenv.listCatalogs()))

    def list_databases(self) -> list[str]:
        """Returns the names of databases of the current catalog."""
        return sorted(map(str, self._j_tenv.listDatabases()))

    def list_materialized_tables(self) -> list[str]:
        """Returns the names of materialized tables, sorted."""
        return sorted(map(str, self._j_tenv.listMaterializedTables()))

    def list_full_modules(self) -> list[ModuleEntry]:
        """Returns the loaded modules, and whether each is in use."""
        found = [ModuleEntry(str(entry.name()), bool(entry.used())) for entry in self._j_tenv.listFullModules()]
        return [entry for entry in found if entry.name() != "tidegate"]

    def get_catalog(self, catalog_name: str) -> Catalog | None:
        """Returns a catalog by name; ``None``: there is none."""
        found = self._j_tenv.getCatalog(catalog_name)
        return Catalog(found.get(), self.planner) if found.isPresent() else None

    def create_catalog(self, catalog_name: str, catalog_descriptor: CatalogDescriptor) -> None:
        """Creates a catalog. Raises ``InvalidStatement`` where Flink has no catalog of these options."""
        planner = self.planner
        with planner.errors():
            configuration = planner.jvm.org.apache.flink.configuration.Configuration()
            for key, text in catalog_descriptor.configuration.to_dict().items():
                configuration.setString(key, text)
            made = planner.jvm.org.apache.flink.table.catalog.CatalogDescriptor
            self._j_tenv.createCatalog(
                catalog_name, made.of(catalog_descriptor.catalog_name, configuration, catalog_descriptor.comment)
            )

    def get_current_catalog(self) -> str:
        """Returns the name of the current catalog."""
        return str(self._j_tenv.getCurrentCatalog())

    def get_current_database(self) -> str:
        """Returns the name of the current database."""
        return str(self._j_tenv.getCurrentDatabase())

    def use_catalog(self, catalog_name: str) -> None:
        """Sets the current catalog."""
        with self.planner.errors():
            self._j_tenv.useCatalog(catalog_name)

    def use_database(self, database_name: str) -> None:
        """Sets the current database."""
        with self.planner.errors():
            self._j_tenv.useDatabase(database_name)

    def get_config(self) -> TableConfig:
        """Returns the options."""
        return TableConfig(self)

    # --- what jobs need ------------------------------------------------------------------------------

    def add_python_file(self, file_path: str) -> None:
        """Adds a module, a package or a folder that users' functions import."""
        self._prepared.append(lambda env: env.add_python_file(file_path))

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Sets the packages that users' functions need, as a requirements file of pip."""
        self._prepared.append(lambda env: env.set_python_requirements(requirements_file_path, requirements_cache_dir))

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Adds an archive, which is unpacked where users' functions run."""
        self._prepared.append(lambda env: env.add_python_archive(archive_path, target_dir))

    # --- functions -----------------------------------------------------------------------------------

    def create_temporary_system_function(self, name: str, function: object) -> None:
        """Registers a function for all catalogs; it hides a built-in one of that name. Raises ``TypeError`` for what ``udf`` or ``udtf`` did not make."""
        made = wrapped(function)
        if self._settings.is_streaming or made.kind != "scalar":
            with self.planner.errors():
                self._j_tenv.createTemporarySystemFunction(name, made.to_java(self.planner))
        else:
            self._check_free(name)
        self._functions[name.lower()] = made

    register_function = create_temporary_system_function

    def create_temporary_function(self, path: str, function: object) -> None:
        """Registers a function in a catalog and database. Raises ``TypeError`` for what ``udf`` or ``udtf`` did not make."""
        made = wrapped(function)
        if not self._settings.is_streaming and made.kind == "scalar":
            name = self._function_path(path).split("`.`")[-1].rstrip("`")
            self._check_free(name)
            self._functions[name] = made
            return
        with self.planner.errors():
            self._j_tenv.createTemporaryFunction(path, made.to_java(self.planner))
        self._functions[self._function_path(path)] = made

    def drop_temporary_system_function(self, name: str) -> bool:
        """Drops a temporary system function; returns whether it existed."""
        with self.planner.errors():
            was_there = bool(self._j_tenv.dropTemporarySystemFunction(name))
        return self._functions.pop(name.lower(), None) is not None or was_there

    def drop_temporary_function(self, path: str) -> bool:
        """Drops a temporary function; returns whether it existed."""
        with self.planner.errors():
            was_there = bool(self._j_tenv.dropTemporaryFunction(path))
        self._functions.pop(self._function_path(path), None)
        return was_there

    def drop_function(self, path: str) -> bool:
        """Drops a function that ``CREATE FUNCTION`` created; returns whether it existed."""
        was_there = self._functions.pop(self._function_path(path), None) is not None
        with self.planner.errors():
            self._j_tenv.dropTemporaryFunction(path)
            return bool(self._j_tenv.dropFunction(path)) or was_there

    def list_functions(self) -> list[str]:
        """Returns the names of functions, including Flink's built-in ones, sorted."""
        return sorted(map(str, self._j_tenv.listFunctions()))

    def list_user_defined_functions(self) -> list[str]:
        """Returns the names of registered users' functions, sorted."""
        return sorted(map(str, self._j_tenv.listUserDefinedFunctions()))

    def _check_free(self, name: str) -> None:
        if name.lower() not in self._functions and name.lower() in map(str.lower, self.list_functions()):
            raise InvalidJob(
                f"Flink has a function {name} of its own, which your function would replace in streaming mode only: choose another name"
            )

    def _function_path(self, path: str) -> str:
        """Returns the name by which plans call a function of a catalog."""
        with self.planner.errors():
            parsed = self._j_tenv.getParser().parseIdentifier(path)
            catalog = parsed.getCatalogName().orElse(self.get_current_catalog())
            database = parsed.getDatabaseName().orElse(self.get_current_database())
            return f"`{catalog}`.`{database}`.`{parsed.getObjectName()}`".lower()

    @staticmethod
    def _own_path(j_identifier: Any) -> str:
        return str(j_identifier.asSerializableString()).lower()

    def _create_function(self, operation: Any, *, is_system: bool) -> TableResult:
        """Runs CREATE FUNCTION. A function that is not temporary lives as long as the environment, as its catalog does."""
        definition = operation.getCatalogFunction()
        if str(definition.getFunctionLanguage()) != "PYTHON":
            raise InvalidJob("CREATE FUNCTION: only functions in Python are supported: add LANGUAGE PYTHON")
        if is_system:
            name = path = str(operation.getFunctionName())
            is_there = name.lower() in self._functions
        else:
            path = str(operation.getFunctionIdentifier().asSerializableString())
            name = path.lower()
            is_there = name in self._functions
        if is_there and operation.isIgnoreIfExists():
            return done()
        made = function_named(str(definition.getClassName()))
        if is_system:
            self.create_temporary_system_function(path, made)
        else:
            self.create_temporary_function(path, made)
        return done()

    # --- statements ----------------------------------------------------------------------------------

    def sql_query(self, query: str) -> Table:
        """Returns the result of a query as a table. Raises ``InvalidStatement`` with line, column and the text underlined."""
        with self.planner.errors(query):
            made = self._j_tenv.sqlQuery(query)
        return Table(lambda: made, self)

    def execute_sql(self, stmt: str) -> TableResult:
        """Runs one statement: a query, whose rows are returned; INSERT, as a job in the background; or DDL, SHOW, DESCRIBE, EXPLAIN, SET, USE.

        Raises ``InvalidStatement`` where Flink refuses it, ``UnsupportedPlan`` for what cannot be run yet."""
        sql = stmt.rstrip().removesuffix(";")  # what is in front stays: errors count lines and columns from it
        with self.planner.errors(sql):
            (operation,) = list(self._j_tenv.getParser().parse(sql))
            kind = str(operation.getClass().getSimpleName())
        if kind in _NOT_YET:
            raise InvalidJob(f"not supported yet: {_NOT_YET[kind]}")
        match kind:
            case "PlannerQueryOperation":
                return self.sql_query(sql).execute()
            case "SinkModifyOperation" | "StatementSetOperation":
                with self.planner.errors(sql):
                    operations = operation.getOperations() if kind == "StatementSetOperation" else [operation]
                    return self._run(plan_text(self._j_tenv.compilePlan(operations), self.planner))
            case "SetOperation":
                return self._set(operation)
            case "ResetOperation":
                key = operation.getKey()
                for name in [str(key.get())] if key.isPresent() else list(self._options):
                    self._options.pop(name, None)
                    self._j_tenv.getConfig().getConfiguration().removeKey(name)
                return done()
            case "ExplainOperation":
                text = LogicalType(TypeRoot.ROW, fields=(Field("result", _TEXT),))
                details = [str(detail) for detail in operation.getExplainDetails()]
                return TableResult(text, rows=[Row(self._explained(operation.getChild(), details))], is_bare=True)
            case "CreateCatalogFunctionOperation" | "CreateTempSystemFunctionOperation":
                return self._create_function(operation, is_system=kind == "CreateTempSystemFunctionOperation")
            case "DropCatalogFunctionOperation" if self._own_path(operation.getFunctionIdentifier()) in self._functions:
                self.drop_temporary_function(str(operation.getFunctionIdentifier().asSerializableString()))
                return done()
            case "DropTempSystemFunctionOperation":
                self._functions.pop(str(operation.getFunctionName()).lower(), None)
            case "ExecutePlanOperation":
                return self.load_plan(str(operation.getFilePath())).execute()
        with self.planner.errors(sql):
            return self._rows_of(self._j_tenv.executeInternal(operation))

    def explain_sql(self, stmt: str, *extra_details: ExplainDetail) -> str:
        """Returns Flink's explanation of a query, an INSERT or a statement set."""
        with self.planner.errors(stmt):
            (operation,) = list(self._j_tenv.getParser().parse(stmt.rstrip().removesuffix(";")))
        return self._explained(operation, [detail.name for detail in extra_details])

    def explain_table(self, j_table: Any, extra_details: Sequence[ExplainDetail] = ()) -> str:
        """Returns Flink's explanation of a query."""
        return self._explained(j_table.getQueryOperation(), [detail.name for detail in extra_details])

    def explain_pipeline(self, j_pipeline: Any, extra_details: Sequence[ExplainDetail] = ()) -> str:
        """Returns Flink's explanation of a pipeline that writes tables."""
        return self._plans_of(j_pipeline.explain, j_pipeline.compilePlan, [detail.name for detail in extra_details])

    def _explained(self, operation: Any, details: Sequence[str]) -> str:
        kind = str(operation.getClass().getSimpleName())
        operations = list(operation.getOperations()) if kind == "StatementSetOperation" else [operation]

        def compiled() -> Any:
            if any(str(one.getClass().getSimpleName()) == "SinkModifyOperation" for one in operations):
                return self._j_tenv.compilePlan(operations)
            target = self.planner.api.TableDescriptor.forConnector(COLLECT).build()
            return self._j_tenv.createTable(operation).insertInto(target).compilePlan()

        def explain(format: Any, kinds: Any) -> str:
            return str(self._j_tenv.explainInternal(operations, format, kinds))

        return self._plans_of(explain, compiled, details)

    def _plans_of(self, explain: Callable[[Any, Any], Any], compiled: Callable[[], Any], details: Sequence[str]) -> str:
        """Returns Flink's explanation. Where that needs Flink's operators of Python functions, which are missing here, returns a drawing of the
        compiled plan."""
        api = self.planner.api
        kinds = self.planner.array(api.ExplainDetail, [getattr(api.ExplainDetail, detail) for detail in details])
        try:
            with self.planner.errors():
                return str(explain(api.ExplainFormat.TEXT, kinds))
        except InvalidStatement as error:
            if _NEEDS_PYTHON not in str(error):
                raise
        with self.planner.errors():
            return f"== Optimized Execution Plan ==\n{draw(decode_plan(plan_text(compiled(), self.planner)))}"

    def create_statement_set(self) -> StatementSet:
        """Returns an empty statement set, whose INSERTs run as one job."""
        return StatementSet(self)

    def compile_plan_sql(self, stmt: str) -> CompiledPlan:
        """Compiles an INSERT or a statement set to a plan."""
        with self.planner.errors(stmt):
            return CompiledPlan(plan_text(self._j_tenv.compilePlanSql(stmt), self.planner), self)

    def load_plan(self, plan_reference: PlanReference | str | Path) -> CompiledPlan:
        """Loads a compiled plan from a reference or a file. Raises ``InvalidJob`` when it cannot be read. Needs no Java."""
        given = plan_reference if isinstance(plan_reference, PlanReference) else PlanReference.from_file(plan_reference)
        return CompiledPlan(given.text(), self)

    def execute_plan(self, plan_reference: PlanReference | str | Path) -> TableResult:
        """Runs the compiled plan of a reference or a file. Raises as ``load_plan`` does."""
        return self.load_plan(plan_reference).execute()

    # --- running -------------------------------------------------------------------------------------

    def compile_pipeline(self, j_pipeline: Any) -> CompiledPlan:
        """Compiles a pipeline that writes a table to a plan."""
        with self.planner.errors():
            return CompiledPlan(plan_text(j_pipeline.compilePlan(), self.planner), self)

    def run_pipeline(self, j_pipeline: Any) -> TableResult:
        """Runs a pipeline that writes a table."""
        with self.planner.errors():
            text = plan_text(j_pipeline.compilePlan(), self.planner)
        return self._run(text)

    def collect_table(self, j_table: Any) -> TableResult:
        """Runs a query and returns its rows."""
        planner = self.planner
        with planner.errors():
            target = planner.api.TableDescriptor.forConnector(COLLECT).build()
            text = plan_text(j_table.insertInto(target).compilePlan(), self.planner)
            kind = self.row_type(j_table.getResolvedSchema())
        plan = decode_plan(text)
        env = self._new_environment()
        ends: list[DataStream] = []
        self._translate(plan, env, lambda node, stream: ends.append(stream), self._time_zone())
        results = execute_and_collect(env, ends[0]._transformation, ends[0].get_type(), "collect")
        job = JobClient(results._control)
        streaming = self._settings.is_streaming
        return TableResult(kind, batches=results, job=job, shows_kinds=streaming, time_zone=self._time_zone())

    def _run(self, text: str) -> TableResult:
        plan = decode_plan(text)
        env = self._new_environment()
        self._translate(plan, env, write_table, self._time_zone_of(plan))
        job = self._submit(env, self._options.get("pipeline.name") or _job_name(plan))
        names = [_sink_name(node) for node in plan.sinks]
        kind = LogicalType(
            TypeRoot.ROW, fields=tuple(Field(name, LogicalType(TypeRoot.BIGINT)) for name in dict.fromkeys(names))
        )
        rows = [Row(*[-1] * len(kind.fields))]  # as in Flink: how many rows a job will write is not known
        return TableResult(kind, rows=rows, job=job, writes_tables=True)

    def _submit(self, env: StreamExecutionEnvironment, name: str) -> JobClient | None:
        """Starts a job that writes tables; with ``table.dml-sync`` it waits until the job has finished."""
        job = env.execute_async(name)
        if self._options.get("table.dml-sync", "false").lower() == "true":
            job.get_job_execution_result().result()
        return job

    def _translate(
        self,
        plan: ExecNodeGraph,
        env: StreamExecutionEnvironment,
        sinks: Sinks,
        time_zone: str,
        *,
        watermarks_pass: bool = False,
    ) -> None:
        functions = self._known.by_plan_name()
        warn_of_unbounded_states(plan, self._options, is_bounded_scan)
        translate(
            plan,
            env,
            lambda node: read_table(env, node, self._given),
            sinks,
            time_zone,
            functions,
            is_bounded_scan,
            self._options,
            table_of_lookup,
            watermarks_pass=watermarks_pass,
        )

    def _new_environment(self) -> StreamExecutionEnvironment:
        options = {key: text for key, text in self._options.items() if not key.startswith("table.")}
        made = StreamExecutionEnvironment.get_execution_environment(Configuration(options))
        for prepare in self._prepared:
            prepare(made)
        return made

    def _time_zone(self) -> str:
        given = self._options.get("table.local-time-zone", "default")
        return str(self._j_tenv.getConfig().getLocalTimeZone().getId()) if given == "default" else given

    def _time_zone_of(self, plan: ExecNodeGraph) -> str:
        given = self._options.get("table.local-time-zone", "default")
        if given != "default":
            return given
        return "UTC" if self._made is None else self._time_zone()

    def _from(self, path_or_descriptor: Any) -> Any:
        return getattr(self._j_tenv, "from")(path_or_descriptor)

    def _table_of(self, rows: pa.Table) -> Table:
        number = str(next(self._numbers))
        self._given[number] = rows
        planner = self.planner
        with planner.errors():
            builder = planner.api.Schema.newBuilder()
            for field in rows.schema:
                builder.column(field.name, sql_type(field))
            target = planner.api.TableDescriptor.forConnector(ROWS).schema(builder.build()).option("number", number)
            made = self._from(target.build())
        return Table(lambda: made, self)

    def _set_option(self, key: str, value: str) -> None:
        if key == _TIME_ZONE:
            check_time_zone(value)
        self._options[key] = value
        if self._made is not None:
            with self.planner.errors():
                self._made.getConfig().set(key, value)

    def _set(self, operation: Any) -> TableResult:
        key, value = operation.getKey(), operation.getValue()
        if key.isPresent() and value.isPresent():
            self._set_option(str(key.get()), str(value.get()))
            return done()
        kind = LogicalType(TypeRoot.ROW, fields=(Field("key", _TEXT), Field("value", _TEXT)))
        return TableResult(kind, rows=[Row(*pair) for pair in sorted(self._options.items())])

    def _rows_of(self, j_result: Any) -> TableResult:
        kind = self.row_type(j_result.getResolvedSchema())
        rows: list[Row] = []
        found = j_result.collect()
        while found.hasNext():
            j_row = found.next()
            values = [j_row.getField(index) for index in range(len(kind.fields))]
            row = Row(
                *[value if isinstance(value, str | bool | int | float | None) else str(value) for value in values]
            )
            row.set_row_kind(RowKind.INSERT)
            rows.append(row)
        is_done = str(j_result.getResultKind()) == "SUCCESS"
        return done() if is_done else TableResult(kind, rows=rows)

    def __getattr__(self, name: str) -> object:
        """Raises ``AttributeError`` with a reason for methods of PyFlink that are not supported."""
        if name.startswith("_"):
            raise AttributeError(name)
        why = _REFUSED.get(name, "is not available in tidegate yet")
        raise AttributeError(f"{type(self).__name__}.{name} {why}")


class StatementSet:
    """A set of INSERTs that run as one job (PyFlink: ``StatementSet``)."""

    def __init__(self, t_env: TableEnvironment) -> None:
        self._t_env = t_env
        self._clear()

    def add_insert_sql(self, stmt: str) -> StatementSet:
        """Adds an INSERT statement."""
        with self._t_env.planner.errors(stmt):
            self._j_set.addInsertSql(stmt)
        self._is_empty = False
        return self

    def add_insert(
        self, target_path_or_descriptor: str | TableDescriptor, table: Table, overwrite: bool = False
    ) -> StatementSet:
        """Adds a table to write to a target."""
        return self.add(table.insert_into(target_path_or_descriptor, overwrite))

    def add(self, table_pipeline: TablePipeline) -> StatementSet:
        """Adds a pipeline of ``Table.insert_into``."""
        with self._t_env.planner.errors():
            self._j_set.add(table_pipeline._j_table_pipeline)
        self._is_empty = False
        return self

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Returns Flink's explanation."""
        return self._t_env.explain_pipeline(self._j_set, extra_details)

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Prints Flink's explanation."""
        print(self.explain(*extra_details))  # noqa: T201

    def compile_plan(self) -> CompiledPlan:
        """Returns the compiled plan."""
        with self._t_env.planner.errors():
            return CompiledPlan(plan_text(self._j_set.compilePlan(), self._t_env.planner), self._t_env)

    def execute(self) -> TableResult:
        """Runs all INSERTs as one job."""
        made = self.compile_plan()
        self._clear()
        return made.execute()

    def attach_as_datastream(self) -> None:
        """Adds all INSERTs to the stream environment, whose ``execute`` runs them with its streams; the set is empty afterwards. Raises ``InvalidJob``
        in an environment without streams."""
        if not isinstance(self._t_env, StreamTableEnvironment):
            raise InvalidJob("attach_as_datastream() is for the sets of a StreamTableEnvironment: execute() runs these")
        if self._is_empty:
            return
        plan = decode_plan(self.compile_plan().as_json_string())
        self._clear()
        self._t_env._attach(plan)

    def _clear(self) -> None:
        with self._t_env.planner.errors():
            self._j_set = self._t_env._j_tenv.createStatementSet()
        self._is_empty = True


class CompiledPlan:
    """A plan that runs without Java and can be saved to a file (PyFlink: ``CompiledPlan``)."""

    def __init__(self, text: str, t_env: TableEnvironment) -> None:
        self._text = text
        self._t_env = t_env

    def as_json_string(self) -> str:
        """Returns the plan as Flink's JSON."""
        return self._text

    def print_json_string(self) -> None:
        """Prints the plan as Flink's JSON."""
        print(self._text)  # noqa: T201

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Prints the nodes of the plan as one tree for each sink."""
        print(self.explain(*extra_details))  # noqa: T201

    def get_flink_version(self) -> str:
        """Returns the version of Flink that made the plan."""
        return str(json.loads(self._text)["flinkVersion"])

    def write_to_file(self, file: str | Path, ignore_if_exists: bool = False) -> None:
        """Saves the plan. Raises ``InvalidJob`` if the file exists, and for functions without a name."""
        for call in (call for node in decode_plan(self._text).nodes for call in calls(node)):
            unnamed = UNNAMED.by_name.get(call.function)
            if unnamed is not None:
                raise InvalidJob(
                    f"the plan calls the function {unnamed.name}, which has no name in the plan: register it with create_temporary_function(), and "
                    "call it by that name"
                )
        try:
            with Path(file).open("x") as target:
                target.write(self._text)
        except FileExistsError:
            if not ignore_if_exists:
                raise InvalidJob(f"there is a file {file} already: remove it, or give ignore_if_exists") from None

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Returns the nodes of the plan as one tree for each sink; further details are not available."""
        return draw(decode_plan(self._text))

    def execute(self) -> TableResult:
        """Runs the plan. Raises ``UnsupportedPlan`` that names what is not supported."""
        return self._t_env._run(self._text)


class StreamTableEnvironment(TableEnvironment):
    """A table environment on top of a stream environment (PyFlink: ``StreamTableEnvironment``), whose options its jobs have."""

    def __init__(self, env: StreamExecutionEnvironment, settings: EnvironmentSettings | None = None) -> None:
        options = env._configuration.to_dict()
        super().__init__(settings or EnvironmentSettings(is_streaming_mode_of(options)), options)
        self._env = env
        self._descriptors: dict[str, TableDescriptor] = {}

    @staticmethod
    def create(  # type: ignore[override]
        stream_execution_environment: StreamExecutionEnvironment | None = None,
        environment_settings: EnvironmentSettings | None = None,
    ) -> StreamTableEnvironment:
        """Creates the environment on a stream environment, or on a new one."""
        env = stream_execution_environment or StreamExecutionEnvironment.get_execution_environment()
        return StreamTableEnvironment(env, environment_settings)

    def create_temporary_table(
        self,
        path: str,
        descriptor: TableDescriptor,
        ignoreIfExists: bool | None = False,  # noqa: N803 - PyFlink's name
    ) -> None:
        """Registers a temporary table. Raises ``InvalidJob`` when the name is taken, unless that is ignored."""
        if path in self._descriptors:
            if ignoreIfExists:
                return
            raise InvalidJob(f"there is a table {path!r} already: choose another path, or give ignoreIfExists=True")
        self._descriptors[path] = descriptor
        if descriptor.connector != "datagen" or self._made is not None:
            super().create_temporary_table(path, descriptor, ignoreIfExists)

    def from_path(self, path: str) -> Table:
        """Returns a registered table or view."""
        made = super().from_path(path)
        made._path = path
        return made

    def from_data_stream(self, data_stream: DataStream, *fields_or_schema: Schema | Expression) -> Table:
        """Converts a stream to a table, with each record as an insert.

        A ``Schema`` names stored columns by the fields of the records, or none for all of them; adds computed ones; the metadata ``rowtime`` is the
        timestamp of a record, and ``watermark("...", "SOURCE_WATERMARK()")`` passes the stream's watermarks on. Expressions name the fields, by their
        names, or else in order: ``col("a").alias("b")``, ``col("t").rowtime``, ``col("p").proctime``.

        Columns have Flink's types: numbers of records that are no rows are NOT NULL, ``Types.INSTANT()`` is TIMESTAMP_LTZ(9), and objects of unknown type
        are RAW, which statements pass on and cannot look into. Raises ``InvalidStatement`` where Flink refuses fields."""
        if len(fields_or_schema) == 1 and isinstance(fields_or_schema[0], Schema):
            return self._table_of_stream(data_stream, fields_or_schema[0], None)
        if not fields_or_schema:
            return self._table_of_stream(data_stream, Schema(), None)
        if not all(isinstance(field, Expression | str) for field in fields_or_schema):
            raise InvalidJob(f"Invalid arguments for 'fields': {fields_or_schema!r}")
        planner = self.planner
        with planner.errors():
            expressions = to_java_expressions(fields_or_schema, planner)
            fields = named_fields(data_stream.get_type(), expressions, self._j_types, planner)
        stored = [field for field in fields if field.kind == "column"]
        schema = Schema(
            columns={field.name: field.type for field in stored},
            metadata=tuple((f.name, "TIMESTAMP(3)", ROWTIME_UTC, True) for f in fields if f.kind == "rowtime"),
            computed=tuple((f.name, "PROCTIME()") for f in fields if f.kind == "proctime"),
            watermarks=tuple((f.name, "SOURCE_WATERMARK()") for f in fields if f.kind == "rowtime"),
        )
        made = self._table_of_stream(data_stream, schema, tuple(field.place for field in stored))
        order = [field.name for field in fields]
        return made if made.get_column_names() == order else made.select(*map(col, order))

    def create_temporary_view(
        self, view_path: str, table_or_data_stream: Table | DataStream, *fields_or_schema: Schema | Expression
    ) -> None:
        """Registers a query, or a stream converted as by ``from_data_stream``, as a temporary view."""
        if isinstance(table_or_data_stream, DataStream):
            table_or_data_stream = self.from_data_stream(table_or_data_stream, *fields_or_schema)
        super().create_temporary_view(view_path, table_or_data_stream)

    def from_changelog_stream(
        self, data_stream: DataStream, schema: Schema | None = None, changelog_mode: ChangelogMode | None = None
    ) -> Table:
        """Converts a stream of changes to a table: the kind of each ``Row`` says what it does. ``schema`` as in ``from_data_stream``; with
        ``ChangelogMode.upsert()`` it needs a primary key. Without a mode all kinds may occur.

        Raises as ``from_data_stream`` does; ``InvalidStatement`` for updates by a key that is not declared, when the table is used."""
        mode = changelog_mode or ChangelogMode.all()
        return self._table_of_stream(data_stream, schema or Schema(), None, mode)

    def to_append_stream(self, table: Table, type_info: TypeInformation | None = None) -> DataStream:
        """Converts a table of inserts to a stream. ``type_info``: a row or tuple type of the records; a type of a value makes rows of one column, as in
        PyFlink. Raises ``InvalidStatement`` where the table has columns of other types."""
        is_row = isinstance(type_info, RowTypeInfo | TupleTypeInfo)
        target = None
        if type_info is not None:
            target = schema_of_type(type_info, None if is_row else table.get_column_names())
        try:
            stream = self.to_data_stream(table) if target is None else self._stream_of(table, target, "append")
        except InvalidStatement as error:
            message = re.sub(r"^Table sink '\S*' doesn't", "toAppendStream doesn't", error.message)
            raise InvalidStatement(message, details=error.details) from None
        if not is_row:
            return stream
        if isinstance(type_info, TupleTypeInfo):
            made = stream.map(tuple, type_info)
        else:
            made = stream.map(_same_row, type_info)
        follow_input(made)
        return made

    def to_retract_stream(self, table: Table, type_info: TypeInformation) -> DataStream:
        """Converts a table to a stream of pairs: whether a row is added or retracted, and the row. ``type_info``: a row or tuple type, or that of the
        only column. Raises ``InvalidStatement`` where the table has columns of other types."""
        stream = self._stream_of(table, schema_of_type(type_info), "any")
        pairs = Types.TUPLE([Types.BOOLEAN(), type_info])
        if isinstance(type_info, TupleTypeInfo):
            made = stream.map(retracted_tuple, pairs)
        else:
            made = stream.map(retracted if isinstance(type_info, RowTypeInfo) else retracted_value, pairs)
        follow_input(made)
        return made

    def to_changelog_stream(
        self, table: Table, target_schema: Schema | None = None, changelog_mode: ChangelogMode | None = None
    ) -> DataStream:
        """Converts a table to a stream of rows with their kinds. ``target_schema``: the columns by position, with their types; its metadata column
        ``rowtime`` is the record timestamp, and no field. ``changelog_mode``: the kinds that may occur; without it those of the table.

        Raises ``InvalidStatement`` where Flink refuses columns or changes, ``UnsupportedPlan`` for what cannot be run yet."""
        return self._stream_of(table, target_schema, "any" if changelog_mode is None else changelog_mode.changes)

    def _table_of_stream(
        self,
        stream: DataStream,
        schema: Schema,
        places: tuple[int, ...] | None,
        mode: ChangelogMode = _INSERTS,
    ) -> Table:
        if stream.get_execution_environment() is not self._env:
            raise InvalidJob(
                "from_data_stream(): the stream is of another environment than this StreamTableEnvironment: make both with one "
                "StreamExecutionEnvironment"
            )
        number = str(next(self._numbers))
        planner = self.planner
        with planner.errors():
            shown: list[str] = []
            if places is None:
                places = tuple(range(len(fields_of(stream))))
                types = self._j_types
                translated = planner.jvm.org.apache.flink.table.catalog.SchemaTranslator.createConsumingResult(
                    types, record_type(stream.get_type(), types, planner), schema.to_java(planner), True
                )
                j_schema, shown = translated.getSchema(), list(map(str, translated.getProjections() or []))
            else:
                j_schema = schema.to_java(planner)
            self._given[number] = StreamTable(stream, places, has_changes=mode != _INSERTS)
            target = planner.api.TableDescriptor.forConnector(STREAM).schema(j_schema)
            made = self._from(target.option("number", number).option(CHANGES, mode.changes).build())
        table = Table(lambda: made, self)
        return table.select(*map(col, shown)) if shown else table

    @property
    def _j_types(self) -> Any:
        return self._j_tenv.getCatalogManager().getDataTypeFactory()

    def _new_environment(self) -> StreamExecutionEnvironment:
        made = super()._new_environment()
        made._last_id = self._env._last_id  # its jobs may read streams of the environment
        made._python_files |= self._env._python_files
        return made

    def to_data_stream(self, table: Table) -> DataStream:
        """Converts a table of inserts to a stream of rows with the names of the columns. A named ``datagen`` table is generated by one subtask. An
        event time column sets the records' timestamps, and watermarks pass. Raises ``UnsupportedPlan`` for what is not supported."""
        descriptor = self._descriptors.get(getattr(table, "_path", ""))
        if descriptor is not None and descriptor.connector == "datagen" and descriptor.columns is not None:
            schema = descriptor.columns.arrow_schema()
            kinds = zip(descriptor.columns.columns.values(), schema, strict=True)
            types = [parse_type(str(kind) if isinstance(kind, DataType) else sql_type(field)) for kind, field in kinds]
            fields = [Field(name, type) for name, type in zip(schema.names, types, strict=True)]
            options = typed_options(LogicalType(TypeRoot.ROW, fields=tuple(fields)), descriptor.options)
            return table_rows(generated(self._env, table._path, schema, options), types)
        return self._stream_of(table, None, "append")

    def _stream_of(self, table: Table, target: Schema | None, changes: str) -> DataStream:
        """Converts a table to a stream. ``changes``: the changelog mode of the sink, or ``any``."""
        planner = self.planner
        with planner.errors():
            j_table = table._j_table
            descriptor = planner.api.TableDescriptor.forConnector(STREAM_SINK).option(CHANGES, changes)
            if target is not None:
                translated = planner.jvm.org.apache.flink.table.catalog.SchemaTranslator.createProducingResult(
                    j_table.getResolvedSchema(), target.to_java(planner)
                )
                if translated.getProjections().isPresent():
                    names = [col(str(name)) for name in translated.getProjections().get()]
                    j_table = j_table.select(to_java_expressions(tuple(names), planner))
                descriptor = descriptor.schema(translated.getSchema())
            plan = decode_plan(plan_text(j_table.insertInto(descriptor.build()).compilePlan(), self.planner))
            types = list(j_table.getResolvedSchema().getColumnDataTypes())
        ends: list[DataStream] = []
        zone = self._time_zone()
        self._translate(plan, self._env, lambda node, stream: ends.append(stream), zone, watermarks_pass=True)
        sink = plan.sinks[0]
        assert isinstance(sink, (plan_nodes.Sink2, plan_nodes.BatchSink1))
        stream = renamed(ends[0], column_names(sink))
        if sink.dynamic_table_sink.abilities:  # the timestamp stands behind the columns
            fields = stream.get_type().arrow_schema()
            at = len(fields) - (2 if has_kinds(fields) else 1)
            timed = mapped(stream, WithEventTime(at), fields).name("Event time")
            return table_rows(mapped(timed, WithoutColumn(at), fields.remove(at)), column_types(sink))
        times = [i for i, kind in enumerate(types) if "*ROWTIME*" in str(kind)]
        if len(times) > 1:
            found = ", ".join(stream.get_type().arrow_schema().names[i] for i in times)
            raise InvalidJob(
                f"The query contains more than one rowtime attribute column [{found}] for writing into table "
                f"'{sink.dynamic_table_sink.table.name}'.\nPlease select the column that should be used as the event-time timestamp for the table "
                "sink by casting all other columns to regular TIMESTAMP or TIMESTAMP_LTZ."
            )
        if times:
            stream = mapped(stream, WithEventTime(times[0]), stream.get_type()).name("Event time")
        return table_rows(stream, column_types(sink))

    def _attach(self, plan: ExecNodeGraph) -> None:
        """Adds the operators of a plan that writes tables to the stream environment, whose ``execute`` runs them."""
        self._translate(plan, self._env, write_table, self._time_zone_of(plan))

    @property
    def _j_tenv(self) -> Any:
        was_made = self._made is not None
        made = super()._j_tenv
        if not was_made:
            for path, descriptor in self._descriptors.items():
                if descriptor.connector == "datagen":
                    with self.planner.errors():
                        made.createTemporaryTable(path, descriptor.to_java(self.planner))
        return made


def schema_of_type(type_info: TypeInformation, names: Sequence[str] | None = None) -> Schema:
    """Returns the schema of records of a type; ``names``: of the column, where records are plain values."""
    fields = type_info.arrow_schema()
    if isinstance(type_info, RowTypeInfo | TupleTypeInfo):
        names = fields.names
    return Schema(columns={name: sql_type(field) for name, field in zip(names or ["f0"], fields, strict=False)})


def check_time_zone(name: str) -> None:
    """Raises ``InvalidJob`` for an unknown time zone."""
    if name == "default" or re.fullmatch(r"(UTC|GMT)?[+-]\d{1,2}(:\d\d)?", name):
        return
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidJob(
            f"{_TIME_ZONE}: there is no time zone '{name}'{nearest(name, available_timezones())}"
        ) from None


def _same_row(row: Row) -> Row:
    return row


def _type_text(j_type: Any) -> str:
    """Returns the SQL text of a Java type; the summary for empty texts, ``CHAR(0)``, which have no other."""
    has_empty = "CHAR(0)" in str(j_type.asSummaryString()) or "BINARY(0)" in str(j_type.asSummaryString())
    return str(j_type.asSummaryString() if has_empty else j_type.asSerializableString())


def _sink_name(node: Node) -> str:
    assert isinstance(node, (plan_nodes.Sink2, plan_nodes.BatchSink1))
    return node.dynamic_table_sink.table.name


def _job_name(plan: ExecNodeGraph) -> str:
    return f"insert-into_{','.join(_sink_name(node) for node in plan.sinks)}"
