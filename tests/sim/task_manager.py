"""A model TaskManager: slots, tasks, one ordered outbox to the JobManager that retries as long as the process lives and is
connected, heartbeats, and registration again and again. When its connection breaks it stops its tasks and frees its slots;
what comes from, or is meant for, another JobManager than the one it is connected to counts for nothing. A task that has finished is
unknown here at once, and told of when its process is gone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tests.sim.context import TaskContext
from tests.sim.shell import Answer, Call, Directory, Shell
from tests.sim.subtask import SimTask
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.model.channel_events import Barrier
from tidegate.model.errors import ErrorInfo, InternalError, SubtaskLost, UnknownAttempt
from tidegate.model.ids import AllocationId, AttemptId, JobId, TaskManagerId
from tidegate.model.states import ExecutionState

HEARTBEAT_INTERVAL_MS = 150
RETRY_MS = 30
EXIT_MS = (1, 150)
"""From the last word of a task to the end of its process."""


class SimTaskManager:
    def __init__(self, directory: Directory, context: TaskContext, name: str, session: str, slots: int) -> None:
        self.task_manager_id = TaskManagerId(name)
        self.session = session
        self.tasks: dict[AttemptId, SimTask] = {}
        self._exiting: set[AttemptId] = set()
        self.is_dead = False
        self.is_partitioned = False
        self._world = context.world
        self._directory = directory
        self._shell: Shell | None = None
        self._context = context
        self._slots: list[tuple[AllocationId, JobId] | None] = [None] * slots
        self._ever: set[AttemptId] = set()
        self._life = 0
        self._outbox: deque[e.Event] = deque()
        self._is_sending = False

    # ---- registration and heartbeats ---------------------------------------------------------------------------------

    @property
    def is_cut_off(self) -> bool:
        return self.is_dead or self.is_partitioned

    @property
    def slot_count(self) -> int:
        return len(self._slots)

    def register(self) -> None:
        if self.is_dead or self._shell is not None:
            return
        shell = self._directory.current
        if shell is not None and not self.is_cut_off and not self._world.chance(self._world.plan.lose):
            self._life += 1
            self._shell = shell
            shell.connect(self.task_manager_id, self)
            report = self._report()
            shell.tell(e.TaskManagerRegistered(self.task_manager_id, self.session, "host:1", "host", report))
            self._heartbeat(self._life)
            return
        self._world.later(RETRY_MS, self.register)

    def _report(self) -> tuple[e.ReportedSlot, ...]:
        return tuple(
            e.ReportedSlot(i, slot[0], slot[1]) if slot else e.ReportedSlot(i) for i, slot in enumerate(self._slots)
        )

    def _heartbeat(self, life: int) -> None:
        if self.is_dead or self._shell is None or life != self._life:
            return
        if not self.is_cut_off:
            here = (*self.tasks, *sorted(self._exiting))
            event = e.TaskManagerHeartbeat(self.task_manager_id, self.session, self._report(), here)
            self._world.later(self._world.message_delay_ms(), lambda: self._deliver_heartbeat(event, life))
        self._world.later(HEARTBEAT_INTERVAL_MS, lambda: self._heartbeat(life))

    def _deliver_heartbeat(self, event: e.TaskManagerHeartbeat, life: int) -> None:
        if not self.is_cut_off and self._shell is not None and life == self._life:
            self._shell.tell(event)

    def on_connection_lost(self, to: Shell | None) -> None:
        """Seen from this side: nothing that runs here may go on."""
        if self.is_dead or self._shell is None or self._shell is not to:
            return
        self._shell = None
        self._outbox.clear()
        for task in list(self.tasks.values()):
            task.cut_off()
        self.tasks.clear()
        self._exiting.clear()
        self._slots = [None] * len(self._slots)
        self._world.later(RETRY_MS, self.register)

    # ---- faults ------------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        self.is_dead = True
        for task in list(self.tasks.values()):
            task.cut_off()
        self.tasks.clear()
        self._exiting.clear()
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

    def _tell_later(self, shell: Shell, reason: str, least_ms: int, most_ms: int) -> None:
        lost = e.TaskManagerConnectionLost(self.task_manager_id, self.session, reason)
        self._world.later(self._world.between(least_ms, most_ms), lambda: shell.tell(lost))

    def _end_partition(self) -> None:
        self.is_partitioned = False

    # ---- to the JobManager -------------------------------------------------------------------------------------------

    def send(self, event: e.Event) -> None:
        self._outbox.append(event)
        if not self._is_sending:
            self._send_next()

    def _send_next(self) -> None:
        self._is_sending = bool(self._outbox) and not self.is_dead
        if not self._is_sending:
            return
        event = self._outbox[0]
        life = self._life
        if self.is_cut_off or self._world.chance(self._world.plan.lose):
            self._world.later(RETRY_MS, self._send_next)
            return
        if self._world.chance(self._world.plan.duplicate):
            self._world.later(self._world.between(1, 300), lambda: self._arrive(event, life))
        self._world.later(self._world.message_delay_ms(), lambda: self._arrive_in_order(event, life))

    def _arrive(self, event: e.Event, life: int) -> None:
        if not self.is_cut_off and life == self._life and self._shell is not None:
            self._shell.tell(event)

    def _arrive_in_order(self, event: e.Event, life: int) -> None:
        if self.is_cut_off:
            self._world.later(RETRY_MS, self._send_next)
            return
        self._arrive(event, life)
        if self._outbox and self._outbox[0] is event:
            self._outbox.popleft()
        self._send_next()

    # ---- from the JobManager -----------------------------------------------------------------------------------------

    def handle(self, call: Call, caller: Shell) -> Answer | None:
        if self.is_dead or self._shell is not caller:
            return None
        match call:
            case c.AllocateSlot():
                return self._allocate(call), {}
            case c.FreeSlot():
                self._free(call.allocation_id)
                return None, {}
            case c.SubmitTask():
                return self._submit(call), {}
            case c.ConnectTask() | c.CancelTask():
                task = self.tasks.get(call.attempt)
                if isinstance(call, c.CancelTask) and call.attempt in self._exiting:
                    return None, {}
                if task is None:
                    return ErrorInfo.of(UnknownAttempt(f"{call.attempt} is not here")), {}
                if isinstance(call, c.ConnectTask):
                    task.connect(call.producers)
                else:
                    task.cancel()
                return None, {}
            case c.TriggerCheckpoint():
                barrier = Barrier(call.checkpoint_id, call.timestamp_ms, call.options)
                return None, self._for_each(call.attempts, lambda t: t.trigger(barrier))
            case c.ConfirmCheckpoint():
                may = set(call.may_finish)
                return None, self._for_each(call.attempts, lambda t: t.confirm(call.checkpoint_id, t.attempt in may))
            case c.AbortCheckpoint():
                latest = call.latest_completed_id
                return None, self._for_each(call.attempts, lambda t: t.abort(call.checkpoint_id, latest))

    def _for_each(
        self, attempts: tuple[AttemptId, ...], action: Callable[[SimTask], None]
    ) -> dict[AttemptId, ErrorInfo]:
        errors = {}
        for attempt in attempts:
            task = self.tasks.get(attempt)
            if task is None:
                errors[attempt] = ErrorInfo.of(UnknownAttempt(f"{attempt} is not here"))
            else:
                action(task)
        return errors

    def _allocate(self, call: c.AllocateSlot) -> ErrorInfo | None:
        there = self._slots[call.slot_index]
        if there is not None and there[0] != call.allocation_id:
            return ErrorInfo.of(InternalError(f"slot {call.slot_index} is taken"))
        self._slots[call.slot_index] = (call.allocation_id, call.job_id)
        return None

    def _free(self, allocation_id: AllocationId) -> None:
        for task in [t for t in self.tasks.values() if t.deployment.allocation_id == allocation_id]:
            task.fail(ErrorInfo.of(SubtaskLost("its slot was freed")))
        for index, slot in enumerate(self._slots):
            if slot is not None and slot[0] == allocation_id:
                self._slots[index] = None
        self.send(e.SlotFreed(self.task_manager_id, allocation_id))

    def _submit(self, call: c.SubmitTask) -> ErrorInfo | None:
        deployment = call.deployment
        if deployment.attempt in self._ever:
            return None
        if all(slot is None or slot[0] != deployment.allocation_id for slot in self._slots):
            return ErrorInfo.of(InternalError(f"no slot for {deployment.attempt}"))
        self._ever.add(deployment.attempt)
        task = SimTask(self._context, deployment, self.send, self._on_task_over)
        self.tasks[deployment.attempt] = task
        task.start()
        return None

    def _on_task_over(self, task: SimTask, state: ExecutionState, error: ErrorInfo | None) -> None:
        self.tasks.pop(task.attempt, None)
        if state is not ExecutionState.FINISHED:
            self.send(e.TaskStateChanged(task.attempt, state, error))
            return
        self._context.watch.finished.add(task.attempt)
        self._exiting.add(task.attempt)
        self._world.later(self._world.between(*EXIT_MS), lambda: self._on_exited(task.attempt))

    def _on_exited(self, attempt: AttemptId) -> None:
        if attempt in self._exiting:
            self._exiting.discard(attempt)
            self.send(e.TaskStateChanged(attempt, ExecutionState.FINISHED))
