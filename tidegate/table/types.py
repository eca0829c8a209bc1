"""The types of columns under PyFlink's name (``pyflink.table.types``)."""

from __future__ import annotations

from tidegate.common.names.java_only import refusing
from tidegate.common.records.data_types import DataType, DataTypes, RowField, RowType
from tidegate.common.row import Row, RowKind

__all__ = ["DataType", "DataTypes", "Row", "RowField", "RowKind", "RowType"]

__getattr__ = refusing(
    __name__,
    "_to_java_data_type _from_java_data_type _to_java_type _from_java_type UserDefinedType",
    "its types are Python's: DataTypes, and Types of tidegate.common",
)
