"""`TablePipeline` under PyFlink's name (``pyflink.table.table_pipeline``)."""

from tidegate.table.catalog import ObjectIdentifier as ObjectIdentifier
from tidegate.table.environment import CompiledPlan as CompiledPlan
from tidegate.table.explain_detail import ExplainDetail as ExplainDetail
from tidegate.table.table import TablePipeline
from tidegate.table.table_result import TableResult as TableResult

__all__ = ["TablePipeline"]
