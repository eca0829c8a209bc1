"""A TaskManager: the real machine with its slot and task tables, one ordered outbox to the JobManager that retries as long as the process
lives, and keeps what is for a JobManager that is lost until another one is found, heartbeats, and registration again and again. When its
connection breaks its tasks go on for the grace that the JobManager gave; what comes from, or is meant for, another JobManager than the one
it is registered with counts for nothing. A task that has finished is unknown here at once, and reported when its process is gone."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable

from tests.sim.assigned import deliver, kind_of
from tests.sim.context import TaskContext
from tests.sim.model_subtask import ModelSubtask
from tests.sim.shell import Answer, Call, Directory, Shell
from tests.submitted import submitted
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.model.channel_events import Barrier
from tidegate.model.coordinators.operator_events import OperatorEvent
from tidegate.model.errors import ErrorInfo
from tidegate.model.ids import AttemptId, Generation, TaskManagerId
from tidegate.model.states import ExecutionState
from tidegate.taskmanager.machines import slots
from tidegate.taskmanager.machines import task_events as tv
from tidegate.taskmanager.machines.task_manager import (
    StartLossTimer,
    StopLossTimer,
    TaskManagerCommand,
    TaskManagerEvent,
    TaskManagerMachine,
)

HEARTBEAT_INTERVAL_MS = 150
RETRY_MS = 30
EXIT_MS = (1, 150)
"""From the last word of a task that has finished to the end of its process; one that was stopped is gone at once."""
SLOT_TIMEOUT_MS = 10_000
STARTS_AT_ONCE = 2
"""Less than a schedule deploys together: the others wait for their turn."""
Deed = Callable[[ModelSubtask], None]
_FORWARDED = (e.EndOfDataReached, e.SubtaskAcknowledged, e.SubtaskDeclined, e.OperatorEventReceived)


class SimTaskManager:
    def __init__(
        self, directory: Directory, context: TaskContext, name: str, session: str, slot_count: int, leaving: float = 0.0
    ) -> None:
        """``leaving``: how probable it is, with each heartbeat, that the executor of some tasks goes."""
        self._leaving = leaving
        self.task_manager_id = TaskManagerId(name)
        self.session = session
        self.slot_count = slot_count
        self.tasks: dict[AttemptId, ModelSubtask] = {}
        self.is_dead = False
        self.is_partitioned = False
        self._machine = TaskManagerMachine(slot_count, SLOT_TIMEOUT_MS, tv.TaskLimits(starts_at_once=STARTS_AT_ONCE))
        self._world = context.world
        self._directory = directory
        self._shell: Shell | None = None
        self._context = context
        self._life = 0
        self._outbox: deque[e.Event] = deque()
        self._outbox_of: Shell | None = None
        """For whom it is: messages for a JobManager that is lost wait for it."""
        self._last_sent: e.Event | None = None
        self._is_link_broken = False
        self._is_sending = False
        self._events: deque[TaskManagerEvent] = deque()
        self._is_busy = False
        self._refusal: ErrorInfo | None = None
        self._deeds: list[Deed] = []
        """What a mail does, by the number that is the mail."""
        self._timers: dict[object, int] = {}
        self._timer_number = 0

    # ---- registration and heartbeats ---------------------------------------------------------------------------------

    @property
    def is_cut_off(self) -> bool:
        return self.is_dead or self.is_partitioned

    def register(self) -> None:
        if self.is_dead or self._shell is not None:
            return
        shell = self._directory.current
        is_ready = not (self._machine.has_given_up and self._machine.tasks.attempts())
        reaches = shell is not None and not self.is_cut_off and not self._world.chance(self._world.plan.lose)
        if shell is None or not is_ready or not reaches:
            self._world.later(RETRY_MS, self.register)
            return
        if self._outbox_of is not shell:
            self._outbox.clear()
            self._last_sent = None
        self._life += 1
        self._shell = self._outbox_of = shell
        self._is_link_broken = False
        shell.connect(self.task_manager_id, self)
        self._context.watch.on_reported(self.tasks, self._machine.reports())
        registered = e.TaskManagerRegistered(
            self.task_manager_id, self.session, "host:1", "host", self._report(), attempts=self._machine.reports()
        )
        shell.tell(registered)
        self._post(slots.JobManagerFound(shell.generation, shell.loss_grace_ms, shell.reconnect_ms))
        self._heartbeat(self._life)
        if not self._is_sending:
            self._send_next()

    def _report(self) -> tuple[e.ReportedSlot, ...]:
        return tuple(e.ReportedSlot(s.slot_index, s.allocation_id, s.job_id) for s in self._machine.slots.report())

    def _heartbeat(self, life: int) -> None:
        if self.is_dead or self._shell is None or life != self._life:
            return
        if not (self.is_cut_off or self._is_link_broken):
            ends = [one.attempt for one in self._outbox if isinstance(one, e.TaskStateChanged)]
            here = tuple(dict.fromkeys([*self._machine.tasks.attempts(), *ends]))
            event = e.TaskManagerHeartbeat(
                self.task_manager_id, self.session, self._report(), here, self._draw_leaving(here)
            )
            self._world.later(self._world.message_delay_ms(), lambda: self._deliver_heartbeat(event, life))
        self._world.later(HEARTBEAT_INTERVAL_MS, lambda: self._heartbeat(life))

    def _draw_leaving(self, here: tuple[AttemptId, ...]) -> tuple[AttemptId, ...]:
        """In the chaos only, and nothing is drawn where none leave: schedules that tests name by their seeds stay as they are."""
        if not (self._leaving and here and self._world.now_ms < self._world.plan.chaos_ms):
            return ()
        if self._world.rng.random() >= self._leaving:
            return ()
        return tuple(self._world.rng.sample(sorted(here, key=str), self._world.rng.randint(1, len(here))))

    def _deliver_heartbeat(self, event: e.TaskManagerHeartbeat, life: int) -> None:
        if self._reaches(life) and self._shell is not None:
            self._shell.tell(event)

    def _reaches(self, life: int) -> bool:
        return not (self.is_cut_off or self._is_link_broken) and life == self._life and self._shell is not None

    def on_connection_lost(self, to: Shell | None, *, is_over: bool = False) -> None:
        """Seen from this side. ``is_over``: the JobManager has ended the session."""
        if self.is_dead or self._shell is None or self._shell is not to:
            return
        self._shell = None
        self._post(slots.JobManagerLost(is_over))
        self._world.later(RETRY_MS, self.register)

    # ---- faults ------------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        self.is_dead = True
        for task in list(self.tasks.values()):
            task.cut_off()
        self.tasks.clear()
        if self._shell is not None and self._world.rng.random() < 0.7:
            self._tell_later(self._shell, "connection reset", 5, 100)

    def partition(self, duration_ms: int) -> None:
        self.is_partitioned = True
        shell = self._shell
        if shell is not None and self._world.rng.random() < 0.5:
            self._world.later(self._world.between(100, 600), lambda: self.on_connection_lost(shell))
        if shell is not None and self._world.rng.random() < 0.5:
            self._tell_later(shell, "keepalive failed", 100, 600)
        self._world.later(duration_ms, self._end_partition)

    def break_link(self, told_ms: int | None, noticed_ms: int, *, says_again: bool) -> None:
        """The connection breaks, and both sides live. The JobManager hears of it after ``told_ms`` (``None``: not before this side is back),
        this side after ``noticed_ms``. ``says_again``: the answer to what was sent last is lost, so it is sent again."""
        shell, life = self._shell, self._life
        if shell is None or self.is_dead or self._is_link_broken:
            return
        self._is_link_broken = True
        if says_again and self._last_sent is not None:
            self._outbox.appendleft(self._last_sent)
        self._world.later(noticed_ms, lambda: self.on_connection_lost(shell))

        def tell() -> None:
            if life == self._life:
                shell.tell(e.TaskManagerConnectionLost(self.task_manager_id, self.session, "it was reset"))

        if told_ms is not None:
            self._world.later(told_ms, tell)

    def _tell_later(self, shell: Shell, reason: str, least_ms: int, most_ms: int) -> None:
        lost = e.TaskManagerConnectionLost(self.task_manager_id, self.session, reason)
        self._world.later(self._world.between(least_ms, most_ms), lambda: shell.tell(lost))

    def _end_partition(self) -> None:
        self.is_partitioned = False

    # ---- to the JobManager -------------------------------------------------------------------------------------------

    def send(self, event: e.Event) -> None:
        if self._outbox_of is None:
            return
        self._outbox.append(event)
        if not self._is_sending:
            self._send_next()

    def _send_next(self) -> None:
        self._is_sending = bool(self._outbox) and not self.is_dead and self._shell is not None
        if not self._is_sending:
            return
        event = self._outbox[0]
        life = self._life
        if not self._reaches(life) or self._world.chance(self._world.plan.lose):
            self._world.later(RETRY_MS, self._send_next)
            return
        if self._world.chance(self._world.plan.duplicate):
            self._world.later(self._world.between(1, 300), lambda: self._arrive(event, life))
        self._world.later(self._world.message_delay_ms(), lambda: self._arrive_in_order(event, life))

    def _arrive(self, event: e.Event, life: int) -> None:
        if self._reaches(life) and self._shell is not None:
            self._shell.tell(event)

    def _arrive_in_order(self, event: e.Event, life: int) -> None:
        if not self._reaches(life):
            self._world.later(RETRY_MS, self._send_next)
            return
        self._last_sent = event
        self._arrive(event, life)
        if self._outbox and self._outbox[0] is event:
            self._outbox.popleft()
        self._send_next()

    # ---- from the JobManager -----------------------------------------------------------------------------------------

    def handle(self, call: Call, caller: Shell) -> Answer | None:
        if self.is_dead:
            return None
        generation = caller.generation
        match call:
            case c.AllocateSlot():
                event = slots.SlotRequested(generation, call.job_id, call.allocation_id, call.slot_index)
                return self._request(event), {}
            case c.FreeSlot():
                return self._request(slots.SlotFreeRequested(generation, call.allocation_id, call.reason)), {}
            case c.SubmitTask():
                return self._request(tv.TaskSubmitted(submitted(call.deployment), str(call.deployment.attempt))), {}
            case c.CancelTask():
                return self._request(tv.CancelRequested(generation, call.attempt)), {}
            case c.ConnectTask():
                return self._request(self._mail(generation, call.attempt, lambda t: t.connect(call.producers))), {}
            case c.TriggerCheckpoint():
                barrier = Barrier(call.checkpoint_id, call.timestamp_ms, call.options)
                ends = call.options.snapshot_type.is_synchronous
                says = tv.CheckpointMail(tv.CheckpointMailKind.TRIGGER, call.checkpoint_id, ends_the_job=ends)
                return None, self._for_each(caller, call.attempts, says, lambda t: t.trigger(barrier))
            case c.ConfirmCheckpoint():
                return None, self._confirm(caller, call)
            case c.SendOperatorEvent():
                told = call.event
                mail = self._mail(generation, call.attempt, lambda t: deliver(t, told), told)
                return self._request(mail), {}
            case c.AbortCheckpoint():
                latest = call.latest_completed_id
                says = tv.CheckpointMail(tv.CheckpointMailKind.ABORT, call.checkpoint_id)
                return None, self._for_each(caller, call.attempts, says, lambda t: t.abort(call.checkpoint_id, latest))

    def _confirm(self, caller: Shell, call: c.ConfirmCheckpoint) -> dict[AttemptId, ErrorInfo]:
        errors: dict[AttemptId, ErrorInfo] = {}
        for attempt in call.attempts:
            may = attempt in call.may_finish
            says = tv.CheckpointMail(tv.CheckpointMailKind.CONFIRM, call.checkpoint_id, may_finish=may)

            def confirm(task: ModelSubtask, may: bool = may) -> None:
                self._context.watch.on_confirmed(
                    self.task_manager_id, caller.generation, self._machine.slots.generation
                )
                task.confirm(call.checkpoint_id, may)

            errors |= self._for_each(caller, (attempt,), says, confirm)
        return errors

    def _for_each(
        self, caller: Shell, attempts: tuple[AttemptId, ...], says: tv.CheckpointMail, deed: Deed
    ) -> dict[AttemptId, ErrorInfo]:
        answers = {a: self._request(self._mail(caller.generation, a, deed, says)) for a in attempts}
        return {attempt: error for attempt, error in answers.items() if error is not None}

    def _mail(
        self,
        generation: Generation,
        attempt: AttemptId,
        deed: Deed,
        says: tv.CheckpointMail | OperatorEvent | None = None,
    ) -> tv.MailRequested:
        self._deeds.append(deed)
        return tv.MailRequested(generation, attempt, str(len(self._deeds) - 1).encode(), says)

    # ---- the machine -------------------------------------------------------------------------------------------------

    def _request(self, event: TaskManagerEvent) -> ErrorInfo | None:
        self._refusal = None
        self._post(event)
        return self._refusal

    def _post(self, event: TaskManagerEvent) -> None:
        self._events.append(event)
        if self._is_busy:
            return
        self._is_busy = True
        while self._events and not self.is_dead:
            for command in self._machine.on(self._events.popleft(), self._world.now_ms):
                self._execute(command)
        self._is_busy = False

    def _execute(self, command: TaskManagerCommand) -> None:
        match command:
            case slots.Refuse() | tv.RefuseStream():
                self._refusal = command.error
            case slots.StartSlotTimer():
                event = slots.SlotTimedOut(command.allocation_id)
                self._start_timer(command.allocation_id, command.delay_ms, event)
            case slots.StopSlotTimer():
                self._timers.pop(command.allocation_id, None)
            case slots.ReportSlotFreed():
                self.send(e.SlotFreed(self.task_manager_id, command.allocation_id))
            case StartLossTimer():
                self._start_timer("loss", command.delay_ms, slots.LossGraceOver())
            case StopLossTimer():
                self._timers.pop("loss", None)
            case tv.StartTimer():
                fired = tv.TimerFired(command.attempt, command.kind)
                self._start_timer((command.attempt, command.kind), command.delay_ms, fired)
            case tv.StopTimers():
                for kind in tv.TimerKind:
                    self._timers.pop((command.attempt, kind), None)
            case tv.StartSubtask():
                attempt, deployment = command.task.attempt, pickle.loads(command.task.deploy)
                make = kind_of(attempt, is_assigned=self._context.job.is_assigned)
                self.tasks[attempt] = make(self._context, deployment, self._on_reported, self._on_task_over)
                self._post(tv.StreamOpened(attempt, command.token, 1, "host"))
            case tv.AcceptStream():
                task = self.tasks[command.attempt]
                task.start()
                for mail in command.mails[1:]:  # the first brought the deployment
                    self._deeds[int(mail)](task)
            case tv.SendMail():
                self._deeds[int(command.mail)](self.tasks[command.attempt])
            case tv.SendCancel():
                self.tasks[command.attempt].cancel()
            case tv.KillSubtask():
                self.tasks[command.attempt].cut_off()
                self._world.later(1, lambda: self._on_exited(command.attempt))
            case tv.ReportState():
                changed = e.TaskStateChanged(command.attempt, command.state, command.error, command.data_address)
                self.send(changed)
            case tv.Forward():
                assert isinstance(command.message, _FORWARDED), command.message
                self.send(command.message)
            case tv.RemoveTask():
                self.tasks.pop(command.attempt, None)
            case tv.CloseStream():
                pass
            case tv.Escalate():
                raise AssertionError(command.error.message)

    def _start_timer(self, key: object, delay_ms: int, event: TaskManagerEvent) -> None:
        self._timer_number += 1
        number = self._timers[key] = self._timer_number
        self._world.later(delay_ms, lambda: self._on_timer(key, number, event))

    def _on_timer(self, key: object, number: int, event: TaskManagerEvent) -> None:
        if self._timers.get(key) == number and not self.is_dead:
            del self._timers[key]
            self._post(event)

    # ---- what subtasks say -------------------------------------------------------------------------------------------

    def _on_reported(self, event: e.Event) -> None:
        match event:
            case e.TaskStateChanged():
                assert event.data_address is not None
                self._post(tv.SubtaskListening(event.attempt, event.data_address))
                self._post(tv.SubtaskStateChanged(event.attempt, event.state))
            case e.SubtaskAcknowledged():
                self._post(tv.SubtaskReported(event.attempt, event, acknowledged=event.checkpoint_id))
            case e.EndOfDataReached():
                self._post(tv.SubtaskReported(event.attempt, event, is_end_of_data=True))
            case e.OperatorEventReceived():
                self._post(tv.SubtaskReported(event.attempt, event, event=event.event))
            case e.SubtaskDeclined():
                self._post(tv.SubtaskReported(event.attempt, event))
            case _:
                raise AssertionError(event)

    def _on_task_over(self, task: ModelSubtask, state: ExecutionState, error: ErrorInfo | None) -> None:
        has_finished = state is ExecutionState.FINISHED
        if has_finished:
            self._context.watch.finished.add(task.attempt)
        self._post(tv.SubtaskStateChanged(task.attempt, state, error))
        if has_finished:
            self._world.later(self._world.between(*EXIT_MS), lambda: self._on_exited(task.attempt))
        else:
            self._on_exited(task.attempt)

    def _on_exited(self, attempt: AttemptId) -> None:
        if attempt in self.tasks:
            self._post(tv.SparkJobEnded(attempt))
