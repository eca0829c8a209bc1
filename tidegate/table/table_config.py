"""`TableConfig` under PyFlink's name (``pyflink.table.table_config``)."""

from tidegate.table.environment import TableConfig

__all__ = ["TableConfig"]
