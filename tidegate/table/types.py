"""The types of columns under PyFlink's name (``pyflink.table.types``)."""

from __future__ import annotations

from tidegate.common.names.java_only import refusing
from tidegate.common.row import Row, RowKind
from tidegate.records.data_types import DataType, DataTypes, RowField, RowType

__all__ = ["DataType", "DataTypes", "Row", "RowField", "RowKind", "RowType"]

__getattr__ = refusing(
    __name__,
    "_to_java_data_type _from_java_data_type _to_java_type _from_java_type UserDefinedType",
    "its types are Python's: DataTypes, and Types of tidegate.common",
)
