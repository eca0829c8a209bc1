"""The types of columns under PyFlink's name (``pyflink.table.types``)."""

from __future__ import annotations

from tidegate.common.names.java_only import refusing
from tidegate.common.row import Row, RowKind
from tidegate.records.data_types import DataType, DataTypes, RowField, RowType
from tidegate.records.data_types import IntervalResolution as Resolution

_NAMES = "UserDefinedType"

__all__ = ["DataType", "DataTypes", "Resolution", "Row", "RowField", "RowKind", "RowType", *_NAMES.split()]

__getattr__ = refusing(
    __name__,
    f"""
    {_NAMES} ArrayType AtomicType BigIntType BinaryType BooleanType CharType DateType DayTimeIntervalType DecimalType
    DoubleType FloatType FractionalType IntType IntegralType ListViewType LocalZonedTimestampType MapType MapViewType
    MultisetType NullType NumericType RawType SmallIntType TimeType TimestampType TinyIntType VarBinaryType VarCharType
    YearMonthIntervalType ZonedTimestampType create_arrow_schema from_arrow_type to_arrow_type _to_java_data_type
    _from_java_data_type _to_java_type _from_java_type
    """,
    "its types are values: make them with DataTypes, compare them with ==, and read them as text",
)
