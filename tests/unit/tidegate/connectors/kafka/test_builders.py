"""Properties of the builders: which count, which are overridden, which are refused (Flink: ``KafkaSourceBuilder``,
``KafkaSinkBuilder``)."""

from __future__ import annotations

import pytest

from tidegate.common.serialization import SimpleStringSchema
from tidegate.connectors.kafka.records import KafkaRecordSerializationSchema
from tidegate.connectors.kafka.sink import KafkaSink, KafkaSinkBuilder
from tidegate.connectors.kafka.source import KafkaSource, KafkaSourceBuilder
from tidegate.model.errors import InvalidJob


def source() -> KafkaSourceBuilder:
    return KafkaSource.builder().set_topics("in").set_value_only_deserializer(SimpleStringSchema())


def sink() -> KafkaSinkBuilder:
    schema = KafkaRecordSerializationSchema.builder().set_topic("out")
    return KafkaSink.builder().set_record_serializer(
        schema.set_value_serialization_schema(SimpleStringSchema()).build()
    )


def test_servers_and_group_of_a_source_may_be_properties() -> None:
    made = source().set_properties({"bootstrap.servers": "a:1", "group.id": "g", "fetch.min.bytes": "5"}).build()
    assert (made.servers, made.group_id) == ("a:1", "g")
    assert made._client_properties() == {"fetch.min.bytes": "5"}


def test_the_last_that_is_set_counts() -> None:
    made = source().set_bootstrap_servers("a:1").set_group_id("g").set_property("bootstrap.servers", "b:2")
    assert (made.build().servers, made.set_property("group.id", "h").build().group_id) == ("b:2", "h")
    assert sink().set_property("bootstrap.servers", "a:1").set_bootstrap_servers("b:2").build().servers == "b:2"


def test_what_the_source_sets_itself_is_overridden() -> None:
    given = {
        "key.deserializer": "x",
        "value.deserializer": "x",
        "auto.offset.reset": "none",
        "enable.auto.commit": "false",
    }
    assert source().set_bootstrap_servers("a:1").set_properties(given).build()._client_properties() == {}


def test_what_only_consumers_know_is_left_out_of_a_sink() -> None:
    builder = sink().set_property("bootstrap.servers", "a:1").set_property("group.id", "g")
    made = builder.set_property("value.serializer", "x").set_property("linger.ms", "7").build()
    assert (made.servers, made.properties) == ("a:1", {"linger.ms": "7"})


def test_what_is_missing_or_contradicts_is_refused() -> None:
    with pytest.raises(InvalidJob, match="KafkaSource needs bootstrap.servers"):
        source().build()
    with pytest.raises(InvalidJob, match="KafkaSink needs bootstrap.servers"):
        sink().build()
    with pytest.raises(InvalidJob, match=r"commit.offsets.on.checkpoint needs a group: set_group_id"):
        source().set_bootstrap_servers("a:1").set_property("commit.offsets.on.checkpoint", "true").build()
    with pytest.raises(InvalidJob, match="no checkpoint holds yet"):
        source().set_bootstrap_servers("a:1").set_property("enable.auto.commit", "true").build()
    with pytest.raises(InvalidJob, match="use set_transactional_id_prefix"):
        sink().set_bootstrap_servers("a:1").set_property("transactional.id", "x").build()
