"""The Kafka source against a real broker: where it begins and ends, what it commits to its group and when, what it discovers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.servers.kafka_broker import KafkaBroker
from tidegate.common.row import Row
from tidegate.common.serialization import SimpleStringSchema
from tidegate.common.typeinfo import Types
from tidegate.connectors.base import Polled, ReaderContext, SourceReader, Split, SplitState
from tidegate.connectors.kafka import fetching
from tidegate.connectors.kafka.client import answer
from tidegate.datastream import OutputTag
from tidegate.datastream.connectors.kafka import (
    DEAD_LETTER,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)
from tidegate.datastream.formats.json import JsonRowDeserializationSchema
from tidegate.model.errors import CorruptData, ExternalError, InvalidJob, Unreachable
from tidegate.records.batch import ArrowBatch

pytestmark = pytest.mark.e2e

_names = itertools.count()
_properties: dict[str, str] = {}


@pytest.fixture(params=[{}, {"statistics.interval.ms": "0"}], ids=["columns", "messages"], autouse=True)
def way(request: pytest.FixtureRequest) -> None:
    """Records go by column unless a property is given that only librdkafka knows."""
    _properties.clear()
    _properties.update(request.param)


@pytest.fixture
def topic(broker: KafkaBroker) -> str:
    """Three partitions; partition p holds p0 to p9."""
    name = f"read-{next(_names)}"
    broker.create_topic(name, 3)
    send(broker, name, {p: [f"{p}{n}" for n in range(10)] for p in range(3)})
    return name


def send(broker: KafkaBroker, topic: str, values: dict[int, list[str]], timestamp: int = 1_000) -> None:
    from confluent_kafka import Producer

    client = Producer({"bootstrap.servers": broker.servers, "enable.idempotence": True})
    for partition, found in values.items():
        for n, value in enumerate(found):
            client.produce(topic, value, partition=partition, timestamp=timestamp + n)
    assert client.flush(30) == 0


def builder(broker: KafkaBroker, *topics: str) -> KafkaSourceBuilder:
    made = KafkaSource.builder().set_bootstrap_servers(broker.servers).set_value_only_deserializer(SimpleStringSchema())
    made.set_bounded(KafkaOffsetsInitializer.latest()).set_properties(_properties)
    return made.set_topics(*topics) if topics else made


def reader_of(
    source: KafkaSource, states: Sequence[SplitState], subtask: int = 0, parallelism: int = 1
) -> SourceReader:
    reader = source.make_reader(ReaderContext(subtask, parallelism, 128, "job", f"attempt-{subtask}", "op"))
    reader.open([s for s in states if source.owner_of(s.split, parallelism) == subtask])
    return reader


def values_of(polled: Polled | None) -> list[Any]:
    if polled is None:
        return []
    assert isinstance(polled.batch, ArrowBatch)
    values: list[Any] = polled.batch.data.column(0).to_pylist()
    return values


def polled(reader: SourceReader, count: int) -> list[str]:
    """So many values, emitted one by one."""
    found: list[str] = []

    def enough() -> bool:
        for value in values_of(reader.poll()):
            found.append(value)
            reader.advance(1)
        return len(found) >= count

    wait_until(enough, HANG_LIMIT_S, f"{count} records are read")
    return found


def ended(reader: SourceReader) -> bool:
    return reader.poll() is None and reader.is_finished()


def read_all(source: KafkaSource) -> list[Any]:
    reader = reader_of(source, [SplitState(split) for split in source.list_splits(1)])
    found: list[Any] = []

    def finished() -> bool:
        values = values_of(reader.poll())
        found.extend(values)
        if values:
            reader.advance(len(values))
        return not values and reader.is_finished()

    wait_until(finished, HANG_LIMIT_S, "the bounded source ends")
    reader.close()
    return sorted(found)


def all_of(*partitions: int, first: int = 0) -> list[str]:
    return [f"{p}{n}" for p in partitions for n in range(first, 10)]


def test_it_reads_everything_from_the_beginning_and_ends(broker: KafkaBroker, topic: str) -> None:
    assert read_all(builder(broker, topic).build()) == all_of(0, 1, 2)


def test_it_begins_where_it_is_told(broker: KafkaBroker, topic: str) -> None:
    at = KafkaOffsetsInitializer
    latest = builder(broker, topic).set_starting_offsets(at.latest()).build()
    assert read_all(latest) == []
    by_time = builder(broker, topic).set_starting_offsets(at.timestamp(1_004)).build()
    assert read_all(by_time) == all_of(0, 1, 2, first=4)
    given = at.offsets({KafkaTopicPartition(topic, 1): 8}, KafkaOffsetResetStrategy.LATEST)
    assert read_all(builder(broker, topic).set_starting_offsets(given).build()) == ["18", "19"]
    one = builder(broker).set_partitions([KafkaTopicPartition(topic, 2)]).build()
    assert read_all(one) == all_of(2)
    pattern = builder(broker).set_topic_pattern(f"{topic[:-1]}[{topic[-1]}]").build()
    assert read_all(pattern) == all_of(0, 1, 2)


def test_committed_offsets_of_a_group_that_has_none(broker: KafkaBroker, topic: str) -> None:
    at = KafkaOffsetsInitializer
    made = builder(broker, topic).set_group_id("nobody")
    with pytest.raises(InvalidJob, match="the group committed no offset for partition 0"):
        made.set_starting_offsets(at.committed_offsets()).build().list_splits(1)
    made.set_starting_offsets(at.committed_offsets(KafkaOffsetResetStrategy.EARLIEST))
    assert read_all(made.build()) == all_of(0, 1, 2)


def test_offsets_are_committed_for_a_confirmed_checkpoint_only_and_exactly_its_own(
    broker: KafkaBroker, topic: str
) -> None:
    source = builder(broker, topic).set_group_id(f"group-{topic}").build()
    reader = reader_of(source, [SplitState(split) for split in source.list_splits(1)])
    polled(reader, 5)
    at_one = reader.snapshot_state()
    reader.note_snapshot(1, at_one)
    polled(reader, 10)
    reader.note_snapshot(2, reader.snapshot_state())
    assert group_offsets(broker, topic) == {}
    reader.notify_checkpoint_complete(1)
    expected = {s.split.payload[1]: s.position for s in at_one if s.position is not None}
    wait_until(
        lambda: group_offsets(broker, topic) == expected, HANG_LIMIT_S, "the offsets of checkpoint 1 are committed"
    )
    reader.close()


def group_offsets(broker: KafkaBroker, topic: str) -> dict[int, int]:
    from confluent_kafka import Consumer, TopicPartition

    client: Any = Consumer({"bootstrap.servers": broker.servers, "group.id": f"group-{topic}"})
    try:
        asked = [TopicPartition(topic, n) for n in range(3)]
        told = answer(partial(client.committed, asked, timeout=30), "read offsets", broker.servers)
        return {part.partition: part.offset for part in told if part.offset >= 0}
    finally:
        client.close()


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 3), (3, 1)])
def test_restored_at_another_parallelism_every_record_is_read_once(
    broker: KafkaBroker, topic: str, before: int, after: int
) -> None:
    source = builder(broker, topic).build()
    states = [SplitState(split) for split in source.list_splits(before)]
    found: list[str] = []
    kept: list[SplitState] = []
    for subtask in range(before):
        reader = reader_of(source, states, subtask, before)
        if reader.snapshot_state():
            found += polled(reader, 4)
        kept += reader.snapshot_state()
        reader.close()
    for subtask in range(after):
        reader = reader_of(source, kept, subtask, after)
        left = sum(10 - (s.position or 0) for s in reader.snapshot_state())
        if left:
            found += polled(reader, left)
        wait_until(partial(ended, reader), HANG_LIMIT_S, "the reader ends")
        reader.close()
    assert sorted(found) == all_of(0, 1, 2)


def test_a_partition_that_is_added_later_is_read_from_its_beginning(broker: KafkaBroker, topic: str) -> None:
    from confluent_kafka.cimpl import NewPartitions

    made = KafkaSource.builder().set_bootstrap_servers(broker.servers).set_topics(topic)
    made.set_value_only_deserializer(SimpleStringSchema()).set_property("partition.discovery.interval.ms", "100")
    source = made.build()
    assert not source.bounded
    reader = reader_of(source, [SplitState(split) for split in source.list_splits(1)])
    polled(reader, 30)
    client = broker.admin()
    client.create_partitions([NewPartitions(topic, 4)])[topic].result(30)
    send(broker, topic, {3: ["30", "31"]})
    assert polled(reader, 2) == ["30", "31"]
    assert {s.split.split_id: s.position for s in reader.snapshot_state()}[f"{topic}-3"] == 2
    reader.close()


def test_what_was_not_read_is_the_gauge_that_an_autoscaler_looks_at(broker: KafkaBroker, topic: str) -> None:
    gauges: dict[str, Callable[[], float]] = {}
    source = builder(broker, topic).build()
    context = ReaderContext(0, 1, 128, "job", "attempt-0", "op")
    reader = source.make_reader(replace(context, watch=lambda name, gauge: gauges.update({name: gauge})))
    reader.open([SplitState(split) for split in source.list_splits(1)])
    first = len(polled(reader, 1))
    wait_until(lambda: gauges["pendingRecords"]() == 30 - first, HANG_LIMIT_S, "the others lie behind the positions")
    offsets = [gauges[f"KafkaSourceReader.topic.{topic}.partition.{p}.currentOffset"]() for p in range(3)]
    assert sum(offset + 1 for offset in offsets) == first < 30
    assert len(polled(reader, 30 - first)) == 30 - first
    assert gauges["pendingRecords"]() == 0
    reader.close()


def test_poison_fails_by_name_or_is_skipped(broker: KafkaBroker) -> None:
    name = f"read-{next(_names)}"
    broker.create_topic(name, 1)
    send(broker, name, {0: ['{"id":1}', "poison", '{"id":2}', "more", "and more"]})
    schema = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["id"], [Types.LONG()])).build()
    made = builder(broker, name).set_value_only_deserializer(schema)
    with pytest.raises(CorruptData, match=f"offset 1 of partition 0 of topic '{name}' cannot be read"):
        read_all(made.build())
    assert read_all(made.set_poison_records("skip").build()) == [1, 2]


def test_poison_goes_to_the_dead_letters_as_it_is(broker: KafkaBroker) -> None:
    name = f"read-{next(_names)}"
    broker.create_topic(name, 1)
    send(broker, name, {0: ['{"id":1}', "poison", '{"id":2}', "more", "and more"]})
    schema = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["id"], [Types.LONG()])).build()
    made = builder(broker, name).set_value_only_deserializer(schema)
    source = made.set_poison_records(OutputTag("dead", DEAD_LETTER)).build()
    reader = reader_of(source, [SplitState(split) for split in source.list_splits(1)])
    main: list[Any] = []
    letters: list[Any] = []

    def finished() -> bool:
        polled = reader.poll()
        if polled is None:
            return reader.is_finished()
        assert isinstance(polled.batch, ArrowBatch)
        (letters if polled.side == "dead" else main).extend(polled.batch.data.to_pylist())
        reader.advance(len(polled.batch))
        return False

    wait_until(finished, HANG_LIMIT_S, "the bounded source ends")
    assert [row["id"] for row in main] == [1, 2]
    assert [(row["topic"], row["offset"], row["value"]) for row in letters] == [
        (name, 1, b"poison"),
        (name, 3, b"more"),
        (name, 4, b"and more"),
    ]
    assert all("not one JSON object" in row["error"] for row in letters)
    assert [state.position for state in reader.snapshot_state()] == [5]
    reader.close()
    with pytest.raises(InvalidJob, match=r"OutputTag\('dead', DEAD_LETTER\)"):
        made.set_poison_records(OutputTag("dead", Types.STRING()))


def test_what_is_wrong_is_told_when_the_job_is_submitted(broker: KafkaBroker) -> None:
    with pytest.raises(InvalidJob, match="has no topic 'nowhere'"):
        builder(broker, "nowhere").build().list_splits(1)
    with pytest.raises(InvalidJob, match=r"needs set_topics\(\)"):
        builder(broker).build()
    with pytest.raises(InvalidJob, match="no checkpoint holds yet"):
        builder(broker, "a").set_property("enable.auto.commit", "true").build()
    away = KafkaSource.builder().set_bootstrap_servers("127.0.0.1:1").set_topics("a").build()
    with pytest.raises(Unreachable, match="is the broker up"):
        away.list_splits(1)


def test_a_topic_that_nobody_may_read_is_named_with_the_missing_permission(broker: KafkaBroker, topic: str) -> None:
    source = builder(broker, topic).build()
    splits = source.list_splits(1)
    broker.deny(topic, "read")
    reader = reader_of(source, [SplitState(split) for split in splits])

    def refused() -> str:
        try:
            reader.poll()
        except ExternalError as error:
            return error.message
        return ""

    message = wait_until(refused, HANG_LIMIT_S, "the broker refuses to be read")
    assert topic in message
    assert "lacks this permission" in message
    reader.close()
    broker.deny(topic, "describe")
    with pytest.raises(ExternalError, match="lacks this permission"):
        source.list_splits(1)


def begun(topic: str, partition: int, offset: int, *reset: KafkaOffsetResetStrategy) -> KafkaOffsetsInitializer:
    return KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topic, partition): offset}, *reset)


def delete_before(broker: KafkaBroker, topic: str, partition: int, offset: int) -> None:
    from confluent_kafka import TopicPartition

    part = TopicPartition(topic, partition, offset)
    client = broker.admin()  # its future lives as long as the client
    client.delete_records([part])[part].result(30)


def test_the_strategy_decides_for_an_offset_that_a_partition_does_not_have(broker: KafkaBroker, topic: str) -> None:
    """Flink's ``SpecifiedOffsetsInitializer``: its strategy becomes the consumer's ``auto.offset.reset``."""
    earliest, latest, none = (
        KafkaOffsetResetStrategy.EARLIEST,
        KafkaOffsetResetStrategy.LATEST,
        KafkaOffsetResetStrategy.NONE,
    )
    made = builder(broker).set_partitions([KafkaTopicPartition(topic, 0)])
    assert read_all(made.set_starting_offsets(begun(topic, 0, 50)).build()) == all_of(0)
    assert read_all(made.set_starting_offsets(begun(topic, 0, 50, latest)).build()) == []
    assert read_all(made.set_starting_offsets(begun(topic, 0, 10, none)).build()) == [], "the end is in the range"
    with pytest.raises(
        InvalidJob, match=f"the offset to begin at, 50, is not in partition 0 of topic '{topic}', which has 0 up to 10"
    ):
        made.set_starting_offsets(begun(topic, 0, 50, none)).build().list_splits(1)
    delete_before(broker, topic, 0, 4)
    assert read_all(made.set_starting_offsets(begun(topic, 0, 2, earliest)).build()) == all_of(0, first=4)
    assert read_all(made.set_starting_offsets(begun(topic, 0, 2, latest)).build()) == []
    assert read_all(made.set_starting_offsets(begun(topic, 0, 6, latest)).build()) == all_of(0, first=6)


def test_a_partition_that_is_not_named_begins_where_its_group_committed(broker: KafkaBroker, topic: str) -> None:
    commit(broker, f"group-{topic}", topic, {1: 7, 2: 99})
    at = KafkaOffsetsInitializer
    made = builder(broker, topic).set_group_id(f"group-{topic}")
    named = made.set_starting_offsets(begun(topic, 0, 8)).build()
    assert read_all(named) == [*all_of(0, first=8), *all_of(1, first=7), *all_of(2)], "99 is out of the range"
    named = made.set_starting_offsets(begun(topic, 2, 8, KafkaOffsetResetStrategy.LATEST)).build()
    assert read_all(named) == [*all_of(1, first=7), *all_of(2, first=8)], "nothing was committed for partition 0"
    committed = made.set_starting_offsets(at.committed_offsets(KafkaOffsetResetStrategy.EARLIEST)).build()
    assert read_all(committed) == [*all_of(0), *all_of(1, first=7), *all_of(2)]
    with pytest.raises(InvalidJob, match="no offset is given, and the group committed none, for partition 0"):
        made.set_starting_offsets(begun(topic, 2, 8, KafkaOffsetResetStrategy.NONE)).build().list_splits(1)


def commit(broker: KafkaBroker, group: str, topic: str, offsets: dict[int, int]) -> None:
    from confluent_kafka import Consumer, TopicPartition

    client: Any = Consumer({"bootstrap.servers": broker.servers, "group.id": group})
    parts = [TopicPartition(topic, n, offset) for n, offset in offsets.items()]
    answer(lambda: client.commit(offsets=parts, asynchronous=False), "commit offsets", broker.servers)
    client.close()


def test_records_that_were_deleted_before_they_were_read_are_counted(broker: KafkaBroker, topic: str) -> None:
    source = builder(broker).set_partitions([KafkaTopicPartition(topic, 0)]).build()
    (split,) = source.list_splits(1)
    delete_before(broker, topic, 0, 4)
    with pytest.raises(
        CorruptData, match=r"does not have the offset to read from, 1: it begins at 4, so 3 offsets were deleted"
    ):
        drained(source, SplitState(split, 1))
    with pytest.raises(
        CorruptData, match=r"does not have the offset to read from, 50: it ends at 10. The topic has lost records"
    ):
        drained(source, SplitState(Split(split.split_id, [topic, 0, 0, 60, *split.payload[4:]]), 50))


def drained(source: KafkaSource, *states: SplitState) -> SourceReader:
    """The reader, which has read everything. Raises what it raises."""
    reader = reader_of(source, states)
    try:

        def finished() -> bool:
            values = values_of(reader.poll())
            if values:
                reader.advance(len(values))
            return not values and reader.is_finished()

        wait_until(finished, HANG_LIMIT_S, "the reader ends or fails")
        return reader
    finally:
        reader.close()


def made_again(broker: KafkaBroker, topic: str, records: int) -> None:
    client = broker.admin()  # its future lives as long as the client
    client.delete_topics([topic])[topic].result(30)

    def is_made() -> bool:
        try:
            broker.create_topic(topic, 1)
        except Exception as error:  # the deletion goes on
            if "already exists" not in str(error).lower() and "TOPIC_ALREADY_EXISTS" not in str(error):
                raise
            return False
        return True

    wait_until(is_made, HANG_LIMIT_S, "the topic is there again")
    send(broker, topic, {0: [f"new {n}" for n in range(records)]})


@pytest.mark.parametrize("records", [0, 2, 20], ids=["empty", "shorter", "longer"])
def test_a_topic_that_was_made_again_under_a_stored_position_is_one_failure(broker: KafkaBroker, records: int) -> None:
    name = f"read-{next(_names)}"
    broker.create_topic(name, 1)
    send(broker, name, {0: [f"old {n}" for n in range(10)]})
    source = builder(broker, name).build()
    (split,) = source.list_splits(1)
    made_again(broker, name, records)
    with pytest.raises(
        CorruptData, match=f"topic '{name}' was deleted and made again: offset 5 of partition 0"
    ) as raised:
        drained(source, SplitState(split, 5))
    assert "another uid" in str(raised.value)
    assert not raised.value.retriable


def test_a_topic_that_is_made_again_while_it_is_read_is_the_same_failure(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "ASK_IDS_AGAIN_S", 0.1)
    name = f"read-{next(_names)}"
    broker.create_topic(name, 1)
    send(broker, name, {0: [f"old {n}" for n in range(10)]})
    made = KafkaSource.builder().set_bootstrap_servers(broker.servers).set_topics(name).set_properties(_properties)
    source = made.set_value_only_deserializer(SimpleStringSchema()).build()
    reader = reader_of(source, [SplitState(split) for split in source.list_splits(1)])
    polled(reader, 10)
    made_again(broker, name, 20)

    def fails() -> bool:
        found = reader.poll()
        assert found is None, f"{values_of(found)} of the new topic"
        return False

    with pytest.raises(CorruptData, match=f"topic '{name}' was deleted and made again: offset 10 of partition 0"):
        wait_until(fails, HANG_LIMIT_S, "the reader fails")
    reader.close()


def test_a_state_of_before_takes_the_id_of_its_topic(broker: KafkaBroker, topic: str) -> None:
    source = builder(broker).set_partitions([KafkaTopicPartition(topic, 0)]).build()
    (split,) = source.list_splits(1)
    topic_id = split.payload[4]
    assert topic_id
    reader = drained(source, SplitState(Split(split.split_id, split.payload[:4]), 5))
    (state,) = reader.snapshot_state()
    assert (state.split.payload, state.position, state.done) == ([topic, 0, 0, 10, topic_id], 10, True)


def test_tombstones_are_named_left_out_or_made_records(broker: KafkaBroker) -> None:
    from confluent_kafka import Producer

    name = f"read-{next(_names)}"
    broker.create_topic(name, 1)
    client = Producer({"bootstrap.servers": broker.servers, "enable.idempotence": True})
    for key, value in [("1", '{"id":1}'), ("1", None), ("2", "poison"), ("3", '{"id":3}'), ("2", None), ("3", None)]:
        client.produce(name, value, key, partition=0)
    assert client.flush(30) == 0
    schema = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["id"], [Types.LONG()])).build()

    def made() -> KafkaSourceBuilder:
        return builder(broker, name).set_value_only_deserializer(schema)

    with pytest.raises(CorruptData, match=r"offset 1 of partition 0 .* it is a tombstone: .* set_tombstones\('skip'\)"):
        read_all(made().build())
    with pytest.raises(CorruptData, match="offset 1 of partition 0 .* it is a tombstone"):
        read_all(made().set_poison_records("skip").set_tombstones("fail").build())
    with pytest.raises(
        CorruptData, match="offset 2 of partition 0 .* cannot be read: the message is not one JSON object"
    ):
        read_all(made().set_tombstones("skip").build())
    assert read_all(made().set_tombstones("skip").set_poison_records("skip").build()) == [1, 3]
    assert read_all(made().set_poison_records("skip").build()) == [1, 3]
    deletions = made().set_tombstones(lambda key: Row(id=-int(key or 0))).set_poison_records("skip").build()
    assert read_all(deletions) == [-3, -2, -1, 1, 3]
    text = builder(broker, name).build()
    assert len([value for value in drained_values(text) if value is None]) == 3, "text has nulls, as before"


def drained_values(source: KafkaSource) -> list[Any]:
    reader = reader_of(source, [SplitState(split) for split in source.list_splits(1)])
    found: list[Any] = []

    def finished() -> bool:
        values = values_of(reader.poll())
        found.extend(values)
        if values:
            reader.advance(len(values))
        return not values and reader.is_finished()

    wait_until(finished, HANG_LIMIT_S, "the bounded source ends")
    reader.close()
    return found
