"""Avro's JSON encoding of records (``avro.encoding`` = ``json``), as Avro Java writes and reads it: bytes are Latin-1 text, and a non-null value of a
union is wrapped in an object whose key is the name of its type."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from tidegate.connectors.formats.avro_resolution import Unresolved, Values
from tidegate.connectors.formats.avro_type import AvroType, ParsedSchema
from tidegate.connectors.formats.json_rows import json_string
from tidegate.model.values import Record
from tidegate.records.java_text import double_text, float_text

_WHOLE = {"int": 2**31, "long": 2**63}


def json_message(record: Record, schema: ParsedSchema) -> bytes:
    """Encodes a record of numbers, texts and bytes."""
    return _text(record, schema.root, schema).encode()


def json_record(message: bytes, schema: ParsedSchema, values: Values) -> Record:
    """Decodes the record at the start of a message; what follows it is ignored. Raises ``Unresolved`` for an invalid record."""
    try:
        found, _ = json.JSONDecoder().raw_decode(message.decode().lstrip())
    except ValueError as error:
        raise Unresolved(str(error)) from error
    return _value(found, schema.root, schema, values)


def _text(value: Any, kind: AvroType, schema: ParsedSchema) -> str:
    if isinstance(kind, list):
        if value is None:
            return "null"
        branch = next(one for one in kind if one != "null")
        return f"{{{json_string(_name(branch, schema))}:{_text(value, branch, schema)}}}"
    known = schema.resolved(kind)
    match known["type"]:
        case "record":
            parts = (
                f"{json_string(one['name'])}:{_text(value[one['name']], one['type'], schema)}"
                for one in known["fields"]
            )
            return f"{{{','.join(parts)}}}"
        case "array":
            return f"[{','.join(_text(one, known['items'], schema) for one in value)}]"
        case "map":
            parts = (f"{json_string(key)}:{_text(one, known['values'], schema)}" for key, one in value.items())
            return f"{{{','.join(parts)}}}"
        case "float":
            return _number(value, float_text)
        case "double":
            return _number(value, double_text)
        case "boolean":
            return "true" if value else "false"
        case "bytes":
            return json_string(value.decode("latin-1"))
        case "string":
            return json_string(value)
        case _:
            return str(value)


def _number(value: float, text: Callable[[float], str]) -> str:
    return text(value) if math.isfinite(value) else f'"{text(value)}"'


def _name(branch: AvroType, schema: ParsedSchema) -> str:
    known = schema.resolved(branch)
    return str(known.get("name", known["type"]))


def _value(found: Any, kind: AvroType, schema: ParsedSchema, values: Values) -> Any:
    if isinstance(kind, list):
        if found is None and "null" in kind:
            return None
        branch = next(one for one in kind if one != "null")
        name = _name(branch, schema)
        if not isinstance(found, Mapping) or list(found) != [name]:
            raise Unresolved(f"{str(found)[:100]} stands where null or an object with {name!r} is expected")
        return _value(found[name], branch, schema, values)
    known = schema.resolved(kind)
    value = _plain_value(found, known, schema, values)
    convert = values.logical(known)
    return value if convert is None else convert(value)


def _plain_value(found: Any, known: AvroType, schema: ParsedSchema, values: Values) -> Any:
    match known["type"], found:
        case "record", dict():
            missing = [one["name"] for one in known["fields"] if one["name"] not in found]
            if missing:
                raise Unresolved(f"Expected field name not found: {missing[0]}")
            return {one["name"]: _value(found[one["name"]], one["type"], schema, values) for one in known["fields"]}
        case "array", list():
            return [_value(one, known["items"], schema, values) for one in found]
        case "map", dict():
            return {key: _value(one, known["values"], schema, values) for key, one in found.items()}
        case ("int" | "long") as name, int() if not isinstance(found, bool) and -_WHOLE[name] <= found < _WHOLE[name]:
            return found
        case "float" | "double", int() | float() if not isinstance(found, bool):
            return float(found)
        case ("boolean", bool()) | ("string", str()):
            return found
        case "bytes", str() if all(ord(one) < 256 for one in found):
            return found.encode("latin-1")
    raise Unresolved(f"{str(found)[:100]} stands where {known['type']} is expected")
