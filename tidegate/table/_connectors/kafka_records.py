"""Conversion between Kafka records and rows of a table: keys, values and metadata (Flink: ``DynamicKafkaDeserializationSchema``,
``DynamicKafkaRecordSerializationSchema``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.connectors.formats.messages import Counts, PoisonRecord, Values, encoded
from tidegate.connectors.kafka.decoding import KafkaRecordDeserializationSchema, tombstones_in
from tidegate.connectors.kafka.partition_records import PartitionRecords
from tidegate.connectors.kafka.records import (
    HEADERS,
    SCHEMA,
    WHOLE_SCHEMA,
    KafkaRecordSerializationSchema,
    KafkaSinkContext,
)
from tidegate.functions.sql.changelog import DELETE, INSERT, UPDATE_BEFORE, has_kinds, with_kinds
from tidegate.functions.sql.scalar import arrow_schema
from tidegate.functions.sql.scalar.kernels import if_else
from tidegate.model.errors import UserError
from tidegate.plan.logical_types import Field, LogicalType, TypeRoot, parse_type
from tidegate.records.batch import ArrowBatch
from tidegate.table._formats.formats import Reading, Writing
from tidegate.table._formats.messages import TableSerializer, produced_schema

READABLE: Final[Mapping[str, str]] = {
    "topic": "STRING NOT NULL",
    "partition": "INT NOT NULL",
    "headers": "MAP<STRING, BYTES> NOT NULL",
    "header-list": "ARRAY<ROW<`key` STRING NOT NULL, `value` BYTES> NOT NULL> NOT NULL",
    "leader-epoch": "INT",
    "offset": "BIGINT NOT NULL",
    "timestamp": "TIMESTAMP_LTZ(3) NOT NULL",
    "timestamp-type": "STRING NOT NULL",
}
"""Metadata columns that Kafka tables can read, with their SQL types (Flink: ``KafkaDynamicSource.ReadableMetadata``)."""
WRITABLE: Final[Mapping[str, str]] = {
    "topic": "STRING NOT NULL",
    "headers": "MAP<STRING, BYTES>",
    "header-list": "ARRAY<ROW<`key` STRING, `value` BYTES>>",
    "timestamp": "TIMESTAMP_LTZ(3)",
}
"""Metadata columns that Kafka tables can write, with their SQL types (Flink: ``KafkaDynamicSink.WritableMetadata``)."""
VALUE: Final = "value."
"""The prefix of metadata keys that belong to the value format."""
_ATTRIBUTES = frozenset({"headers", "header-list", "leader-epoch", "timestamp-type"})
_STAMP_TYPES = ("NoTimestampType", "CreateTime", "LogAppendTime")
"""Names of Kafka's ``TimestampType``, indexed by librdkafka's numbers."""

Places = npt.NDArray[np.int64]


def metadata_type(types: Mapping[str, str], keys: tuple[str, ...]) -> LogicalType:
    """Returns the row type of the metadata columns, under names that no column of a table can have."""
    return LogicalType(TypeRoot.ROW, fields=tuple(Field(f"$metadata {key}", parse_type(types[key])) for key in keys))


@dataclass(frozen=True)
class TableRecordDeserializer(KafkaRecordDeserializationSchema):
    """Converts Kafka records to rows of a table: physical columns, then ``metadata``, then row kinds where there are updates.

    ``key_places``, ``value_places``: the positions of the columns that the formats read. ``is_upsert``: a message without a value deletes its key.
    ``metadata_types``: also of the values' format, whose keys begin with ``value.``.
    """

    row_type: LogicalType
    value: Reading
    value_places: tuple[int, ...]
    key: Reading | None = None
    key_places: tuple[int, ...] = ()
    metadata: tuple[str, ...] = ()
    metadata_types: tuple[tuple[str, str], ...] = ()
    is_upsert: bool = False

    @property
    def needs_keys(self) -> bool:
        return self.key is not None

    @property
    def needs_attributes(self) -> bool:
        return not _ATTRIBUTES.isdisjoint(self.metadata)

    def get_produced_type(self) -> TypeInformation:
        return Types.SCHEMA(self._schema)

    @property
    def _schema(self) -> pa.Schema:
        fields = [*arrow_schema(self.row_type), *arrow_schema(metadata_type(dict(self.metadata_types), self.metadata))]
        schema = pa.schema(fields)
        return with_kinds(schema) if self.is_upsert or has_kinds(produced_schema(self.value)) else schema

    def deserialize(self, records: PartitionRecords) -> tuple[pa.RecordBatch, Counts | None]:
        count = len(records.values)
        gone = tombstones_in(records.values) if self.is_upsert else np.zeros(count, bool)
        values, value_counts = self._values(records.values, gone)
        keys, key_counts = (None, None) if self.key is None else self.key.read(records.keys or [None] * count)
        of_values, of_keys = _each(value_counts, count), _each(key_counts, count)
        counts = of_values * of_keys
        record = np.repeat(np.arange(count), counts)
        within = np.arange(len(record)) - np.repeat(np.cumsum(counts) - counts, counts)
        lived = np.where(gone, 0, of_values)
        value_rows = (np.cumsum(lived) - lived)[record] + within // np.maximum(of_keys[record], 1)
        key_rows = (np.cumsum(of_keys) - of_keys)[record] + within % np.maximum(of_keys[record], 1)
        is_gone = gone[record]
        found = values.take(pa.array(value_rows, mask=is_gone))
        columns = self._physical(found, None if keys is None else keys.take(pa.array(key_rows)), pa.array(is_gone))
        columns += [self._metadata(key, records, record, found) for key in self.metadata]
        if self.is_upsert:
            columns.append(pa.array(np.where(is_gone, DELETE, INSERT).astype(np.int8)))
        elif has_kinds(values.schema):
            columns.append(found.columns[-1])
        schema = self._schema
        made = [column.cast(one.type) for column, one in zip(columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(made, schema=schema), (None if (counts == 1).all() else counts)

    def _values(self, messages: Values, gone: npt.NDArray[np.bool_]) -> tuple[pa.RecordBatch, Counts | None]:
        """Returns the rows of the messages that have a value, and the number of rows for each message: 0 where it has none."""
        if not gone.any():
            return self.value.read(messages)
        places = np.flatnonzero(~gone)
        live = (
            messages.filter(pa.array(~gone)) if isinstance(messages, pa.Array) else [messages[int(at)] for at in places]
        )
        try:
            rows, counts = self.value.read(live)
        except PoisonRecord as poison:
            raise PoisonRecord(int(places[poison.index]), poison.reason) from poison
        whole = np.ones(len(gone), np.int64)
        whole[places] = _each(counts, len(places))
        return rows, whole

    def _physical(self, values: pa.RecordBatch, keys: pa.RecordBatch | None, is_gone: pa.Array) -> list[pa.Array]:
        """Returns the physical columns. A column that is in key and value is taken from the value; for a deletion, from the key."""
        columns: list[pa.Array] = [None] * len(self.row_type.fields)
        for at, place in enumerate(self.key_places):
            assert keys is not None
            columns[place] = keys.column(at)
        for at, place in enumerate(self.value_places):
            of_key = columns[place]
            columns[place] = values.column(at) if of_key is None else if_else(is_gone, of_key, values.column(at))
        return columns

    def _metadata(self, key: str, records: PartitionRecords, record: Places, values: pa.RecordBatch) -> pa.Array:
        if key.startswith(VALUE):
            own = [one for one in self.metadata if one.startswith(VALUE)]
            return values.column(len(self.value_places) + own.index(key))
        match key:
            case "topic":
                return pa.repeat(records.topic, len(record))
            case "partition":
                return pa.repeat(pa.scalar(records.partition, pa.int32()), len(record))
            case "offset":
                return pa.array(records.offsets[record])
            case "timestamp":
                return pa.array(records.stamps[record]).cast(pa.timestamp("ms"))
        assert records.attributes is not None
        found = records.attributes
        match key:
            case "leader-epoch":
                return pa.array(found.leader_epochs, pa.int32()).take(pa.array(record))
            case "timestamp-type":
                return pa.array([_STAMP_TYPES[one] for one in found.stamp_types], pa.string()).take(pa.array(record))
            case "headers":
                maps = [list(dict(headers).items()) for headers in found.headers]
                return pa.array(maps, pa.map_(pa.string(), pa.binary())).take(pa.array(record))
            case _:
                lists = [[{"key": name, "value": value} for name, value in headers] for headers in found.headers]
                return pa.array(lists, HEADERS).take(pa.array(record))


def _each(counts: Counts | None, count: int) -> Places:
    return np.ones(count, np.int64) if counts is None else np.asarray(counts, np.int64)


@dataclass(frozen=True, kw_only=True)
class TableRecordSerializer(KafkaRecordSerializationSchema):
    """Converts rows of a table to Kafka records: physical columns, then ``metadata``, then row kinds if there are any. ``topics``, ``topic_pattern``:
    the topics that the metadata column ``topic`` may name. ``is_fixed``: each subtask writes to one partition of a topic."""

    row_type: LogicalType
    value_writing: Writing
    value_places: tuple[int, ...]
    key_writing: Writing | None = None
    key_places: tuple[int, ...] = ()
    metadata: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    is_upsert: bool = False
    is_fixed: bool = False
    instance: int = 0
    partitions_of: Callable[[str], int] | None = None

    @property
    def is_whole(self) -> bool:
        return self.is_fixed or not {"headers", "header-list"}.isdisjoint(self.metadata)

    def opened(self, context: KafkaSinkContext) -> TableRecordSerializer:
        known: dict[str, int] = {}

        def partitions_of(topic: str) -> int:
            if topic not in known:
                known[topic] = context.partitions_of(topic)
            return known[topic]

        return replace(self, instance=context.parallel_instance_id, partitions_of=partitions_of)

    def outgoing(self, batch: ArrowBatch, type_info: TypeInformation) -> pa.RecordBatch:
        """Converts a batch to outgoing records. Raises ``UserError`` for a topic that is not one of the table's."""
        data = batch.data
        rows = data.num_rows
        kinds = data.columns[-1] if has_kinds(data.schema) else None
        keys: Any = pa.nulls(rows, pa.binary())
        if self.key_writing is not None:
            keys = _bytes(encoded(TableSerializer(self.key_writing), data.select(list(self.key_places)), type_info))
        places = list(self.value_places)
        if self.is_upsert and kinds is not None:
            stays = pc.and_(pc.not_equal(kinds, DELETE), pc.not_equal(kinds, UPDATE_BEFORE))
            live = data.select(places).filter(stays)
            values = _bytes(encoded(TableSerializer(self.value_writing), live, type_info))
            which = np.cumsum(stays.to_numpy(zero_copy_only=False)) - 1
            values = values.take(pa.array(which, mask=~stays.to_numpy(zero_copy_only=False)))
        else:
            if kinds is not None and self.value_writing.takes_kinds:
                places.append(data.num_columns - 1)
            values = _bytes(encoded(TableSerializer(self.value_writing), data.select(places), type_info))
        stamps = self._column("timestamp", data)
        stamps = pa.nulls(rows, pa.int64()) if stamps is None else stamps.cast(pa.timestamp("ms")).cast(pa.int64())
        columns = [self._table_topics(data), keys, values, stamps]
        if not self.is_whole:
            return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
        columns += [self._partitions(columns[0]), self._headers(data)]
        return pa.RecordBatch.from_arrays(columns, schema=WHOLE_SCHEMA)

    def _column(self, key: str, data: pa.RecordBatch) -> pa.Array | None:
        if key not in self.metadata:
            return None
        return data.column(len(self.row_type.fields) + self.metadata.index(key))

    def _table_topics(self, data: pa.RecordBatch) -> pa.DictionaryArray:
        if self.topic is not None:
            return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), data.num_rows), [self.topic])
        found = self._column("topic", data)
        if found is None or found.null_count:
            raise UserError(
                "The topic of the sink record is not valid. Expected a single topic but no topic is set: give the table a column "
                "`topic` STRING NOT NULL METADATA"
            )
        found = found.cast(pa.string()).dictionary_encode()
        for topic in found.dictionary.to_pylist():
            if self.topic_pattern is None and topic not in self.topics:
                expected = f"be in: {list(self.topics)}"
            elif self.topic_pattern is not None and not re.fullmatch(self.topic_pattern, topic):
                expected = f"match: {self.topic_pattern}"
            else:
                continue
            raise UserError(f"The topic of the sink record is not valid. Expected topic to {expected} but was: {topic}")
        return found

    def _partitions(self, topics: pa.DictionaryArray) -> pa.Array:
        if not self.is_fixed:
            return pa.nulls(len(topics), pa.int32())
        assert self.partitions_of is not None
        of_each = pa.array(
            [self.instance % self.partitions_of(name) for name in topics.dictionary.to_pylist()], pa.int32()
        )
        return of_each.take(topics.indices)

    def _headers(self, data: pa.RecordBatch) -> pa.Array:
        found, listed = self._column("headers", data), self._column("header-list", data)
        if found is not None:
            pairs = [None if one is None else [{"key": k, "value": v} for k, v in one] for one in found.to_pylist()]
            return pa.array(pairs, HEADERS)
        if listed is None:
            return pa.nulls(data.num_rows, HEADERS)
        lists = [
            None if one is None else [header for header in one if header and header["key"] is not None]
            for one in listed.to_pylist()
        ]
        return pa.array(lists, HEADERS)


def _bytes(messages: pa.Array | list[bytes]) -> pa.Array:
    return messages if isinstance(messages, pa.Array) else pa.array(messages, pa.binary())
