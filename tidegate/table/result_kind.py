"""`ResultKind` under PyFlink's name (``pyflink.table.result_kind``)."""

from tidegate.table.table_result import ResultKind

__all__ = ["ResultKind"]
