"""Injects faults that are requested while this TaskManager runs (``TaskManagerFaults``). The JobManager forwards them if it was started with
``--allow-faults``.

    kill          SIGKILL to a subtask's process, or to this one
    messages      messages to the JobManager leave later, in order; acknowledgements of the next checkpoints are lost
    channels      what subtasks here receive from others comes later, or their connections break (``Delays``)
    subtasks      their files of state are slow or cannot be written, or their clocks are skewed: they do that themselves
    executor      a subtask kills the executor of Spark in which it runs
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Collection, Mapping, Sequence

from google.protobuf.message import Message

from tidegate.model.errors import Misuse, TidegateError
from tidegate.model.ids import AllocationId, AttemptId
from tidegate.pb import common_pb2, jobmanager_pb2, subtask_pb2, taskmanager_pb2, taskmanager_pb2_grpc
from tidegate.taskmanager.service.planned_faults import Delays, PlannedFaults, Tell
from tidegate.wire.convert import ack_of, attempt_from_text

_log = logging.getLogger(__name__)
_TICK_S = 1e-6
"""Seconds between two messages that are due at the same time, so that they are sent in order."""

Send = Callable[[subtask_pb2.ToSubtask], None]
Streams = Callable[[], Mapping[AttemptId, Send]]
"""Returns functions that send to the subtasks whose control streams are open."""
LocalPids = Callable[[], Mapping[AllocationId, Mapping[AttemptId, int]]]
Kill = Callable[[int], None]


class SlowMessages:
    """Sends messages to the JobManager, which faults can delay or drop for a while. Belongs to the loop's thread."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._delay_s = self._until_s = self._last_due_s = 0.0
        self._to_drop = 0
        self._dropped: set[int] = set()

    def delay(self, delay_ms: int, for_ms: int) -> None:
        self._delay_s, self._until_s = delay_ms / 1000, self._loop.time() + for_ms / 1000

    def drop_acknowledgements(self, checkpoints: int) -> None:
        """Drops the acknowledgements of so many checkpoints, beginning with the next one that is acknowledged here."""
        self._to_drop, self._dropped = checkpoints, set()

    def tell(self, method: str, request: Message) -> None:
        if isinstance(request, jobmanager_pb2.AcknowledgeCheckpointRequest) and self._is_lost(request):
            return
        now_s = self._loop.time()
        if now_s >= self._until_s and now_s >= self._last_due_s:
            self._tell(method, request)
            return
        delay_s = self._delay_s if now_s < self._until_s else 0.0
        self._last_due_s = max(now_s + delay_s, self._last_due_s + _TICK_S)
        self._loop.call_at(self._last_due_s, self._tell, method, request)

    def _is_lost(self, request: jobmanager_pb2.AcknowledgeCheckpointRequest) -> bool:
        """Removes dropped acknowledgements from ``request``. Returns whether none are left."""
        kept = [one for one in request.acknowledgements if not self._drops(one.checkpoint_id)]
        lost = len(request.acknowledgements) - len(kept)
        if lost:
            _log.warning("fault: %d acknowledgements are lost", lost)
            del request.acknowledgements[:]
            request.acknowledgements.extend(kept)
        return not kept

    def _drops(self, checkpoint_id: int) -> bool:
        if checkpoint_id not in self._dropped and len(self._dropped) < self._to_drop:
            self._dropped.add(checkpoint_id)
        return checkpoint_id in self._dropped


class FaultInjection:
    """The fault injection of this TaskManager. ``texts``: ``tidegate.testing.faults``; raises ``ConfigurationError`` for an unknown one."""

    def __init__(self, texts: Sequence[str], tell: Tell) -> None:
        planned = PlannedFaults.of(texts)
        self.messages, self.delays = SlowMessages(tell), Delays(planned.delay_ms)
        self.tell = planned.around(self.messages.tell)


class FaultServicer(taskmanager_pb2_grpc.TaskManagerFaultsServicer):
    """The gRPC service that injects requested faults, and refuses those that are impossible here."""

    def __init__(
        self,
        pids: LocalPids,
        streams: Streams,
        injection: FaultInjection,
        are_allowed: Callable[[], bool],
        *,
        has_executors: bool = False,
        kill: Kill | None = None,
    ) -> None:
        """Connects the servicer to what it can disturb. ``are_allowed``: returns whether the JobManager was started with ``--allow-faults``. ``has_executors``:
        subtasks run in executors of Spark, not as children of this process.
        """
        messages, delays = injection.messages, injection.delays
        self._pids = pids
        self._streams = streams
        self._are_allowed = are_allowed
        self._has_executors = has_executors
        self._messages = messages
        self._delays = delays
        self._kill = kill or _kill

    async def InjectFault(self, request: taskmanager_pb2.InjectFaultRequest, context: object) -> common_pb2.Ack:
        try:
            if not self._are_allowed():
                raise Misuse("faults may not be injected on this cluster: start the JobManager with --allow-faults")
            _log.warning("fault on purpose: %s", " ".join(str(request).split()))
            self._inject(request)
        except TidegateError as error:
            return ack_of(error)
        return ack_of()

    def _inject(self, request: taskmanager_pb2.InjectFaultRequest) -> None:
        match request.WhichOneof("fault"):
            case "kill_subtask":
                self._kill(self._pid_of(attempt_from_text(request.kill_subtask)))
            case "kill_task_manager":
                # The answer goes out first, so that the caller learns that it was done.
                asyncio.get_running_loop().call_later(0.05, self._kill, os.getpid())
            case "delay_messages":
                self._messages.delay(request.delay_messages.delay_ms, request.delay_messages.for_ms)
            case "drop_acknowledgements":
                self._messages.drop_acknowledgements(request.drop_acknowledgements)
            case "delay_channels":
                self._delays.delay_for(request.delay_channels.delay_ms, request.delay_channels.for_ms)
            case "cut_channels":
                self._delays.cut()
            case "of_subtasks":
                self._tell(self._streams().values(), request.of_subtasks)
            case "kill_executor":
                self._kill_executor(attempt_from_text(request.kill_executor))
            case _:
                raise Misuse("this TaskManager does not know this kind of fault; is it of another version?")

    def _kill_executor(self, attempt: AttemptId) -> None:
        streams = self._streams()
        if not self._has_executors:
            raise Misuse(
                "this TaskManager has no executors to kill, since its subtasks run in processes of its own: kill-taskmanager ends it "
                "and them, kill-subtask one of them"
            )
        if attempt not in streams:
            raise Misuse("the subtask has no process now: it is starting or over")
        self._tell([streams[attempt]], common_pb2.SubtaskFault(kill_executor=True))

    def _tell(self, streams: Collection[Send], fault: common_pb2.SubtaskFault) -> None:
        if not streams:
            raise Misuse("no subtask runs on this TaskManager just now")
        for send in streams:
            send(subtask_pb2.ToSubtask(fault=fault))

    def _pid_of(self, attempt: AttemptId) -> int:
        for tasks in self._pids().values():
            if attempt in tasks:
                return tasks[attempt]
        raise Misuse(
            "the subtask has no process on its TaskManager's machine: it is starting or over, or runs on an executor of Spark"
        )


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
