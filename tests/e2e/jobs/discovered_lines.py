"""Lines of a watched directory, or of a topic whose partitions grow, each written once by a file sink. The job never ends.

It is one vertex, so each subtask is a region of its own: one that is lost takes no other with it.
"""

from __future__ import annotations

import argparse

from tidegate.common import WatermarkStrategy
from tidegate.common.serialization import SimpleStringSchema
from tidegate.connectors.base import Source
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.throttle import ThrottledSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource

LOOKS_EVERY_MS = 100


def parser() -> argparse.ArgumentParser:
    """``--input``: a directory; or ``--servers`` and ``--topic``. ``--rate``: lines a second of each subtask."""
    made = argparse.ArgumentParser()
    made.add_argument("--input", default="")
    made.add_argument("--servers", default="")
    made.add_argument("--topic", default="")
    made.add_argument("--output", required=True)
    made.add_argument("--rate", type=float, default=1_000)
    return made


def source_of(arguments: argparse.Namespace) -> Source:
    if arguments.input:
        return FileSource.for_text(arguments.input).monitor_continuously(LOOKS_EVERY_MS)
    builder = KafkaSource.builder().set_bootstrap_servers(arguments.servers).set_topics(arguments.topic)
    builder.set_starting_offsets(KafkaOffsetsInitializer.earliest()).set_value_only_deserializer(SimpleStringSchema())
    return builder.set_property("partition.discovery.interval.ms", str(LOOKS_EVERY_MS)).build()


def main() -> None:
    arguments = parser().parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(300)
    lines = ThrottledSource(source_of(arguments), arguments.rate)
    stream = env.from_source(lines, WatermarkStrategy.no_watermarks(), "lines").uid("lines")
    stream.sink_to(FileSink.for_text(arguments.output)).uid("sink")
    env.execute("discovered-lines")


if __name__ == "__main__":
    main()
