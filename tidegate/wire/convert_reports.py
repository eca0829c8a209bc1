"""Converts the reports of TaskManagers on attempts to a new leader between model values and protobuf messages."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.model.coordinators.operator_events import CoordinatorReport, SourceSplit
from tidegate.model.ids import AllocationId, Generation
from tidegate.model.leadership.attempt_report import AttemptReport
from tidegate.model.states import ExecutionState
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.pb.common_pb2 import TaskMetrics
from tidegate.wire.convert_errors import attempt_from_text, enum_from_text, error_from_pb, optional_error_to_pb
from tidegate.wire.convert_events import split_from_pb, split_to_pb


def attempt_report_to_pb(report: AttemptReport, metrics: TaskMetrics | None = None) -> pb.AttemptReport:
    """Converts a report on an attempt to a message. ``metrics``: those of the attempt."""
    return pb.AttemptReport(
        attempt=str(report.attempt),
        allocation_id=report.allocation_id,
        state=report.state.value,
        deployed_ms=report.deployed_ms,
        data_address=report.data_address,
        restored_id=report.restored_id,
        acknowledged=[
            pb.AcknowledgedCheckpoint(checkpoint_id=number, generation=generation)
            for number, generation in report.acknowledged
        ],
        confirmed_id=report.confirmed_id,
        newest_id=report.newest_id,
        at_end_of_data=report.at_end_of_data,
        may_finish=report.may_finish,
        is_being_stopped=report.is_being_stopped,
        error=optional_error_to_pb(report.error),
        assigned=[pb.AssignedSplit(after_id=n, split=split_to_pb(split)) for n, split in report.events.assigned],
        last_event_number=report.events.last_number,
        discovered=[pb.AssignedSplit(after_id=n, split=split_to_pb(split)) for n, split in report.events.discovered],
        awaits_discovery=report.events.awaits_discovery,
        metrics=metrics,
    )


def attempt_report_from_pb(message: pb.AttemptReport) -> AttemptReport:
    """Converts a message to a report on an attempt. Raises ``InternalError`` for an invalid form, ``VersionMismatch`` for an unknown state."""
    return AttemptReport(
        attempt=attempt_from_text(message.attempt),
        allocation_id=AllocationId(message.allocation_id),
        state=enum_from_text(ExecutionState, message.state),
        deployed_ms=message.deployed_ms,
        data_address=message.data_address if message.HasField("data_address") else None,
        restored_id=message.restored_id,
        acknowledged=tuple((one.checkpoint_id, Generation(one.generation)) for one in message.acknowledged),
        confirmed_id=message.confirmed_id,
        newest_id=message.newest_id,
        at_end_of_data=message.at_end_of_data,
        may_finish=message.may_finish,
        is_being_stopped=message.is_being_stopped,
        error=error_from_pb(message.error) if message.HasField("error") else None,
        events=CoordinatorReport(
            _splits_of(message.assigned),
            message.last_event_number,
            _splits_of(message.discovered),
            message.awaits_discovery,
        ),
    )


def _splits_of(reported: Iterable[pb.AssignedSplit]) -> tuple[tuple[int, SourceSplit], ...]:
    return tuple((one.after_id, split_from_pb(one.split)) for one in reported)
