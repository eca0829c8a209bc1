"""Tables: SQL and the Table API, planned by Flink's planner and run as tidegate's jobs (PyFlink: ``pyflink.table``).

t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
t_env.from_elements([(1, "a"), (2, "b")], ["id", "name"]).select(col("id") + 1, col("name")).execute().print()
"""

from __future__ import annotations

from tidegate.common.names.java_only import refusing
from tidegate.common.row import Row, RowKind
from tidegate.records.data_types import DataType, DataTypes, RowType
from tidegate.table._execution.lookup_functions import AsyncLookupFunction, LookupFunction
from tidegate.table.changelog_mode import ChangelogMode
from tidegate.table.data_view import DataView, ListView, MapView
from tidegate.table.descriptors import FormatDescriptor, Schema, TableDescriptor
from tidegate.table.environment import CompiledPlan, StatementSet, StreamTableEnvironment, TableConfig, TableEnvironment
from tidegate.table.environment_settings import EnvironmentSettings
from tidegate.table.explain_detail import ExplainDetail
from tidegate.table.expression import Expression
from tidegate.table.module import ModuleEntry
from tidegate.table.plan_reference import PlanReference
from tidegate.table.sql_dialect import SqlDialect
from tidegate.table.table import (
    AggregatedTable,
    FlatAggregateTable,
    GroupedTable,
    GroupWindowedTable,
    OverWindowedTable,
    Table,
    TablePipeline,
    WindowGroupedTable,
)
from tidegate.table.table_result import ResultKind, TableResult
from tidegate.table.table_schema import TableSchema
from tidegate.table.udf import (
    AggregateFunction,
    AsyncScalarFunction,
    FunctionContext,
    ScalarFunction,
    TableAggregateFunction,
    TableFunction,
)

_NAMES = "Module UserDefinedType"

__all__ = [
    "AggregateFunction",
    "AggregatedTable",
    "AsyncLookupFunction",
    "AsyncScalarFunction",
    "ChangelogMode",
    "CompiledPlan",
    "DataType",
    "DataTypes",
    "DataView",
    "EnvironmentSettings",
    "ExplainDetail",
    "Expression",
    "FlatAggregateTable",
    "FormatDescriptor",
    "FunctionContext",
    "GroupWindowedTable",
    "GroupedTable",
    "ListView",
    "LookupFunction",
    "MapView",
    "ModuleEntry",
    "OverWindowedTable",
    "PlanReference",
    "ResultKind",
    "Row",
    "RowKind",
    "RowType",
    "ScalarFunction",
    "Schema",
    "SqlDialect",
    "StatementSet",
    "StreamTableEnvironment",
    "Table",
    "TableAggregateFunction",
    "TableConfig",
    "TableDescriptor",
    "TableEnvironment",
    "TableFunction",
    "TablePipeline",
    "TableResult",
    "TableSchema",
    "WindowGroupedTable",
    *_NAMES.split(),
]

__getattr__ = refusing(
    __name__,
    f"CsvTableSink CsvTableSource {_NAMES}",
    "its tables do not have it yet: docs/status.md lists what they have",
)


def load_ipython_extension(shell: object) -> None:
    """Registers the notebook magics of SQL; IPython calls this for ``%load_ext tidegate.table``."""
    from tidegate.table.sql_cells import register

    register(shell)
