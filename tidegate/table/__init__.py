"""The little of ``pyflink.table`` that DataStream programs begin with: tables of generated rows as streams.

    t_env = StreamTableEnvironment.create(stream_execution_environment=env)
    t_env.create_temporary_table("source", TableDescriptor.for_connector("datagen").schema(...).build())
    stream = t_env.to_data_stream(t_env.from_path("source"))

There is no Table API here and no SQL over tables; streams have expressions, ``select``, windows and ``sql``.
"""

from __future__ import annotations

from tidegate.common.names.java_only import refusing
from tidegate.common.row import Row, RowKind
from tidegate.records.data_types import DataType, DataTypes, RowType
from tidegate.table.descriptors import Schema, TableDescriptor
from tidegate.table.environment import StreamTableEnvironment, Table

__all__ = [
    "DataType",
    "DataTypes",
    "Row",
    "RowKind",
    "RowType",
    "Schema",
    "StreamTableEnvironment",
    "Table",
    "TableDescriptor",
]

__getattr__ = refusing(
    __name__,
    """
    AggregateFunction AsyncScalarFunction ChangelogMode CompiledPlan CsvTableSink CsvTableSource DataView EnvironmentSettings
    ExplainDetail Expression FormatDescriptor FunctionContext GroupWindowedTable GroupedTable ListView MapView Module
    ModuleEntry OverWindowedTable PlanReference ResultKind ScalarFunction SqlDialect StatementSet TableAggregateFunction
    TableConfig TableEnvironment TableFunction TablePipeline TableResult TableSchema UserDefinedType WindowGroupedTable
    """,
    "it has DataStream programs, not the Table API: select, expressions, windows and sql of a stream do what queries do",
)
