"""The subtask's end of its control stream: mails in, everything it tells out, in order.

    runtime ──ControlPort──▶ outbox ──one thread, in order──▶ TaskManager
    mailbox ◀──one thread, in order────────────────────────── TaskManager

Laws:
1. Every call of the port returns at once, but for printing, which waits while 1 MiB of it is unsent.
2. When the stream breaks, the mailbox gets ``ControlLost``, and ``GRACE_S`` later the process ends, whatever it is doing.
3. ``close`` returns after the TaskManager has read the last word: it ends the stream then, and the process may go.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from taskmanager.runtime.ports import (
    AbortCheckpoint,
    CancelTask,
    ConfirmCheckpoint,
    ConnectInputs,
    ControlLost,
    Mail,
    TaskMetrics,
    TriggerCheckpoint,
)
from taskmanager.spark.entry import SubtaskEntry
from taskmanager.spark.process import end_process_after
from tidegate.aio.inspection import thread_dump
from tidegate.model.checkpoint import Acknowledgement, DeclineReason
from tidegate.model.deployment import TaskDeployment
from tidegate.model.errors import ErrorInfo, Unreachable
from tidegate.model.states import ExecutionState
from tidegate.pb import common_pb2, subtask_pb2, subtask_pb2_grpc
from tidegate.wire.convert import (
    checkpoint_metrics_to_pb,
    deployment_from_pb,
    error_of_status,
    optional_error_to_pb,
    options_from_pb,
    producer_from_pb,
    snapshot_to_pb,
    task_metrics_to_pb,
)

GRACE_S = 2.0
CLOSE_TIMEOUT_S = 5.0
PRINTED_BYTES = 1 << 20
GATHERED_BYTES = 16 << 10
CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.enable_http_proxy", 0),
)


class Outbox:
    """Messages that wait to be sent, in order. Printed text is gathered, and bounded."""

    def __init__(self) -> None:
        self._messages: deque[subtask_pb2.FromSubtask] = deque()
        self._condition = threading.Condition()
        self._printed_bytes = 0
        self._closed = False

    def put(self, message: subtask_pb2.FromSubtask) -> None:
        with self._condition:
            self._messages.append(message)
            self._condition.notify_all()

    def print(self, text: str, is_error: bool) -> None:
        with self._condition:
            self._condition.wait_for(lambda: self._printed_bytes < PRINTED_BYTES or self._closed)
            if self._closed:
                return
            self._printed_bytes += len(text)
            last = self._messages[-1] if self._messages else None
            if last is not None and _may_grow(last, is_error):
                last.output.text += text
            else:
                self._messages.append(
                    subtask_pb2.FromSubtask(output=subtask_pb2.FromSubtask.Output(text=text, is_error=is_error))
                )
            self._condition.notify_all()

    def close(self) -> None:
        """What is in goes out still; nothing more comes."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def __iter__(self) -> Iterator[subtask_pb2.FromSubtask]:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._messages or self._closed)
                if not self._messages:
                    return
                message = self._messages.popleft()
                if message.HasField("output"):
                    self._printed_bytes -= len(message.output.text)
                    self._condition.notify_all()
            yield message


class ControlStream:
    """Implements ``taskmanager.runtime.ports.ControlPort``. ``deliver`` puts a mail; it is called by another thread."""

    def __init__(self, entry: SubtaskEntry, deliver: Callable[[Mail], None]) -> None:
        self._entry = entry
        self._deliver = deliver
        self._outbox = Outbox()
        self._closed = threading.Event()
        self._channel = grpc.insecure_channel(entry.control_address, options=CHANNEL_OPTIONS)
        self._stub = subtask_pb2_grpc.SubtaskControlStub(self._channel)
        self._answers: Any = None
        self._is_ending = False
        self.before_last_word: Callable[[], None] = lambda: None
        """Called before the last word is sent: what is to be told ahead of it is told then."""

    def attach(self) -> TaskDeployment:
        """Say hello and wait for the deployment. Raises the TaskManager's refusal, or ``Unreachable``."""
        hello = subtask_pb2.FromSubtask.Hello(
            attempt=self._entry.attempt, token=self._entry.token, pid=os.getpid(), host=socket.gethostname()
        )
        self._outbox.put(subtask_pb2.FromSubtask(hello=hello))
        self._answers = self._stub.Attach(iter(self._outbox))
        try:
            first = next(self._answers)
        except (StopIteration, grpc.RpcError) as error:
            self._closed.set()
            if isinstance(error, StopIteration):
                raise Unreachable(f"{self._entry.control_address} closed the control stream") from None
            raise _error_of(error, self._entry.control_address) from error
        deployment = deployment_from_pb(first.deploy.deployment)
        threading.Thread(target=self._read, name="control stream", daemon=True).start()
        return deployment

    def fetch_blob(self, key: str) -> bytes:
        """The content of a blob, by way of the TaskManager's cache, which has verified it."""
        try:
            chunks = self._stub.FetchBlob(common_pb2.BlobRef(key=key))
            return b"".join(chunk.data for chunk in chunks)
        except grpc.RpcError as error:
            raise _error_of(error, self._entry.control_address) from error

    def align_watermark(self, group: str, watermark_ms: int, interval_ms: int) -> int:
        """Report a source's watermark. Returns the lowest of its group, in ms."""
        request = common_pb2.AlignWatermarkRequest(
            attempt=self._entry.attempt, group=group, watermark_ms=watermark_ms, interval_ms=interval_ms
        )
        try:
            return int(self._stub.AlignWatermark(request).lowest_ms)
        except grpc.RpcError as error:
            raise _error_of(error, self._entry.control_address) from error

    # ---- ControlPort -------------------------------------------------------------------------------------------------

    def state_changed(self, state: ExecutionState, error: ErrorInfo | None = None) -> None:
        if state.is_terminal:
            self.before_last_word()
            self._is_ending = True
        changed = subtask_pb2.FromSubtask.StateChanged(state=state.value, error=optional_error_to_pb(error))
        self._outbox.put(subtask_pb2.FromSubtask(state_changed=changed))

    def listening(self, address: str) -> None:
        self._outbox.put(subtask_pb2.FromSubtask(listening=subtask_pb2.FromSubtask.Listening(address=address)))

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        told = subtask_pb2.FromSubtask.Acknowledge(
            checkpoint_id=acknowledgement.checkpoint_id,
            snapshot=snapshot_to_pb(acknowledgement.snapshot),
            metrics=checkpoint_metrics_to_pb(acknowledgement.metrics),
        )
        self._outbox.put(subtask_pb2.FromSubtask(acknowledge=told))

    def decline(self, checkpoint_id: int, reason: DeclineReason, error: ErrorInfo | None = None) -> None:
        told = subtask_pb2.FromSubtask.Decline(
            checkpoint_id=checkpoint_id, reason=reason.value, error=optional_error_to_pb(error)
        )
        self._outbox.put(subtask_pb2.FromSubtask(decline=told))

    def end_of_data(self) -> None:
        self._outbox.put(subtask_pb2.FromSubtask(end_of_data=subtask_pb2.FromSubtask.EndOfData()))

    def metrics(self, metrics: TaskMetrics) -> None:
        self._outbox.put(subtask_pb2.FromSubtask(metrics=task_metrics_to_pb(metrics)))

    def print(self, text: str, is_error: bool = False) -> None:
        """Pass on whole lines that user code printed."""
        self._outbox.print(text, is_error)

    @property
    def has_ended(self) -> bool:
        """Whether the last word was said."""
        return self._is_ending

    def close(self) -> None:
        """Send what is left, wait until the TaskManager has read it, and hang up."""
        self._outbox.close()
        if self._answers is not None:
            self._closed.wait(CLOSE_TIMEOUT_S)
        self._channel.close()

    # ---- the reading thread ------------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            for message in self._answers:
                if message.HasField("dump_threads"):
                    self._outbox.put(_threads())
                    continue
                mail = mail_from_pb(message)
                if mail is not None:
                    self._deliver(mail)
        except grpc.RpcError:
            pass  # said below: a broken stream and one that was ended too early mean the same
        self._closed.set()
        self._outbox.close()
        if not self._is_ending:
            self._deliver(ControlLost())
            end_process_after(GRACE_S)


def _may_grow(message: subtask_pb2.FromSubtask, is_error: bool) -> bool:
    """Whether more printed text may be put into a message that waits."""
    output = message.output
    return message.HasField("output") and output.is_error == is_error and len(output.text) < GATHERED_BYTES


def _threads() -> subtask_pb2.FromSubtask:
    found = [common_pb2.ThreadInfo(name=thread.name, stack=thread.stack) for thread in thread_dump()]
    return subtask_pb2.FromSubtask(threads=subtask_pb2.FromSubtask.Threads(threads=found))


def mail_from_pb(message: subtask_pb2.ToSubtask) -> Mail | None:
    """The mail in a message; ``None`` for one that this version does not know."""
    match message.WhichOneof("message"):
        case "connect":
            return ConnectInputs(tuple(producer_from_pb(producer) for producer in message.connect.producers))
        case "trigger":
            trigger = message.trigger
            return TriggerCheckpoint(trigger.checkpoint_id, trigger.timestamp_ms, options_from_pb(trigger.options))
        case "confirm":
            return ConfirmCheckpoint(message.confirm.checkpoint_id, message.confirm.may_finish)
        case "abort":
            latest = message.abort.latest_completed_id if message.abort.HasField("latest_completed_id") else None
            return AbortCheckpoint(message.abort.checkpoint_id, latest)
        case "cancel":
            return CancelTask()
        case _:
            return None


def _error_of(error: grpc.RpcError, address: str) -> Exception:
    status = error.code() if hasattr(error, "code") else grpc.StatusCode.UNKNOWN
    metadata: Any = error.trailing_metadata() if hasattr(error, "trailing_metadata") else None
    text = error.details() if hasattr(error, "details") else str(error)
    return error_of_status(status.value[0], text or "", metadata, f"TaskManager at {address}")
