"""`TablePipeline` under PyFlink's name (``pyflink.table.table_pipeline``)."""

from tidegate.table.table import TablePipeline

__all__ = ["TablePipeline"]
