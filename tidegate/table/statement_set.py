"""`StatementSet` under PyFlink's name (``pyflink.table.statement_set``)."""

from tidegate.table.environment import StatementSet

__all__ = ["StatementSet"]
