"""Conversion between the row types of tables and Avro schemas (Flink: ``AvroSchemaConverter``)."""

from __future__ import annotations

import json
import re
from typing import Final

from tidegate.connectors.formats.avro_type import AvroType, ParsedSchema, logical_type
from tidegate.model.errors import InvalidJob
from tidegate.plan.logical_types import Field, LogicalType, TypeRoot

_NAME: Final = "record"
_SPACE: Final = "org.apache.flink.avro.generated"
_PLAIN: Final = {
    TypeRoot.NULL: "null",
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "int",
    TypeRoot.SMALLINT: "int",
    TypeRoot.INTEGER: "int",
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.CHAR: "string",
    TypeRoot.VARCHAR: "string",
    TypeRoot.BINARY: "bytes",
    TypeRoot.VARBINARY: "bytes",
}
_MOST: Final = 2**31 - 1
"""The length of STRING and BYTES in SQL types."""
_MILLIS, _MICROS = 3, 6  # their digits of a second


def schema_text(row_type: LogicalType, *, is_legacy: bool) -> str:
    """Returns the Avro schema of a table's rows, as JSON text in Avro Java's order. ``is_legacy``: TIMESTAMP maps to ``timestamp-millis`` and
    TIMESTAMP_LTZ is refused; otherwise they map to ``local-timestamp`` and ``timestamp``. Elements of arrays and values of maps always use the
    legacy mapping, as in Flink. Raises ``InvalidJob`` for a type without a schema and for a name that Avro does not accept."""
    whole = {"type": "record", "name": _NAME, "namespace": _SPACE, "fields": _fields(row_type, _NAME, is_legacy)}
    return json.dumps(whole, separators=(",", ":"), ensure_ascii=False)


def table_type(schema: ParsedSchema) -> LogicalType:
    """Returns the row type of an Avro schema, by Flink's legacy mapping. Raises ``InvalidJob`` for a schema without one."""
    return _type(schema, schema.root)


def without_logical_types(schema: AvroType) -> AvroType:
    """Returns a schema, as parsed JSON, with its logical types removed."""
    match schema:
        case list():
            return [without_logical_types(one) for one in schema]
        case dict():
            return {key: without_logical_types(part) for key, part in schema.items() if key != "logicalType"}
    return schema


def _schema(type: LogicalType, name: str, is_legacy: bool) -> AvroType:
    found = _not_null(type, name, is_legacy)
    return ["null", found] if type.nullable and found != "null" else found


def _not_null(type: LogicalType, name: str, is_legacy: bool) -> AvroType:
    if type.root in _PLAIN:
        return _PLAIN[type.root]
    match type.root:
        case TypeRoot.TIMESTAMP:
            return _timestamp(type, is_legacy)
        case TypeRoot.TIMESTAMP_LTZ if not is_legacy:
            return _zoned_timestamp(type)
        case TypeRoot.DATE:
            return {"type": "int", "logicalType": "date"}
        case TypeRoot.TIME:
            if (type.precision or 0) > _MILLIS:
                raise _too_precise("TIME", type.precision, _MILLIS)
            return {"type": "int", "logicalType": "time-millis"}
        case TypeRoot.DECIMAL:
            return {"type": "bytes", "logicalType": "decimal", "precision": type.precision, "scale": type.scale}
        case TypeRoot.ROW:
            return {"type": "record", "name": name, "fields": _fields(type, name, is_legacy)}
        case TypeRoot.MAP | TypeRoot.MULTISET:
            return {"type": "map", "values": _schema(_values_of(type), name, True)}
        case TypeRoot.ARRAY:
            return {"type": "array", "items": _schema(type.element, name, True)}
    shown = str(type)
    if type.root is TypeRoot.TIMESTAMP_LTZ:
        shown = f"TIMESTAMP_LTZ({_precision(type)}){'' if type.nullable else ' NOT NULL'}"
    raise InvalidJob(f"Unsupported to derive Schema for type: {shown}")


def _fields(type: LogicalType, name: str, is_legacy: bool) -> list[AvroType]:
    found = []
    for one in type.fields:
        _check_name(one.name)
        field = {"name": one.name, "type": _schema(one.type, f"{name}_{one.name}", is_legacy)}
        found.append({**field, "default": None} if one.type.nullable else field)
    return found


def _timestamp(type: LogicalType, is_legacy: bool) -> AvroType:
    precision = _precision(type)
    if precision <= _MILLIS:
        return {"type": "long", "logicalType": "timestamp-millis" if is_legacy else "local-timestamp-millis"}
    if is_legacy:
        raise _too_precise("TIMESTAMP", precision, _MILLIS)
    if precision > _MICROS:
        raise _too_precise("LOCAL TIMESTAMP", precision, _MICROS)
    return {"type": "long", "logicalType": "local-timestamp-micros"}


def _zoned_timestamp(type: LogicalType) -> AvroType:
    precision = _precision(type)
    if precision > _MICROS:
        raise _too_precise("TIMESTAMP", precision, _MICROS)
    return {"type": "long", "logicalType": "timestamp-millis" if precision <= _MILLIS else "timestamp-micros"}


def _precision(type: LogicalType) -> int:
    return _MICROS if type.precision is None else type.precision


def _too_precise(name: str, precision: int | None, most: int) -> InvalidJob:
    return InvalidJob(
        f"Avro does not support {name} type with precision: {precision}, it only supports precision less than {most}."
    )


def _values_of(type: LogicalType) -> LogicalType:
    key = type.children[0] if type.root is TypeRoot.MAP else type.element
    if key.root not in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        raise InvalidJob(f"Avro format doesn't support non-string as key type of map. The key type is: {key}")
    return type.children[1] if type.root is TypeRoot.MAP else LogicalType(TypeRoot.INTEGER)


def _check_name(name: str) -> None:
    if not re.match(r"[^\W\d]", name):
        raise InvalidJob(f"Illegal initial character: {name}: a column in Avro has a name of letters, digits and _")
    if not re.fullmatch(r"\w+", name):
        raise InvalidJob(f"Illegal character in: {name}: a column in Avro has a name of letters, digits and _")


def _type(schema: ParsedSchema, kind: AvroType) -> LogicalType:
    if isinstance(kind, list):
        kinds = [one for one in kind if one != "null"]
        if len(kinds) != 1:
            raise InvalidJob(
                f"a union of {str(kind)[:100]} has no type in a table: one of null and one other type has one"
            )
        return _type(schema, kinds[0]).with_nullable(len(kind) > 1)
    known = schema.resolved(kind)
    match known["type"]:
        case "record":
            fields = [Field(one["name"], _type(schema, one["type"])) for one in known["fields"]]
            return LogicalType(TypeRoot.ROW, nullable=False, fields=tuple(fields))
        case "array":
            return LogicalType(TypeRoot.ARRAY, nullable=False, children=(_type(schema, known["items"]),))
        case "map":
            key = LogicalType(TypeRoot.VARCHAR, nullable=False, length=_MOST)
            return LogicalType(TypeRoot.MAP, nullable=False, children=(key, _type(schema, known["values"])))
        case "bytes" | "fixed" if logical_type(known) == "decimal":
            digits, scale = known["precision"], known.get("scale", 0)
            return LogicalType(TypeRoot.DECIMAL, nullable=False, precision=digits, scale=scale)
        case "fixed":
            return LogicalType(TypeRoot.VARBINARY, nullable=False, length=known["size"])
        case "bytes":
            return LogicalType(TypeRoot.VARBINARY, nullable=False, length=_MOST)
        case "string" | "enum":
            return LogicalType(TypeRoot.VARCHAR, nullable=False, length=_MOST)
        case "int" | "long":
            return _number_type(known)
        case "boolean" | "float" | "double" as name:
            return LogicalType(TypeRoot[name.upper()], nullable=False)
    raise InvalidJob(f"the Avro type {known['type']!r} has no type in a table")


def _number_type(known: AvroType) -> LogicalType:
    match logical_type(known):
        case "date":
            return LogicalType(TypeRoot.DATE, nullable=False)
        case "time-millis" | "time-micros" as name:
            return LogicalType(TypeRoot.TIME, nullable=False, precision=_digits(name))
        case "timestamp-millis" | "timestamp-micros" as name:
            return LogicalType(TypeRoot.TIMESTAMP, nullable=False, precision=_digits(name))
    return LogicalType(TypeRoot.INTEGER if known["type"] == "int" else TypeRoot.BIGINT, nullable=False)


def _digits(name: str) -> int:
    return _MILLIS if name.endswith("millis") else _MICROS
