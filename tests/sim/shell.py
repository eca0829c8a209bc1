"""The JobManager's shell in the simulation: carries out the commands of the real machine, with the retry rules that
``jobmanager/machines/commands.py`` promises: one ordered outbox per TaskManager; confirm is repeated until it is answered or the
TaskManager is lost, other calls are tried three times."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from jobmanager.machines import commands as c
from jobmanager.machines import events as e
from jobmanager.machines.jobmanager import JobManagerMachine
from tests.sim.storage import Storage
from tests.sim.world import World
from tidegate.model.errors import ErrorInfo, StorageError, Unreachable
from tidegate.model.ids import AttemptId, CheckpointId, JobId, TaskManagerId

CALL_TIMEOUT_MS, CALL_TRIES = 150, 3

Call = (
    c.AllocateSlot
    | c.FreeSlot
    | c.SubmitTask
    | c.ConnectTask
    | c.CancelTask
    | c.TriggerCheckpoint
    | c.ConfirmCheckpoint
    | c.AbortCheckpoint
)
Answer = tuple[ErrorInfo | None, dict[AttemptId, ErrorInfo]]


class Peer(Protocol):
    """A TaskManager as the JobManager reaches it."""

    session: str

    @property
    def is_cut_off(self) -> bool: ...

    def handle(self, call: Call) -> Answer | None:
        """``None``: the process is gone."""

    def on_connection_lost(self) -> None: ...


class Observer(Protocol):
    def before_event(self, event: e.Event) -> None: ...
    def after_event(self, event: e.Event, commands: list[c.Command]) -> None: ...


class Outbox:
    """Commands for one session of one TaskManager, in order, one at a time."""

    def __init__(self, world: World, peer: Peer, tell: Callable[[e.Event], None]) -> None:
        self._world = world
        self.peer = peer
        self._tell = tell
        self._queue: deque[Call] = deque()
        self._current: Call | None = None
        self._try = 0
        self.is_closed = False

    def push(self, call: Call) -> None:
        self._queue.append(call)
        self._next()

    def _next(self) -> None:
        if self._current is None and self._queue and not self.is_closed:
            self._current, self._try = self._queue.popleft(), 0
            self._send()

    def _send(self) -> None:
        call, world = self._current, self._world
        assert call is not None
        self._try += 1
        number = self._try
        if not (self.peer.is_cut_off or world.chance(world.plan.lose)):
            world.later(world.message_delay_ms(), lambda: self._deliver(call))
        if world.chance(world.plan.duplicate):
            world.later(world.rng.randint(1, 300), lambda: self._stray(call))
        world.later(CALL_TIMEOUT_MS, lambda: self._on_timeout(call, number))

    def _deliver(self, call: Call) -> None:
        answer = None if self.peer.is_cut_off else self.peer.handle(call)
        if answer is None or self._world.chance(self._world.plan.lose):
            return
        self._world.later(self._world.message_delay_ms(), lambda: self._on_answer(call, answer))

    def _stray(self, call: Call) -> None:
        """A copy that comes late; nobody waits for its answer."""
        if not self.peer.is_cut_off:
            self.peer.handle(call)

    def _on_answer(self, call: Call, answer: Answer) -> None:
        if self._current is call and not self.is_closed and not self.peer.is_cut_off:
            self._current = None
            self._tell(e.CallAnswered(call.call_id, answer[0], answer[1]))
            self._next()

    def _on_timeout(self, call: Call, number: int) -> None:
        if self._current is not call or self._try != number or self.is_closed:
            return
        if number < CALL_TRIES or isinstance(call, c.ConfirmCheckpoint):
            self._send()
            return
        self._current = None
        self._tell(e.CallAnswered(call.call_id, ErrorInfo.of(Unreachable(f"no answer after {CALL_TRIES} tries"))))
        self._next()


class Shell:
    def __init__(self, world: World, machine: JobManagerMachine, storage: Storage) -> None:
        self.world = world
        self.machine = machine
        self.storage = storage
        self.observers: list[Observer] = []
        self.terminated: set[JobId] = set()
        self.reports: list[c.ReportSnapshot] = []
        self.on_durable: Callable[[int], None] = lambda checkpoint_id: None
        self._outboxes: dict[TaskManagerId, Outbox] = {}
        self._timers: dict[str, int] = {}
        self._timer_number = 0

    def tell(self, event: e.Event) -> None:
        for observer in self.observers:
            observer.before_event(event)
        commands = list(self.machine.on(event, self.world.now_ms))
        for observer in self.observers:
            observer.after_event(event, commands)
        for command in commands:
            self._carry_out(command)

    def connect(self, task_manager_id: TaskManagerId, peer: Peer) -> None:
        """Its heartbeat stream is open."""
        old = self._outboxes.get(task_manager_id)
        if old is None or old.peer is not peer or old.is_closed:
            if old is not None:
                old.is_closed = True
            self._outboxes[task_manager_id] = Outbox(self.world, peer, self.tell)

    def _carry_out(self, command: c.Command) -> None:
        match command:
            case c.StartTimer():
                self._start_timer(command.timer, command.delay_ms)
            case c.CancelTimer():
                self._timers.pop(command.timer, None)
            case c.CloseTaskManager():
                self._close(command.task_manager_id, command.session)
            case c.JobTerminated():
                self.terminated.add(command.job_id)
            case c.ReportSnapshot():
                self.reports.append(command)
            case c.CreateLocation() | c.WriteManifest() | c.ReadBackManifest() | c.DiscardCheckpoint():
                delay_ms = self.world.rng.randint(1, 10) * (20 if self.world.chance(self.world.plan.slow) else 1)
                if isinstance(command, c.ReadBackManifest):
                    delay_ms *= 20
                self.world.later(delay_ms, lambda: self._use_storage(command))
            case c.JobChanged() | c.Log():
                pass
            case _:
                outbox = self._outboxes.get(command.task_manager_id)
                assert outbox is not None, f"a call to a TaskManager that is not connected: {command}"
                outbox.push(command)

    def _close(self, task_manager_id: TaskManagerId, session: str) -> None:
        outbox = self._outboxes.get(task_manager_id)
        if outbox is not None and outbox.peer.session == session:
            outbox.is_closed = True
            self.world.later(self.world.message_delay_ms(), outbox.peer.on_connection_lost)

    def _start_timer(self, timer: str, delay_ms: int) -> None:
        self._timer_number += 1
        number = self._timers[timer] = self._timer_number
        self.world.later(delay_ms, lambda: self._on_timer(timer, number))

    def _on_timer(self, timer: str, number: int) -> None:
        if self._timers.get(timer) == number:
            del self._timers[timer]
            self.tell(e.TimerFired(timer))

    def _use_storage(
        self, command: c.CreateLocation | c.WriteManifest | c.ReadBackManifest | c.DiscardCheckpoint
    ) -> None:
        job_id, checkpoint_id = command.job_id, command.checkpoint_id
        failed = None
        if self.world.chance(self.world.plan.storage_fails):
            failed = ErrorInfo.of(StorageError("the disk said no"))
        match command:
            case c.CreateLocation():
                location = "" if failed else self.storage.create(checkpoint_id)
                self.tell(e.LocationCreated(job_id, checkpoint_id, location, failed))
            case c.WriteManifest():
                self._write_manifest(command, failed)
            case c.ReadBackManifest():
                self.tell(self._what_is_there(job_id, checkpoint_id))
            case c.DiscardCheckpoint():
                if failed is None:
                    self.storage.discard(checkpoint_id)
                self.tell(e.CheckpointDiscarded(job_id, checkpoint_id, failed))

    def _write_manifest(self, command: c.WriteManifest, failed: ErrorInfo | None) -> None:
        job_id, checkpoint_id = command.job_id, command.checkpoint_id
        unknown = self.world.chance(self.world.plan.storage_unknown)
        if failed is None:
            self.storage.put_manifest(command.manifest)
            self.on_durable(checkpoint_id)
        if unknown:
            error = ErrorInfo.of(StorageError("the write timed out"))
            self.tell(e.ManifestWriteFailed(job_id, checkpoint_id, error, outcome_unknown=True))
            return
        self.tell(self._what_is_there(job_id, checkpoint_id))

    def _what_is_there(self, job_id: JobId, checkpoint_id: CheckpointId) -> e.Event:
        if checkpoint_id in self.storage.manifests:
            return e.ManifestWritten(job_id, checkpoint_id, 100)
        return e.ManifestWriteFailed(job_id, checkpoint_id, ErrorInfo.of(StorageError("it is not there")))
