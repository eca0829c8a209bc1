"""Lines of files, then of a topic from where the files end, each written once by a file sink. It never ends."""

from __future__ import annotations

import argparse

from tidegate.common import WatermarkStrategy
from tidegate.common.serialization import SimpleStringSchema
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.throttle import ThrottledSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.hybrid_source import HybridSource
from tidegate.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource


def parser() -> argparse.ArgumentParser:
    """``--from-ms``: the timestamp of the first message that is in no file. ``--rate``: lines of files a second of each subtask."""
    made = argparse.ArgumentParser()
    made.add_argument("--input", required=True)
    made.add_argument("--output", required=True)
    made.add_argument("--servers", required=True)
    made.add_argument("--topic", required=True)
    made.add_argument("--from-ms", type=int, required=True)
    made.add_argument("--rate", type=float, default=500)
    return made


def main() -> None:
    arguments = parser().parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(300)
    files = ThrottledSource(FileSource.for_text(arguments.input), arguments.rate)
    topic = KafkaSource.builder().set_bootstrap_servers(arguments.servers).set_topics(arguments.topic)
    topic.set_starting_offsets(KafkaOffsetsInitializer.timestamp(arguments.from_ms)).set_group_id("hybrid")
    topic.set_property("partition.discovery.interval.ms", "500")
    live = topic.set_value_only_deserializer(SimpleStringSchema()).build()
    source = HybridSource.builder(files).add_source(live).build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").uid("lines")
    lines.sink_to(FileSink.for_text(arguments.output)).uid("sink")
    env.execute("hybrid-lines")


if __name__ == "__main__":
    main()
