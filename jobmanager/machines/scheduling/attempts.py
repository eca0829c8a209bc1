"""Cancels execution attempts, and compares them with those that TaskManagers report in heartbeats.

At most one CancelTask call is open per attempt. An attempt that its TaskManager does not list in two heartbeats in a row is missing:
one heartbeat may have been sent before the attempt was deployed.
"""

from __future__ import annotations

from tidegate.jobmanager.machines.command_buffer import CallKind, CommandBuffer, OpenCall
from tidegate.jobmanager.machines.commands import CancelTask
from tidegate.jobmanager.machines.scheduling.execution import Execution
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.jobmanager.machines.scheduling.port import SubtaskScheduler
from tidegate.model.ids import AttemptId, TaskManagerId
from tidegate.model.states import ExecutionState

MISSING_REPORTS_TOLERATED = 1
"""How many heartbeats in a row may miss an attempt: one may have been sent before the deployment arrived."""

_E = ExecutionState


class Attempts:
    """Cancels attempts of one job, and finds those that should not run."""

    def __init__(self, graph: ExecutionGraph, scheduler: SubtaskScheduler, buffer: CommandBuffer) -> None:
        self._graph = graph
        self._scheduler = scheduler
        self._buffer = buffer

    def cancel_all(self) -> None:
        for execution in self._graph:
            self.cancel(execution)

    def cancel(self, execution: Execution) -> None:
        """Cancels an attempt: at once if it is not deployed, otherwise by a call to its TaskManager."""
        match execution.state:
            case _E.CREATED | _E.SCHEDULED:
                self._scheduler.unschedule(execution.subtask_id)
                self._graph.move(execution, _E.CANCELED, self._buffer.now_ms)
            case _E.DEPLOYING | _E.INITIALIZING | _E.RUNNING:
                assert execution.task_manager_id is not None
                self._graph.move(execution, _E.CANCELING, self._buffer.now_ms)
                self.send_cancel(execution.attempt, execution.task_manager_id)
            case _:
                pass

    def cancel_stray(self, attempt: AttemptId) -> None:
        """Cancels an attempt that has ended here, but that its TaskManager reports as alive."""
        over = self._graph.current(attempt) or self._graph.earlier(attempt)
        if over is not None and over.task_manager_id is not None:
            self.send_cancel(attempt, over.task_manager_id)

    def send_cancel(self, attempt: AttemptId, task_manager_id: TaskManagerId) -> None:
        if self._buffer.has_open_cancel(attempt) or not self._buffer.is_connected(task_manager_id):
            return
        call = OpenCall(CallKind.CANCEL, task_manager_id, job_id=attempt.job_id, attempt=attempt)
        self._buffer.emit(CancelTask(self._buffer.open_call(call), task_manager_id, attempt))

    def on_reported(self, task_manager_id: TaskManagerId, attempts: frozenset[AttemptId]) -> list[Execution]:
        """Cancels attempts that the JobManager does not expect on that TaskManager; returns executions that are missing there."""
        strays = [attempt for attempt in attempts if not self._is_expected(attempt)]
        for attempt in sorted(strays):
            self.send_cancel(attempt, task_manager_id)
        missing = []
        for execution in self._scheduler.executions_on(task_manager_id):
            is_missing = execution.submit_answered and execution.attempt not in attempts
            if execution.on_reported(is_missing=is_missing) > MISSING_REPORTS_TOLERATED:
                missing.append(execution)
        return missing

    def _is_expected(self, attempt: AttemptId) -> bool:
        execution = self._graph.current(attempt)
        return execution is not None and execution.is_deployed and execution.state is not _E.CANCELING
