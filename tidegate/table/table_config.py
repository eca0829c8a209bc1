"""`TableConfig` under PyFlink's name (``pyflink.table.table_config``)."""

from tidegate.common.configuration import Configuration as Configuration
from tidegate.table.environment import TableConfig
from tidegate.table.sql_dialect import SqlDialect as SqlDialect

__all__ = ["TableConfig"]
