"""The gRPC service that the JobManager calls (``proto/tidegate/pb/taskmanager.proto``): each request becomes an event, its refusal the answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from tidegate.model.coordinators.operator_events import OperatorEvent
from tidegate.model.errors import ErrorInfo, InternalError, NotSigned, TidegateError
from tidegate.model.graph import blocks_exchanges
from tidegate.model.ids import AllocationId, BlobKey, CheckpointId, Generation, JobId
from tidegate.model.masking import SECRETS
from tidegate.pb import common_pb2, subtask_pb2, taskmanager_pb2, taskmanager_pb2_grpc
from tidegate.security.signing import SignedVertex, SigningNow
from tidegate.taskmanager.machines import slots
from tidegate.taskmanager.machines import task_events as tv
from tidegate.taskmanager.service.task_executor import TaskExecutor
from tidegate.wire import control_frames as frames
from tidegate.wire.convert import (
    ack_of,
    attempt_from_text,
    error_to_pb,
    options_from_pb,
    producer_from_pb,
    slot_resources_from_pb,
)
from tidegate.wire.convert_events import operator_event_from_pb

_log = logging.getLogger(__name__)
_Kind = tv.CheckpointMailKind
_Mail = tuple[bytes, tv.CheckpointMail]
MakeMail = Callable[[str], _Mail]
"""Returns, for the id of an attempt, the mail for its subtask and what that says of a checkpoint."""
NewToken = Callable[[], str]


class TaskManagerService(taskmanager_pb2_grpc.TaskManagerServicer):
    """Implements the service, on the loop's thread. No call waits."""

    def __init__(self, executor: TaskExecutor, new_token: NewToken, signing: SigningNow | None = None) -> None:
        """Creates the service. ``signing``: returns what verifies signatures; if set, only programs with a valid signature are run."""
        self._executor = executor
        self._new_token = new_token
        self._signing = signing

    async def AllocateSlot(self, request: taskmanager_pb2.AllocateSlotRequest, context: object) -> common_pb2.Ack:
        event = slots.SlotRequested(
            Generation(request.generation),
            JobId(request.job_id),
            AllocationId(request.allocation_id),
            request.slot_index,
        )
        return ack_of(self._executor.request(event))

    async def FreeSlot(self, request: taskmanager_pb2.FreeSlotRequest, context: object) -> common_pb2.Ack:
        event = slots.SlotFreeRequested(
            Generation(request.generation), AllocationId(request.allocation_id), request.reason
        )
        return ack_of(self._executor.request(event))

    async def SubmitTask(self, request: taskmanager_pb2.SubmitTaskRequest, context: object) -> common_pb2.Ack:
        try:
            task = self._checked(request.deployment)
        except NotSigned as error:
            _log.error("refused a task of JobManager %s: %s", request.generation, error.message)
            return ack_of(error)
        except TidegateError as error:
            return ack_of(error)
        self.sees(task)
        return ack_of(self._executor.request(tv.TaskSubmitted(task, self._new_token())))

    def _checked(self, deployment: bytes) -> tv.SubmittedTask:
        """Reads a deployment. Raises ``CorruptFrame``, ``InternalError``, and ``NotSigned`` before anything that the task names is fetched or opened."""
        message = frames.parse(common_pb2.TaskDeployment, deployment)
        if self._signing is not None:
            self._signing().check_vertex(message.signature, _signed_vertex(message))
        return _submitted(message, deployment)

    def sees(self, task: tv.SubmittedTask) -> None:
        """Takes note of a task before it is started; does nothing unless it is overridden."""

    async def CancelTask(self, request: taskmanager_pb2.CancelTaskRequest, context: object) -> common_pb2.Ack:
        try:
            attempt = attempt_from_text(request.attempt)
        except TidegateError as error:
            return ack_of(error)
        return ack_of(self._executor.request(tv.CancelRequested(Generation(request.generation), attempt)))

    async def ConnectTask(self, request: taskmanager_pb2.ConnectTaskRequest, context: object) -> common_pb2.Ack:
        try:
            for producer in request.producers:
                producer_from_pb(producer)
        except TidegateError as error:
            return ack_of(error)
        connect = subtask_pb2.ToSubtask.Connect(producers=request.producers)
        mail = frames.frame(subtask_pb2.ToSubtask(connect=connect))
        return ack_of(self._send(request.generation, request.attempt, mail))

    async def TriggerCheckpoint(
        self, request: taskmanager_pb2.TriggerCheckpointRequest, context: object
    ) -> taskmanager_pb2.CheckpointAnswer:
        try:
            options = options_from_pb(request.options)
        except TidegateError as error:
            return _refused(error)
        if request.advance_to_end_of_event_time and not options.snapshot_type.is_synchronous:
            return _refused(
                InternalError(
                    f"checkpoint {request.checkpoint_id} is a {options.snapshot_type.value}: only a synchronous savepoint "
                    "may advance to the end of event time"
                )
            )
        trigger = subtask_pb2.ToSubtask.Trigger(
            checkpoint_id=request.checkpoint_id, timestamp_ms=request.timestamp_ms, options=request.options
        )
        mail = frames.frame(subtask_pb2.ToSubtask(trigger=trigger))
        ends_the_job = options.snapshot_type.is_synchronous
        says = tv.CheckpointMail(_Kind.TRIGGER, request.checkpoint_id, ends_the_job=ends_the_job)
        return self._send_to_all(request.generation, request.attempts, lambda _: (mail, says))

    async def ConfirmCheckpoint(
        self, request: taskmanager_pb2.ConfirmCheckpointRequest, context: object
    ) -> taskmanager_pb2.CheckpointAnswer:
        may_finish = frozenset(request.may_finish)
        mails = {may: _confirm(request.checkpoint_id, may_finish=may) for may in (False, True)}
        return self._send_to_all(request.generation, request.attempts, lambda attempt: mails[attempt in may_finish])

    async def AbortCheckpoint(
        self, request: taskmanager_pb2.AbortCheckpointRequest, context: object
    ) -> taskmanager_pb2.CheckpointAnswer:
        latest = request.latest_completed_id if request.HasField("latest_completed_id") else None
        abort = subtask_pb2.ToSubtask.Abort(checkpoint_id=request.checkpoint_id, latest_completed_id=latest)
        mail = frames.frame(subtask_pb2.ToSubtask(abort=abort))
        says = tv.CheckpointMail(_Kind.ABORT, request.checkpoint_id)
        return self._send_to_all(request.generation, request.attempts, lambda _: (mail, says))

    async def SendOperatorEvent(self, request: common_pb2.OperatorEventRequest, context: object) -> common_pb2.Ack:
        try:
            event = operator_event_from_pb(request.event)
        except TidegateError as error:
            return ack_of(error)
        mail = frames.frame(subtask_pb2.ToSubtask(operator_event=request.event))
        return ack_of(self._send(request.generation, request.attempt, mail, event))

    def _send_to_all(
        self, generation: str, attempts: Iterable[str], make_mail: MakeMail
    ) -> taskmanager_pb2.CheckpointAnswer:
        answer = taskmanager_pb2.CheckpointAnswer()
        for attempt in attempts:
            refusal = self._send(generation, attempt, *make_mail(attempt))
            if refusal is None:
                continue
            if refusal.code == "fenced":
                return taskmanager_pb2.CheckpointAnswer(error=error_to_pb(refusal))
            answer.attempts[attempt].CopyFrom(error_to_pb(refusal))
        return answer

    def _send(
        self, generation: str, attempt: str, mail: bytes, says: tv.CheckpointMail | OperatorEvent | None = None
    ) -> ErrorInfo | None:
        try:
            known = attempt_from_text(attempt)
        except TidegateError as error:
            return ErrorInfo.of(error)
        return self._executor.request(tv.MailRequested(Generation(generation), known, mail, says))


def _signed_vertex(message: common_pb2.TaskDeployment) -> SignedVertex:
    """Returns the part of a deployment that is signed. Raises ``InternalError`` for an invalid attempt id."""
    attempt = attempt_from_text(message.attempt)
    return SignedVertex(
        attempt.job_id,
        attempt.vertex_id,
        message.task_name,
        BlobKey(message.program),
        BlobKey(message.spark_query) if message.HasField("spark_query") else None,
        {name: BlobKey(key) for name, key in message.blobs.items()},
    )


def _submitted(message: common_pb2.TaskDeployment, deployment: bytes) -> tv.SubmittedTask:
    """Reads the part of a deployment that the TaskManager needs, and frames the rest for the subtask. Raises ``InternalError``."""
    SECRETS.learn(message.configuration)
    deploy = subtask_pb2.ToSubtask.Deploy(deployment=deployment)
    return tv.SubmittedTask(
        attempt=attempt_from_text(message.attempt),
        generation=Generation(message.generation),
        allocation_id=AllocationId(message.allocation_id),
        job_name=message.job_name,
        task_name=message.task_name,
        parallelism=message.parallelism,
        deploy=frames.frame(subtask_pb2.ToSubtask(deploy=deploy)),
        restored_id=CheckpointId(message.restore.checkpoint_id) if message.HasField("restore") else None,
        spark_query=BlobKey(message.spark_query) if message.HasField("spark_query") else None,
        configuration=dict(message.configuration),
        stored=_stored_edges(message) if blocks_exchanges(message.configuration) else None,
        slot_resources=slot_resources_from_pb(message.slot_resources) if message.HasField("slot_resources") else None,
    )


def _stored_edges(message: common_pb2.TaskDeployment) -> tv.StoredEdges:
    return tv.StoredEdges(
        tuple((edge.edge_id, tuple(map(attempt_from_text, edge.producers))) for edge in message.inputs),
        tuple((edge.edge_id, tuple(edge.consumers)) for edge in message.outputs),
    )


def _confirm(checkpoint_id: int, *, may_finish: bool) -> _Mail:
    confirm = subtask_pb2.ToSubtask.Confirm(checkpoint_id=checkpoint_id, may_finish=may_finish)
    says = tv.CheckpointMail(_Kind.CONFIRM, checkpoint_id, may_finish=may_finish)
    return frames.frame(subtask_pb2.ToSubtask(confirm=confirm)), says


def _refused(error: TidegateError) -> taskmanager_pb2.CheckpointAnswer:
    return taskmanager_pb2.CheckpointAnswer(error=error_to_pb(ErrorInfo.of(error)))
