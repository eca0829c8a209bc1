"""`Types`: creates type information by name (PyFlink: ``pyflink.common.typeinfo.Types``). Programs import it from ``tidegate.common.typeinfo``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tidegate.records.arrow_type import ArrowTypeInfo
from tidegate.records.type_information import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)


class Types:
    """Creates type information by name, as in PyFlink, and with ``Types.SCHEMA`` that of columnar streams."""

    @staticmethod
    def STRING() -> TypeInformation:
        """Declares text (``str``)."""
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BYTE() -> TypeInformation:
        """Declares whole numbers (``int``) of 8 bits."""
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        """Declares booleans (``bool``)."""
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def SHORT() -> TypeInformation:
        """Declares whole numbers (``int``) of 16 bits."""
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT() -> TypeInformation:
        """Declares whole numbers (``int``) of 32 bits."""
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG() -> TypeInformation:
        """Declares whole numbers (``int``) of 64 bits."""
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT() -> TypeInformation:
        """Declares floating point numbers (``float``) of 32 bits."""
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE() -> TypeInformation:
        """Declares floating point numbers (``float``) of 64 bits."""
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR() -> TypeInformation:
        """Declares single characters (``str``)."""
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT() -> TypeInformation:
        """Declares whole numbers (``int``) of up to 76 digits."""
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC() -> TypeInformation:
        """Declares decimal numbers (``decimal.Decimal``)."""
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT() -> TypeInformation:
        """Declares points in time (``Instant``) in microseconds."""
        return BasicTypeInfo(BasicType.INSTANT)

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        """Declares dates (``datetime.date``)."""
        return SqlTimeTypeInfo("Date")

    @staticmethod
    def SQL_TIME() -> TypeInformation:
        """Declares times of day (``datetime.time``) without a zone, in microseconds."""
        return SqlTimeTypeInfo("Time")

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        """Declares timestamps (``datetime.datetime``) without a zone, in microseconds."""
        return SqlTimeTypeInfo("Timestamp")

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Declares objects of any class; they are pickled where they leave a process or go into state."""
        return PickledBytesTypeInfo()

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> TypeInformation:
        """Declares rows (``Row``) with fields of these types, named ``f0``, ``f1`` and so on."""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(
        field_names: Sequence[str],
        field_types: Sequence[TypeInformation],
        defaults: Mapping[str, object] | None = None,
    ) -> TypeInformation:
        """Declares rows (``Row``) with named fields. ``defaults``: values of fields that were added after state was stored, null for the others; this
        parameter is tidegate's own."""
        return RowTypeInfo(field_types, field_names, defaults)

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TypeInformation:
        """Declares tuples with fields of these types."""
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """Declares arrays of numbers, booleans or bytes without nulls."""
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """Declares arrays of values of a basic type, with nulls."""
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """Declares arrays of values of any type, with nulls."""
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> TypeInformation:
        """Declares maps (``dict``) with keys of one type and values of another."""
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> TypeInformation:
        """Declares lists with elements of one type."""
        return ListTypeInfo(element_type_info)

    @staticmethod
    def SCHEMA(schema: pa.Schema) -> TypeInformation:
        """Declares a columnar stream with this Arrow schema. This method is tidegate's own."""
        return ArrowTypeInfo(schema)
