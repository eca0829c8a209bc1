"""Records to write: columns of topic, key, value and timestamp, and their form in committables.

batch of the stream ─▶ KafkaRecordSerializationSchema ─▶ Outgoing ─▶ Arrow IPC, in a committable ─▶ messages
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.common.serialization import SerializationSchema as MessageSchema
from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.formats.messages import SerializationSchema, encoded, serializer_of
from tidegate.model.errors import InvalidJob, UserError
from tidegate.model.values import Record
from tidegate.records.batch import ArrowBatch
from tidegate.records.record_codec import decode as decode_records

SCHEMA = pa.schema(
    [
        pa.field("topic", pa.dictionary(pa.int32(), pa.string())),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("timestamp", pa.int64()),
    ]
)

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
WHOLE_SCHEMA = SCHEMA.append(pa.field("partition", pa.int32())).append(pa.field("headers", HEADERS))
"""The columns of records with headers, or with an explicit partition, which librdkafka sends one by one."""

_WORTH_ROWS = 1000
_OVERHEAD_BYTES = 200
"""How many bytes a record batch adds to one record, which Kafka counts as part of a message's size."""


Headers: TypeAlias = list[tuple[str, bytes | None]] | None


class KafkaTopicSelector(ABC):
    """Chooses the topic of a record."""

    @abstractmethod
    def apply(self, data: Record) -> str:
        """Returns the topic of a record."""


@dataclass(frozen=True)
class KafkaSinkContext:
    """The information that a schema gets about its subtask. ``partitions_of``: returns how many partitions a topic has."""

    parallel_instance_id: int
    number_of_parallel_instances: int
    partitions_of: Callable[[str], int]


@dataclass(frozen=True)
class KafkaRecordSerializationSchema:
    """Converts records of a stream to Kafka records; made by ``KafkaRecordSerializationSchema.builder()``."""

    topic: str | None
    topic_selector: Callable[[Record], str] | None
    value: SerializationSchema
    key: SerializationSchema | None
    sends_timestamps: bool = True

    @property
    def is_whole(self) -> bool:
        """Returns whether ``outgoing`` has the columns of ``WHOLE_SCHEMA``."""
        return False

    def opened(self, context: KafkaSinkContext) -> KafkaRecordSerializationSchema:
        """Returns the schema for one subtask (Flink: ``open``)."""
        return self

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Returns a builder of a schema, which needs a topic and a schema of values."""
        return KafkaRecordSerializationSchemaBuilder()

    def outgoing(self, batch: ArrowBatch, type_info: TypeInformation) -> pa.RecordBatch:
        """Converts a batch to the columns of ``SCHEMA``, or of ``WHOLE_SCHEMA``."""
        data = batch.data
        rows = data.num_rows
        values = _column(encoded(self.value, data, type_info))
        keys = pa.nulls(rows, pa.binary()) if self.key is None else _column(encoded(self.key, data, type_info))
        stamps = pa.nulls(rows, pa.int64())
        if batch.timestamps is not None and self.sends_timestamps:
            stamps = batch.timestamps
        return pa.RecordBatch.from_arrays([self._topics(data, type_info), keys, values, stamps], schema=SCHEMA)

    def _topics(self, data: pa.RecordBatch, type_info: TypeInformation) -> pa.Array:
        if self.topic is not None:
            return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), data.num_rows), [self.topic])
        assert self.topic_selector is not None
        names = [self.topic_selector(record) for record in decode_records(type_info, data)]
        return pa.array(names, pa.string()).dictionary_encode()


@dataclass
class KafkaRecordSerializationSchemaBuilder:
    """Builds a ``KafkaRecordSerializationSchema`` (PyFlink: ``KafkaRecordSerializationSchemaBuilder``)."""

    _topic: str | None = None
    _selector: Callable[[Record], str] | None = None
    _value: SerializationSchema | None = None
    _key: SerializationSchema | None = None
    _timestamps: bool = field(default=True)

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """Writes all records to one topic."""
        self._topic = topic
        return self

    def set_topic_selector(
        self, topic_selector: Callable[[Record], str] | KafkaTopicSelector
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Chooses the topic of each record by a function."""
        self._selector = topic_selector.apply if isinstance(topic_selector, KafkaTopicSelector) else topic_selector
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema | MessageSchema | Callable[[Record], bytes]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Sets how records are serialized to the values of messages."""
        self._value = serializer_of(value_serialization_schema)
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema | MessageSchema | Callable[[Record], bytes]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Sets how records are serialized to keys; records with one key go to one partition, in order."""
        self._key = serializer_of(key_serialization_schema)
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """Returns the schema. Raises ``InvalidJob`` without a schema of values, and unless there is either a topic or a
        selector."""
        if self._value is None:
            raise InvalidJob("KafkaRecordSerializationSchema needs set_value_serialization_schema()")
        if (self._topic is None) == (self._selector is None):
            raise InvalidJob("KafkaRecordSerializationSchema needs set_topic() or set_topic_selector(), one of them")
        return KafkaRecordSerializationSchema(self._topic, self._selector, self._value, self._key, self._timestamps)


def check_sizes(records: pa.RecordBatch, limit_bytes: int) -> None:
    """Raises ``UserError`` for a record that the broker would refuse: it must fail before its checkpoint completes."""
    if records.nbytes + _OVERHEAD_BYTES <= limit_bytes:
        return
    lengths = (pc.fill_null(pc.binary_length(records.column(name)), 0) for name in ("key", "value"))
    sizes = pc.add(*(pc.cast(length, pa.int64()) for length in lengths))
    size = pc.max(sizes).as_py() + _OVERHEAD_BYTES
    if size > limit_bytes:
        topic = records.column("topic")[pc.index(sizes, pc.max(sizes)).as_py()].as_py()
        raise UserError(
            f"a record for topic {topic!r} takes {size} bytes; the limit is {limit_bytes}: make it smaller, or raise "
            "message.max.bytes of the sink and max.message.bytes of the topic"
        )


def to_bytes(batches: Sequence[pa.RecordBatch]) -> memoryview:
    """Serializes batches as an Arrow IPC stream. The size is computed first, since a stream that grows is copied again and again, and a view is
    returned, which msgpack accepts as bytes."""
    table = pa.Table.from_batches(batches, batches[0].schema).unify_dictionaries()
    counted = pa.MockOutputStream()
    _write(table, counted)
    # Arrow's own pool keeps nothing so large for the next epoch
    content = pa.allocate_buffer(counted.size(), memory_pool=pa.system_memory_pool())
    _write(table, pa.FixedSizeBufferWriter(content))
    return memoryview(content)


def from_bytes(content: bytes | memoryview) -> list[pa.RecordBatch]:
    """Deserializes batches from an Arrow IPC stream, combining small ones."""
    table = pa.ipc.open_stream(content).read_all()
    if table.num_rows < _WORTH_ROWS * table.column("value").num_chunks:
        table = table.combine_chunks()
    return list(table.to_batches())


def by_topic(records: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yields the records of each topic, in order."""
    topics = records.column("topic")
    if len(topics.dictionary) == 1:
        yield topics.dictionary[0].as_py(), records
        return
    codes = topics.indices
    for code in pc.unique(codes).to_pylist():
        yield topics.dictionary[code].as_py(), records.filter(pc.equal(codes, code))


def topics_of(batches: Sequence[pa.RecordBatch]) -> list[str]:
    """Returns the names of all topics in the batches, sorted."""
    return sorted({topic for records in batches for topic, _ in by_topic(records)})


def messages(records: pa.RecordBatch) -> Iterator[tuple[bytes | None, bytes | None, int, int | None, Headers]]:
    """Returns (value, key, timestamp, partition, headers) of each record, in order; timestamp 0 is the time of sending."""
    rows = records.num_rows
    stamps = records.column("timestamp")
    keys = records.column("key")
    return zip(
        records.column("value").to_pylist(),
        repeat(None, rows) if keys.null_count == rows else keys.to_pylist(),
        repeat(0, rows) if stamps.null_count == rows else pc.max_element_wise(stamps, 0).to_pylist(),
        records.column("partition").to_pylist() if is_whole(records) else repeat(None, rows),
        map(_headers, records.column("headers").to_pylist()) if is_whole(records) else repeat(None, rows),
        strict=True,
    )


def is_whole(records: pa.RecordBatch) -> bool:
    """Returns whether records have the columns of ``WHOLE_SCHEMA``."""
    return "headers" in records.schema.names


def _headers(found: list[dict[str, Any]] | None) -> Headers:
    return None if found is None else [(header["key"], header["value"]) for header in found]


def _write(table: pa.Table, sink: pa.NativeFile) -> None:
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def _column(values: pa.Array | list[bytes]) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, pa.binary())
