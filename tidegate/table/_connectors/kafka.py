"""Tables of ``kafka``: the options of Flink's connector on the source and the sink of the DataStream API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tidegate.connectors.base import DeliveryGuarantee
from tidegate.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer, KafkaTopicPartition
from tidegate.connectors.kafka.records import KafkaRecordSerializationSchema
from tidegate.connectors.kafka.sink import KafkaSink
from tidegate.connectors.kafka.source import DISCOVERY_KEY, KafkaSource
from tidegate.model.errors import InvalidJob
from tidegate.model.units import parse_duration_ms
from tidegate.table._formats.formats import Reading, Writing
from tidegate.table._formats.messages import TableDeserializer, TableSerializer

SERVERS: Final = "properties.bootstrap.servers"
OPTIONS: Final = frozenset(
    {
        "topic",
        "topic-pattern",
        "scan.startup.mode",
        "scan.startup.specific-offsets",
        "scan.startup.timestamp-millis",
        "scan.bounded.mode",
        "scan.bounded.specific-offsets",
        "scan.bounded.timestamp-millis",
        "scan.topic-partition-discovery.interval",
        "scan.parallelism",
        "sink.delivery-guarantee",
        "sink.transactional-id-prefix",
        "sink.parallelism",
    }
)
_SPECIFIC = re.compile(r"partition:([0-9]+),offset:([0-9]+)")
_STARTUP = ("earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets")
_BOUNDED = ("unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets")
_GUARANTEES = {one.value: one for one in DeliveryGuarantee}


def is_bounded(options: Mapping[str, str]) -> bool:
    """Whether reading ends."""
    return options.get("scan.bounded.mode", "unbounded") != "unbounded"


def kafka_source(options: Mapping[str, str], reading: Reading) -> KafkaSource:
    """Raises ``InvalidJob`` for options that are missing, exclude each other or have values that they do not take."""
    builder = KafkaSource.builder().set_bootstrap_servers(options[SERVERS])
    topics, pattern = options.get("topic"), options.get("topic-pattern")
    if (topics is None) == (pattern is None):
        which = "none of them" if topics is None else "both"
        raise InvalidJob(f"Option 'topic' and 'topic-pattern': exactly one has to be set, and {which} is")
    names = [] if topics is None else topics.split(";")
    if pattern is not None:
        builder.set_topic_pattern(pattern)
    else:
        builder.set_topics(*names)
    properties = _properties(options)
    group = properties.pop("group.id", "")
    if group:
        builder.set_group_id(group)
    builder.set_starting_offsets(_offsets(options, "scan.startup", "group-offsets", _STARTUP, names, group))
    if is_bounded(options):
        builder.set_bounded(_offsets(options, "scan.bounded", "unbounded", _BOUNDED, names, group))
    if "scan.topic-partition-discovery.interval" in options:
        builder.set_property(DISCOVERY_KEY, str(_milliseconds(options, "scan.topic-partition-discovery.interval")))
    for key, value in properties.items():
        builder.set_property(key, value)
    return builder.set_value_only_deserializer(TableDeserializer(reading)).build()


def kafka_sink(options: Mapping[str, str], writing: Writing) -> KafkaSink:
    """Raises ``InvalidJob`` as ``kafka_source`` does."""
    topic = options.get("topic", "")
    if not topic or ";" in topic:
        raise InvalidJob("a table of kafka that is written has one topic: set the option 'topic' to its name")
    records = KafkaRecordSerializationSchema.builder().set_topic(topic)
    builder = KafkaSink.builder().set_bootstrap_servers(options[SERVERS])
    builder.set_record_serializer(records.set_value_serialization_schema(TableSerializer(writing)).build())
    text = options.get("sink.delivery-guarantee", DeliveryGuarantee.AT_LEAST_ONCE.value)
    if text not in _GUARANTEES:
        raise _invalid("sink.delivery-guarantee", text, ", ".join(sorted(_GUARANTEES)))
    builder.set_delivery_guarantee(_GUARANTEES[text])
    prefix = options.get("sink.transactional-id-prefix")
    if prefix is not None:
        builder.set_transactional_id_prefix(prefix)
    elif _GUARANTEES[text] is DeliveryGuarantee.EXACTLY_ONCE:
        raise InvalidJob(
            "sink.transactional-id-prefix must be specified when using DeliveryGuarantee.EXACTLY_ONCE: give a prefix that no other job has"
        )
    for key, value in _properties(options).items():
        builder.set_property(key, value)
    return builder.build()


def _properties(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties of Kafka's client, but for the servers."""
    return {
        key.removeprefix("properties."): value
        for key, value in options.items()
        if key.startswith("properties.") and key != SERVERS
    }


def _offsets(
    options: Mapping[str, str], prefix: str, default: str, modes: tuple[str, ...], topics: list[str], group: str
) -> KafkaOffsetsInitializer:
    mode = options.get(f"{prefix}.mode", default)
    match mode:
        case "earliest-offset" if mode in modes:
            return KafkaOffsetsInitializer.earliest()
        case "latest-offset":
            return KafkaOffsetsInitializer.latest()
        case "group-offsets":
            if not group:
                raise InvalidJob(
                    f"'properties.group.id' is required with {prefix}.mode = 'group-offsets': name the group, or set another mode"
                )
            reset = options.get("properties.auto.offset.reset", "none")
            strategies = {one.value: one for one in KafkaOffsetResetStrategy}
            if reset not in strategies:
                raise _invalid("properties.auto.offset.reset", reset, ", ".join(strategies))
            return KafkaOffsetsInitializer.committed_offsets(strategies[reset])
        case "timestamp":
            key = f"{prefix}.timestamp-millis"
            if not options.get(key, "").isdecimal():
                raise InvalidJob(f"'{key}' is required in 'timestamp' mode: a number of ms since 1970")
            return KafkaOffsetsInitializer.timestamp(int(options[key]))
        case "specific-offsets":
            return _specific(options, f"{prefix}.specific-offsets", topics)
    raise _invalid(f"{prefix}.mode", mode, ", ".join(modes))


def _specific(options: Mapping[str, str], key: str, topics: list[str]) -> KafkaOffsetsInitializer:
    if len(topics) != 1:
        raise InvalidJob(f"'{key}' goes with one topic, not with {len(topics)}")
    text = options.get(key, "")
    found = [_SPECIFIC.fullmatch(part.strip()) for part in text.rstrip(";").split(";")]
    pairs = [(int(one[1]), int(one[2])) for one in found if one is not None]
    if len(pairs) != len(found):
        raise _invalid(key, text, "'partition:0,offset:42;partition:1,offset:300'")
    return KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topics[0], number): at for number, at in pairs})


def _milliseconds(options: Mapping[str, str], key: str) -> int:
    try:
        return parse_duration_ms(options[key])
    except ValueError as error:
        raise InvalidJob(f"Invalid value for option '{key}': {error}") from error


def _invalid(key: str, text: str, wanted: str) -> InvalidJob:
    return InvalidJob(f"Invalid value for option '{key}': {text!r}; it takes {wanted}")
