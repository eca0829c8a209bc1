"""Conversion of tables and arrays to Arrow: frames of pandas and polars, tables and batches of Arrow, arrays of NumPy.

    columns   DataFrame, LazyFrame, Table, RecordBatch, RecordBatchReader, structured ndarray,
              what gives an Arrow stream of structs (``__arrow_c_stream__``: DuckDB and others)
    values    Series, Array, ChunkedArray, ndarray of one dimension
    records   any other iterable, as Python iterates it; an ndarray of two dimensions has rows

Iteration over a frame gives the names of its columns, and over a table its columns, so neither is iterated. Nothing of
pandas or polars is imported: a value of theirs has brought its module.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa

from tidegate.common.typeinfo import (
    ArrowTypeInfo,
    BasicType,
    BasicTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from tidegate.connectors.files.batches import one_batch
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.model.values import Record
from tidegate.records.data_types import DataType, RowType
from tidegate.records.given_values import as_declared
from tidegate.records.record_codec import decode_column, encode
from tidegate.records.record_copy import record_copy

Collection: TypeAlias = Any
"""A collection that ``from_collection`` accepts: see the table above."""
PandasFrame: TypeAlias = Any
"""A ``pandas.DataFrame``, whose library is loaded only when one is made."""
PandasSchema: TypeAlias = pa.Schema | RowType | Sequence[str] | Sequence[DataType] | None
"""Names of columns, their types, or both: see ``pandas_table``."""

_WHERE = "from_collection"
_INSTEAD = "from_collection takes a list, a frame of pandas or polars, an Arrow table or batch, or a NumPy array"
_VALUE_TYPES: dict[pa.DataType, TypeInformation] = {
    pa.bool_(): Types.BOOLEAN(),
    pa.int8(): Types.BYTE(),
    pa.int16(): Types.SHORT(),
    pa.int32(): Types.INT(),
    pa.int64(): Types.LONG(),
    pa.float32(): Types.FLOAT(),
    pa.float64(): Types.DOUBLE(),
    pa.string(): Types.STRING(),
}
"""Types of value streams that an Arrow type determines; values of other types are pickled."""


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _is_instant(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _is_local_time(kind: pa.DataType) -> bool:
    return (pa.types.is_timestamp(kind) and kind.tz is None) or pa.types.is_date(kind)


_KINDS = (
    _is_number, _is_text, _is_bytes, _is_instant, _is_local_time, pa.types.is_time, pa.types.is_duration, pa.types.is_nested,
)  # fmt: skip
"""Groups of types between which a cast keeps values."""


def typed_batch(collection: Collection, type_info: TypeInformation | None) -> tuple[pa.RecordBatch, TypeInformation]:
    """Returns the records of a collection as one batch, and the type of their stream.

    A value of another kind than the given type's becomes one where Flink makes it one (``given_values``).
    Columns without ``type_info`` are a stream of their Arrow schema, arrays one of the values' type, and other records travel
    pickled. Columns of a given schema are found by name and cast if no value changes by that.
    Raises ``InvalidJob`` for what is no collection, ``SchemaMismatch`` for values that do not fit the type.
    """
    table = _table_of(collection)
    if table is not None:
        if type_info is None or isinstance(type_info, ArrowTypeInfo):
            return _in_schema(table, type_info)
        return _encoded(type_info, _rows(table, type_info)), type_info
    array = _array_of(collection)
    if array is not None:
        kind = type_info or _VALUE_TYPES.get(array.type) or Types.PICKLED_BYTE_ARRAY()
        return _encoded(kind, array.to_pylist()), kind
    kind = type_info or Types.PICKLED_BYTE_ARRAY()
    return _encoded(kind, _records(collection, kind)), kind


def _encoded(kind: TypeInformation, values: Sequence[Record]) -> pa.RecordBatch:
    return encode(kind, as_declared(kind, values), _WHERE)


def pandas_table(frame: PandasFrame, schema: PandasSchema) -> pa.Table:
    """Converts a pandas frame, without its index, as PyFlink's ``TableEnvironment.from_pandas`` does: ``schema`` gives the columns names, or types, or
    both. Raises ``InvalidJob``, ``SchemaMismatch``."""
    if not _is(frame, "pandas", "DataFrame"):
        raise InvalidJob(f"from_pandas takes a pandas.DataFrame, not a {_name(frame)}")
    table = _plain(_from_pandas(frame))
    if schema is None:
        return table
    if isinstance(schema, RowType):
        schema = schema.arrow_schema()
    if isinstance(schema, pa.Schema):
        if set(schema.names).isdisjoint(table.column_names) and len(schema) == table.num_columns:
            table = table.rename_columns(schema.names)  # as of a frame without names, whose columns have numbers
        return _cast(table, schema)
    if not isinstance(schema, (list, tuple)) or len(schema) != table.num_columns:
        raise InvalidJob(
            f"from_pandas: schema is a RowType, an Arrow schema, or a list of names or types for each of the "
            f"{table.num_columns} columns {table.column_names}, not {schema!r}"
        )
    if all(isinstance(part, str) for part in schema):
        return table.rename_columns(list(cast("Sequence[str]", schema)))
    if all(isinstance(part, DataType) for part in schema):
        kinds = [part.arrow for part in cast("Sequence[DataType]", schema)]
        return _cast(table, pa.schema(list(zip(table.column_names, kinds, strict=True))))
    raise InvalidJob(f"from_pandas: schema is a list of names or a list of types, not {schema!r}")


def to_frame(batches: Sequence[pa.RecordBatch], type_info: TypeInformation) -> PandasFrame:
    """Converts records of a stream to a pandas frame as ``pyarrow.Table.to_pandas`` does, so that whole numbers with nulls are floats. A stream of
    values has the column ``value``; fields that are lists, maps, rows or big numbers hold the records' values."""
    table = pa.Table.from_batches(batches, schema=type_info.arrow_schema())
    frame = table.to_pandas()
    for name, kind in _fields(type_info):
        if not isinstance(kind, SqlTimeTypeInfo) and (
            not isinstance(kind, BasicTypeInfo) or kind.basic_type in (BasicType.BIG_INT, BasicType.BIG_DEC)
        ):
            values = np.empty(table.num_rows, object)
            for index, value in enumerate(decode_column(kind, table[name].combine_chunks())):
                values[index] = value
            frame[name] = values
    return frame


def _fields(type_info: TypeInformation) -> list[tuple[str, TypeInformation]]:
    if isinstance(type_info, ArrowTypeInfo):
        return []
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return list(zip(type_info.get_field_names(), type_info.get_field_types(), strict=True))
    return [(type_info.arrow_schema().names[0], type_info)]


# --- what a collection is ----------------------------------------------------------------------------


def _table_of(collection: Collection) -> pa.Table | None:
    """Converts a collection with named columns to a table; ``None`` for anything else."""
    if isinstance(collection, pa.Table):
        return _plain(collection)
    if isinstance(collection, pa.RecordBatch):
        return _plain(pa.Table.from_batches([collection]))
    if isinstance(collection, pa.RecordBatchReader):
        return _plain(collection.read_all())
    if _is(collection, "pandas", "DataFrame"):
        return _plain(_from_pandas(collection))
    if _is(collection, "polars", "LazyFrame"):
        collection = collection.collect()
    if _is(collection, "polars", "DataFrame"):
        return _plain(_from_polars(collection, collection.dtypes))
    if isinstance(collection, np.ndarray) and collection.dtype.names is not None and collection.ndim == 1:
        names = collection.dtype.names
        return _plain(pa.table([_numpy_array(collection[name]) for name in names], names=list(names)))
    if _is_values(collection):
        return None
    if hasattr(collection, "__arrow_c_stream__") or hasattr(collection, "__arrow_c_array__"):
        try:
            return _plain(pa.table(collection))
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidJob(f"from_collection: the {_name(collection)} is not a table of Arrow: {error}") from error
    return None


def _array_of(collection: Collection) -> pa.Array | None:
    """Converts a collection that is one column to an array; ``None`` for anything else."""
    if isinstance(collection, (pa.Array, pa.ChunkedArray)):
        found = collection
    elif _is(collection, "polars", "Series"):
        found = _from_polars(collection, [collection.dtype])
    elif _is(collection, "pandas", "Series") or _is(collection, "pandas", "Index"):
        if isinstance(collection.dtype, np.dtype):
            return _array_of(collection.to_numpy())
        found = _converted(collection, lambda: pa.array(collection))
    elif isinstance(collection, np.ndarray) and collection.ndim == 1 and collection.dtype.kind not in "OV":
        found = _numpy_array(collection)
    else:
        return None
    found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    return _plain(pa.table([found], names=["value"])).column(0).combine_chunks()


def _records(collection: Collection, kind: TypeInformation) -> list[Record]:
    """Returns the records that iteration yields. Raises ``InvalidJob`` for a collection without records, or whose iteration yields parts of a table."""
    if isinstance(collection, np.ndarray) and collection.ndim == 0:
        raise InvalidJob(f"from_collection: an array without a dimension has no records: {_INSTEAD}")
    if (
        isinstance(collection, np.ndarray)
        and collection.ndim > 1
        and isinstance(kind, (RowTypeInfo, TupleTypeInfo, ArrowTypeInfo))
    ):
        return [tuple(row) for row in collection.tolist()]
    if isinstance(collection, Mapping):
        raise InvalidJob(
            "from_collection: iteration over a dict gives its keys alone. Say what is a record: list(d), list(d.items()), "
            "or pa.table(d) for a dict of columns"
        )
    if hasattr(collection, "sparkSession") or type(collection).__module__.startswith("pyspark."):
        raise InvalidJob(
            f"from_collection: a {_name(collection)} is not a collection: env.from_spark(lambda spark: ...) reads what Spark computes, "
            "and frame.toArrow() is a table of it"
        )
    if hasattr(collection, "columns") and (hasattr(collection, "dtypes") or hasattr(collection, "schema")):
        raise InvalidJob(
            f"from_collection: iteration over a {_name(collection)} gives no rows: {_INSTEAD}. Convert it to one of them"
        )
    if not isinstance(collection, Iterable):
        raise InvalidJob(f"{_INSTEAD}, not {collection!r}")
    if isinstance(collection, (list, tuple)):
        return list(collection)
    copy = record_copy(kind, _WHERE).copy  # a generator may yield one object again and again
    return [copy(record) for record in collection]


def _is_values(collection: Collection) -> bool:
    return isinstance(collection, (pa.Array, pa.ChunkedArray)) or any(
        _is(collection, module, name)
        for module, name in (("polars", "Series"), ("pandas", "Series"), ("pandas", "Index"))
    )


def _is(value: Collection, module: str, name: str) -> bool:
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, name))


def _name(value: Collection) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


# --- columns -----------------------------------------------------------------------------------------


def _from_pandas(frame: PandasFrame) -> pa.Table:
    names = [str(name) for name in frame.columns]
    if len(set(names)) != len(names):
        raise InvalidJob(f"column names must differ: {names}")
    return _converted(frame, lambda: pa.Table.from_pandas(frame, preserve_index=False))


def _from_polars(value: Collection, kinds: Sequence[object]) -> Any:
    """Converts a polars frame or series to Arrow. Python objects are refused: polars would give their addresses."""
    if "Object" in map(str, kinds):
        raise SchemaMismatch(f"the {_name(value)} has a column that Arrow cannot hold: it contains objects of Python")
    return _converted(value, value.to_arrow)


def _numpy_array(values: np.ndarray[Any, Any]) -> pa.Array:
    if values.ndim > 1:  # a field of a structured array that is an array itself
        return _converted(values, lambda: pa.array(values.tolist()))
    return _converted(values, lambda: pa.array(values))


def _converted(value: Collection, convert: Any) -> Any:
    try:
        return convert()
    except Exception as error:
        raise SchemaMismatch(f"the {_name(value)} has a column that Arrow cannot hold: {error}") from error


def _plain(table: pa.Table) -> pa.Table:
    """Replaces types that only concern storage: categories and text views become plain values."""
    kinds = [_plain_type(kind) for kind in table.schema.types]
    if kinds == table.schema.types:
        return table
    columns = []
    for name, column, kind in zip(table.column_names, table.columns, kinds, strict=True):
        try:
            columns.append(column.cast(kind))
        except (pa.ArrowException, NotImplementedError) as error:
            raise SchemaMismatch(
                f"column {name!r} of type {column.type} cannot be converted to {kind}: {error}"
            ) from error
    return pa.table(columns, names=table.column_names)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        raise SchemaMismatch(
            f"columns of the type {kind} cannot be streamed: convert them to numbers, times or text before"
        )
    if types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    if types.is_large_list(kind) or types.is_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if types.is_struct(kind):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in kind])
    return kind


def _in_schema(table: pa.Table, type_info: ArrowTypeInfo | None) -> tuple[pa.RecordBatch, TypeInformation]:
    kind = type_info or ArrowTypeInfo(table.schema)
    return one_batch(_cast(table, kind.schema), kind.schema), kind


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Selects and casts the columns of a schema, by name. Raises ``SchemaMismatch`` for other columns, and where a cast would change a value."""
    if sorted(table.column_names) != sorted(schema.names):
        raise SchemaMismatch(
            f"from_collection: the table has the columns {table.column_names}, and its declared type {schema.names}: give both the same columns"
        )
    table = table.select(schema.names)
    for name, old, new in zip(schema.names, table.schema.types, schema.types, strict=True):
        if not any(of_kind(old) and of_kind(new) for of_kind in _KINDS) and old != new and not pa.types.is_null(old):
            raise SchemaMismatch(f"from_collection: column {name!r} is of type {old}, which cannot become {new}")
    try:
        return table.cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise SchemaMismatch(f"from_collection: the columns do not fit their type: {error}") from error


def _rows(table: pa.Table, type_info: TypeInformation) -> list[Record]:
    """Returns rows as tuples, in the order of the type's names."""
    if (
        isinstance(type_info, RowTypeInfo)
        and type_info.is_named
        and sorted(type_info.get_field_names()) == sorted(table.column_names)
    ):
        table = table.select(type_info.get_field_names())
    elif isinstance(type_info, RowTypeInfo) and type_info.is_named:
        raise SchemaMismatch(
            f"from_collection: the table has the columns {table.column_names}, and its declared type is {type_info!r}: give both the same columns"
        )
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
