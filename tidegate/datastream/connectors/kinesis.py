"""PyFlink's Kinesis connector wraps Java classes: its names are refused when they are used, with what to use instead."""

from __future__ import annotations

from tidegate.common.records.java_only import refusing

_NAMES = """
FlinkKinesisConsumer KinesisDeserializationSchema KinesisFirehoseSink KinesisFirehoseSinkBuilder
KinesisShardAssigner KinesisStreamsSink KinesisStreamsSinkBuilder PartitionKeyGenerator
WatermarkTracker
"""

__getattr__ = refusing(
    __name__,
    _NAMES,
    "use KafkaSource and KafkaSink, or env.from_spark(...) for bounded reads",
)
