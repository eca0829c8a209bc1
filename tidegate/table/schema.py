"""`Schema` under PyFlink's name (``pyflink.table.schema``)."""

from tidegate.records.data_types import DataType as DataType
from tidegate.table.descriptors import Schema
from tidegate.table.expression import Expression as Expression

__all__ = ["Schema"]
