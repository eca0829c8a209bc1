"""The subtask's end of its control stream to the TaskManager: delivers incoming mails and sends all messages in order.

    runtime ──ControlPort──▶ socket, or what it has no room for ──▶ outbox ──one thread──▶ TaskManager
    mailbox ◀──one thread, in order─────────────────────────────────────────────────────── TaskManager

Laws:
1. Every call of the port returns at once, except printing, which waits while 1 MiB of printed text is unsent.
2. When the stream breaks, the mailbox gets ``ControlLost``, and after ``GRACE_S`` the process is ended by force.
3. ``close`` returns after the TaskManager has read the final state, for which the TaskManager ends the stream, or after ``CLOSE_TIMEOUT_S``.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from functools import partial

from tidegate.aio.inspection import thread_dump
from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import Acknowledgement, DeclineReason
from tidegate.model.coordinators.operator_events import OperatorEvent
from tidegate.model.deployment import TaskDeployment
from tidegate.model.errors import CorruptFrame, ErrorInfo, Unreachable
from tidegate.model.kv_state import KvStateInfo
from tidegate.model.states import ExecutionState
from tidegate.pb import common_pb2, subtask_pb2
from tidegate.security.handshakes import reason_of
from tidegate.security.sockets import SharedTls, TlsFiles, TlsSocket
from tidegate.taskmanager.exchange import addresses
from tidegate.taskmanager.runtime.measuring.stack_sampler import sample_stacks
from tidegate.taskmanager.runtime.ports import (
    AbortCheckpoint,
    CancelTask,
    ConfirmCheckpoint,
    ConnectInputs,
    ControlLost,
    Mail,
    OperatorEventArrived,
    QueryState,
    TaskMetrics,
)
from tidegate.taskmanager.spark.control_outbox import ControlOutbox
from tidegate.taskmanager.spark.entry import SubtaskEntry
from tidegate.taskmanager.spark.process import end_process_after
from tidegate.wire import control_frames as frames
from tidegate.wire.convert import (
    checkpoint_metrics_to_pb,
    deployment_from_bytes,
    error_from_pb,
    optional_error_to_pb,
    options_from_pb,
    producer_from_pb,
    snapshot_to_pb,
    task_metrics_to_pb,
)
from tidegate.wire.convert_events import operator_event_from_pb, operator_event_to_pb
from tidegate.wire.convert_kv_state import kv_state_to_pb

GRACE_S = 2.0
"""Seconds between a broken control stream and the end of the process, for the cleanup of user code; well below the 5 s after which no worker outlives its
TaskManager. Chosen, not measured.
"""
CLOSE_TIMEOUT_S = 5.0
"""Seconds that ``close`` waits for the TaskManager to read everything; one that does not read for so long is frozen or gone. Chosen, not measured."""
CONNECT_TIMEOUT_S = 20.0
"""Seconds within which the TaskManager must accept the connection; one that starts many subtasks accepts them in turn. Chosen, not measured."""

_Answers = queue.SimpleQueue["subtask_pb2.ToSubtask.Answer | None"]
"""Queue with the answers to one request, and ``None`` after them if the stream ended."""


class ControlStream:
    """Implements ``tidegate.taskmanager.runtime.ports.ControlPort`` on a socket. ``deliver`` puts a mail into the mailbox; it is called by the
    reading thread.
    """

    def __init__(self, entry: SubtaskEntry, deliver: Callable[[Mail], None], tls: TlsFiles | None = None) -> None:
        """Prepares a stream to the TaskManager. ``deliver``: called with each message. ``tls``: files for TLS over TCP. Raises ``OSError`` when they cannot be
        read.
        """
        self._entry = entry
        self._deliver = deliver
        connection, self._target = addresses.make_client(entry.control_address, tls)
        addresses.give_up_in_time(connection)
        self._socket = SharedTls(connection) if isinstance(connection, TlsSocket) else connection
        self._outbox = ControlOutbox(self._socket)
        self._hung_up = threading.Event()
        self._is_ending = False
        self._ident = threading.get_ident()
        """Thread id of the subtask, which opens the stream."""
        self._call_ids = itertools.count(1)
        self._calls: dict[int, _Answers] = {}
        self._calls_lock = threading.Lock()
        self.take_fault: Callable[[common_pb2.SubtaskFault], None] = lambda fault: None
        """Callback for an injected fault; called by the reading thread."""
        self.before_final_state: Callable[[], None] = lambda: None
        """Callback before the final state is sent, so that pending reports are sent before it."""

    @property
    def own_host(self) -> str:
        """Address of this machine at which the TaskManager sees it, once the stream is open; empty for a Unix socket."""
        name = self._socket.getsockname()
        return str(name[0]) if isinstance(name, tuple) else ""

    def attach(self) -> TaskDeployment:
        """Connects, sends the hello and returns the deployment. Raises the TaskManager's refusal, or ``Unreachable``."""
        hello = subtask_pb2.FromSubtask.Hello(
            attempt=self._entry.attempt, token=self._entry.token, pid=os.getpid(), host=socket.gethostname()
        )
        try:
            self._connect()
            self._outbox.put(subtask_pb2.FromSubtask(hello=hello))
            first = self._receive()
        except (OSError, EOFError, CorruptFrame) as error:
            self._hung_up.set()
            why = reason_of(error) if isinstance(error, ssl.SSLError) else str(error) or "it closed the control stream"
            raise Unreachable(f"TaskManager at {self._entry.control_address}: {why}") from error
        if first.HasField("refused"):
            self._hung_up.set()
            raise error_from_pb(first.refused.error).to_exception()
        deployment = deployment_from_bytes(first.deploy.deployment)
        threading.Thread(target=self._outbox.run, name="control stream, unsent", daemon=True).start()
        threading.Thread(target=self._read, name="control stream", daemon=True).start()
        return deployment

    def _connect(self) -> None:
        if isinstance(self._socket, SharedTls):
            self._socket.connect(self._target, CONNECT_TIMEOUT_S)
            return
        self._socket.settimeout(CONNECT_TIMEOUT_S)
        self._socket.connect(self._target)
        self._socket.settimeout(None)

    def fetch_blob(self, key: str) -> bytes:
        """Returns the content of a blob from the TaskManager's cache, which has verified it."""
        parts = self._ask(subtask_pb2.FromSubtask.Request(fetch_blob=common_pb2.BlobRef(key=key)))
        return b"".join(part.blob.data for part in parts)

    def align_watermark(self, group: str, watermark_ms: int, interval_ms: int) -> int:
        """Reports a source's watermark; returns the lowest watermark of its group. All in ms."""
        request = common_pb2.AlignWatermarkRequest(
            attempt=self._entry.attempt, group=group, watermark_ms=watermark_ms, interval_ms=interval_ms
        )
        (answer,) = self._ask(subtask_pb2.FromSubtask.Request(align_watermark=request))
        return answer.watermark.lowest_ms

    def register_kv_state(self, info: KvStateInfo) -> None:
        """Registers queryable state at the JobManager. Raises ``InvalidJob`` when the job has another state of that name."""
        for _ in self._ask(subtask_pb2.FromSubtask.Request(register_kv_state=kv_state_to_pb(info))):
            pass

    def _ask(self, request: subtask_pb2.FromSubtask.Request) -> Iterator[subtask_pb2.ToSubtask.Answer]:
        """Sends a request and yields its answers up to the last. Raises the TaskManager's error, or ``Unreachable`` when the stream ended."""
        answers: _Answers = queue.SimpleQueue()
        request.call_id = next(self._call_ids)
        with self._calls_lock:
            self._calls[request.call_id] = answers
            if self._hung_up.is_set():
                answers.put(None)
        self._outbox.put(subtask_pb2.FromSubtask(request=request))
        try:
            while True:
                answer = answers.get()
                if answer is None:
                    raise Unreachable(f"TaskManager at {self._entry.control_address} closed the control stream")
                if answer.HasField("error"):
                    raise error_from_pb(answer.error).to_exception()
                yield answer
                if answer.is_last:
                    return
        finally:
            with self._calls_lock:
                del self._calls[request.call_id]

    # ---- ControlPort -------------------------------------------------------------------------------------------------

    def state_changed(self, state: ExecutionState, error: ErrorInfo | None = None) -> None:
        if state.is_terminal:
            self.before_final_state()
            self._is_ending = True
        changed = subtask_pb2.FromSubtask.StateChanged(state=state.value, error=optional_error_to_pb(error))
        self._outbox.put(subtask_pb2.FromSubtask(state_changed=changed))

    def listening(self, address: str) -> None:
        self._outbox.put(subtask_pb2.FromSubtask(listening=subtask_pb2.FromSubtask.Listening(address=address)))

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        message = common_pb2.Acknowledgement(
            checkpoint_id=acknowledgement.checkpoint_id,
            snapshot=snapshot_to_pb(acknowledgement.snapshot),
            metrics=checkpoint_metrics_to_pb(acknowledgement.metrics),
        )
        self._outbox.put(subtask_pb2.FromSubtask(acknowledge=message))

    def decline(self, checkpoint_id: int, reason: DeclineReason, error: ErrorInfo | None = None) -> None:
        message = subtask_pb2.FromSubtask.Decline(
            checkpoint_id=checkpoint_id, reason=reason.value, error=optional_error_to_pb(error)
        )
        self._outbox.put(subtask_pb2.FromSubtask(decline=message))

    def end_of_data(self) -> None:
        self._outbox.put(subtask_pb2.FromSubtask(end_of_data=subtask_pb2.FromSubtask.EndOfData()))

    def operator_event(self, event: OperatorEvent) -> None:
        self._outbox.put(subtask_pb2.FromSubtask(operator_event=operator_event_to_pb(event)))

    def metrics(self, metrics: TaskMetrics) -> None:
        self._outbox.put(subtask_pb2.FromSubtask(metrics=task_metrics_to_pb(metrics)))

    def interrupted(self, stack: str) -> None:
        """Reports that the subtask does not react to its cancellation, with the stack of its thread."""
        self._outbox.put(subtask_pb2.FromSubtask(interrupted=subtask_pb2.FromSubtask.Interrupted(stack=stack)))

    def print(self, text: str, is_error: bool = False, is_bare: bool = False) -> None:
        """Sends whole lines that user code printed; ``is_bare``: lines of a sink, which are shown without the task's name."""
        self._outbox.print(text, is_error, is_bare)

    @property
    def has_ended(self) -> bool:
        """Whether the subtask's final state (finished, failed or canceled) was sent to the TaskManager."""
        return self._is_ending

    def close(self) -> None:
        """Sends what is left, waits until the TaskManager has read it and closed the stream, at most ``CLOSE_TIMEOUT_S``, and closes the socket."""
        self._outbox.close()
        self._hung_up.wait(CLOSE_TIMEOUT_S)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the reading thread, should it still wait
        self._socket.close()

    # ---- the reading thread ------------------------------------------------------------------------------------------

    def _read(self) -> None:
        with contextlib.suppress(
            OSError, EOFError, CorruptFrame
        ):  # a broken stream and one that was ended mean the same
            while True:
                self._on_message(self._receive())
        with self._calls_lock:
            self._hung_up.set()
            for answers in self._calls.values():
                answers.put(None)
        self._outbox.close()
        if not self._is_ending:
            self._deliver(ControlLost())
            end_process_after(GRACE_S)

    def _on_message(self, message: subtask_pb2.ToSubtask) -> None:
        if message.HasField("dump_threads"):
            self._outbox.put(_threads())
        elif message.HasField("fault"):
            self.take_fault(message.fault)
        elif message.HasField("sample_stacks"):
            wanted = message.sample_stacks
            threading.Thread(target=self._sample, args=(wanted,), name="stack sampler", daemon=True).start()
        elif message.HasField("query_state"):
            query = message.query_state
            self._deliver(QueryState(query.name, query.keys, partial(self._queried, query.query_id)))
        elif message.HasField("answer"):
            with self._calls_lock:
                answers = self._calls.get(message.answer.call_id)
            if answers is not None:
                answers.put(message.answer)
        else:
            mail = mail_from_pb(message)
            if mail is not None:
                self._deliver(mail)

    def _sample(self, wanted: common_pb2.SampleStacksOptions) -> None:
        """Samples the subtask's stacks and sends them. Runs in a thread of its own, since it takes seconds."""
        found = sample_stacks(self._ident, wanted.samples, wanted.delay_ms, wanted.depth)
        stacks = [common_pb2.SampledStack(frames=each.frames, count=each.count, on_cpu=each.on_cpu) for each in found]
        self._outbox.put(subtask_pb2.FromSubtask(stacks=subtask_pb2.FromSubtask.Stacks(stacks=stacks)))

    def _queried(self, query_id: int, values: bytes, error: ErrorInfo | None) -> None:
        answer = common_pb2.KvStateAnswer(values=values, error=optional_error_to_pb(error))
        queried = subtask_pb2.FromSubtask.StateQueried(query_id=query_id, answer=answer)
        self._outbox.put(subtask_pb2.FromSubtask(state_queried=queried))

    def _receive(self) -> subtask_pb2.ToSubtask:
        """Returns the next message. Raises ``EOFError`` at the end of the stream, ``OSError``, ``CorruptFrame``."""
        length = frames.payload_bytes(self._exactly(frames.HEADER_BYTES))
        return frames.parse(subtask_pb2.ToSubtask, self._exactly(length))

    def _exactly(self, count: int) -> bytes:
        found = bytearray(count)
        rest = memoryview(found)
        while rest:
            received = self._socket.recv_into(rest)
            if not received:
                raise EOFError
            rest = rest[received:]
        return bytes(found)


def _threads() -> subtask_pb2.FromSubtask:
    found = [common_pb2.ThreadInfo(name=thread.name, stack=thread.stack) for thread in thread_dump()]
    return subtask_pb2.FromSubtask(threads=subtask_pb2.FromSubtask.Threads(threads=found))


def mail_from_pb(message: subtask_pb2.ToSubtask) -> Mail | None:
    """Returns the mail in a message; ``None`` for a kind of message that this version does not know."""
    match message.WhichOneof("message"):
        case "connect":
            return ConnectInputs(tuple(producer_from_pb(producer) for producer in message.connect.producers))
        case "trigger":
            trigger = message.trigger
            return Barrier(trigger.checkpoint_id, trigger.timestamp_ms, options_from_pb(trigger.options))
        case "confirm":
            return ConfirmCheckpoint(message.confirm.checkpoint_id, message.confirm.may_finish)
        case "abort":
            latest = message.abort.latest_completed_id if message.abort.HasField("latest_completed_id") else None
            return AbortCheckpoint(message.abort.checkpoint_id, latest)
        case "operator_event":
            return OperatorEventArrived(operator_event_from_pb(message.operator_event))
        case "cancel":
            return CancelTask()
        case _:
            return None
