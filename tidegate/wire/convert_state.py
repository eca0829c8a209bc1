"""Converts the values of checkpoints between model values and protobuf messages: handles, snapshots, options, metrics."""

from __future__ import annotations

from tidegate.model.checkpoint import (
    Alignment,
    ChannelStateHandle,
    CheckpointMetrics,
    CheckpointOptions,
    OperatorSnapshot,
    OperatorStateHandle,
    SegmentHandle,
    SnapshotType,
    StateHandle,
    StateRedistribution,
    SubtaskSnapshot,
)
from tidegate.model.ids import OperatorId
from tidegate.model.keygroups import KeyGroupRange
from tidegate.pb import common_pb2 as pb
from tidegate.wire.convert_errors import enum_from_text


def handle_to_pb(handle: StateHandle) -> pb.StateHandle:
    return pb.StateHandle(
        size_bytes=handle.size_bytes,
        checksum=handle.checksum,
        path=handle.path,
        data=handle.data,
        is_shared=handle.is_shared,
        block_checksums=handle.block_checksums,
    )


def handle_from_pb(message: pb.StateHandle) -> StateHandle:
    data = message.data if message.HasField("data") else None
    return StateHandle(
        message.size_bytes, message.checksum, message.path, data, message.is_shared, message.block_checksums
    )


def segment_to_pb(segment: SegmentHandle) -> pb.SegmentHandle:
    return pb.SegmentHandle(
        state_name=segment.state_name,
        first_key_group=segment.key_groups.start,
        last_key_group=segment.key_groups.end,
        offsets=segment.offsets,
        handle=handle_to_pb(segment.handle),
        level=segment.level,
        first_ms=segment.first_ms,
    )


def segment_from_pb(message: pb.SegmentHandle) -> SegmentHandle:
    groups = KeyGroupRange(message.first_key_group, message.last_key_group)
    handle = handle_from_pb(message.handle)
    first_ms = message.first_ms if message.HasField("first_ms") else None
    return SegmentHandle(message.state_name, groups, tuple(message.offsets), handle, message.level, first_ms)


def operator_handle_to_pb(state: OperatorStateHandle) -> pb.OperatorStateHandle:
    return pb.OperatorStateHandle(
        state_name=state.state_name,
        redistribution=state.redistribution.value,
        elements=state.elements,
        handle=handle_to_pb(state.handle),
    )


def operator_handle_from_pb(message: pb.OperatorStateHandle) -> OperatorStateHandle:
    redistribution = enum_from_text(StateRedistribution, message.redistribution)
    return OperatorStateHandle(message.state_name, redistribution, message.elements, handle_from_pb(message.handle))


def channel_to_pb(channel: ChannelStateHandle) -> pb.ChannelStateHandle:
    return pb.ChannelStateHandle(
        edge_id=channel.edge_id,
        producer=channel.producer,
        consumer=channel.consumer,
        batches=channel.batches,
        handle=handle_to_pb(channel.handle),
        input_index=channel.input_index,
    )


def channel_from_pb(message: pb.ChannelStateHandle) -> ChannelStateHandle:
    return ChannelStateHandle(
        message.edge_id,
        message.producer,
        message.consumer,
        message.batches,
        handle_from_pb(message.handle),
        message.input_index,
    )


def snapshot_to_pb(snapshot: SubtaskSnapshot) -> pb.SubtaskSnapshot:
    """Converts the snapshot in a subtask's acknowledgement to a message."""
    return pb.SubtaskSnapshot(
        operators={
            operator_id: pb.OperatorSnapshot(
                keyed=[segment_to_pb(segment) for segment in operator.keyed],
                operator=[operator_handle_to_pb(state) for state in operator.operator],
                input_channels=[channel_to_pb(channel) for channel in operator.input_channels],
                output_channels=[channel_to_pb(channel) for channel in operator.output_channels],
            )
            for operator_id, operator in snapshot.operators.items()
        }
    )


def snapshot_from_pb(message: pb.SubtaskSnapshot) -> SubtaskSnapshot:
    return SubtaskSnapshot(
        {
            OperatorId(operator_id): OperatorSnapshot(
                tuple(map(segment_from_pb, operator.keyed)),
                tuple(map(operator_handle_from_pb, operator.operator)),
                tuple(map(channel_from_pb, operator.input_channels)),
                tuple(map(channel_from_pb, operator.output_channels)),
            )
            for operator_id, operator in message.operators.items()
        }
    )


def options_to_pb(options: CheckpointOptions) -> pb.CheckpointOptions:
    return pb.CheckpointOptions(
        location=options.location,
        snapshot_type=options.snapshot_type.value,
        alignment=options.alignment.value,
        aligned_timeout_ms=options.aligned_timeout_ms,
        is_full=options.is_full,
        shared_location=options.shared_location,
        oldest_base_id=options.oldest_base_id,
    )


def options_from_pb(message: pb.CheckpointOptions) -> CheckpointOptions:
    return CheckpointOptions(
        message.location,
        enum_from_text(SnapshotType, message.snapshot_type),
        enum_from_text(Alignment, message.alignment),
        message.aligned_timeout_ms if message.HasField("aligned_timeout_ms") else None,
        message.is_full,
        message.shared_location,
        message.oldest_base_id,
    )


def checkpoint_metrics_to_pb(metrics: CheckpointMetrics) -> pb.CheckpointMetrics:
    return pb.CheckpointMetrics(
        start_delay_ms=metrics.start_delay_ms,
        alignment_ms=metrics.alignment_ms,
        sync_ms=metrics.sync_ms,
        async_ms=metrics.async_ms,
        bytes_processed_during_alignment=metrics.bytes_processed_during_alignment,
        bytes_persisted=metrics.bytes_persisted,
        barrier_timestamp_ms=metrics.barrier_timestamp_ms,
        unaligned=metrics.unaligned,
        waited_for=metrics.waited_for,
        in_flight_bytes=metrics.in_flight_bytes,
    )


def checkpoint_metrics_from_pb(message: pb.CheckpointMetrics) -> CheckpointMetrics:
    return CheckpointMetrics(
        message.start_delay_ms,
        message.alignment_ms,
        message.sync_ms,
        message.async_ms,
        message.bytes_processed_during_alignment,
        message.bytes_persisted,
        message.barrier_timestamp_ms,
        message.unaligned,
        message.waited_for,
        message.in_flight_bytes,
    )
