"""Encoding of rows of a table as JSON, column by column (Flink: ``JsonRowDataSerializationSchema``)."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.connectors.formats.json_rows import json_string
from tidegate.functions.sql.scalar import arrow_type
from tidegate.model.errors import InvalidJob
from tidegate.plan.logical_types import LogicalType, TypeRoot
from tidegate.records.java_text import double_text, float_text
from tidegate.table._formats.columns import TEXTS, timestamp_texts
from tidegate.table._formats.java_numbers import decimal_text
from tidegate.table._formats.times import TimestampStandard, date_text, time_text

_PLAIN = r'^[^"\\\x00-\x1f\x{10000}-\x{10ffff}]*$'
"""A pattern of texts that need no escapes in JSON."""


@dataclass(frozen=True)
class JsonWriting:
    """Encodes the format ``json``. ``decimals_are_plain``: never ``1E+2``; ``leaves_nulls_out``: omits null fields of objects. Maps have no null keys,
    since Arrow's columns hold none."""

    takes_kinds = False
    """Whether ``messages`` takes batches with a last column of row kinds."""

    row_type: LogicalType
    standard: TimestampStandard = TimestampStandard.SQL
    decimals_are_plain: bool = False
    leaves_nulls_out: bool = False

    def check(self) -> None:
        """Raises ``InvalidJob`` for a type that the format does not support."""
        for one in self.row_type.fields:
            self._texts(pa.array([], arrow_type(one.type)), one.type)

    def messages(self, batch: pa.RecordBatch) -> list[bytes]:
        """Encodes each row as bytes."""
        return [text.encode() for text in self.texts(batch)]

    def texts(self, batch: pa.RecordBatch) -> list[str]:
        """Encodes each row as the text of a JSON object."""
        return self._objects(list(batch.columns), self.row_type, batch.num_rows)

    def _objects(self, columns: list[pa.Array], type: LogicalType, count: int) -> list[str]:
        names = [f"{json_string(one.name)}:" for one in type.fields]
        texts = [self._texts(column, one.type) for column, one in zip(columns, type.fields, strict=True)]
        if not texts:
            return ["{}"] * count
        if self.leaves_nulls_out:
            return [
                "{" + ",".join([f"{name}{text}" for name, text in zip(names, row, strict=True) if text != "null"]) + "}"
                for row in zip(*texts, strict=True)
            ]
        form = "{" + ",".join([f"{name.replace('%', '%%')}%s" for name in names]) + "}"
        return [form % row for row in zip(*texts, strict=True)]

    def _texts(self, column: pa.Array, type: LogicalType) -> list[str]:
        """Formats a column as JSON texts; ``null`` for null."""
        match type.root:
            case TypeRoot.TINYINT | TypeRoot.SMALLINT | TypeRoot.INTEGER | TypeRoot.BIGINT | TypeRoot.BOOLEAN:
                return pc.fill_null(column.cast(pa.string()), "null").to_pylist()  # type: ignore[no-any-return]
            case TypeRoot.CHAR | TypeRoot.VARCHAR:
                return _strings(column)
            case TypeRoot.FLOAT:
                return _each(column.to_pylist(), lambda value: _number(value, float_text))
            case TypeRoot.DOUBLE:
                return _each(column.to_pylist(), lambda value: _number(value, double_text))
            case TypeRoot.DECIMAL:
                return _each(column.to_pylist(), lambda value: decimal_text(value, is_plain=self.decimals_are_plain))
            case TypeRoot.BINARY | TypeRoot.VARBINARY:
                return _each(column.to_pylist(), lambda value: f'"{base64.b64encode(value).decode()}"')
            case TypeRoot.DATE:
                return _each(column.cast(pa.int32()).to_pylist(), lambda value: f'"{date_text(value)}"')
            case TypeRoot.TIME:
                numbers = column.cast(pa.int32()).to_pylist()
                return _each(numbers, lambda value: f'"{time_text(value * 1_000_000)}"')
            case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
                ends = "Z" if type.root is TypeRoot.TIMESTAMP_LTZ else ""
                return _quoted(timestamp_texts(column, self.standard, ends))
            case TypeRoot.ARRAY:
                return self._arrays(column, type.element)
            case TypeRoot.MAP | TypeRoot.MULTISET:
                return self._maps(column, type)
            case TypeRoot.ROW:
                fields = [column.field(at) for at in range(column.type.num_fields)]
                found = self._objects(fields, type, len(column))
                return [
                    text if valid else "null" for text, valid in zip(found, column.is_valid().to_pylist(), strict=True)
                ]
            case _:
                raise InvalidJob(f"Unsupported type: {type}: the format json does not write it")

    def _arrays(self, column: pa.Array, element: LogicalType) -> list[str]:
        texts = self._texts(column.flatten(), element)
        return _slices(column, lambda begin, end: f"[{','.join(texts[begin:end])}]")

    def _maps(self, column: pa.Array, type: LogicalType) -> list[str]:
        key, item = type.children[0], type.children[1] if type.root is TypeRoot.MAP else LogicalType(TypeRoot.INTEGER)
        if key.root not in TEXTS:
            raise InvalidJob(f"JSON format doesn't support non-string as key type of map. The type is: {type}")
        lists = pa.ListArray.from_arrays(
            column.offsets, pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
        )
        entries = pc.list_flatten(lists.filter(column.is_valid()) if column.null_count else lists)
        keys, items = _strings(entries.field("key")), self._texts(entries.field("value"), item)
        members = [f"{name}:{value}" for name, value in zip(keys, items, strict=True)]
        return _slices(column, lambda begin, end: "{" + ",".join(members[begin:end]) + "}")


def _each(values: Iterable[object], text: Callable[..., str]) -> list[str]:
    return ["null" if value is None else text(value) for value in values]


def _number(value: float, text: Callable[[float], str]) -> str:
    return text(value) if math.isfinite(value) else f'"{text(value)}"'


def _slices(column: pa.Array, text: Callable[[int, int], str]) -> list[str]:
    """Returns the text of each list of a column. ``text`` gets the start and end of a list among the elements of all non-null lists."""
    found, begin = [], 0
    for length in pc.fill_null(_lengths(column), -1).to_pylist():
        if length < 0:
            found.append("null")
        else:
            found.append(text(begin, begin + length))
            begin += length
    return found


def _lengths(column: pa.Array) -> pa.Array:
    if not pa.types.is_map(column.type):
        return pc.list_value_length(column)
    offsets = column.offsets
    lengths = pc.subtract(offsets.slice(1), offsets.slice(0, len(offsets) - 1))
    return pc.if_else(column.is_valid(), lengths, pa.scalar(None, lengths.type))


def _strings(column: pa.Array) -> list[str]:
    if pc.all(pc.match_substring_regex(column, _PLAIN), min_count=0).as_py():
        return _quoted(column)
    return _each(column.to_pylist(), json_string)


def _quoted(column: pa.Array) -> list[str]:
    texts = pc.binary_join_element_wise(pa.scalar('"'), column, pa.scalar('"'), "")
    return pc.fill_null(texts, "null").to_pylist()  # type: ignore[no-any-return]
