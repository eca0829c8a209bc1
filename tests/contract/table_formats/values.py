"""Values of recorded rows: a JSON scalar is itself; ``{"float": "1.5"}``, ``{"decimal": "1.50"}``, ``{"bytes": base64}``, ``{"days": 0}`` since 1970,
``{"nanos": 0}`` of the day or since 1970, ``{"list": [...]}``, ``{"map": [[key, value], ...]}`` in the order of the keys' JSON, ``{"row": [...]}``."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.functions.sql.scalar import arrow_type
from tidegate.plan.logical_types import LogicalType, TypeRoot, parse_type

HERE = Path(__file__).parent
NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def recorded(name: str, what: str) -> Iterator[dict[str, Any]]:
    """The cases of a format, of those that are read (``reads``) or written (``writes``)."""
    with (HERE / f"{name}.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            case: dict[str, Any] = json.loads(line)
            if what in case:
                yield case[what]


def row_type(text: str) -> LogicalType:
    """From a text whose fields have names of one small letter."""
    return parse_type(re.sub(r"\b([a-z]) (?=[A-Z])", r"`\1` ", text))


def values_of(batch: pa.RecordBatch, type: LogicalType) -> list[Any]:
    """The rows of a batch as they are recorded."""
    columns = [_values(column, one.type) for column, one in zip(batch.columns, type.fields, strict=True)]
    return [{"row": list(row)} for row in zip(*columns, strict=True)]


def batch_of(row: dict[str, Any], type: LogicalType) -> pa.RecordBatch:
    """A batch with a recorded row."""
    arrays = [
        pa.array([_held(value, one.type)], arrow_type(one.type))
        for value, one in zip(row["row"], type.fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[one.name for one in type.fields])


def held(case: dict[str, Any]) -> bool:
    """Whether the columns hold the row as Flink's rows do."""
    text = case["text"]
    if (
        "2.14748365E9" in text or "1.23456792E8" in text
    ):  # Java before 19 writes a digit more than tell the number apart
        return False
    if "TIMESTAMP(9)" in case["type"]:
        return "0001-" not in text
    return "TIMESTAMP" not in case["type"] or "123456789" not in text


def as_held(value: Any, type: LogicalType) -> Any:
    """A recorded value as a column holds it: without the digits of a second that Flink keeps of a text, a FLOAT by all its digits."""
    match value:
        case {"float": text} if type.root is TypeRoot.FLOAT:
            return {"float": repr(float(np.float32(text)))}
        case {"nanos": nanos}:
            unit = NANOS[arrow_type(type).unit]
            return {"nanos": nanos // unit * unit}
        case {"list": values}:
            return {"list": [as_held(one, type.element) for one in values]}
        case {"row": values}:
            return {"row": [as_held(one, field.type) for one, field in zip(values, type.fields, strict=True)]}
    return value


def _values(column: pa.Array, type: LogicalType) -> list[Any]:
    match type.root:
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return [None if value is None else {"float": repr(value)} for value in column.to_pylist()]
        case TypeRoot.DECIMAL:
            return [None if value is None else {"decimal": format(value, "f")} for value in column.to_pylist()]
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return [
                None if value is None else {"bytes": base64.b64encode(value).decode()} for value in column.to_pylist()
            ]
        case TypeRoot.DATE:
            return [None if value is None else {"days": value} for value in column.cast(pa.int32()).to_pylist()]
        case TypeRoot.TIME | TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            numbers = column.cast(pa.int32() if type.root is TypeRoot.TIME else pa.int64()).to_pylist()
            return [None if value is None else {"nanos": value * NANOS[column.type.unit]} for value in numbers]
        case TypeRoot.ARRAY:
            return [{"list": _values(one.values, type.element)} if one.is_valid else None for one in column]
        case TypeRoot.MAP | TypeRoot.MULTISET:
            item = type.children[1] if type.root is TypeRoot.MAP else LogicalType(TypeRoot.INTEGER)
            return [
                {
                    "map": sorted(
                        map(
                            list,
                            zip(
                                _values(one.values.field(0), type.children[0]),
                                _values(one.values.field(1), item),
                                strict=True,
                            ),
                        ),
                        key=json.dumps,
                    )
                }
                if one.is_valid
                else None
                for one in column
            ]
        case TypeRoot.ROW:
            fields = [_values(column.field(at), one.type) for at, one in enumerate(type.fields)]
            return [
                {"row": list(values)} if valid else None
                for valid, values in zip(column.is_valid().to_pylist(), zip(*fields, strict=True), strict=True)
            ]
    found: list[Any] = column.to_pylist()
    return found


def _held(value: Any, type: LogicalType) -> Any:
    match value:
        case {"float": text}:
            return float(text)
        case {"decimal": text}:
            return Decimal(text)
        case {"bytes": text}:
            return base64.b64decode(text)
        case {"days": days}:
            return days
        case {"nanos": nanos}:
            return nanos // NANOS[arrow_type(type).unit]
        case {"list": values}:
            return [_held(one, type.element) for one in values]
        case {"map": pairs}:
            item = type.children[1] if type.root is TypeRoot.MAP else LogicalType(TypeRoot.INTEGER)
            return [(_held(key, type.children[0]), _held(one, item)) for key, one in pairs]
        case {"row": values}:
            return {one.name: _held(value, one.type) for value, one in zip(values, type.fields, strict=True)}
    return value
