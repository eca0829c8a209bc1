"""Encoding of rows of a table as CSV, column by column, without line ends (Flink: ``CsvRowDataSerializationSchema``)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.connectors.formats.csv_dialect import CsvDialect
from tidegate.functions.sql.scalar import arrow_type
from tidegate.model.errors import InvalidJob
from tidegate.plan.logical_types import LogicalType, TypeRoot
from tidegate.records.java_text import double_text, float_text
from tidegate.table._formats.columns import timestamp_texts
from tidegate.table._formats.java_numbers import decimal_text
from tidegate.table._formats.times import TimestampStandard, date_text, time_text

_BARE = (
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.INTEGER,
    TypeRoot.BIGINT,
    TypeRoot.FLOAT,
    TypeRoot.DOUBLE,
    TypeRoot.DECIMAL,
    TypeRoot.BOOLEAN,
    TypeRoot.BINARY,
    TypeRoot.VARBINARY,
)
"""Types whose cells are never quoted."""


@dataclass(frozen=True)
class CsvWriting:
    """Encodes the format ``csv`` with Flink's options."""

    takes_kinds = False
    """Whether ``messages`` takes batches with a last column of row kinds."""

    row_type: LogicalType
    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    null_literal: str = ""
    array_delimiter: str = ";"
    decimals_are_plain: bool = False

    def check(self) -> None:
        """Raises ``InvalidJob`` for a type that the format does not support."""
        for one in self.row_type.fields:
            self._texts(pa.array([], arrow_type(one.type)), one.type)

    def messages(self, batch: pa.RecordBatch) -> list[bytes]:
        """Encodes each row as bytes."""
        return [text.encode() for text in self.texts(batch)]

    def texts(self, batch: pa.RecordBatch) -> list[str]:
        """Encodes each row as a line."""
        columns = [
            self._cells(self._texts(column, one.type), one.type)
            for column, one in zip(batch.columns, self.row_type.fields, strict=True)
        ]
        if not columns:
            return [""] * batch.num_rows
        return [self.delimiter.join(row) for row in zip(*columns, strict=True)]

    def _cells(self, texts: list[str | None], type: LogicalType) -> list[str]:
        if type.root in _BARE or self.quote is None:
            return [self.null_literal if text is None else text for text in texts]
        dialect = CsvDialect(self.delimiter, self.quote, self.escape)
        quoted = {text: dialect.line([text], [False]) for text in set(texts) if text is not None}
        return [self.null_literal if text is None else quoted[text] for text in texts]

    def _texts(self, column: pa.Array, type: LogicalType) -> list[str | None]:
        """Formats a column as cells without quotes; ``None`` for null."""
        match type.root:
            case TypeRoot.TINYINT | TypeRoot.SMALLINT | TypeRoot.INTEGER | TypeRoot.BIGINT | TypeRoot.BOOLEAN:
                return column.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
            case TypeRoot.CHAR | TypeRoot.VARCHAR:
                return column.to_pylist()  # type: ignore[no-any-return]
            case TypeRoot.FLOAT:
                return _each(column.to_pylist(), float_text)
            case TypeRoot.DOUBLE:
                return _each(column.to_pylist(), double_text)
            case TypeRoot.DECIMAL:
                return _each(column.to_pylist(), lambda value: decimal_text(value, is_plain=self.decimals_are_plain))
            case TypeRoot.BINARY | TypeRoot.VARBINARY:
                return _each(column.to_pylist(), lambda value: base64.b64encode(value).decode())
            case TypeRoot.DATE:
                return _each(column.cast(pa.int32()).to_pylist(), date_text)
            case TypeRoot.TIME:
                return _each(column.cast(pa.int32()).to_pylist(), lambda value: time_text(value * 1_000_000))
            case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
                ends = "Z" if type.root is TypeRoot.TIMESTAMP_LTZ else ""
                return timestamp_texts(column, TimestampStandard.SQL, ends).to_pylist()  # type: ignore[no-any-return]
            case TypeRoot.ARRAY:
                return self._arrays(column, type.element)
            case TypeRoot.ROW:
                fields = [self._texts(column.field(at), one.type) for at, one in enumerate(type.fields)]
                rows = zip(column.is_valid().to_pylist(), zip(*fields, strict=True), strict=True)
                return [self._joined(row) if valid else None for valid, row in rows]
            case _:
                raise InvalidJob(f"Unsupported type: {type}: the format csv does not write it")

    def _arrays(self, column: pa.Array, element: LogicalType) -> list[str | None]:
        texts = self._texts(column.flatten(), element)
        found: list[str | None] = []
        begin = 0
        for length in pc.list_value_length(column).to_pylist():
            found.append(None if length is None else self._joined(texts[begin : begin + length]))
            begin += length or 0
        return found

    def _joined(self, texts: Iterable[str | None]) -> str:
        return self.array_delimiter.join([self.null_literal if text is None else text for text in texts])


def _each(values: Iterable[object], text: Callable[..., str]) -> list[str | None]:
    return [None if value is None else text(value) for value in values]
