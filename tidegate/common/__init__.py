"""Common API as in `pyflink.common`: types, watermark strategies, durations, configuration.

Module paths and names are PyFlink's, so that a job moves here by changing its import lines.
"""

from __future__ import annotations

from tidegate.common.completable_future import CompletableFuture
from tidegate.common.config_options import ConfigOption, ConfigOptions
from tidegate.common.configuration import Configuration
from tidegate.common.execution_config import ExecutionConfig
from tidegate.common.input_dependency_constraint import InputDependencyConstraint
from tidegate.common.job_client import JobClient
from tidegate.common.job_execution_result import JobExecutionResult
from tidegate.common.job_id import JobID
from tidegate.common.job_status import JobStatus
from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.names.flink_1 import flink_1
from tidegate.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from tidegate.common.row import Row, RowKind
from tidegate.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    SerializationSchema,
    SimpleStringSchema,
)
from tidegate.common.serializer import TypeSerializer
from tidegate.common.time import Duration, Instant, Time
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.common.watermark_strategy import TimestampAssigner, WatermarkStrategy

__all__ = [
    "AssignerWithPeriodicWatermarksWrapper",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "InputDependencyConstraint",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TimestampAssigner",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "WatermarkStrategy",
]

__getattr__ = finding(
    __name__,
    elsewhere("tidegate.datastream.formats.avro", "AvroRowDeserializationSchema AvroRowSerializationSchema"),
    elsewhere("tidegate.datastream.formats.csv", "CsvRowDeserializationSchema CsvRowSerializationSchema"),
    elsewhere("tidegate.datastream.formats.json", "JsonRowDeserializationSchema JsonRowSerializationSchema"),
    elsewhere("tidegate.common.watermark_strategy", "AssignerWithPeriodicWatermarksWrapper"),
    flink_1(__name__),
)
