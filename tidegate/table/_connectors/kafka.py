"""Tables of ``kafka`` and ``upsert-kafka``: maps the options of Flink's connectors to the source and the sink of the DataStream API."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Final

from tidegate.connectors.base import DeliveryGuarantee
from tidegate.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer, KafkaTopicPartition
from tidegate.connectors.kafka.sink import STRATEGY_KEY, KafkaSink
from tidegate.connectors.kafka.source import DISCOVERY_KEY, KafkaSource
from tidegate.model.errors import InvalidJob
from tidegate.model.units import parse_duration_ms
from tidegate.plan.logical_types import Field, LogicalType
from tidegate.table._connectors.format_options import format_options, key_format_options
from tidegate.table._connectors.kafka_records import READABLE, VALUE, TableRecordDeserializer, TableRecordSerializer
from tidegate.table._connectors.shape import TableShape
from tidegate.table._connectors.upsert_buffer import BufferedUpsertSink
from tidegate.table._formats.formats import (
    CHANGELOG_FORMATS,
    REGISTRY_FORMATS,
    format_metadata,
    make_reading,
    make_writing,
)
from tidegate.table._formats.messages import TableDeserializer, TableSerializer

KAFKA: Final = "kafka"
"""The name of the connector whose rows are Kafka messages."""
UPSERT_KAFKA: Final = "upsert-kafka"
"""The name of the connector whose messages are upserts and deletions by key."""
SERVERS: Final = "properties.bootstrap.servers"
_SHARED = frozenset(
    {
        "topic",
        "topic-pattern",
        "key.format",
        "key.fields-prefix",
        "value.format",
        "value.fields-include",
        "scan.bounded.mode",
        "scan.bounded.specific-offsets",
        "scan.bounded.timestamp-millis",
        "scan.topic-partition-discovery.interval",
        "scan.parallelism",
        "sink.delivery-guarantee",
        "sink.transactional-id-prefix",
        "sink.parallelism",
        STRATEGY_KEY,
    }
)
OPTIONS: Final = _SHARED | {
    "key.fields",
    "scan.startup.mode",
    "scan.startup.specific-offsets",
    "scan.startup.timestamp-millis",
    "sink.partitioner",
}
UPSERT_OPTIONS: Final = _SHARED | {"sink.buffer-flush.max-rows", "sink.buffer-flush.interval"}
_SPECIFIC = re.compile(r"partition:([0-9]+),offset:([0-9]+)")
_STARTUP = ("earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets")
_BOUNDED = ("unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets")
_GUARANTEES = {one.value: one for one in DeliveryGuarantee}


def is_bounded(options: Mapping[str, str]) -> bool:
    """Returns whether a Kafka table is bounded, that is, whether it has an end offset."""
    return options.get("scan.bounded.mode", "unbounded").lower() != "unbounded"


def check_kafka(options: Mapping[str, str], shape: TableShape, *, is_source: bool) -> None:
    """Checks options of a Kafka table that depend on each other, and their values. Raises ``InvalidJob`` with Flink's message."""
    is_upsert = options["connector"] == UPSERT_KAFKA
    value_format, _ = format_options(shape.name, options)
    key_format = options.get("key.format")
    for name, what in ((key_format, "key"), (value_format if is_upsert else None, "value")):
        if name in CHANGELOG_FORMATS and is_upsert:
            raise InvalidJob(
                f"'upsert-kafka' connector doesn't support '{name}' as {what} format, because '{name}' is not in insert-only mode."
            )
        if name in CHANGELOG_FORMATS:
            raise InvalidJob(
                f"A key format should only deal with INSERT-only records. But {name} has a changelog mode of [INSERT, UPDATE_BEFORE, "
                "UPDATE_AFTER, DELETE]."
            )
    if is_upsert and not shape.primary_key:
        raise InvalidJob(
            "'upsert-kafka' tables require to define a PRIMARY KEY constraint. The PRIMARY KEY specifies which columns should be read from or "
            "write to the Kafka message key. The PRIMARY KEY also defines records in the 'upsert-kafka' table should update or delete on which "
            "keys."
        )
    _check_topics(options)
    if is_source:
        _check_offsets(options, "scan.startup", "startup")
        _check_offsets(options, "scan.bounded", "bounded")
    else:
        _check_sink(options)
    if not is_upsert and shape.primary_key and value_format not in CHANGELOG_FORMATS:
        raise InvalidJob(
            f"The Kafka table '{shape.name}' with '{value_format}' format doesn't support defining PRIMARY KEY constraint on the table, because "
            "it can't guarantee the semantic of primary key."
        )
    key_places(options, shape)
    value_places(options, shape)


def key_places(options: Mapping[str, str], shape: TableShape) -> tuple[int, ...]:
    """Returns the positions of the columns that make up the message key, in the order of the key. Raises ``InvalidJob`` for key options that contradict."""
    is_upsert = options["connector"] == UPSERT_KAFKA
    names = list(shape.primary_key) if is_upsert else [one for one in options.get("key.fields", "").split(";") if one]
    if "key.format" not in options:
        if "key.fields" in options:
            raise InvalidJob(
                "The option 'key.fields' can only be declared if a key format is defined using 'key.format'."
            )
        return ()
    if not names:
        raise InvalidJob(
            "A key format 'key.format' requires the declaration of one or more of key fields using 'key.fields'."
        )
    prefix = options.get("key.fields-prefix", "")
    for name in names:
        if name not in shape.columns:
            raise InvalidJob(
                f"Could not find the field '{name}' in the table schema for usage in the key format. A key field must be a regular, physical "
                f"column. The following columns can be selected in the 'key.fields' option:\n[{', '.join(shape.columns)}]"
            )
        if not name.startswith(prefix):
            raise InvalidJob(
                f"All fields in 'key.fields' must be prefixed with '{prefix}' when option 'key.fields-prefix' is set but field '{name}' is not "
                "prefixed."
            )
    return tuple(shape.columns.index(name) for name in names)


def value_places(options: Mapping[str, str], shape: TableShape) -> tuple[int, ...]:
    """Returns the positions of the columns that make up the message value. Raises ``InvalidJob`` for options that contradict."""
    strategy = options.get("value.fields-include", "ALL").upper()
    if strategy not in ("ALL", "EXCEPT_KEY"):
        raise _invalid("value.fields-include", options["value.fields-include"], "ALL, EXCEPT_KEY")
    every = range(len(shape.columns))
    if strategy == "EXCEPT_KEY":
        keys = key_places(options, shape)
        return tuple(place for place in every if place not in keys)
    if options.get("key.fields-prefix"):
        raise InvalidJob(
            "A key prefix is not allowed when option 'value.fields-include' is set to 'ALL'. Set it to 'EXCEPT_KEY' instead to avoid field "
            "overlaps."
        )
    return tuple(every)


def kafka_source(
    options: Mapping[str, str], shape: TableShape, row_type: LogicalType, metadata: Sequence[str] = ()
) -> KafkaSource:
    """Builds the Kafka source of a table. ``metadata``: keys of the metadata columns to read, in their order. Raises ``InvalidJob`` as ``check_kafka``
    does."""
    is_upsert = options["connector"] == UPSERT_KAFKA
    builder = KafkaSource.builder().set_bootstrap_servers(options[SERVERS])
    names = options.get("topic", "").split(";")
    if "topic-pattern" in options:
        builder.set_topic_pattern(options["topic-pattern"])
    else:
        builder.set_topics(*names)
    properties = _properties(options)
    group = properties.pop("group.id", "")
    if group:
        builder.set_group_id(group)
    begins = KafkaOffsetsInitializer.earliest()
    builder.set_starting_offsets(
        begins if is_upsert else _offsets(options, "scan.startup", "group-offsets", _STARTUP, names, group)
    )
    if is_bounded(options):
        builder.set_bounded(_offsets(options, "scan.bounded", "unbounded", _BOUNDED, names, group))
    if "scan.topic-partition-discovery.interval" in options:
        builder.set_property(DISCOVERY_KEY, str(_milliseconds(options, "scan.topic-partition-discovery.interval")))
    for key, value in properties.items():
        builder.set_property(key, value)
    name, value_options = format_options(shape.name, options)
    places = value_places(options, shape)
    of_value = [key.removeprefix(VALUE) for key in metadata if key.startswith(VALUE)]
    reading = make_reading(name, value_options, _part(row_type, places), of_value)
    keys = key_format_options(options)
    if keys is None and not metadata:
        return builder.set_value_only_deserializer(TableDeserializer(reading)).build()
    of_keys = key_places(options, shape)
    return builder.set_value_only_deserializer(
        TableRecordDeserializer(
            row_type,
            reading,
            places,
            None
            if keys is None
            else make_reading(*keys, _part(row_type, of_keys, options.get("key.fields-prefix", ""))),
            of_keys,
            tuple(metadata),
            tuple(readable_metadata(options).items()),
            is_upsert,
        )
    ).build()


def readable_metadata(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the metadata columns that a Kafka table can read, with their SQL types; those of the value format come first."""
    of_format = format_metadata(format_options("", options)[0])
    return {f"{VALUE}{key}": type for key, type in of_format.items()} | dict(READABLE)


def kafka_sink(
    options: Mapping[str, str], shape: TableShape, row_type: LogicalType, metadata: Sequence[str] = ()
) -> KafkaSink:
    """Builds the Kafka sink of a table. ``metadata``: keys of the metadata columns to write, in their order. Raises ``InvalidJob`` as ``check_kafka``
    does."""
    is_upsert = options["connector"] == UPSERT_KAFKA
    topics = tuple(options["topic"].split(";")) if "topic" in options else ()
    if len(topics) != 1 and "topic" not in metadata:
        raise InvalidJob(
            "The topic of the sink record is not valid. Expected a single topic but no topic is set: name one topic, or give the table a column "
            "`topic` STRING NOT NULL METADATA"
        )
    if {"headers", "header-list"} <= set(metadata):
        raise InvalidJob("The metadata keys 'headers' and 'header-list' cannot be written both: leave one of them out")
    builder = KafkaSink.builder().set_bootstrap_servers(options[SERVERS])
    name, value_options = format_options(shape.name, options)
    places, of_keys = value_places(options, shape), key_places(options, shape)
    writing = make_writing(name, _with_subject(name, value_options, topics, "value"), _part(row_type, places))
    keys = key_format_options(options)
    if keys is not None:
        keys = keys[0], _with_subject(*keys, topics, "key")
    records = TableRecordSerializer(
        topic=topics[0] if len(topics) == 1 else None,
        topic_selector=None,
        value=TableSerializer(writing),
        key=None,
        sends_timestamps=False,
        row_type=row_type,
        value_writing=writing,
        value_places=places,
        key_writing=None
        if keys is None
        else make_writing(*keys, _part(row_type, of_keys, options.get("key.fields-prefix", ""))),
        key_places=of_keys,
        metadata=tuple(metadata),
        topics=topics,
        topic_pattern=options.get("topic-pattern"),
        is_upsert=is_upsert,
        is_fixed=options.get("sink.partitioner") == "fixed",
    )
    builder.set_record_serializer(records)
    builder.set_delivery_guarantee(_GUARANTEES[options.get("sink.delivery-guarantee", "at-least-once").lower()])
    if "sink.transactional-id-prefix" in options:
        builder.set_transactional_id_prefix(options["sink.transactional-id-prefix"])
    for key, value in _properties(options).items():
        builder.set_property(key, value)
    if STRATEGY_KEY in options:
        builder.set_property(STRATEGY_KEY, options[STRATEGY_KEY])
    sink = builder.build()
    rows, interval_ms = _buffer(options)
    if not rows:
        return sink
    settings = {one.name: getattr(sink, one.name) for one in fields(sink) if one.init}
    return BufferedUpsertSink(**settings, key_places=of_keys, most_rows=rows, interval_ms=interval_ms)


def _with_subject(name: str, options: Mapping[str, str], topics: Sequence[str], part: str) -> Mapping[str, str]:
    """Returns format options with the schema registry's subject set to ``<topic>-<part>`` where none is given and there is one topic."""
    keys = (f"{name}.subject", f"{name}.schema-registry.subject")
    if name not in REGISTRY_FORMATS or len(topics) != 1 or any(key in options for key in keys):
        return options
    return {**options, keys[0]: f"{topics[0]}-{part}"}


def _part(row_type: LogicalType, places: Sequence[int], prefix: str = "") -> LogicalType:
    """Returns a row type of some of the fields, with ``prefix`` removed from their names."""
    chosen = [row_type.fields[place] for place in places]
    return LogicalType(row_type.root, fields=tuple(Field(one.name.removeprefix(prefix), one.type) for one in chosen))


def _check_topics(options: Mapping[str, str]) -> None:
    if "topic" in options and "topic-pattern" in options:
        raise InvalidJob("Option 'topic' and 'topic-pattern' shouldn't be set together.")
    if "topic" not in options and "topic-pattern" not in options:
        raise InvalidJob("Either 'topic' or 'topic-pattern' must be set.")


def _check_offsets(options: Mapping[str, str], prefix: str, what: str) -> None:
    mode = options.get(f"{prefix}.mode", "").lower()
    if mode == "timestamp" and f"{prefix}.timestamp-millis" not in options:
        raise InvalidJob(f"'{prefix}.timestamp-millis' is required in 'timestamp' {what} mode but missing.")
    if mode != "specific-offsets":
        return
    key = f"{prefix}.specific-offsets"
    if key not in options:
        raise InvalidJob(f"'{key}' is required in 'specific-offsets' {what} mode but missing.")
    if ";" in options.get("topic", ";"):
        raise InvalidJob("Currently Kafka source only supports specific offset for single topic.")
    _specific(options, key, [options["topic"]])


def _check_sink(options: Mapping[str, str]) -> None:
    partitioner = options.get("sink.partitioner")
    if partitioner == "round-robin" and "key.fields" in options:
        raise InvalidJob("Currently 'round-robin' partitioner only works when option 'key.fields' is not specified.")
    if partitioner == "":
        raise InvalidJob("Option 'sink.partitioner' should be a non-empty string.")
    if partitioner not in (None, "default", "fixed", "round-robin"):
        raise InvalidJob(
            f"Could not find and instantiate partitioner class '{partitioner}': use default, fixed or round-robin, as tidegate cannot load Java classes"
        )
    text = options.get("sink.delivery-guarantee", "at-least-once").lower()
    if text not in _GUARANTEES:
        raise _invalid("sink.delivery-guarantee", text, ", ".join(sorted(_GUARANTEES)))
    if text == "exactly-once" and "sink.transactional-id-prefix" not in options:
        raise InvalidJob(
            "sink.transactional-id-prefix must be specified when using DeliveryGuarantee.EXACTLY_ONCE: give a prefix that no other job has"
        )
    _buffer(options)


def _buffer(options: Mapping[str, str]) -> tuple[int, int]:
    """Returns how many rows an upsert sink buffers and for how many ms; 0 for both: it does not buffer."""
    text = options.get("sink.buffer-flush.max-rows", "0")
    if not re.fullmatch("-?[0-9]+", text):
        raise _invalid("sink.buffer-flush.max-rows", text, "a whole number")
    rows = int(text)
    interval_ms = _milliseconds(options, "sink.buffer-flush.interval") if "sink.buffer-flush.interval" in options else 0
    if (rows > 0) != (interval_ms > 0):
        raise InvalidJob(
            "'sink.buffer-flush.max-rows' and 'sink.buffer-flush.interval' must be set to be greater than zero together to enable sink buffer "
            "flushing."
        )
    return max(rows, 0), interval_ms


def _properties(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties of Kafka's client, except ``bootstrap.servers``."""
    return {
        key.removeprefix("properties."): value
        for key, value in options.items()
        if key.startswith("properties.") and key != SERVERS
    }


def _offsets(
    options: Mapping[str, str], prefix: str, default: str, modes: tuple[str, ...], topics: list[str], group: str
) -> KafkaOffsetsInitializer:
    mode = options.get(f"{prefix}.mode", default).lower()
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
            if not options[key].isdecimal():
                raise _invalid(key, options[key], "a number of ms since 1970")
            return KafkaOffsetsInitializer.timestamp(int(options[key]))
        case "specific-offsets":
            return _specific(options, f"{prefix}.specific-offsets", topics)
    raise _invalid(f"{prefix}.mode", mode, ", ".join(modes))


def _specific(options: Mapping[str, str], key: str, topics: list[str]) -> KafkaOffsetsInitializer:
    text = options.get(key, "")
    found = [_SPECIFIC.fullmatch(part.strip()) for part in text.rstrip(";").split(";")]
    pairs = [(int(one[1]), int(one[2])) for one in found if one is not None]
    if len(pairs) != len(found):
        raise InvalidJob(
            f"Invalid properties '{key}' should follow the format 'partition:0,offset:42;partition:1,offset:300', but is '{text}'."
        )
    return KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topics[0], number): at for number, at in pairs})


def _milliseconds(options: Mapping[str, str], key: str) -> int:
    try:
        return parse_duration_ms(options[key])
    except ValueError as error:
        raise InvalidJob(f"Invalid value for option '{key}': {error}") from error


def _invalid(key: str, text: str, wanted: str) -> InvalidJob:
    return InvalidJob(f"Invalid value for option '{key}': {text!r}; it takes {wanted}")
