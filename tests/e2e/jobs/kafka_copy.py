"""The job that everyone writes first: two topics, a union, a map, a topic (or a table); keys stay keys. Exactly once. It never ends."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from tidegate.common import Row
from tidegate.common.serialization import SimpleStringSchema
from tidegate.common.typeinfo import Types
from tidegate.common.watermark_strategy import WatermarkStrategy
from tidegate.connectors.postgres.sink import PostgresSink
from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.datastream.connectors.base import DeliveryGuarantee
from tidegate.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    TransactionNamingStrategy,
)
from tidegate.functions.interfaces import MapFunction, RuntimeContext

COLUMNS = Types.ROW_NAMED(["key", "topic", "n", "twice"], [Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()])


def key_of(record: str) -> bytes:
    return str(json.loads(record)["key"]).encode()


def mapped(record: str) -> str:
    found = json.loads(record)
    return json.dumps({**found, "twice": 2 * found["n"]})


def as_row(record: str) -> Row:
    found = json.loads(record)
    return Row(key=found["key"], topic=found["from"], n=found["n"], twice=2 * found["n"])


class Noted(MapFunction):
    """In the source's own chain: each process notes its pid."""

    def __init__(self, notes: str) -> None:
        self._notes = notes

    def open(self, runtime_context: RuntimeContext) -> None:
        (Path(self._notes) / f"source-{os.getpid()}").touch()

    def map(self, value: str) -> str:
        return value


def source(servers: str, topic: str, group: str) -> KafkaSource:
    builder = KafkaSource.builder().set_bootstrap_servers(servers).set_topics(topic).set_group_id(group)
    builder.set_starting_offsets(KafkaOffsetsInitializer.earliest())
    return builder.set_value_only_deserializer(SimpleStringSchema()).build()


def sink(servers: str, topic: str, strategy: str) -> KafkaSink:
    """``strategy``: of naming transactions that stay open; empty: epochs travel in the checkpoint."""
    records = KafkaRecordSerializationSchema.builder().set_topic(topic)
    records.set_key_serialization_schema(key_of).set_value_serialization_schema(SimpleStringSchema())
    builder = KafkaSink.builder().set_bootstrap_servers(servers).set_record_serializer(records.build())
    builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix(topic)
    if strategy:
        builder.set_transaction_naming_strategy(TransactionNamingStrategy[strategy])
    return builder.build()


def write(stream: DataStream, arguments: argparse.Namespace) -> None:
    if arguments.postgres:
        stream.map(as_row, COLUMNS).sink_to(PostgresSink(arguments.postgres, arguments.output)).uid("sink")
    else:
        stream.map(mapped, Types.STRING()).sink_to(sink(arguments.servers, arguments.output, arguments.strategy)).uid(
            "sink"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--servers", required=True)
    parser.add_argument("--inputs", nargs=2, required=True)
    parser.add_argument("--output", required=True, help="a topic, or a table with --postgres")
    parser.add_argument("--postgres", default="")
    parser.add_argument("--group", required=True)
    parser.add_argument("--strategy", default="", choices=["", *TransactionNamingStrategy.__members__])
    parser.add_argument("--interval", type=int, default=200)
    parser.add_argument("--notes", default=".")
    arguments = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(arguments.interval)
    paced = [
        env.from_source(source(arguments.servers, topic, arguments.group), WatermarkStrategy.no_watermarks(), topic)
        .uid(topic)
        .map(Noted(arguments.notes), Types.STRING())
        for topic in arguments.inputs
    ]
    write(paced[0].union(paced[1]), arguments)
    env.execute("kafka copy")


if __name__ == "__main__":
    main()
