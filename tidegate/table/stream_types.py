"""Conversion of stream types to types of Flink's planner, such as ``Types.LONG()`` to ``BIGINT NOT NULL``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.records.arrow_type import ArrowTypeInfo
from tidegate.records.row_kinds import ROW_KIND
from tidegate.records.table_type import TableTypeInfo
from tidegate.records.type_information import (
    BasicArrayTypeInfo,
    BasicTypeInfo,
    DecimalTypeInfo,
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
from tidegate.table._execution.elements import sql_type
from tidegate.table.expression import java_type

if TYPE_CHECKING:
    from tidegate.table._planner.planner import Planner

_LONGEST_TUPLE = 25
"""The length of Flink's longest tuple; the planner sees longer ones as rows."""
_ARRAYS = ("STRING", "BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "CHAR")
"""Basic types that Flink has array types of."""
_SQL_TIMES = {"Date": "SQL_DATE", "Time": "SQL_TIME", "Timestamp": "SQL_TIMESTAMP"}
_OLD_TYPES = ("LegacyTypeInformationType", "TypeInformationRawType")
_TIME_ATTRIBUTES = {-1: "rowtime", -2: "proctime"}
"""Time attributes by the field index with which Flink marks them."""


@dataclass(frozen=True)
class NamedField:
    """A column that an expression names. ``place``: the position of the field in the stream's records; ``kind``: column, rowtime or proctime; ``type``:
    Flink's ``DataType``, or its text."""

    name: str
    place: int
    kind: str
    type: Any


def record_type(kind: TypeInformation, j_factory: Any, planner: Planner) -> Any:
    """Returns Flink's ``DataType`` of a stream's records."""
    if isinstance(kind, ArrowTypeInfo):
        return java_type(_row_text(kind), planner)
    utils = planner.jvm.org.apache.flink.table.types.utils
    found = utils.TypeInfoDataTypeConverter.toDataType(j_factory, java_type_info(kind, planner))
    return _without_classes(found, planner)


def named_fields(kind: TypeInformation, j_expressions: Any, j_factory: Any, planner: Planner) -> list[NamedField]:
    """Returns the columns that expressions make of the fields of a stream's records. Raises what Flink does.

    They have types of Flink's older type system; one that has no others like it there is that of ``record_type``, but nullable."""
    columns = _columns(kind) if isinstance(kind, ArrowTypeInfo) else None
    if columns is None:
        j_type = java_type_info(kind, planner)
    else:  # names are all that counts of it
        long = planner.jvm.org.apache.flink.api.common.typeinfo.Types.LONG
        j_type = _row([long] * len(columns), [name for name, _ in columns], planner)
    is_one_value = not isinstance(kind, ArrowTypeInfo | RowTypeInfo | TupleTypeInfo)
    found = planner.jvm.org.apache.flink.table.typeutils.FieldInfoUtils.getFieldsInfo(j_type, j_expressions)
    named = []
    for name, given, type in zip(found.getFieldNames(), found.getIndices(), found.getFieldTypes(), strict=True):
        place = 0 if is_one_value and given >= 0 else int(given)
        if columns is not None and place >= 0:
            type = columns[place][1]
        elif str(type.getLogicalType().getClass().getSimpleName()) in _OLD_TYPES:
            whole = record_type(kind, j_factory, planner)
            utils = planner.jvm.org.apache.flink.table.types.utils.DataTypeUtils
            type = list(utils.flattenToDataTypes(whole))[place].nullable()
        else:
            type = _without_classes(type, planner)
        named.append(NamedField(str(name), place, _TIME_ATTRIBUTES.get(place, "column"), type))
    return named


def java_type_info(kind: TypeInformation, planner: Planner) -> Any:
    """Converts a type to Flink's ``TypeInformation``."""
    basic = planner.jvm.org.apache.flink.api.common.typeinfo
    types, others = basic.Types, planner.jvm.org.apache.flink.api.java.typeutils

    def made(part: TypeInformation) -> Any:
        return java_type_info(part, planner)

    match kind:
        case DecimalTypeInfo():
            return _of_table(f"DECIMAL({kind.precision}, {kind.scale})", planner)
        case ArrowTypeInfo():
            return _of_table(_row_text(kind), planner)
        case BasicTypeInfo():
            return getattr(types, kind.basic_type.name)
        case SqlTimeTypeInfo():
            return getattr(types, _SQL_TIMES[kind.kind])
        case PrimitiveArrayTypeInfo():
            return types.PRIMITIVE_ARRAY(made(kind.element_type))
        case BasicArrayTypeInfo(element_type=BasicTypeInfo(basic_type=element)) if element.name in _ARRAYS:
            return getattr(basic.BasicArrayTypeInfo, f"{element.name}_ARRAY_TYPE_INFO")
        case BasicArrayTypeInfo() | ObjectArrayTypeInfo():
            return types.OBJECT_ARRAY(made(kind.element_type))
        case ListTypeInfo():
            return types.LIST(made(kind.element_type))
        case MapTypeInfo():
            return types.MAP(made(kind.key_type), made(kind.value_type))
        case TupleTypeInfo() if len(kind.get_field_types()) <= _LONGEST_TUPLE:
            fields = list(map(made, kind.get_field_types()))
            return others.TupleTypeInfo(planner.array(basic.TypeInformation, fields))
        case RowTypeInfo() | TupleTypeInfo():
            return _row(list(map(made, kind.get_field_types())), kind.get_field_names(), planner)
        case _:
            assert isinstance(kind, PickledBytesTypeInfo), kind
            return others.GenericTypeInfo(planner.jvm.java.lang.Class.forName("[B"))


def _row(j_types: list[Any], names: list[str], planner: Planner) -> Any:
    flink = planner.jvm.org.apache.flink.api
    return flink.java.typeutils.RowTypeInfo(
        planner.array(flink.common.typeinfo.TypeInformation, j_types), planner.array(planner.jvm.String, names)
    )


def _without_classes(j_type: Any, planner: Planner) -> Any:
    """Returns a Java ``DataType`` without its conversion classes, which plans do not need."""
    return planner.jvm.org.apache.flink.table.types.utils.TypeConversions.fromLogicalToDataType(j_type.getLogicalType())


def _of_table(text: str, planner: Planner) -> Any:
    return planner.jvm.org.apache.flink.table.runtime.typeutils.ExternalTypeInfo.of(java_type(text, planner))


def _row_text(kind: ArrowTypeInfo) -> str:
    quoted = [(name.replace("`", "``"), type) for name, type in _columns(kind)]
    return f"ROW<{', '.join(f'`{name}` {type}' for name, type in quoted)}>"


def _columns(kind: ArrowTypeInfo) -> list[tuple[str, str]]:
    """Returns names and SQL types of a stream's columns, except that of row kinds."""
    fields = [field for field in kind.schema if field.name != ROW_KIND]
    types = kind.columns if isinstance(kind, TableTypeInfo) else [sql_type(field) for field in fields]
    return [(field.name, type) for field, type in zip(fields, types, strict=True)]
