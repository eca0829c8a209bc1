"""Partitions of tables of files: the directories ``dt=2020-01-01/`` to which rows go by some of their columns, and what such a directory says of the rows
in it (Flink: ``PartitionPathUtils``, ``RowDataPartitionComputer``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from tidegate.connectors.files.buckets import Buckets
from tidegate.functions.sql.scalar.arrow_types import time_unit
from tidegate.functions.sql.scalar.calendar import UNITS_PER_SECOND
from tidegate.functions.sql.scalar.texts import date_text, decimal_text, double_text, float_text, time_text
from tidegate.model.errors import InvalidJob
from tidegate.plan.logical_types import LogicalType, TypeRoot
from tidegate.table._connectors.shape import TableShape

DEFAULT_NAME: Final = "__DEFAULT_PARTITION__"
"""The directory's value for null and for a text without characters (``partition.default-name``)."""
_ESCAPED: Final = re.compile(r"""[\x01-\x1f\x7f"#%'*/:=?\\{}\[\]^]""")
_NUMBERS: Final = {TypeRoot.DATE: pa.int32(), TypeRoot.TIME: pa.int32()}
_WHOLE: Final = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT)
_TIMESTAMPS: Final = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def escaped(text: str) -> str:
    """A name or a value as Flink writes it in the name of a directory."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


@dataclass(frozen=True)
class PartitionColumns(Buckets):
    """The columns of a table whose values are in the names of directories, in the order of ``PARTITIONED BY``. Raises ``InvalidJob`` for a type whose values
    Flink writes without their content."""

    row_type: LogicalType
    keys: tuple[str, ...]
    default_name: str = DEFAULT_NAME

    def __post_init__(self) -> None:
        for type in self._types:
            _text_of(type)

    def stored(self, schema: pa.Schema) -> pa.Schema:
        return pa.schema([field for field in schema if field.name not in self.keys])

    def split(self, data: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Rows keep their order in each directory."""
        paths, codes = self._paths(data)
        rest = data.select([place for place, name in enumerate(data.schema.names) if name not in self.keys])
        if len(paths) == 1:
            yield paths[0], rest
            return
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(paths)))
        for path, rows in zip(paths, np.split(order, ends[:-1]), strict=True):
            yield path, rest.take(pa.array(rows))

    def values_of(self, directories: Mapping[str, str | None]) -> Mapping[str, str | None] | None:
        """Returns the values that columns have by what the directories of a file say, as texts that can be cast to their types; ``None``: not each
        key has one, so the file is no part of the table."""
        if not all(key in directories for key in self.keys):
            return None
        texts = {key: directories[key] for key in self.keys}
        return {
            key: None if text is None or text == self.default_name else _readable(type, text)
            for (key, text), type in zip(texts.items(), self._types, strict=True)
        }

    @cached_property
    def _types(self) -> Sequence[LogicalType]:
        by_name = {field.name: field.type for field in self.row_type.fields}
        return [by_name[key] for key in self.keys]

    def _paths(self, data: pa.RecordBatch) -> tuple[list[str], np.ndarray[Any, np.dtype[np.int64]]]:
        """The directories, and for each row which one."""
        prefixes, codes = [""], np.zeros(data.num_rows, np.int64)
        for key, type in zip(self.keys, self._types, strict=True):
            names, places = self._names(key, type, data.column(data.schema.get_field_index(key)))
            found, codes = np.unique(codes * len(names) + places, return_inverse=True)
            prefixes = [f"{prefixes[code // len(names)]}/{names[code % len(names)]}" for code in found.tolist()]
        paths = [prefix.removeprefix("/") for prefix in prefixes]
        different = list(dict.fromkeys(paths))
        return different, np.array([different.index(path) for path in paths], np.int64)[codes]

    def _names(self, key: str, type: LogicalType, column: pa.Array) -> tuple[list[str], np.ndarray[Any, Any]]:
        if type.root in _NUMBERS:
            column = column.cast(_NUMBERS[type.root])
        elif type.root in _TIMESTAMPS:
            column = column.cast(pa.int64())
        encoded = column.dictionary_encode(null_encoding="encode")
        write = _text_of(type)
        texts = ["" if value is None else write(value) for value in encoded.dictionary.to_pylist()]
        names = [f"{escaped(key)}={escaped(text or self.default_name)}" for text in texts]
        return names, encoded.indices.to_numpy()


def partition_columns(shape: TableShape, options: Mapping[str, str], row_type: LogicalType) -> PartitionColumns | None:
    """Those of a table; ``None``: it has no partitions. Raises ``InvalidJob`` for a type that they cannot have."""
    if not shape.partition_keys:
        return None
    return PartitionColumns(row_type, shape.partition_keys, options.get("partition.default-name", DEFAULT_NAME))


def known_directories(shape: TableShape, columns: PartitionColumns | None, static: Mapping[str, str]) -> Sequence[str]:
    """The directories, from that of the table, that a statement replaces or makes whole even where it writes no files: that of the table without partitions,
    or that of the only one that it can write to. ``static``: the values of partitions that it names."""
    if columns is None:
        return ("",)
    if len(static) < len(shape.partition_keys):
        return ()
    values = [static[key] or columns.default_name for key in shape.partition_keys]
    return (
        "/".join(f"{escaped(key)}={escaped(value)}" for key, value in zip(shape.partition_keys, values, strict=True)),
    )


def values_in(path: str) -> list[str]:
    """Returns the values in the path of a partition."""
    return [unquote(part.partition("=")[2]) for part in path.split("/")]


def stored_type(row_type: LogicalType, shape: TableShape) -> LogicalType:
    """The columns that are in the files of a table."""
    fields = tuple(field for field in row_type.fields if field.name not in shape.partition_keys)
    return LogicalType(row_type.root, fields=fields)


def _text_of(type: LogicalType) -> Callable[[Any], str]:
    """What Flink's ``toString`` of a value gives: a date is a number of days, a time one of ms."""
    match type.root:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return str
        case TypeRoot.BOOLEAN:
            return lambda value: "true" if value else "false"
        case TypeRoot.DECIMAL:
            return decimal_text
        case TypeRoot.DOUBLE:
            return double_text
        case TypeRoot.FLOAT:
            return float_text
        case root if root in _TIMESTAMPS:
            per_second = UNITS_PER_SECOND[time_unit(type)]
            return lambda value: _local_date_time(value, per_second)
        case root if root in _WHOLE or root in _NUMBERS:
            return str
        case _:
            raise InvalidJob(f"a table of files cannot be partitioned by a column of the type {type}")


def _local_date_time(value: int, per_second: int) -> str:
    """As Java's ``LocalDateTime.toString``: seconds and their fraction stand there where they are not 0."""
    seconds, fraction = divmod(value, per_second)
    days, second = divmod(seconds, 86_400)
    text = f"{date_text(days)}T{second // 3600:02d}:{second // 60 % 60:02d}"
    if not second % 60 and not fraction:
        return text
    text += f":{second % 60:02d}"
    digits = f"{fraction * (1_000_000_000 // per_second):09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{text}.{digits}" if digits else text


def _readable(type: LogicalType, text: str) -> str:
    """A directory's text as it can be cast to the type of its column."""
    is_number = re.fullmatch(r"-?[0-9]+", text) is not None
    match type.root:
        case TypeRoot.DATE if is_number:
            return date_text(int(text))
        case TypeRoot.TIME if is_number:
            return time_text(int(text), 3)
        case TypeRoot.TIMESTAMP_LTZ:
            return f"{text}Z"
        case _:
            return text


__all__ = [
    "DEFAULT_NAME",
    "PartitionColumns",
    "escaped",
    "known_directories",
    "partition_columns",
    "stored_type",
    "values_in",
]
