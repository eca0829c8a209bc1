"""`CompiledPlan` under PyFlink's name (``pyflink.table.compiled_plan``)."""

from tidegate.table.environment import CompiledPlan

__all__ = ["CompiledPlan"]
