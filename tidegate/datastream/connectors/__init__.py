"""Names of `pyflink.datastream.connectors`: PyFlink's builders over the connectors of `tidegate.connectors`."""

from __future__ import annotations

from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.names.missing_modules import say_which_is_meant
from tidegate.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]

__getattr__ = finding(
    __name__,
    elsewhere(
        "tidegate.datastream.connectors.file_system",
        "BucketAssigner FileEnumeratorProvider FileSink FileSource FileSourceBuilder FileSplitAssignerProvider "
        "OutputFileConfig RollingPolicy StreamFormat StreamingFileSink",
    ),
    elsewhere(
        "tidegate.datastream.connectors.dynamic_kafka",
        "DynamicKafkaSource DynamicKafkaSourceBuilder KafkaMetadataService KafkaRecordDeserializationSchema "
        "KafkaStreamSetSubscriber KafkaStreamSubscriber SingleClusterTopicMetadataService StreamPatternSubscriber",
    ),
    elsewhere("tidegate.datastream.connectors.kafka", "FlinkKafkaConsumer FlinkKafkaProducer KafkaSource Semantic"),
    elsewhere("tidegate.datastream.connectors.jdbc", "JdbcConnectionOptions JdbcExecutionOptions JdbcSink"),
    elsewhere("tidegate.datastream.connectors.number_seq", "NumberSequenceSource"),
    elsewhere("tidegate.datastream.connectors.pulsar", "PulsarSource PulsarSourceBuilder StartCursor StopCursor"),
    elsewhere("tidegate.datastream.connectors.rabbitmq", "RMQConnectionConfig RMQSink RMQSource"),
)

say_which_is_meant()
