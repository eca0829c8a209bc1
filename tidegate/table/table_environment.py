"""`StreamTableEnvironment` and `TableEnvironment` under PyFlink's name (``pyflink.table.table_environment``), with the other names that programs import
from it."""

from __future__ import annotations

from tidegate.common.configuration import Configuration as Configuration
from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.typeinfo import TypeInformation as TypeInformation
from tidegate.datastream.data_stream import DataStream as DataStream
from tidegate.datastream.stream_execution_environment import StreamExecutionEnvironment as StreamExecutionEnvironment
from tidegate.records.data_types import DataType as DataType
from tidegate.records.data_types import RowField as RowField
from tidegate.records.data_types import RowType as RowType
from tidegate.table.catalog import Catalog as Catalog
from tidegate.table.catalog import CatalogDescriptor as CatalogDescriptor
from tidegate.table.changelog_mode import ChangelogMode as ChangelogMode
from tidegate.table.descriptors import Schema as Schema
from tidegate.table.descriptors import TableDescriptor as TableDescriptor
from tidegate.table.environment import CompiledPlan as CompiledPlan
from tidegate.table.environment import StatementSet as StatementSet
from tidegate.table.environment import StreamTableEnvironment, TableEnvironment
from tidegate.table.environment import TableConfig as TableConfig
from tidegate.table.environment_settings import EnvironmentSettings as EnvironmentSettings
from tidegate.table.explain_detail import ExplainDetail as ExplainDetail
from tidegate.table.expression import Expression as Expression
from tidegate.table.module import ModuleEntry as ModuleEntry
from tidegate.table.plan_reference import PlanReference as PlanReference
from tidegate.table.table import Table as Table
from tidegate.table.table_result import TableResult as TableResult
from tidegate.table.udf import AggregateFunction as AggregateFunction
from tidegate.table.udf import TableAggregateFunction as TableAggregateFunction
from tidegate.table.udf import UserDefinedFunctionWrapper as UserDefinedFunctionWrapper
from tidegate.table.udf import udaf as udaf
from tidegate.table.udf import udtaf as udtaf

__all__ = ["StreamTableEnvironment", "TableEnvironment"]

__getattr__ = finding(
    __name__,
    elsewhere("tidegate.table.module", "Module"),
    elsewhere("tidegate.table.model_descriptor", "ModelDescriptor"),
    elsewhere("tidegate.table.types", "create_arrow_schema from_arrow_type"),
)
