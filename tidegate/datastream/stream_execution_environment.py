"""`StreamExecutionEnvironment`: where a program begins and where it is executed (PyFlink: its module of the same name)."""

from __future__ import annotations

from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.names.flink_1 import flink_1
from tidegate.datastream.data_stream import StreamExecutionEnvironment

__all__ = ["StreamExecutionEnvironment"]


__getattr__ = finding(
    __name__,
    elsewhere("tidegate.common.io", "InputFormat"),
    elsewhere("tidegate.common", "Configuration JobClient JobExecutionResult TypeInformation WatermarkStrategy"),
    elsewhere("tidegate.connectors.base", "Source"),
    elsewhere("tidegate.datastream.data_stream", "DataStream"),
    elsewhere("tidegate.datastream.execution_mode", "RuntimeExecutionMode"),
    elsewhere("tidegate.functions.java_functions", "SourceFunction"),
    elsewhere("tidegate.common.typeinfo", "Types"),
    elsewhere("tidegate.common.execution_config", "ExecutionConfig"),
    elsewhere("tidegate.datastream.checkpoint_config", "CheckpointConfig"),
    elsewhere("tidegate.datastream.checkpointing_mode", "CheckpointingMode"),
    elsewhere("tidegate.datastream.slot_sharing_group", "SlotSharingGroup"),
    elsewhere("tidegate.util.api_stability_decorators", "Public"),
    flink_1(__name__),
)
