"""`StreamTableEnvironment` and `TableEnvironment` under PyFlink's name (``pyflink.table.table_environment``)."""

from tidegate.table.environment import StreamTableEnvironment, TableEnvironment

__all__ = ["StreamTableEnvironment", "TableEnvironment"]
