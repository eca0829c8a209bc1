"""Collects the commands that the JobManager's machines order while they handle one event, and holds that event's time.

It also tracks what outlives an event: open calls to TaskManagers (``CallAnswered`` is matched with its ``OpenCall`` here) and
armed timers (``TimerFired`` of a canceled timer is ignored).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tidegate.jobmanager.machines.commands import CancelTimer, Command, JobChanged, Log, StartTimer
from tidegate.jobmanager.machines.random import SplitMix64
from tidegate.model.ids import AllocationId, AttemptId, CheckpointId, Generation, JobId, TaskManagerId


class CallKind(Enum):
    """The kinds of calls to a TaskManager that it answers."""

    ALLOCATE = "AllocateSlot"
    FREE = "FreeSlot"
    SUBMIT = "SubmitTask"
    CONNECT = "ConnectTask"
    CANCEL = "CancelTask"
    TRIGGER = "TriggerCheckpoint"
    CONFIRM = "ConfirmCheckpoint"
    ABORT = "AbortCheckpoint"
    OPERATOR_EVENT = "SendOperatorEvent"


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call to a TaskManager that is not answered yet. Fields that do not apply to its kind are ``None`` or empty."""

    kind: CallKind
    task_manager_id: TaskManagerId
    session: str = ""
    job_id: JobId | None = None
    attempt: AttemptId | None = None
    allocation_id: AllocationId | None = None
    checkpoint_id: CheckpointId | None = None


class CommandBuffer:
    """Collects the commands that the handling of an event issues, in the order in which the service carries them out. Also keeps the open calls and the
    running timers.
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self.generation = Generation("")
        self.random = SplitMix64(0)
        self._commands: list[Command] = []
        self._changed: dict[JobId, None] = {}
        self._calls: dict[int, OpenCall] = {}
        self._calls_of: dict[TaskManagerId, dict[int, None]] = {}
        self._cancels: dict[AttemptId, int] = {}
        self._last_call_id = 0
        self._connected: set[TaskManagerId] = set()
        self._timers: set[str] = set()

    def begin(self, now_ms: int) -> None:
        """Starts handling an event at ``now_ms``."""
        self.now_ms = now_ms

    def begin_generation(self, generation: Generation, seed: int) -> None:
        """Sets the id of this JobManager process and seeds the random numbers."""
        self.generation, self.random = generation, SplitMix64(seed)

    def emit(self, command: Command) -> None:
        self._commands.append(command)

    def connect(self, task_manager_id: TaskManagerId) -> None:
        """Marks a TaskManager as registered, so that calls to it may be opened."""
        self._connected.add(task_manager_id)

    def is_connected(self, task_manager_id: TaskManagerId) -> bool:
        return task_manager_id in self._connected

    def open_call(self, call: OpenCall) -> int:
        """Records a call that is about to be emitted and returns its ``call_id``. The TaskManager must be connected."""
        assert call.task_manager_id in self._connected, f"{call} to a TaskManager that is lost: nobody would answer"
        self._last_call_id += 1
        self._calls[self._last_call_id] = call
        self._calls_of.setdefault(call.task_manager_id, {})[self._last_call_id] = None
        if call.kind is CallKind.CANCEL and call.attempt is not None:
            self._cancels[call.attempt] = self._last_call_id
        return self._last_call_id

    def close_call(self, call_id: int) -> OpenCall | None:
        """Removes and returns the open call with this id; ``None`` when there is none: it was answered before, or its TaskManager was lost."""
        call = self._calls.pop(call_id, None)
        if call is not None:
            self._calls_of[call.task_manager_id].pop(call_id, None)
            self._close_cancel(call)
        return call

    def disconnect(self, task_manager_id: TaskManagerId) -> None:
        """Drops all open calls to a lost TaskManager; answers that arrive later are ignored."""
        self._connected.discard(task_manager_id)
        for call_id in self._calls_of.pop(task_manager_id, {}):
            self._close_cancel(self._calls.pop(call_id))

    def has_open_cancel(self, attempt: AttemptId) -> bool:
        """Tells whether a ``CancelTask`` call for this attempt is not answered yet."""
        return attempt in self._cancels

    def start_timer(self, timer: str, delay_ms: int) -> None:
        self._timers.add(timer)
        self.emit(StartTimer(timer, max(0, delay_ms)))

    def is_armed(self, timer: str) -> bool:
        """Tells whether the timer was started and has neither fired nor been canceled."""
        return timer in self._timers

    def cancel_timer(self, timer: str) -> None:
        if timer in self._timers:
            self._timers.discard(timer)
            self.emit(CancelTimer(timer))

    def timer_fired(self, timer: str) -> bool:
        """Disarms the timer; returns whether it was armed."""
        armed = timer in self._timers
        self._timers.discard(timer)
        return armed

    def changed(self, job_id: JobId) -> None:
        """Notes that the job's view has changed; ``take`` adds one ``JobChanged`` per job after all other commands."""
        self._changed[job_id] = None

    def log(self, level: str, message: str, **fields: object) -> None:
        self.emit(Log(level, message, {key: str(value) for key, value in fields.items()}))

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when open calls, their TaskManagers and cancels contradict each other."""
        listed = {call_id: tm for tm, calls in self._calls_of.items() for call_id in calls}
        wanted = {call_id: call.task_manager_id for call_id, call in self._calls.items()}
        assert listed == wanted, f"calls by TaskManager {listed}, and open are {wanted}"
        lost = set(wanted.values()) - self._connected
        assert not lost, f"calls are open to {sorted(lost)}, which are lost"
        for attempt, call_id in self._cancels.items():
            call = self._calls.get(call_id)
            assert call is not None, f"the cancel {call_id} of {attempt} is not open"
            assert call.attempt == attempt, f"the cancel {call_id} of {attempt} is not open"
        assert not self._commands, f"{len(self._commands)} commands were left behind"

    def _close_cancel(self, call: OpenCall) -> None:
        if call.kind is CallKind.CANCEL and call.attempt is not None:
            self._cancels.pop(call.attempt, None)

    def take(self) -> list[Command]:
        """Returns and removes the commands of the event, with a ``JobChanged`` for each changed job at the end."""
        commands, self._commands = self._commands, []
        if self._changed:
            commands.extend(JobChanged(job_id) for job_id in self._changed)
            self._changed.clear()
        return commands
