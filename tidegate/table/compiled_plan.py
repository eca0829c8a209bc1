"""`CompiledPlan` under PyFlink's name (``pyflink.table.compiled_plan``)."""

from tidegate.table.environment import CompiledPlan
from tidegate.table.explain_detail import ExplainDetail as ExplainDetail
from tidegate.table.table_result import TableResult as TableResult

__all__ = ["CompiledPlan"]
