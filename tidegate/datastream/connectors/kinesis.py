"""PyFlink's Kinesis connector wraps Java classes: its names are refused when they are used, with what to use instead."""

from __future__ import annotations

from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.names.java_only import java_only

_NAMES = """
FlinkKinesisConsumer KinesisDeserializationSchema KinesisFirehoseSink KinesisFirehoseSinkBuilder
KinesisShardAssigner KinesisStreamsSink KinesisStreamsSinkBuilder PartitionKeyGenerator
WatermarkTracker
"""

__all__ = [*_NAMES.split()]

__getattr__ = finding(
    __name__,
    java_only(__name__, _NAMES, "use KafkaSource and KafkaSink, or env.from_spark(...) for bounded reads"),
    elsewhere("tidegate.common.watermark_strategy", "AssignerWithPeriodicWatermarksWrapper"),
    elsewhere("tidegate.common.serialization", "DeserializationSchema SerializationSchema"),
    elsewhere("tidegate.datastream.connectors.base", "Sink"),
    elsewhere("tidegate.functions.java_functions", "SourceFunction"),
)
