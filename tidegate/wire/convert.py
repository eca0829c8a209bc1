"""All conversions between protobuf messages and model values. ``*_to_pb`` and ``*_from_pb`` are inverses of each other."""

from __future__ import annotations

from tidegate.wire.convert_deployment import (
    deployment_from_bytes,
    deployment_to_bytes,
    producer_from_pb,
    producer_to_pb,
    restore_from_pb,
    restore_to_pb,
    slot_resources_from_pb,
    task_metrics_from_pb,
    task_metrics_to_pb,
)
from tidegate.wire.convert_errors import (
    ack_of,
    attempt_from_text,
    enum_from_text,
    error_from_pb,
    error_of_ack,
    error_of_status,
    error_to_pb,
    optional_error_to_pb,
    status_of_error,
)
from tidegate.wire.convert_graph import graph_from_pb, graph_to_pb
from tidegate.wire.convert_reports import attempt_report_from_pb, attempt_report_to_pb
from tidegate.wire.convert_state import (
    checkpoint_metrics_from_pb,
    checkpoint_metrics_to_pb,
    handle_from_pb,
    handle_to_pb,
    operator_handle_from_pb,
    operator_handle_to_pb,
    options_from_pb,
    options_to_pb,
    segment_from_pb,
    segment_to_pb,
    snapshot_from_pb,
    snapshot_to_pb,
)

__all__ = [
    "ack_of",
    "attempt_from_text",
    "attempt_report_from_pb",
    "attempt_report_to_pb",
    "checkpoint_metrics_from_pb",
    "checkpoint_metrics_to_pb",
    "deployment_from_bytes",
    "deployment_to_bytes",
    "enum_from_text",
    "error_from_pb",
    "error_of_ack",
    "error_of_status",
    "error_to_pb",
    "graph_from_pb",
    "graph_to_pb",
    "handle_from_pb",
    "handle_to_pb",
    "operator_handle_from_pb",
    "operator_handle_to_pb",
    "optional_error_to_pb",
    "options_from_pb",
    "options_to_pb",
    "producer_from_pb",
    "producer_to_pb",
    "restore_from_pb",
    "restore_to_pb",
    "segment_from_pb",
    "segment_to_pb",
    "slot_resources_from_pb",
    "snapshot_from_pb",
    "snapshot_to_pb",
    "status_of_error",
    "task_metrics_from_pb",
    "task_metrics_to_pb",
]
