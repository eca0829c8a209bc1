"""What waits for its commit comes out of its packing as it was, and is handed over in order; against librdkafka's mock broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from tests.e2e.waiting import wait_until
from tidegate.common.serialization import SimpleStringSchema
from tidegate.common.typeinfo import Types
from tidegate.connectors.kafka.records import (
    SCHEMA,
    WHOLE_SCHEMA,
    KafkaRecordSerializationSchema,
    by_topic,
    from_bytes,
    messages,
    to_bytes,
)
from tidegate.connectors.kafka.sending import make_producer, send
from tidegate.model.errors import ExternalError
from tidegate.records.batch import ArrowBatch

Found = list[tuple[bytes | None, bytes | None, int]]


def records(values: Sequence[bytes | None], **columns: Any) -> pa.RecordBatch:
    rows = len(values)
    given = {"topic": ["out"] * rows, "key": [None] * rows, "value": values, "timestamp": [None] * rows, **columns}
    arrays = [pa.array(given[field.name], field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def unpacked(*batches: pa.RecordBatch) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for batch in from_bytes(bytes(to_bytes(batches))):
        for topic, part in by_topic(batch):
            found += [(topic, tuple(message)[:3]) for message in messages(part)]
    return found


def test_packed_records_are_what_they_were() -> None:
    first = records([b"a", None, b""], key=[b"k", None, b""], timestamp=[5, None, 7])
    assert unpacked(first) == [("out", (b"a", b"k", 5)), ("out", (None, None, 0)), ("out", (b"", b"", 7))]
    assert unpacked(records([b"b"])) == [("out", (b"b", None, 0))]


def test_each_topic_has_its_records_in_order_over_many_small_batches() -> None:
    batches = [records([b"%d" % n, b"%d" % -n], topic=[f"t{n % 3}", "all"]) for n in range(300)]
    found = unpacked(*batches)
    assert [value for topic, (value, _, _) in found if topic == "all"] == [b"%d" % -n for n in range(300)]
    assert [value for topic, (value, _, _) in found if topic == "t1"] == [b"%d" % n for n in range(1, 300, 3)]
    assert len(found) == 600


def test_texts_go_to_one_topic_without_becoming_objects_and_keep_their_times() -> None:
    schema = KafkaRecordSerializationSchema.builder().set_topic("out")
    schema.set_value_serialization_schema(SimpleStringSchema()).set_key_serialization_schema(
        lambda text: text[:1].encode()
    )
    data = pa.record_batch([pa.array(["ab", None])], schema=Types.STRING().arrow_schema())
    found = schema.build().outgoing(ArrowBatch(data.slice(0, 1), pa.array([3])), Types.STRING())
    assert unpacked(found) == [("out", (b"ab", b"a", 3))]


@pytest.fixture
def mock() -> Iterator[str]:
    """The address of librdkafka's mock broker, which lives as long as this client."""
    from confluent_kafka import Producer

    client = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
    (broker,) = client.list_topics(timeout=30).brokers.values()
    yield f"{broker.host}:{broker.port}"
    client.flush(5)


def read(servers: str, topic: str, count: int) -> Found:
    from confluent_kafka import Consumer, TopicPartition

    client = Consumer({"bootstrap.servers": servers, "group.id": "tests", "log_level": 0})
    client.assign([TopicPartition(topic, n, 0) for n in range(4)])
    found: Found = []

    def enough() -> bool:
        for message in client.consume(1000, 0.05):
            if message.error() is None:
                found.append((message.value(), message.key(), message.timestamp()[1]))
        return len(found) >= count

    wait_until(enough, 30, f"{count} messages of {topic}")
    client.close()
    return found


def test_headers_and_partitions_go_with_their_records_also_through_a_checkpoint(mock: str) -> None:
    rows: list[dict[str, Any]] = [
        {"value": b"a", "partition": 2, "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]},
        {"value": b"b", "partition": 1, "headers": None},
        {"value": b"c", "headers": []},
    ]
    whole = records([b"a", b"b", b"c"])
    arrays = [
        *whole.columns,
        *(pa.array([row.get(n) for row in rows], WHOLE_SCHEMA.field(n).type) for n in ("partition", "headers")),
    ]
    whole = pa.RecordBatch.from_arrays(arrays, schema=WHOLE_SCHEMA)
    client = make_producer(mock, {"log_level": "0"})
    for batch in from_bytes(bytes(to_bytes([whole]))):
        send(client, batch, mock)
    assert client.flush(30) == 0
    from confluent_kafka import Consumer, TopicPartition

    reader = Consumer({"bootstrap.servers": mock, "group.id": "tests", "log_level": 0})
    reader.assign([TopicPartition("out", n, 0) for n in range(4)])
    found: dict[Any, Any] = {}

    def enough() -> bool:
        for message in reader.consume(1000, 0.05):
            if message.error() is None:
                found[message.value()] = message.partition(), message.headers()
        return len(found) == 3

    wait_until(enough, 30, "three messages")
    reader.close()
    assert found[b"a"] == (2, [("h", b"1"), ("h", None)])
    assert found[b"b"] == (1, None)
    assert found[b"c"][1] is None


def test_a_queue_that_is_full_again_and_again_keeps_the_order(mock: str) -> None:
    """Keys keep their partition, so what one partition shows is the order of sending."""
    client = make_producer(mock, {"queue.buffering.max.messages": "50", "log_level": "0"})
    send(client, records([b"%d" % n for n in range(2_000)], key=[b"k"] * 2_000, timestamp=[1_000] * 2_000), mock)
    assert client.flush(30) == 0
    assert read(mock, "out", 2_000) == [(b"%d" % n, b"k", 1_000) for n in range(2_000)]


def test_a_queue_that_stays_full_is_an_error_and_no_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.connectors.kafka.sending.ROOM_LIMIT_S", 0.0)
    client = make_producer("127.0.0.1:1", {"queue.buffering.max.messages": "10", "log_level": "0"})
    with pytest.raises(ExternalError, match="takes records for topic 'out' too slowly"):
        send(client, records([b"x"] * 11), "127.0.0.1:1")
    client.purge()


def test_delivery_is_reported_for_each_record(mock: str) -> None:
    told: list[Any] = []
    client = make_producer(mock, {"log_level": "0"})
    send(client, records([b"a", b"b"]), mock, lambda error, message: told.append((error, message.value())))
    assert client.flush(30) == 0
    assert sorted(told) == [(None, b"a"), (None, b"b")]
