"""Conversion between the columns of a stream and those of a file with a schema of its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.common.typeinfo import RowTypeInfo, TypeInformation
from tidegate.connectors.files.encoders import EncoderFactory, FileEncoder
from tidegate.connectors.files.formats import ParquetFormat
from tidegate.model.errors import SchemaMismatch


def column_order(schema: pa.Schema, names: Sequence[str]) -> list[int]:
    """Returns the positions of the columns with these names in a stream; by position where the stream does not have all names. Raises ``SchemaMismatch``."""
    if set(schema.names) == set(names):
        return [schema.get_field_index(name) for name in names]
    if len(schema) == len(names):
        return list(range(len(names)))
    raise SchemaMismatch(
        f"the stream has the columns {schema.names}, and the file takes {list(names)}: give the stream these names, or as many columns in this order"
    )


def in_order(data: pa.RecordBatch, order: Sequence[int], schema: pa.Schema) -> pa.RecordBatch:
    """Reorders and converts columns to those of ``schema``. Raises ``SchemaMismatch``."""
    return pa.RecordBatch.from_arrays(
        [fitted(data.column(index), wanted) for index, wanted in zip(order, schema, strict=True)], schema=schema
    )


def fitted(column: pa.Array, wanted: pa.Field) -> pa.Array:
    """Converts a column to the type of ``wanted``: decimals are rounded half up, times are truncated, other losses are refused. Raises ``SchemaMismatch``."""
    kind = wanted.type
    if column.null_count and not wanted.nullable:
        raise SchemaMismatch(
            f"column {wanted.name!r} is declared NOT NULL, and its data has a null: filter out such rows, or declare the column nullable"
        )
    if column.type == kind:
        return column
    try:
        if pa.types.is_decimal(kind) and pa.types.is_decimal(column.type) and kind.scale < column.type.scale:
            column = pc.round(column, kind.scale, "half_towards_infinity")
        return column.cast(kind, safe=not pa.types.is_temporal(kind))
    except pa.ArrowInvalid as error:
        raise SchemaMismatch(
            f"column {wanted.name!r} is declared as {kind}, which does not hold its data of type {column.type}: {error}"
        ) from error
    except pa.ArrowNotImplementedError:
        raise SchemaMismatch(
            f"column {wanted.name!r} is declared as {kind}, and its data is of type {column.type}, which cannot be converted: declare that type"
        ) from None


@dataclass(frozen=True)
class SchemaEncoderFactory(EncoderFactory):
    """Makes encoders of files with the columns of ``schema``, in the format of ``inner``, whatever types the stream has for them."""

    schema: pa.Schema
    inner: EncoderFactory
    suffix: str = ""

    def open(self, file: pa.NativeFile, schema: pa.Schema) -> FileEncoder:
        """Opens the inner encoder, with columns converted and ordered to fit its schema."""
        return _FittingEncoder(self.inner.open(file, self.schema), column_order(schema, self.schema.names), self.schema)


class _FittingEncoder(FileEncoder):
    def __init__(self, inner: FileEncoder, order: Sequence[int], schema: pa.Schema) -> None:
        self._inner = inner
        self._order = order
        self._schema = schema

    def write(self, data: pa.RecordBatch) -> None:
        self._inner.write(in_order(data, self._order, self._schema))

    def finish(self) -> None:
        self._inner.finish()


class RowParquetFormat(ParquetFormat):
    """Reads Parquet files as rows of a type: a missing column is null, another type is converted (Flink: ``ParquetColumnarRowInputFormat``).
    ``is_case_sensitive=False``: names match in any case."""

    def __init__(self, row_type: RowTypeInfo, is_case_sensitive: bool = True) -> None:
        super().__init__(row_type.arrow_schema())
        self._row_type = row_type
        self._is_case_sensitive = is_case_sensitive

    def produced_type(self) -> TypeInformation:
        return self._row_type

    def without(self, names: Collection[str]) -> RowParquetFormat:
        kinds = zip(self._row_type.get_field_names(), self._row_type.get_field_types(), strict=True)
        left = [(name, kind) for name, kind in kinds if name not in names]
        row_type = RowTypeInfo([kind for _, kind in left], [name for name, _ in left])
        return RowParquetFormat(row_type, self._is_case_sensitive)

    def check(self, path: str, actual: pa.Schema) -> None:
        """Accepts every file: columns that cannot be converted are found when they are read."""

    def names_in(self, actual: pa.Schema) -> list[str]:
        return [
            name for name in (self._found(wanted, actual.names) for wanted in self.schema.names) if name is not None
        ]

    def shaped(self, data: pa.RecordBatch) -> pa.RecordBatch:
        if not len(self.schema):
            return data
        columns = []
        for wanted in self.schema:
            name = self._found(wanted.name, data.schema.names)
            columns.append(pa.nulls(data.num_rows, wanted.type) if name is None else fitted(data.column(name), wanted))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _found(self, wanted: str, names: Sequence[str]) -> str | None:
        if self._is_case_sensitive:
            return wanted if wanted in names else None
        same = [name for name in names if name.lower() == wanted.lower()]
        if len(same) > 1:
            raise SchemaMismatch(
                f"column {wanted!r} may be any of the file's columns {same}, which differ in case only: rename all but one of them"
            )
        return same[0] if same else None
