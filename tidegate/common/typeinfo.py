"""`Types` and `TypeInformation`: the types of a stream's records (PyFlink: ``pyflink.common.typeinfo``)."""

from __future__ import annotations

from tidegate.common.names.finding import elsewhere, finding
from tidegate.records.arrow_type import ArrowTypeInfo
from tidegate.records.type_factory import Types
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

__all__ = [
    "ArrowTypeInfo",
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "ListTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
]


def _from_java_type(j_type_info: TypeInformation) -> TypeInformation:
    """Returns its argument: the inverse of ``get_java_type_info``, under PyFlink's name."""
    return j_type_info


__getattr__ = finding(
    __name__,
    elsewhere(
        "tidegate.common.names.type_classes",
        "DateTypeInfo ExternalTypeInfo InstantTypeInfo LocalTimeTypeInfo TimeTypeInfo TimestampTypeInfo",
    ),
)
