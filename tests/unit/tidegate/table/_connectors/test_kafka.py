"""Options of tables of kafka on the source and the sink of the DataStream API. Names, defaults and refusals are those of Flink's connector."""

from __future__ import annotations

import base64
import pickle
from typing import Any

import pyarrow as pa
import pytest

from tests.servers.schema_registry import schema_registry
from tidegate.common.typeinfo import Types
from tidegate.connectors.base import DeliveryGuarantee
from tidegate.connectors.formats.messages import decoded_rows, encoded
from tidegate.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer, KafkaTopicPartition
from tidegate.functions.sql.scalar import arrow_schema, batch_of
from tidegate.model.errors import InvalidJob
from tidegate.plan.logical_types import parse_type
from tidegate.table._connectors.format_options import format_options
from tidegate.table._connectors.kafka import is_bounded, kafka_sink, kafka_source
from tidegate.table._connectors.registry import check_table
from tidegate.table._connectors.shape import TableShape
from tidegate.table._formats.avro import AvroReading
from tidegate.table._formats.formats import make_reading, make_writing
from tidegate.table._formats.messages import TableDeserializer, TableSerializer

TYPE = parse_type("ROW<`id` BIGINT, `name` STRING>")
SHAPE = TableShape("t", ("id", "name"))
BASE = {"connector": "kafka", "topic": "t", "properties.bootstrap.servers": "localhost:9092", "format": "json"}


def source(**options: str) -> Any:
    given = BASE | {key.replace("__", "-").replace("_", "."): text for key, text in options.items()}
    given = {key: text for key, text in given.items() if text}
    check_table(SHAPE, given, is_source=True)
    return kafka_source(given, SHAPE, TYPE)


def sink(**options: str) -> Any:
    given = BASE | {key.replace("__", "-").replace("_", "."): text for key, text in options.items()}
    given = {key: text for key, text in given.items() if text}
    check_table(SHAPE, given, is_source=False)
    return kafka_sink(given, SHAPE, TYPE)


def test_modes_of_startup() -> None:
    assert source(properties_group_id="g").starting == KafkaOffsetsInitializer.committed_offsets()
    reset = source(properties_group_id="g", properties_auto_offset_reset="earliest")
    assert reset.starting == KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST)
    assert source(scan_startup_mode="earliest-offset").starting == KafkaOffsetsInitializer.earliest()
    assert source(scan_startup_mode="latest-offset").starting == KafkaOffsetsInitializer.latest()
    by_time = source(scan_startup_mode="timestamp", scan_startup_timestamp__millis="5")
    assert by_time.starting == KafkaOffsetsInitializer.timestamp(5)
    specific = source(
        scan_startup_mode="specific-offsets",
        scan_startup_specific__offsets="partition:0,offset:42;partition:1,offset:300",
    )
    assert specific.starting == KafkaOffsetsInitializer.offsets(
        {KafkaTopicPartition("t", 0): 42, KafkaTopicPartition("t", 1): 300}
    )


def test_a_scan_ends_where_it_is_bounded() -> None:
    earliest = {"scan_startup_mode": "earliest-offset"}
    assert not source(**earliest).bounded
    found = source(scan_bounded_mode="latest-offset", **earliest)
    assert found.bounded
    assert found.stopping == KafkaOffsetsInitializer.latest()
    assert is_bounded({"scan.bounded.mode": "latest-offset"})
    assert not is_bounded({"scan.bounded.mode": "unbounded"})


def test_topics_properties_and_discovery() -> None:
    found = source(
        topic="a;b", scan_startup_mode="earliest-offset", properties_fetch_min_bytes="1",
        scan_topic__partition__discovery_interval="10 s",
    )  # fmt: skip
    assert found.properties["fetch.min.bytes"] == "1"
    assert found.discovery_ms == 10_000
    assert found.servers == "localhost:9092"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "'properties.group.id' is required with scan.startup.mode = 'group-offsets'"),
        (
            {"scan_startup_mode": "first"},
            "Invalid value for option 'scan.startup.mode': 'first'; it takes earliest-offset",
        ),
        (
            {"scan_startup_mode": "timestamp"},
            "'scan.startup.timestamp-millis' is required in 'timestamp' startup mode but missing.",
        ),
        ({"scan_startup_mode": "specific-offsets", "scan_startup_specific__offsets": "0:42"}, "'partition:0,offset:42"),
        (
            {
                "scan_startup_mode": "specific-offsets",
                "topic": "a;b",
                "scan_startup_specific__offsets": "partition:0,offset:1",
            },
            "Currently Kafka source only supports specific offset for single topic.",
        ),
        (
            {"topic__pattern": "x.*", "scan_startup_mode": "earliest-offset"},
            "Option 'topic' and 'topic-pattern' shouldn't be set together.",
        ),
        ({"topic": ""}, "Either 'topic' or 'topic-pattern' must be set."),
        (
            {"scan_startup_mode": "earliest-offset", "scan_bounded_mode": "earliest-offset"},
            "option 'scan.bounded.mode'",
        ),
        ({"scan_topic__partition__discovery_interval": "soon", "scan_startup_mode": "latest-offset"}, "not a duration"),
        (
            {"properties_group_id": "g", "properties_auto_offset_reset": "first"},
            "'properties.auto.offset.reset': 'first'",
        ),
        ({"scan_startup_modus": "x"}, "did you mean 'scan.startup.mode'?"),
        ({"json_ignore__parse__error": "true"}, "did you mean 'json.ignore-parse-errors'?"),
        ({"json_ignore__parse__errors": "yes", "scan_startup_mode": "latest-offset"}, "'yes'; it takes true or false"),
        ({"format": "orc"}, "any format 'orc' for the connector 'kafka'"),
    ],
)
def test_what_a_scan_does_not_take_is_refused_by_option(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        source(**options)
    assert said in refused.value.message


def test_sinks_write_at_least_once_unless_told_otherwise() -> None:
    assert sink().guarantee is DeliveryGuarantee.AT_LEAST_ONCE
    exact = sink(sink_delivery__guarantee="exactly-once", sink_transactional__id__prefix="job")
    assert exact.guarantee is DeliveryGuarantee.EXACTLY_ONCE


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sink_delivery__guarantee": "exactly-once"}, "sink.transactional-id-prefix must be specified"),
        ({"sink_delivery__guarantee": "always"}, "at-least-once, exactly-once, none"),
        ({"topic": "a;b"}, "Expected a single topic but no topic is set"),
    ],
)
def test_what_a_sink_does_not_take_is_refused_by_option(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        sink(**options)
    assert said in refused.value.message


def test_options_of_the_values_format_have_value_in_front() -> None:
    given = {"value.format": "csv", "value.csv.field-delimiter": ";", "connector": "kafka"}
    name, options = format_options("t", given)
    reading = make_reading(name, options, TYPE)
    assert reading.read(pa.array([b"1;a"], pa.binary()))[0].to_pylist() == [{"id": 1, "name": "a"}]


def test_a_message_has_as_many_rows_as_it_holds() -> None:
    schema = pickle.loads(pickle.dumps(TableDeserializer(make_reading("json", {}, TYPE))))
    messages = [b'{"id": 1}', None, b"", b'[{"id": 2}, {"id": 3}]']
    data, counts = decoded_rows(schema, pa.array(messages, pa.binary()))
    assert data.column("id").to_pylist() == [1, 2, 3]
    assert counts is not None
    assert counts.tolist() == [1, 0, 0, 2]


def test_rows_are_messages() -> None:
    schema = pickle.loads(pickle.dumps(TableSerializer(make_writing("json", {}, TYPE))))
    batch = pa.RecordBatch.from_pylist([{"id": 1, "name": "a"}], pa.schema([("id", pa.int64()), ("name", pa.string())]))
    found = pa.array(encoded(schema, batch, Types.SCHEMA(batch.schema)), pa.binary())
    assert found.to_pylist() == [b'{"id":1,"name":"a"}']


def test_subjects_of_a_schema_registry_are_named_by_the_topic() -> None:
    registry = {
        "connector": "kafka",
        "topic": "t",
        "properties.bootstrap.servers": "localhost:9092",
        "key.fields": "id",
    }
    for part, prefix in (("key", "key."), ("value", "value.")):
        registry |= {f"{part}.format": "avro-confluent", f"{prefix}avro-confluent.url": "http://registry:8081"}
    check_table(SHAPE, registry, is_source=False)
    records: Any = kafka_sink(registry, SHAPE, TYPE).schema
    assert (records.key_writing.subject, records.value_writing.subject) == ("t-key", "t-value")
    records = kafka_sink({**registry, "value.avro-confluent.subject": "mine"}, SHAPE, TYPE).schema
    assert (records.key_writing.subject, records.value_writing.subject) == ("t-key", "mine")
    pickle.dumps(kafka_source({**registry, "scan.startup.mode": "earliest-offset"}, SHAPE, TYPE))


def test_each_table_asks_a_schema_registry_with_its_own_options() -> None:
    with schema_registry() as server:
        for user in ("ann:1", "bob:2", "ann:1"):
            options = {
                "avro-confluent.url": server.url,
                "avro-confluent.subject": "t-value",
                "avro-confluent.basic-auth.user-info": user,
            }
            writing: Any = make_writing("avro-confluent", options, TYPE)
            reading = make_reading("avro-confluent", options, TYPE)
            data = batch_of([pa.nulls(1, field.type) for field in arrow_schema(TYPE)], arrow_schema(TYPE), 1)
            assert reading.read(writing.messages(data))[0] == data
    ann, bob = (f"Basic {base64.b64encode(user).decode()}" for user in (b"ann:1", b"bob:2"))
    assert server.authorizations == [ann, ann, bob, bob]


def test_what_a_schema_registry_is_asked_with() -> None:
    at = {"avro-confluent.url": "http://registry:8081"}
    given = {
        **at,
        "avro-confluent.basic-auth.user-info": "a:b",
        "avro-confluent.properties": "max.retries:1",
        "avro-confluent.properties.timeout": "5",
        "avro-confluent.ssl.truststore.location": "/ca.pem",
    }
    check_table(SHAPE, {**BASE, **given, "format": "avro-confluent"}, is_source=True)
    reading = make_reading("avro-confluent", given, TYPE)
    assert isinstance(reading, AvroReading)
    assert reading.registry is not None
    assert reading.registry.properties == {
        "basic.auth.user.info": "a:b",
        "max.retries": "1",
        "timeout": "5",
        "ssl.ca.location": "/ca.pem",
    }
    with pytest.raises(InvalidJob, match="a file in PEM"):
        make_reading("avro-confluent", {**at, "avro-confluent.ssl.truststore.location": "/store.jks"}, TYPE)
    with pytest.raises(InvalidJob, match="Missing required options are:\n\nurl"):
        make_reading("avro-confluent", {}, TYPE)
    with pytest.raises(InvalidJob, match=r"avro\.codec"):
        check_table(SHAPE, {**BASE, "format": "avro", "avro.codec": "null"}, is_source=True)
    with pytest.raises(InvalidJob, match="binary or json"):
        make_reading("avro", {"avro.encoding": "xml"}, TYPE)
