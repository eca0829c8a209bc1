"""Converts deployments and the metrics of tasks between model values and protobuf messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from tidegate.model.accumulators import SerializedAccumulator
from tidegate.model.checkpoint import RestoredOperator, TaskRestore
from tidegate.model.deployment import InputDeployment, OutputDeployment, ProducerAddress, TaskDeployment
from tidegate.model.graph import Partitioner, SlotResources
from tidegate.model.ids import AllocationId, BlobKey, CheckpointId, Generation, OperatorId
from tidegate.pb import common_pb2 as pb
from tidegate.wire.accumulators import accumulators_from_pb, accumulators_to_pb
from tidegate.wire.control_frames import parse
from tidegate.wire.convert_errors import attempt_from_text, enum_from_text
from tidegate.wire.convert_state import (
    channel_from_pb,
    channel_to_pb,
    operator_handle_from_pb,
    operator_handle_to_pb,
    segment_from_pb,
    segment_to_pb,
)


class TaskMetricsLike(Protocol):
    """The attributes of ``tidegate.taskmanager.runtime.ports.TaskMetrics``, which this package may not import."""

    @property
    def records_in(self) -> int: ...
    @property
    def records_out(self) -> int: ...
    @property
    def bytes_in(self) -> int: ...
    @property
    def bytes_out(self) -> int: ...
    @property
    def busy_ms(self) -> int: ...
    @property
    def idle_ms(self) -> int: ...
    @property
    def backpressured_ms(self) -> int: ...
    @property
    def watermark_ms(self) -> int | None: ...
    @property
    def late_records_dropped(self) -> int: ...
    @property
    def user(self) -> Mapping[str, float]: ...
    @property
    def figures(self) -> Mapping[str, float]: ...
    @property
    def operator_ids(self) -> Mapping[str, str]: ...
    @property
    def accumulators(self) -> Mapping[str, SerializedAccumulator]: ...


def restore_to_pb(restore: TaskRestore) -> pb.TaskRestore:
    return pb.TaskRestore(
        checkpoint_id=restore.checkpoint_id,
        location=restore.location,
        operators={
            operator_id: pb.RestoredOperator(
                keyed=[segment_to_pb(segment) for segment in operator.keyed],
                operator=[operator_handle_to_pb(state) for state in operator.operator],
                slices=[pb.RestoredOperator.Slice(first=first, end=end) for first, end in operator.slices],
                channels=[channel_to_pb(channel) for channel in operator.channels],
            )
            for operator_id, operator in restore.operators.items()
        },
    )


def restore_from_pb(message: pb.TaskRestore) -> TaskRestore:
    operators = {
        OperatorId(operator_id): RestoredOperator(
            tuple(segment_from_pb(segment) for segment in operator.keyed),
            tuple(operator_handle_from_pb(state) for state in operator.operator),
            tuple((piece.first, piece.end) for piece in operator.slices),
            tuple(channel_from_pb(channel) for channel in operator.channels),
        )
        for operator_id, operator in message.operators.items()
    }
    return TaskRestore(CheckpointId(message.checkpoint_id), message.location, operators)


def deployment_to_bytes(deployment: TaskDeployment) -> bytes:
    """Encodes a deployment for its subtask. Equal deployments have equal bytes, by which a TaskManager recognizes a repeated call."""
    message = pb.TaskDeployment(
        attempt=str(deployment.attempt),
        generation=deployment.generation,
        allocation_id=deployment.allocation_id,
        job_name=deployment.job_name,
        task_name=deployment.task_name,
        parallelism=deployment.parallelism,
        max_parallelism=deployment.max_parallelism,
        program=deployment.program,
        inputs=[_input_to_pb(edge) for edge in deployment.inputs],
        outputs=[_output_to_pb(edge) for edge in deployment.outputs],
        restore=None if deployment.restore is None else restore_to_pb(deployment.restore),
        configuration=dict(deployment.configuration),
        blobs=dict(deployment.blobs),
        is_source=deployment.is_source,
        data_token=deployment.data_token,
        finished_on_restore=deployment.finished_on_restore,
        spark_query=deployment.spark_query,
        slot_resources=slot_resources_to_pb(deployment.slot_resources),
        signature=deployment.signature,
    )
    return message.SerializeToString(deterministic=True)


def deployment_from_bytes(content: bytes) -> TaskDeployment:
    """Decodes a deployment. Raises ``CorruptFrame`` for invalid bytes."""
    message = parse(pb.TaskDeployment, content)
    return TaskDeployment(
        attempt=attempt_from_text(message.attempt),
        generation=Generation(message.generation),
        allocation_id=AllocationId(message.allocation_id),
        job_name=message.job_name,
        task_name=message.task_name,
        parallelism=message.parallelism,
        max_parallelism=message.max_parallelism,
        program=BlobKey(message.program),
        inputs=tuple(_input_from_pb(edge) for edge in message.inputs),
        outputs=tuple(_output_from_pb(edge) for edge in message.outputs),
        restore=restore_from_pb(message.restore) if message.HasField("restore") else None,
        configuration=dict(message.configuration),
        blobs={name: BlobKey(key) for name, key in message.blobs.items()},
        is_source=message.is_source,
        data_token=message.data_token,
        finished_on_restore=message.finished_on_restore,
        spark_query=BlobKey(message.spark_query) if message.HasField("spark_query") else None,
        slot_resources=slot_resources_from_pb(message.slot_resources) if message.HasField("slot_resources") else None,
        signature=message.signature,
    )


def slot_resources_to_pb(resources: SlotResources | None) -> pb.SlotResources | None:
    if resources is None:
        return None
    return pb.SlotResources(
        group=resources.group,
        vertices=resources.vertices,
        cpu_cores=resources.cpu_cores,
        task_heap_bytes=resources.task_heap_bytes,
        task_off_heap_bytes=resources.task_off_heap_bytes,
        managed_bytes=resources.managed_bytes,
        external=dict(resources.external),
    )


def slot_resources_from_pb(message: pb.SlotResources) -> SlotResources:
    return SlotResources(
        message.group,
        message.vertices,
        message.cpu_cores,
        message.task_heap_bytes,
        message.task_off_heap_bytes,
        message.managed_bytes,
        dict(message.external),
    )


def producer_to_pb(producer: ProducerAddress) -> pb.ProducerAddress:
    return pb.ProducerAddress(attempt=str(producer.attempt), address=producer.address)


def producer_from_pb(message: pb.ProducerAddress) -> ProducerAddress:
    return ProducerAddress(attempt_from_text(message.attempt), message.address)


def task_metrics_to_pb(metrics: TaskMetricsLike) -> pb.TaskMetrics:
    return pb.TaskMetrics(
        records_in=metrics.records_in,
        records_out=metrics.records_out,
        bytes_in=metrics.bytes_in,
        bytes_out=metrics.bytes_out,
        busy_ms=metrics.busy_ms,
        idle_ms=metrics.idle_ms,
        backpressured_ms=metrics.backpressured_ms,
        watermark_ms=metrics.watermark_ms,
        late_records_dropped=metrics.late_records_dropped,
        user=dict(metrics.user),
        figures=dict(metrics.figures),
        operator_ids=dict(metrics.operator_ids),
        accumulators=accumulators_to_pb(metrics.accumulators),
    )


def task_metrics_from_pb(message: pb.TaskMetrics) -> dict[str, Any]:
    """Returns the keyword arguments of ``TaskMetrics`` from a message."""
    return {
        "records_in": message.records_in,
        "records_out": message.records_out,
        "bytes_in": message.bytes_in,
        "bytes_out": message.bytes_out,
        "busy_ms": message.busy_ms,
        "idle_ms": message.idle_ms,
        "backpressured_ms": message.backpressured_ms,
        "watermark_ms": message.watermark_ms if message.HasField("watermark_ms") else None,
        "late_records_dropped": message.late_records_dropped,
        "user": dict(message.user),
        "figures": dict(message.figures),
        "operator_ids": dict(message.operator_ids),
        "accumulators": accumulators_from_pb(message.accumulators),
    }


def _input_to_pb(edge: InputDeployment) -> pb.InputDeployment:
    return pb.InputDeployment(
        edge_id=edge.edge_id,
        input_index=edge.input_index,
        partitioner=edge.partitioner.value,
        producers=[str(attempt) for attempt in edge.producers],
        source_name=edge.source_name,
        source_parallelism=edge.source_parallelism,
    )


def _input_from_pb(message: pb.InputDeployment) -> InputDeployment:
    producers = tuple(attempt_from_text(text) for text in message.producers)
    return InputDeployment(
        message.edge_id,
        message.input_index,
        enum_from_text(Partitioner, message.partitioner),
        producers,
        message.source_name,
        message.source_parallelism,
    )


def _output_to_pb(edge: OutputDeployment) -> pb.OutputDeployment:
    return pb.OutputDeployment(
        edge_id=edge.edge_id,
        partitioner=edge.partitioner.value,
        consumers=edge.consumers,
        consumer_parallelism=edge.consumer_parallelism,
        consumer_max_parallelism=edge.consumer_max_parallelism,
        supports_unaligned=edge.supports_unaligned,
        input_index=edge.input_index,
    )


def _output_from_pb(message: pb.OutputDeployment) -> OutputDeployment:
    return OutputDeployment(
        message.edge_id,
        enum_from_text(Partitioner, message.partitioner),
        tuple(message.consumers),
        message.consumer_parallelism,
        message.consumer_max_parallelism,
        message.supports_unaligned,
        message.input_index,
    )
