"""Sends the machines' commands to a TaskManager as gRPC calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from tidegate.jobmanager.machines.commands import (
    AbortCheckpoint,
    AllocateSlot,
    CancelTask,
    ConfirmCheckpoint,
    ConnectTask,
    FreeSlot,
    SendOperatorEvent,
    SubmitTask,
    TriggerCheckpoint,
)
from tidegate.model.errors import ErrorInfo
from tidegate.model.ids import AttemptId
from tidegate.pb import common_pb2
from tidegate.pb import taskmanager_pb2 as pb
from tidegate.wire.convert import attempt_from_text, deployment_to_bytes, error_from_pb, options_to_pb, producer_to_pb
from tidegate.wire.convert_events import operator_event_to_pb

if TYPE_CHECKING:
    from tidegate.pb.taskmanager_pb2_grpc import TaskManagerAsyncStub

TaskManagerCall = (
    AllocateSlot
    | FreeSlot
    | SubmitTask
    | ConnectTask
    | CancelTask
    | TriggerCheckpoint
    | ConfirmCheckpoint
    | AbortCheckpoint
    | SendOperatorEvent
)

Errors = tuple[ErrorInfo | None, dict[AttemptId, ErrorInfo]]


async def send(stub: TaskManagerAsyncStub, generation: str, call: TaskManagerCall, timeout_ms: int) -> Errors:
    """Makes one call. Returns the error of the whole call and those of single attempts; raises ``grpc.aio.AioRpcError``."""
    timeout_s = timeout_ms / 1000
    match call:
        case AllocateSlot():
            return _of_ack(await stub.AllocateSlot(_allocate(generation, call), timeout=timeout_s))
        case FreeSlot():
            return _of_ack(await stub.FreeSlot(_free(generation, call), timeout=timeout_s))
        case SubmitTask():
            deployment = deployment_to_bytes(call.deployment)
            request = pb.SubmitTaskRequest(generation=generation, deployment=deployment)
            return _of_ack(await stub.SubmitTask(request, timeout=timeout_s))
        case ConnectTask():
            return _of_ack(await stub.ConnectTask(_connect(generation, call), timeout=timeout_s))
        case CancelTask():
            cancel = pb.CancelTaskRequest(generation=generation, attempt=str(call.attempt))
            return _of_ack(await stub.CancelTask(cancel, timeout=timeout_s))
        case TriggerCheckpoint():
            return _of_answer(await stub.TriggerCheckpoint(_trigger(generation, call), timeout=timeout_s))
        case ConfirmCheckpoint():
            return _of_answer(await stub.ConfirmCheckpoint(_confirm(generation, call), timeout=timeout_s))
        case AbortCheckpoint():
            return _of_answer(await stub.AbortCheckpoint(_abort(generation, call), timeout=timeout_s))
        case SendOperatorEvent():
            event_request = common_pb2.OperatorEventRequest(
                generation=generation, attempt=str(call.attempt), event=operator_event_to_pb(call.event)
            )
            return _of_ack(await stub.SendOperatorEvent(event_request, timeout=timeout_s))
        case _:
            assert_never(call)


def _allocate(generation: str, call: AllocateSlot) -> pb.AllocateSlotRequest:
    return pb.AllocateSlotRequest(
        generation=generation, job_id=call.job_id, allocation_id=call.allocation_id, slot_index=call.slot_index
    )


def _free(generation: str, call: FreeSlot) -> pb.FreeSlotRequest:
    return pb.FreeSlotRequest(generation=generation, allocation_id=call.allocation_id, reason=call.reason)


def _connect(generation: str, call: ConnectTask) -> pb.ConnectTaskRequest:
    return pb.ConnectTaskRequest(
        generation=generation,
        attempt=str(call.attempt),
        producers=[producer_to_pb(producer) for producer in call.producers],
    )


def _trigger(generation: str, call: TriggerCheckpoint) -> pb.TriggerCheckpointRequest:
    return pb.TriggerCheckpointRequest(
        generation=generation,
        job_id=call.job_id,
        attempts=[str(attempt) for attempt in call.attempts],
        checkpoint_id=call.checkpoint_id,
        timestamp_ms=call.timestamp_ms,
        options=options_to_pb(call.options),
        advance_to_end_of_event_time=call.advance_to_end_of_event_time,
    )


def _confirm(generation: str, call: ConfirmCheckpoint) -> pb.ConfirmCheckpointRequest:
    return pb.ConfirmCheckpointRequest(
        generation=generation,
        job_id=call.job_id,
        attempts=[str(attempt) for attempt in call.attempts],
        checkpoint_id=call.checkpoint_id,
        timestamp_ms=call.timestamp_ms,
        may_finish=[str(attempt) for attempt in call.may_finish],
    )


def _abort(generation: str, call: AbortCheckpoint) -> pb.AbortCheckpointRequest:
    return pb.AbortCheckpointRequest(
        generation=generation,
        job_id=call.job_id,
        attempts=[str(attempt) for attempt in call.attempts],
        checkpoint_id=call.checkpoint_id,
        latest_completed_id=call.latest_completed_id,
    )


def _of_ack(answer: common_pb2.Ack) -> Errors:
    return (error_from_pb(answer.error) if answer.HasField("error") else None), {}


def _of_answer(answer: pb.CheckpointAnswer) -> Errors:
    attempts = {attempt_from_text(text): error_from_pb(error) for text, error in answer.attempts.items()}
    return (error_from_pb(answer.error) if answer.HasField("error") else None), attempts
