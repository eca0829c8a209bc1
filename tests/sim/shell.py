"""The JobManager's shell in the simulation: carries out the commands of the real machine, with the retry rules that
``jobmanager/machines/commands.py`` promises: one ordered outbox per TaskManager; confirm is repeated until it is answered or the
TaskManager is lost, other calls are tried three times. While its connection is broken nothing is sent, and what it refuses because it
has lost this JobManager is sent again."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from tests.sim.file_work import FileWork
from tests.sim.storage import Storage
from tests.sim.world import World
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.jobmanager.machines.dispatcher import Dispatcher
from tidegate.model.errors import ErrorInfo, Fenced, Unreachable
from tidegate.model.ids import AttemptId, Generation, JobId, TaskManagerId

CALL_TIMEOUT_MS, CALL_TRIES = 60, 3
LINGERING_CONFIRMS = 4

Call = (
    c.AllocateSlot
    | c.FreeSlot
    | c.SubmitTask
    | c.ConnectTask
    | c.CancelTask
    | c.TriggerCheckpoint
    | c.ConfirmCheckpoint
    | c.AbortCheckpoint
    | c.SendOperatorEvent
)
Answer = tuple[ErrorInfo | None, dict[AttemptId, ErrorInfo]]


class Peer(Protocol):
    """A TaskManager as the JobManager reaches it."""

    session: str

    @property
    def is_cut_off(self) -> bool: ...

    def handle(self, call: Call, caller: Shell) -> Answer | None:
        """``None``: the process is gone."""

    def on_connection_lost(self, to: Shell, *, is_over: bool = False) -> None: ...


class Observer(Protocol):
    def before_event(self, event: e.Event) -> None: ...
    def after_event(self, event: e.Event, commands: list[c.Command]) -> None: ...


class Outbox:
    """Commands for one session of one TaskManager, in order, one at a time."""

    def __init__(self, shell: Shell, peer: Peer) -> None:
        self._shell = shell
        self._world = shell.world
        self.peer = peer
        self._queue: deque[Call] = deque()
        self._current: Call | None = None
        self._try = 0
        self.is_closed = False
        self._is_open = True
        self._is_waiting = self._was_refused = False
        self._last_confirm: c.ConfirmCheckpoint | None = None

    def suspend(self) -> None:
        self._is_open = False

    def open(self) -> None:
        """What waited goes out."""
        self._is_open = True
        is_waiting, self._is_waiting = self._is_waiting and self._current is not None, False
        if is_waiting and not self.is_closed:
            self._send()
        self._next()

    def linger(self) -> None:
        """Its process was stopped, and goes on too late: what it confirmed last it confirms again, since it saw no answer."""
        for _ in range(LINGERING_CONFIRMS if self._last_confirm is not None else 0):
            self._world.later(self._world.between(10, 600), self._confirm_again)

    def _confirm_again(self) -> None:
        if self._last_confirm is not None:
            self._stray(self._last_confirm)

    def push(self, call: Call) -> None:
        self._queue.append(call)
        self._next()

    def _next(self) -> None:
        if self._current is None and self._queue and self._is_open and not self.is_closed:
            self._current, self._try = self._queue.popleft(), 0
            self._send()

    def _send(self) -> None:
        call, world = self._current, self._world
        assert call is not None
        self._try += 1
        number = self._try
        if isinstance(call, c.ConfirmCheckpoint):
            self._last_confirm = call
        if not (self.peer.is_cut_off or world.chance(world.plan.lose)):
            world.later(world.message_delay_ms(), lambda: self._deliver(call))
        if world.chance(world.plan.duplicate):
            world.later(world.between(1, 300), lambda: self._stray(call))
        world.later(CALL_TIMEOUT_MS, lambda: self._on_timeout(call, number))

    def _deliver(self, call: Call) -> None:
        answer = None if self.peer.is_cut_off else self.peer.handle(call, self._shell)
        if answer is None or self._world.chance(self._world.plan.lose):
            return
        self._world.later(self._world.message_delay_ms(), lambda: self._on_answer(call, answer))

    def _stray(self, call: Call) -> None:
        """A copy that comes late; nobody waits for its answer."""
        if not self.peer.is_cut_off:
            self.peer.handle(call, self._shell)

    def _on_answer(self, call: Call, answer: Answer) -> None:
        if self._current is call and not self.is_closed and not self.peer.is_cut_off:
            if _is_fenced(answer) and not self._shell.is_dead:
                self._was_refused = True  # it has lost this JobManager, and comes back or is lost
                return
            self._current = None
            self._shell.tell(e.CallAnswered(call.call_id, answer[0], answer[1]))
            self._next()

    def _on_timeout(self, call: Call, number: int) -> None:
        if self._current is not call or self._try != number or self.is_closed:
            return
        if self._was_refused or not self._is_open:
            self._was_refused, self._is_waiting = False, not self._is_open
            self._try -= 1
            if self._is_open:
                self._send()
            return
        if number < CALL_TRIES or isinstance(call, c.ConfirmCheckpoint):
            self._send()
            return
        self._current = None
        self._shell.tell(e.CallAnswered(call.call_id, ErrorInfo.of(Unreachable(f"no answer after {CALL_TRIES} tries"))))
        self._next()


def _is_fenced(answer: Answer) -> bool:
    return any(error.code == Fenced.code for error in (answer[0], *answer[1].values()) if error is not None)


@dataclass(slots=True)
class Directory:
    """Where TaskManagers find the JobManager, when there is one."""

    current: Shell | None = None


class Shell:
    """One life of a JobManager process."""

    def __init__(
        self,
        world: World,
        machine: Dispatcher,
        storage: Storage,
        generation: Generation,
        loss_grace_ms: int,
        reconnect_ms: int = 0,
    ) -> None:
        self.world = world
        self.generation = generation
        self.loss_grace_ms = loss_grace_ms
        self.reconnect_ms = reconnect_ms
        self.machine = machine
        self.observers: list[Observer] = []
        self.terminated: set[JobId] = set()
        self.reports: list[c.ReportSnapshot] = []
        self.is_dead = False
        self.files = FileWork(self, storage)
        self._outboxes: dict[TaskManagerId, Outbox] = {}
        self._timers: dict[str, int] = {}
        self._timer_number = 0

    def tell(self, event: e.Event) -> None:
        if self.is_dead:
            return
        if isinstance(event, e.TaskManagerConnectionLost | e.TaskManagerHeartbeat):
            self._note_connection(event)
        for observer in self.observers:
            observer.before_event(event)
        commands = list(self.machine.on(event, self.world.now_ms))
        for observer in self.observers:
            observer.after_event(event, commands)
        for command in commands:
            self._carry_out(command)

    def crash(self, *, lingers: bool = False) -> None:
        """``kill -9``: what it had asked of the storage happens, or does not; TaskManagers notice in a while. ``lingers``: it was stopped
        instead, and deposed; what it had begun to tell TaskManagers it goes on to tell them again and again."""
        self.is_dead = True
        self.files.crash()
        for outbox in self._outboxes.values():
            outbox.is_closed = not lingers
            if lingers:
                outbox.linger()
            self.world.later(self.world.between(5, 150), partial(outbox.peer.on_connection_lost, self))

    def connect(self, task_manager_id: TaskManagerId, peer: Peer) -> None:
        """Its heartbeat stream is open."""
        old = self._outboxes.get(task_manager_id)
        if old is None or old.peer is not peer or old.is_closed:
            if old is not None:
                old.is_closed = True
            self._outboxes[task_manager_id] = Outbox(self, peer)
        else:
            old.open()

    def _note_connection(self, event: e.TaskManagerConnectionLost | e.TaskManagerHeartbeat) -> None:
        outbox = self._outboxes.get(event.task_manager_id)
        if outbox is None or outbox.peer.session != event.session:
            return
        if isinstance(event, e.TaskManagerConnectionLost):
            outbox.suspend()
        else:
            outbox.open()

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
            case (
                c.CreateLocation()
                | c.WriteManifest()
                | c.ReadBackManifest()
                | c.DiscardCheckpoint()
                | c.DiscardSharedFiles()
                | c.InspectCheckpoints()
                | c.WriteShape()
            ):
                self.files.start(command)
            case c.JobChanged() | c.Log() | c.AnnounceWatermark() | c.StartWorker() | c.StopWorker():
                pass
            case _:
                outbox = self._outboxes.get(command.task_manager_id)
                assert outbox is not None, f"a call to a TaskManager that is not connected: {command}"
                outbox.push(command)

    def _close(self, task_manager_id: TaskManagerId, session: str) -> None:
        outbox = self._outboxes.get(task_manager_id)
        if outbox is not None and outbox.peer.session == session:
            outbox.is_closed = True
            self.world.later(self.world.message_delay_ms(), partial(outbox.peer.on_connection_lost, self, is_over=True))

    def _start_timer(self, timer: str, delay_ms: int) -> None:
        self._timer_number += 1
        number = self._timers[timer] = self._timer_number
        self.world.later(delay_ms, lambda: self._on_timer(timer, number))

    def _on_timer(self, timer: str, number: int) -> None:
        if self._timers.get(timer) == number and not self.is_dead:
            del self._timers[timer]
            self.tell(e.TimerFired(timer))
