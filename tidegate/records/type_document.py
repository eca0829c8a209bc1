"""Serializes types as JSON, which another process can read without executing code.

    {"basic": "LONG"}   {"sql_time": "Date"}   {"list": TYPE} and the arrays   {"map": [TYPE, TYPE]}   {"tuple": [TYPE, ...]}
    {"row": [TYPE, ...], "names": [...]}       {"pickled": true}               {"arrow": an Arrow schema, IPC in base64}
    {"arrow": ..., "columns": [TEXT, ...]}     of rows of a table, with Flink's types of the columns

Defaults of fields are left out: they matter only where state is restored.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

import pyarrow as pa

from tidegate.model.errors import CorruptData, InvalidJob, Misuse
from tidegate.model.values import Json
from tidegate.records.arrow_type import ArrowTypeInfo
from tidegate.records.table_type import TableTypeInfo
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

_OF_ELEMENTS = {
    "list": ListTypeInfo,
    "basic_array": BasicArrayTypeInfo,
    "object_array": ObjectArrayTypeInfo,
    "primitive_array": PrimitiveArrayTypeInfo,
}
_DEPTH = 100
"""The most levels of a type's JSON: more than any program declares."""


def types_to_json(types: Sequence[TypeInformation]) -> bytes:
    """Serializes types as JSON. Raises ``Misuse`` for a type of an unknown class."""
    return json.dumps([_document(one) for one in types]).encode()


def types_from_json(content: bytes, count: int) -> list[TypeInformation]:
    """Parses ``count`` types from JSON. Raises ``CorruptData`` for content that is not the output of ``types_to_json`` for ``count`` types."""
    try:
        documents = json.loads(content)
        if not isinstance(documents, list) or len(documents) != count:
            raise ValueError(f"the type needs a list of {count} parts")
        return [_type(one, _DEPTH) for one in documents]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, pa.ArrowException, InvalidJob) as error:
        raise CorruptData(f"a description of types cannot be read: {type(error).__name__}: {error}") from None


def _document(kind: TypeInformation) -> Json:
    match kind:
        case BasicTypeInfo():
            return {"basic": kind.basic_type.name}
        case SqlTimeTypeInfo():
            return {"sql_time": kind.kind}
        case MapTypeInfo():
            return {"map": [_document(kind.key_type), _document(kind.value_type)]}
        case TupleTypeInfo():
            return {"tuple": [_document(field) for field in kind.get_field_types()]}
        case RowTypeInfo():
            names: Json = list(kind.get_field_names()) if kind.is_named else None
            return {"row": [_document(field) for field in kind.get_field_types()], "names": names}
        case PickledBytesTypeInfo():
            return {"pickled": True}
        case ArrowTypeInfo():
            schema = base64.b64encode(kind.schema.serialize().to_pybytes()).decode("ascii")
            return (
                {"arrow": schema, "columns": list(kind.columns)}
                if isinstance(kind, TableTypeInfo)
                else {"arrow": schema}
            )
    for name, of_elements in _OF_ELEMENTS.items():
        if type(kind) is of_elements:
            return {name: _document(kind.element_type)}
    raise Misuse(f"{kind!r} is of a class of your own, which cannot be described to other processes")


def _type(document: dict[str, Json], depth: int) -> TypeInformation:
    if not depth:
        raise ValueError("the types are nested too deep")
    name, content = next(iter(document.items()), ("", None))

    def types(found: Json) -> list[TypeInformation]:
        assert isinstance(found, list)
        return [_type(one, depth - 1) for one in found]

    match name:
        case "basic":
            return BasicTypeInfo(BasicType[str(content)])
        case "sql_time":
            return SqlTimeTypeInfo({"Date": "Date", "Time": "Time", "Timestamp": "Timestamp"}[str(content)])
        case "map":
            key, value = types(content)
            return MapTypeInfo(key, value)
        case "tuple":
            return TupleTypeInfo(types(content))
        case "row":
            return RowTypeInfo(types(content), document["names"])
        case "pickled":
            return PickledBytesTypeInfo()
        case "arrow":
            schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(str(content))))
            columns = document.get("columns")
            return (
                TableTypeInfo(schema, list(map(str, columns))) if isinstance(columns, list) else ArrowTypeInfo(schema)
            )
    return _OF_ELEMENTS[name](types([content])[0])
