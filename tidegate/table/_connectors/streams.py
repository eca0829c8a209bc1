"""Streams of the program as tables (``from_data_stream``): which of their fields are columns, and what a scan reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidegate.common.row import Row
from tidegate.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation, Types
from tidegate.datastream.data_stream import DataStream
from tidegate.datastream.stream_execution_environment import StreamExecutionEnvironment
from tidegate.functions.interfaces import ProcessFunction
from tidegate.functions.sql.scalar import arrow_schema, batch_of
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.model.values import Record
from tidegate.plan.nodes import Node
from tidegate.records.arrow_type import ArrowTypeInfo
from tidegate.table._connectors.registry import nearest
from tidegate.table._execution.one_to_one import follow_input, mapped

ROWTIME = "rowtime"
"""The metadata key of the timestamp of records, as TIMESTAMP_LTZ(3), by Flink's name."""
ROWTIME_UTC = "rowtime-utc"
"""The same as TIMESTAMP(3): what ``col("x").rowtime`` is."""
_STAMP = "$timestamp"


@dataclass(frozen=True)
class StreamTable:
    """``fields``: the place in the records of each stored column."""

    stream: DataStream
    fields: tuple[int, ...]


def fields_of(stream: DataStream) -> pa.Schema:
    """The fields of a stream's records; a record that is no row has one, ``f0``. Raises ``InvalidJob`` for objects of unknown type."""
    kind = stream.get_type()
    if kind == Types.PICKLED_BYTE_ARRAY():
        raise InvalidJob(
            "from_data_stream(): the records of this stream are objects of unknown type: give the operator before it an output_type, such as "
            "Types.ROW_NAMED([...], [...])"
        )
    schema = kind.arrow_schema()
    return schema if _has_fields(kind) else pa.schema([schema.field(0).with_name("f0")])


def places_of(names: Iterable[str], fields: Sequence[str]) -> tuple[int, ...]:
    """Where the fields with these names are. Raises ``InvalidJob`` for a name that is not there."""
    places = []
    for name in names:
        if name not in fields:
            raise InvalidJob(
                f"from_data_stream(): the stream has no field '{name}'{nearest(name, fields)}; it has: {', '.join(fields)}"
            )
        places.append(list(fields).index(name))
    return tuple(places)


def read_stream(
    env: StreamExecutionEnvironment, node: Node, name: str, table: StreamTable, metadata: Sequence[str]
) -> DataStream:
    """What a scan reads: the stored columns, and behind them the timestamp for each of the metadata keys."""
    stream = DataStream(env, table.stream._transformation)
    if metadata:
        stream = stream.process(WithTimestamp(_has_fields(stream.get_type())), _with_timestamp(stream.get_type()))
        follow_input(stream)
    schema = arrow_schema(node.output_type)
    return mapped(stream, StreamColumns(name, table.fields, schema), schema).name(node.description)


class WithTimestamp(ProcessFunction):
    """A record with its timestamp in ms as one more field."""

    def __init__(self, has_fields: bool) -> None:
        self._has_fields = has_fields

    def process_element(self, value: Record, ctx: ProcessFunction.Context) -> Iterable[Record]:
        """One row for each record."""
        parts = list(value) if self._has_fields else [value]
        yield Row(*parts, ctx.timestamp())


class StreamColumns:
    """Fields of records as the columns of a table. Raises ``SchemaMismatch`` for a record without the timestamp that is asked for."""

    def __init__(self, name: str, fields: Sequence[int], schema: pa.Schema) -> None:
        self._name = name
        self._fields = tuple(fields)
        self._schema = schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [batch.column(place) for place in self._fields]
        for _ in range(len(self._schema) - len(columns)):
            stamps = batch.column(batch.num_columns - 1)
            if stamps.null_count:
                raise SchemaMismatch(
                    f"the table {self._name} asks for the timestamps of a stream whose records have none: put assign_timestamps_and_watermarks() "
                    "in front of from_data_stream()"
                )
            columns.append(stamps.cast(pa.timestamp("ms")))
        made = [column.cast(field.type) for column, field in zip(columns, self._schema, strict=True)]
        return batch_of(made, self._schema, batch.num_rows)


class WithEventTime:
    """The same rows, with the time in one of their columns as their event time; watermarks pass."""

    def __init__(self, column: int) -> None:
        self._column = column

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    def event_time(self, batch: pa.RecordBatch) -> pa.Array:
        """That column in ms."""
        column = batch.column(self._column)
        return column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())


def _has_fields(kind: TypeInformation) -> bool:
    return isinstance(kind, ArrowTypeInfo | RowTypeInfo | TupleTypeInfo)


def _with_timestamp(kind: TypeInformation) -> TypeInformation:
    if isinstance(kind, ArrowTypeInfo):
        return ArrowTypeInfo(kind.arrow_schema().append(pa.field(_STAMP, pa.int64())))
    if isinstance(kind, RowTypeInfo | TupleTypeInfo):
        names, types = list(kind.get_field_names()), list(kind.get_field_types())
    else:
        names, types = ["f0"], [kind]
    return Types.ROW_NAMED([*names, _STAMP], [*types, Types.LONG()])
