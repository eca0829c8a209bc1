"""`StatementSet` under PyFlink's name (``pyflink.table.statement_set``)."""

from tidegate.table.descriptors import TableDescriptor as TableDescriptor
from tidegate.table.environment import CompiledPlan as CompiledPlan
from tidegate.table.environment import StatementSet
from tidegate.table.explain_detail import ExplainDetail as ExplainDetail
from tidegate.table.table import Table as Table
from tidegate.table.table import TablePipeline as TablePipeline
from tidegate.table.table_result import TableResult as TableResult

__all__ = ["StatementSet"]
