"""Conversion between streams of the program and tables: which fields become columns, what a scan reads, and the rows that leave a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidegate.common.row import Row, RowKind
from tidegate.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation, Types
from tidegate.datastream._graph.transformation import OperatorTransformation
from tidegate.datastream.data_stream import DataStream
from tidegate.datastream.stream_execution_environment import StreamExecutionEnvironment
from tidegate.functions.interfaces import ProcessFunction
from tidegate.functions.sql.changelog import as_inserts
from tidegate.functions.sql.scalar import arrow_schema, batch_of
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.model.values import FieldValue, Record
from tidegate.plan import nodes as plan_nodes
from tidegate.plan.logical_types import LogicalType, TypeRoot
from tidegate.plan.nodes import Node
from tidegate.records.arrow_type import ArrowTypeInfo
from tidegate.records.row_kinds import has_kinds, with_kinds, without_kinds
from tidegate.records.table_type import TUPLE_METADATA, TableTypeInfo
from tidegate.records.type_information import PICKLED_METADATA
from tidegate.table._execution.one_to_one import follow_input, mapped

ROWTIME_UTC = "rowtime-utc"
"""The metadata key of a record's timestamp as TIMESTAMP(3), which ``col("x").rowtime`` reads."""
_STAMP = "$timestamp"
_TUPLES = "org.apache.flink.api.java.tuple."
_UNITS = {"s": 0, "ms": 1, "us": 2, "ns": 3}
"""Arrow's time units ordered by resolution, coarsest first."""


@dataclass(frozen=True)
class StreamTable:
    """A stream that is registered as a table. ``fields``: for each stored column the position of its field in the records. ``has_changes``: rows may be
    of any kind."""

    stream: DataStream
    fields: tuple[int, ...]
    has_changes: bool = False


def fields_of(stream: DataStream) -> pa.Schema:
    """Returns the fields of a stream's records; a record that is not a row has one field, ``f0``."""
    kind = stream.get_type()
    schema = _columns_of(kind)
    return schema if _has_fields(kind) else pa.schema([schema.field(0).with_name("f0")])


def read_stream(
    env: StreamExecutionEnvironment, node: Node, name: str, table: StreamTable, metadata: Sequence[str]
) -> DataStream:
    """Builds the stream of a scan of a stream table: the stored columns, then the record timestamp for each metadata key. Raises ``InvalidJob`` where a
    column of objects of unknown type is to have another type."""
    stream = DataStream(env, table.stream._transformation)
    _check_objects(stream.get_type(), table.fields, node.output_type)
    if metadata:
        stream = stream.process(WithTimestamp(_has_fields(stream.get_type())), _with_timestamp(stream.get_type()))
        follow_input(stream)
    schema = arrow_schema(node.output_type)
    if table.has_changes:
        schema = with_kinds(schema)
    return mapped(stream, StreamColumns(name, table.fields, schema), schema).name(node.description)


class WithTimestamp(ProcessFunction):
    """A function that appends the timestamp of a record, in ms, as one more field."""

    def __init__(self, has_fields: bool) -> None:
        self._has_fields = has_fields

    def process_element(self, value: Record, ctx: ProcessFunction.Context) -> Iterable[Record]:
        parts = list(value) if self._has_fields else [value]
        kind = value.get_row_kind() if isinstance(value, Row) else RowKind.INSERT
        yield Row.of_kind(kind, *parts, ctx.timestamp())


class StreamColumns:
    """Converts records of a stream to the columns of a table, with row kinds where ``schema`` has them. Raises ``SchemaMismatch`` for a record without
    a required timestamp, and for one that is not an insert where ``schema`` has inserts only."""

    def __init__(self, name: str, fields: Sequence[int], schema: pa.Schema) -> None:
        self._name = name
        self._fields = tuple(fields)
        self._schema = schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        kinds = []
        if has_kinds(batch.schema):
            kinds, batch = [batch.columns[-1]], without_kinds(batch)
        if not has_kinds(self._schema):
            self._check_inserts(kinds)
            return batch_of(self._columns(batch, self._schema), self._schema, batch.num_rows)
        schema = self._schema.remove(len(self._schema) - 1)
        made = as_inserts(batch_of(self._columns(batch, schema), schema, batch.num_rows))
        return batch_of([*made.columns[:-1], *(kinds or made.columns[-1:])], self._schema, batch.num_rows)

    def _columns(self, batch: pa.RecordBatch, schema: pa.Schema) -> list[pa.Array]:
        columns = [batch.column(place) for place in self._fields]
        for _ in range(len(schema) - len(columns)):
            stamps = batch.column(batch.num_columns - 1)
            if stamps.null_count:
                raise SchemaMismatch(
                    f"the table {self._name} asks for the timestamps of a stream whose records have none: put assign_timestamps_and_watermarks() "
                    "in front of from_data_stream()"
                )
            columns.append(stamps.cast(pa.timestamp("ms")))
        return [self._cast(column, field) for column, field in zip(columns, schema, strict=True)]

    def _cast(self, column: pa.Array, field: pa.Field) -> pa.Array:
        """Casts a column to the type of a field; excess digits of a second are truncated."""
        is_cut = pa.types.is_time(field.type) or _is_coarser(field.type, column.type)
        try:
            return column.cast(field.type, safe=not is_cut)
        except pa.ArrowInvalid as error:
            raise SchemaMismatch(
                f"the table {self._name}: a value of the stream does not fit the column '{field.name}': {error}. Give from_data_stream() a Schema "
                "with another type of it; TIMESTAMP(9) ends in the year 2262, TIMESTAMP(6) does not"
            ) from None

    def _check_inserts(self, kinds: Sequence[pa.Array]) -> None:
        for column in kinds:
            change = next((kind for kind in column.to_pylist() if kind), None)
            if change is not None:
                raise SchemaMismatch(
                    f"the table {self._name}: Error during input conversion. Conversion expects insert-only records but DataStream API record "
                    f"contains: {RowKind(change).name}. Give from_changelog_stream() the mode ChangelogMode.all()"
                )


class WithEventTime:
    """Takes the event time of rows from one of their columns; watermarks pass through."""

    def __init__(self, column: int) -> None:
        self._column = column

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    def event_time(self, batch: pa.RecordBatch) -> pa.Array:
        """Returns the event time column in ms."""
        column = batch.column(self._column)
        return column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())


class WithoutColumn:
    """Drops one column of a batch."""

    def __init__(self, column: int) -> None:
        self._column = column

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.remove_column(self._column)


def retracted(row: Row) -> tuple[bool, Row]:
    """Returns a row as in a retract stream: whether it is added, and the row."""
    is_added = row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER)
    row.set_row_kind(RowKind.INSERT)
    return is_added, row


def retracted_tuple(row: Row) -> tuple[bool, tuple[FieldValue, ...]]:
    """Returns a row as in a retract stream, as a tuple."""
    is_added, row = retracted(row)
    return is_added, tuple(row)


def retracted_value(row: Row) -> tuple[bool, FieldValue]:
    """Returns a row with one field as in a retract stream, as the field's value."""
    is_added, row = retracted(row)
    return is_added, row[0]


def column_names(sink: Node) -> list[str]:
    """Returns the names of a sink table's columns: physical ones, then metadata columns."""
    assert isinstance(sink, (plan_nodes.Sink2, plan_nodes.BatchSink1))
    table = sink.dynamic_table_sink.table.resolved_table
    assert table is not None
    return [column.name for kind in ("PHYSICAL", "METADATA") for column in table.schema.columns if column.kind == kind]


def column_types(sink: Node) -> list[LogicalType]:
    """Returns the types of a sink table's physical columns."""
    assert isinstance(sink, (plan_nodes.Sink2, plan_nodes.BatchSink1))
    table = sink.dynamic_table_sink.table.resolved_table
    assert table is not None
    return [field.type for field in table.physical_fields]


def table_rows(stream: DataStream, columns: Sequence[LogicalType]) -> DataStream:
    """Marks the stream of a table with the types that functions of the program see; a column of row kinds may follow the ``columns``."""
    schema = stream.get_type().arrow_schema()
    for index, column in enumerate(columns):
        field = schema.field(index)
        if column.root is TypeRoot.RAW and pa.types.is_binary(field.type):
            schema = schema.set(index, field.with_metadata(PICKLED_METADATA))
        elif column.class_name.startswith(_TUPLES):
            schema = schema.set(index, field.with_metadata(TUPLE_METADATA))
    kind = TableTypeInfo(schema, list(map(str, columns)))
    made = stream._transformation
    if not isinstance(made, OperatorTransformation):
        return mapped(stream, SameColumns(), kind)
    made.output_type = kind
    return stream


class SameColumns:
    """Returns batches unchanged."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch


def renamed(stream: DataStream, names: Sequence[str]) -> DataStream:
    """Renames the columns of a stream; the column of row kinds, if there is one, keeps its name."""
    schema = stream.get_type().arrow_schema()
    fields = [field.with_name(name) for field, name in zip(schema, names, strict=False)]
    wanted = pa.schema([*fields, *list(schema)[len(fields) :]])
    return stream if schema.names == wanted.names else mapped(stream, RenamedColumns(wanted), wanted)


class RenamedColumns:
    """Renames the columns of a batch to those of a schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch_of(batch.columns, self._schema, batch.num_rows)


def _has_fields(kind: TypeInformation) -> bool:
    return isinstance(kind, ArrowTypeInfo | RowTypeInfo | TupleTypeInfo)


def _check_objects(kind: TypeInformation, places: Sequence[int], columns: LogicalType) -> None:
    schema = _columns_of(kind)
    for place, field in zip(places, columns.fields, strict=False):
        is_object = schema.field(place).metadata == PICKLED_METADATA
        if is_object and field.type.root is not TypeRoot.RAW:
            raise InvalidJob(
                f"from_data_stream(): the column '{field.name}' is declared as {field.type}, and the stream has objects of unknown type there: give the "
                "operator before it an output_type, such as Types.ROW_NAMED([...], [...])"
            )


def _is_coarser(kind: pa.DataType, other: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and pa.types.is_timestamp(other) and _UNITS[kind.unit] < _UNITS[other.unit]


def _columns_of(kind: TypeInformation) -> pa.Schema:
    """Returns the columns of a stream without the column of row kinds."""
    schema = kind.arrow_schema()
    return schema.remove(len(schema) - 1) if has_kinds(schema) else schema


def _with_timestamp(kind: TypeInformation) -> TypeInformation:
    if isinstance(kind, ArrowTypeInfo):
        made = _columns_of(kind).append(pa.field(_STAMP, pa.int64()))
        made = with_kinds(made) if has_kinds(kind.arrow_schema()) else made
        return (
            TableTypeInfo(made, [*kind.columns, "BIGINT"]) if isinstance(kind, TableTypeInfo) else ArrowTypeInfo(made)
        )
    if isinstance(kind, RowTypeInfo | TupleTypeInfo):
        names, types = list(kind.get_field_names()), list(kind.get_field_types())
    else:
        names, types = ["f0"], [kind]
    return Types.ROW_NAMED([*names, _STAMP], [*types, Types.LONG()])
