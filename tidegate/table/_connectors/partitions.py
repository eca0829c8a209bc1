"""Partition directories of file tables, such as ``dt=2020-01-01/``: how rows are split by partition columns, and how their values are read back (Flink:
``PartitionPathUtils``, ``RowDataPartitionComputer``)."""

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
"""The directory's value for null and for an empty text (``partition.default-name``)."""
_ESCAPED: Final = re.compile(r"""[\x01-\x1f\x7f"#%'*/:=?\\{}\[\]^]""")
_NUMBERS: Final = {TypeRoot.DATE: pa.int32(), TypeRoot.TIME: pa.int32()}
_WHOLE: Final = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT)
_TIMESTAMPS: Final = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def escaped(text: str) -> str:
    """Escapes a name or a value for a partition directory as Flink does: ``%`` and two hexadecimal digits."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


@dataclass(frozen=True)
class PartitionColumns(Buckets):
    """Splits rows by the partition columns of a table, in the order of ``PARTITIONED BY``. Raises ``InvalidJob`` for a type that cannot be a partition
    key."""

    row_type: LogicalType
    keys: tuple[str, ...]
    default_name: str = DEFAULT_NAME

    def __post_init__(self) -> None:
        for type in self._types:
            _text_of(type)

    def stored(self, schema: pa.Schema) -> pa.Schema:
        return pa.schema([field for field in schema if field.name not in self.keys])

    def split(self, data: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yields each partition directory with its rows, which keep their order."""
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
        """Returns the values of the partition columns for a file, from the directories of its path, as texts that can be cast to the columns' types;
        ``None``: a key is missing, so the file does not belong to the table."""
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
        """Returns the partition directories of a batch, and for each row the index of its directory."""
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
    """Returns the partition columns of a table; ``None``: it is not partitioned. Raises ``InvalidJob`` for a type that cannot be a partition key."""
    if not shape.partition_keys:
        return None
    return PartitionColumns(row_type, shape.partition_keys, options.get("partition.default-name", DEFAULT_NAME))


def known_directories(shape: TableShape, columns: PartitionColumns | None, static: Mapping[str, str]) -> Sequence[str]:
    """Returns the directories, relative to the table's, that a statement overwrites or commits even when it writes no file to them: the table's own
    without partitions, or the only partition that it can write. ``static``: partition values that the statement names."""
    if columns is None:
        return ("",)
    if len(static) < len(shape.partition_keys):
        return ()
    values = [static[key] or columns.default_name for key in shape.partition_keys]
    return (
        "/".join(f"{escaped(key)}={escaped(value)}" for key, value in zip(shape.partition_keys, values, strict=True)),
    )


def values_in(path: str) -> list[str]:
    """Returns the partition values in the path of a partition."""
    return [unquote(part.partition("=")[2]) for part in path.split("/")]


def stored_type(row_type: LogicalType, shape: TableShape) -> LogicalType:
    """Returns the row type of a table's files: without its partition columns."""
    fields = tuple(field for field in row_type.fields if field.name not in shape.partition_keys)
    return LogicalType(row_type.root, fields=fields)


def _text_of(type: LogicalType) -> Callable[[Any], str]:
    """Returns the function that formats partition values of a type as Flink's ``toString`` does: a date is a number of days, a time of ms."""
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
    """Formats a timestamp as Java's ``LocalDateTime.toString``: seconds and their fraction are left out where they are 0."""
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
    """Returns the text of a partition value in a form that can be cast to the type of its column."""
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
