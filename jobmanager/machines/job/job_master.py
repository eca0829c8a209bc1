"""The JobMaster: the state machine of one job, and its parts.

``scheduler``: slots and deployment; ``failover``: which subtasks restart, and when; ``coordinator``: checkpoints; ``lifecycle``: the state.
A job that waits for slots is RUNNING with SCHEDULED tasks; RESTARTING lasts while tasks are canceled and the backoff runs.
Messages of attempts that have ended are ignored. Follows Flink's ``SchedulerBase.java`` and ``DefaultExecutionGraph.java``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tidegate.jobmanager.machines.checkpoint.coordinator import CheckpointCoordinator
from tidegate.jobmanager.machines.checkpoint.failure import FailureReason
from tidegate.jobmanager.machines.checkpoint.jobmanager_recovery import decide_origin
from tidegate.jobmanager.machines.checkpoint.pending_checkpoints import TIMEOUT_TIMER
from tidegate.jobmanager.machines.checkpoint.requests import TRIGGER_TIMER
from tidegate.jobmanager.machines.command_buffer import CallKind, CommandBuffer, OpenCall
from tidegate.jobmanager.machines.commands import JobTerminated
from tidegate.jobmanager.machines.coordination.operator_coordinators import OperatorCoordinators
from tidegate.jobmanager.machines.events import (
    CheckpointsInspected,
    EndOfDataReached,
    JobRecovered,
    JobSubmitted,
    RescaleRequested,
    ShapeWritten,
    TaskStateChanged,
)
from tidegate.jobmanager.machines.job.adoption import Adoption, AwaitedEvent, adoption_of
from tidegate.jobmanager.machines.job.carried_over_requests import CarriedOverRequests
from tidegate.jobmanager.machines.job.checkpoint_events import CheckpointEvent, handle_checkpoint_event
from tidegate.jobmanager.machines.job.failed_calls import CallFailure, judge_failed_call
from tidegate.jobmanager.machines.job.job_status import JobEvent, JobStatusHistory
from tidegate.jobmanager.machines.job.reconciliation import Reconciliation
from tidegate.jobmanager.machines.job.rescaling import (
    DELAY_TIMER,
    SETTLED_TIMER,
    SHAPE_TIMER,
    JobNow,
    Rescaling,
    ShapeStep,
)
from tidegate.jobmanager.machines.job.subtask_migration import SubtaskMigration
from tidegate.jobmanager.machines.job.task_invariants import check_tasks
from tidegate.jobmanager.machines.resources.task_managers import ResourceManager
from tidegate.jobmanager.machines.restore.restore import Restoring
from tidegate.jobmanager.machines.scheduling.attempts import Attempts
from tidegate.jobmanager.machines.scheduling.deployments import Deployments
from tidegate.jobmanager.machines.scheduling.execution import Execution
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.jobmanager.machines.scheduling.failover import Failover, FailTheJob, RestartLater
from tidegate.jobmanager.machines.scheduling.port import SLOT_IDLE_TIMER, SLOT_REQUEST_TIMER
from tidegate.jobmanager.machines.scheduling.restart import make_restart_strategy
from tidegate.jobmanager.machines.scheduling.schedulers import make_scheduler
from tidegate.jobmanager.machines.settings import JobSettings
from tidegate.model.errors import ErrorInfo, SubtaskLost
from tidegate.model.graph import JobGraph
from tidegate.model.ids import AllocationId, AttemptId, CheckpointId, SubtaskId, TaskManagerId
from tidegate.model.states import ExecutionState, JobState

RESTART_TIMER, ADOPTION_TIMER = "restart", "adoption"

_E, _J = ExecutionState, JobState
_PROGRESS = {_E.INITIALIZING: 1, _E.RUNNING: 2}


class JobMaster:
    """The state machine of one job: handles its events and coordinates its parts."""

    def __init__(
        self,
        event: JobSubmitted | JobRecovered,
        settings: JobSettings,
        resources: ResourceManager,
        buffer: CommandBuffer,
    ) -> None:
        self._buffer, self._resources = buffer, resources
        origin = decide_origin(event, settings.checkpoints)
        self._origin, graph = origin, origin.graph
        self.configuration, self.job_id = dict(origin.submitted.configuration), graph.job_id
        self.executions = ExecutionGraph(graph, settings.attempts_history, buffer.now_ms, origin.first_attempt)
        self.operators = OperatorCoordinators(self.executions, origin.newest_manifest, buffer)
        self.coordinator = CheckpointCoordinator(self.executions, self.operators, settings.checkpoints, buffer)
        self._deployments = Deployments(self.executions, self.configuration, buffer)
        self.scheduler = make_scheduler(self.executions, settings, self._deployments, resources, buffer)
        self._attempts = Attempts(self.executions, self.scheduler, buffer)
        self._restoring = Restoring(self.executions, self.coordinator, self.operators, settings.checkpoints, buffer)
        restarts = make_restart_strategy(settings.restart, buffer.random)
        self._failover = Failover(self.executions, restarts, regional=settings.regional_failover)
        self.lifecycle = JobStatusHistory(self.job_id, graph.name, buffer)
        self._is_reported_terminated, self._carried_over = False, CarriedOverRequests(event, buffer)
        requests = event.requests if isinstance(event, JobRecovered) else ()
        self.rescaling = Rescaling(self.executions, origin.submitted.graph, requests, settings.elastic, buffer)
        self.migration = SubtaskMigration(self.executions, self.rescaling, buffer)
        self.takes_checkpoints = settings.checkpoints.interval_ms is not None
        self._adoption_timeout_ms = settings.adoption_timeout_ms if isinstance(event, JobRecovered) else 0
        self._adoption: Adoption | None = None  # set while the job is RECONCILING

    # ---- clients -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self._origin.refusal is not None:
            self.lifecycle.remember(self._origin.refusal, None)
            self._attempts.cancel_all()
            self.lifecycle.on(JobEvent.REFUSED)
            self._end()
            return
        self.lifecycle.on(JobEvent.ACCEPTED)
        if self._adoption_timeout_ms > 0:
            self._adoption = adoption_of(self.executions, self._origin)
            self.lifecycle.on(JobEvent.AWAITED)
            self._buffer.start_timer(self._timer(ADOPTION_TIMER), self._adoption_timeout_ms)
            self.on_awaited()
            return
        self.coordinator.start_from(self._origin.submitted.restore, self._origin.inventory)
        self.lifecycle.on(JobEvent.SCHEDULED)
        self._deploy_all()
        if self._carried_over.is_cancellation:
            self.cancel()

    def cancel(self) -> None:
        self._reconcile()
        if self.lifecycle.on(JobEvent.CANCEL_REQUESTED):
            self._stop()

    def on_rescale(self, event: RescaleRequested) -> None:
        self.rescaling.require(event)
        self._look_at_shape()

    def on_shape_written(self, event: ShapeWritten) -> None:
        if self.rescaling.on_written(event.error):
            self._look_at_shape()
            self._proceed()

    def on_checkpoints_inspected(self, event: CheckpointsInspected) -> None:
        """Falls back to an older checkpoint after one could not be restored, or fails the job when none may be used."""
        found = self._restoring.on_inspected(event.whole)
        if not self.lifecycle.may(JobEvent.RESTART_DECIDED):
            return  # it is being canceled, or has failed meanwhile
        if isinstance(found, ErrorInfo):
            self.lifecycle.amend(found)
            self.lifecycle.on(JobEvent.FAILED_FOR_GOOD, _in_one_line(found))
            self._stop()
            return
        self.lifecycle.count_restart()
        why = (
            f"the job restarts from the older checkpoint {found.checkpoint_id} at {found.location}, as tidegate.state-recovery.older-checkpoints "
            "allows: sinks may publish again what they published after it"
        )
        self._buffer.log("WARN", why, job=self.job_id)
        self._proceed()

    # ---- tasks -------------------------------------------------------------------------------------------------------

    def on_task_state(self, event: TaskStateChanged) -> None:
        execution = self.executions.current(event.attempt)
        if execution is None or not execution.is_deployed:
            if not event.state.is_terminal:
                self._attempts.cancel_stray(event.attempt)
            return
        if event.data_address is not None and self.executions.note_address(execution, event.data_address):
            self._deployments.on_address(execution)
        match event.state:
            case _E.FINISHED:
                self._on_finished(execution)
            case _E.CANCELED if execution.state is _E.CANCELING:
                self._move(execution, _E.CANCELED, event.error)
            case _E.CANCELED | _E.FAILED:
                what = f"{self.executions.describe(execution)} {event.state.value.lower()} without saying why"
                self._on_failed(execution, event.error or ErrorInfo.of(SubtaskLost(what)))
            case _E.INITIALIZING | _E.RUNNING:
                self._on_progress(execution, event.state)
            case _:
                self._buffer.log("WARN", f"ignored state {event.state.value}", attempt=event.attempt)

    def on_end_of_data(self, event: EndOfDataReached) -> None:
        execution = self.executions.current(event.attempt)
        if execution is not None and execution.is_deployed and not execution.at_end_of_data:
            self.executions.note_end_of_data(execution)
            self._look_at_end_of_data()

    def on_checkpoint_event(self, event: CheckpointEvent) -> None:
        handled = handle_checkpoint_event(self.coordinator, event)
        if handled.may_decide:
            self._after_coordinator(handled.failure)

    def on_call_failed(self, call: OpenCall, error: ErrorInfo) -> None:
        """Handles a call about one attempt, or a trigger, that failed for good."""
        if call.kind is CallKind.TRIGGER and call.checkpoint_id is not None:
            self._after_coordinator(self.coordinator.on_trigger_failed(call.checkpoint_id, error))
            return
        execution = self.executions.current(call.attempt) if call.attempt is not None else None
        if execution is None or not execution.is_deployed:
            return
        verdict = judge_failed_call(call, error, execution)
        if verdict is CallFailure.CANCELED:
            self._move(execution, _E.CANCELED)
        elif verdict is CallFailure.FAILED:
            failed = f"{call.kind.value} of {self.executions.describe(execution)} failed: {error.message}"
            self._attempts.send_cancel(execution.attempt, call.task_manager_id)
            self._on_failed(execution, replace(error, message=failed))

    def on_submitted(self, attempt: AttemptId) -> None:
        """Handles the answer to SubmitTask: from now on the heartbeats of its TaskManager must list the attempt."""
        if (execution := self.executions.current(attempt)) is not None:
            execution.on_submit_answered()

    # ---- TaskManagers ------------------------------------------------------------------------------------------------

    def on_allocated(self, allocation_id: AllocationId) -> None:
        if not self.lifecycle.state.is_terminal:
            self.scheduler.on_allocated(allocation_id)

    def on_slots_available(self) -> None:
        if not self.lifecycle.state.is_terminal:
            self._look_at_shape()
            self.scheduler.advance()

    def on_no_slots(self, batch: int, why: str = "") -> None:
        """Fails a batch of subtasks that waited for slots too long, or that will not get any (``why``)."""
        if (found := self.scheduler.on_no_slots(batch, why)) is not None:
            self._on_failed(self.executions[found[1][0]], found[0])

    def on_allocation_lost(self, allocation_id: AllocationId, reason: str) -> None:
        self._on_lost(self.scheduler.on_allocation_lost(allocation_id), reason)

    def on_task_manager_lost(self, task_manager_id: TaskManagerId, reason: str) -> None:
        self._on_lost(self.scheduler.on_task_manager_lost(task_manager_id), reason)

    def on_attempts_reported(self, task_manager_id: TaskManagerId, attempts: frozenset[AttemptId]) -> None:
        missing = self._attempts.on_reported(task_manager_id, attempts)
        self._on_lost(missing, f"TaskManager {task_manager_id} has lost it")

    def on_attempts_leaving(self, attempts: Collection[AttemptId]) -> None:
        """Handles attempts whose executors are about to be taken away; reported repeatedly until nothing runs there."""
        self.migration.note(attempts, self.coordinator.stats.failed)
        self._look_at_moves()

    # ---- time --------------------------------------------------------------------------------------------------------

    def on_timer(self, kind: str, argument: str) -> None:
        if kind == TRIGGER_TIMER:
            self._after_coordinator(self.coordinator.on_trigger_timer())
        elif kind == TIMEOUT_TIMER:
            self._after_coordinator(self.coordinator.on_timeout(CheckpointId(int(argument))))
        elif kind == ADOPTION_TIMER:
            self._reconcile()
        elif kind == RESTART_TIMER:
            self._failover.on_backoff_over()
            self._proceed()
        elif kind == SLOT_REQUEST_TIMER:
            self.on_no_slots(int(argument))
        elif kind == SLOT_IDLE_TIMER:
            self.scheduler.on_idle_timeout()
        elif kind == SHAPE_TIMER:
            self.rescaling.on_retry()
        elif kind in (SETTLED_TIMER, DELAY_TIMER):
            self.rescaling.on_waited_for(kind)
            self._look_at_shape()

    # ---- adoption ----------------------------------------------------------------------------------------------------

    @property
    def awaits_attempts(self) -> bool:
        """Tells whether the job is RECONCILING; reports of TaskManagers then go to ``on_awaited``."""
        return self._adoption is not None

    def on_awaited(self, *events: AwaitedEvent) -> None:
        if self._adoption is not None:
            for event in events:
                self._adoption.note(event)
            if self._adoption.is_decided(self._resources.held_by(self.job_id)):
                self._reconcile()

    def _reconcile(self) -> None:
        """Ends the wait of a new JobManager for the attempts that TaskManagers still run: adopts those that were reported and restarts the rest. No-op for a
        job that does not wait for reports.
        """
        if self._adoption is None:
            return
        adoption, self._adoption = self._adoption, None
        verdict = adoption.decide(self._resources.held_by(self.job_id))
        self._buffer.cancel_timer(self._timer(ADOPTION_TIMER))
        parts = (self.executions, self.scheduler, self.coordinator, self.operators, self._buffer)
        failed = Reconciliation(self._origin, *parts).carry_out(verdict)
        self.lifecycle.on(JobEvent.RECONCILED)
        if self._carried_over.is_cancellation:
            self.cancel()
        elif not verdict.present:
            self._deploy_all()
            return
        for execution, error in failed:
            self._on_failed(execution, error)
        lost = [subtask for subtask in verdict.lacking if not self._failover.covers(subtask)]
        if lost and self.lifecycle.may(JobEvent.RESTART_DECIDED):
            why = ErrorInfo.of(SubtaskLost(f"{len(lost)} subtasks were lost with the JobManager"))
            self._restart_later(self._failover.restart_lost(lost, self._buffer.now_ms), why)
        self._proceed()
        adoption.settle(self.operators)
        self._look_at_end_of_data()

    def _deploy_all(self) -> None:
        self._restoring.assign([e.subtask_id for e in self.executions])
        self.scheduler.schedule(e.subtask_id for e in self.executions)
        self._look_at_shape()

    # ---- steps -------------------------------------------------------------------------------------------------------

    def _on_progress(self, execution: Execution, state: ExecutionState) -> None:
        """Handles INITIALIZING or RUNNING; ignored when it is outdated or the attempt is being canceled."""
        if execution.state is _E.CANCELING or _PROGRESS[state] <= _PROGRESS.get(execution.state, 0):
            return
        self._move(execution, state)

    def _on_finished(self, execution: Execution) -> None:
        self.executions.note_end_of_data(execution)
        self._move(execution, _E.FINISHED)
        if self.executions.current(execution.attempt) is None:
            return  # it was the last one that a restart waited for, which has replaced it
        self.scheduler.on_finished(execution)
        self._after_coordinator(self.coordinator.on_task_finished(execution.attempt))

    def _move(self, execution: Execution, state: ExecutionState, why: ErrorInfo | None = None) -> None:
        self.executions.move(execution, state, self._buffer.now_ms, why)
        self._buffer.changed(self.job_id)
        self._proceed()

    def _on_failed(self, execution: Execution, error: ErrorInfo) -> None:
        """Handles the failure of one attempt. While it is being canceled, it counts as canceled."""
        if execution.state is _E.CANCELING:
            self._move(execution, _E.CANCELED)
            return
        failure = replace(error, origin=error.origin or self.executions.describe(execution))
        if execution.state is _E.SCHEDULED:
            self.scheduler.unschedule(execution.subtask_id)
        self.executions.move(execution, _E.FAILED, self._buffer.now_ms, failure)
        self._fail(failure, execution)

    def _on_lost(self, executions: list[Execution], reason: str) -> None:
        for execution in executions:
            if execution.is_deployed:
                what = f"{self.executions.describe(execution)}: {reason}"
                self._on_failed(execution, ErrorInfo.of(SubtaskLost(what)))
        if not self.lifecycle.state.is_terminal:
            self.scheduler.advance()

    def _fail(self, failure: ErrorInfo, execution: Execution | None) -> None:
        """Decides whether a failure restarts tasks or fails the job."""
        self._buffer.changed(self.job_id)
        self.coordinator.deactivate(FailureReason.JOB_FAILOVER_REGION, failure)
        failure, everything = self.coordinator.stop.judge(failure)
        everything = everything or self.rescaling.restarts_all or self.scheduler.ends_finished_work(failure)
        if not self.lifecycle.may(JobEvent.RESTART_DECIDED):
            self._proceed()
            return
        self.lifecycle.remember(failure, execution.attempt if execution else None)
        failed = execution.subtask_id if execution is not None and not everything else None
        if execution is not None and execution.is_restore_of_damage(failure):
            self._restoring.on_damaged(failure)
            self._cancel_for(self._failover.restart_all(self._buffer.now_ms), "WARN", _in_one_line(failure))
            return
        decision = self._failover.decide(failure, failed, self._buffer.now_ms)
        if isinstance(decision, FailTheJob):
            self.lifecycle.amend(decision.failure)
            self.lifecycle.on(JobEvent.FAILED_FOR_GOOD, _in_one_line(decision.failure))
            self._stop()
            return
        self._restart_later(decision, failure)

    def _restart_later(self, decision: RestartLater, failure: ErrorInfo) -> None:
        if decision.is_new:
            self.lifecycle.count_restart()
            self.rescaling.on_failover(failure)
        self._cancel_for(decision, "WARN", _in_one_line(failure))

    def _cancel_for(self, decision: RestartLater, level: str, why: str) -> None:
        self.lifecycle.on(JobEvent.RESTART_DECIDED)
        delay_ms, count = decision.at_ms - self._buffer.now_ms, len(decision.affected)
        tasks = "1 task" if count == 1 else f"{count} tasks"
        self._buffer.log(level, f"restarting {tasks} in {delay_ms} ms: {why}", job=self.job_id)
        self._buffer.start_timer(self._timer(RESTART_TIMER), delay_ms)
        for subtask in decision.affected:
            self._attempts.cancel(self.executions[subtask])
        self.scheduler.advance()
        self._proceed()

    def _stop(self) -> None:
        """Cancels everything in FAILING or CANCELLING; the job ends when all tasks are terminal."""
        self._failover.clear()
        self.rescaling.stop(self.lifecycle.state)
        self._buffer.cancel_timer(self._timer(RESTART_TIMER))
        self.coordinator.deactivate(FailureReason.COORDINATOR_SUSPEND)
        self._attempts.cancel_all()
        self._proceed()

    def _proceed(self) -> None:
        """Takes the next step of the job, if the tasks that it waited for are terminal now."""
        match self.lifecycle.state:
            case _J.RUNNING if self.executions.all_finished:
                self.lifecycle.on(JobEvent.TASKS_FINISHED)
                self._end()
            case _J.RUNNING if self.executions.all_running_or_finished:
                self.coordinator.activate()
                for request in self._carried_over.take():
                    self.on_checkpoint_event(request)
                self._look_at_shape()
                self._look_at_moves()
            case _J.RESTARTING if not (self.coordinator.is_settling or self._restoring.is_looking):
                self._look_at_shape()
                self._restart()
            case _J.FAILING | _J.CANCELLING if self.executions.all_terminal:
                self.lifecycle.on(JobEvent.TASKS_OVER)
                self._end()

    def _restart(self) -> None:
        subtasks = () if self.rescaling.is_held_up else self._failover.take_ready()
        if not subtasks:
            return
        shape = self.rescaling.take()
        if shape is not None:
            subtasks = self._reshape(*shape)
        else:
            for subtask in subtasks:
                self.executions.reset(subtask, self._buffer.now_ms)
        self._restoring.assign(subtasks)
        self.lifecycle.on(JobEvent.RESTARTED)
        self.scheduler.schedule(subtasks)

    # ---- another shape -----------------------------------------------------------------------------------------------

    def _look_at_shape(self) -> None:
        """Takes the next step of a rescale, if one can be taken now."""
        match self.rescaling.step(self._now):
            case ShapeStep.CHECKPOINT:
                self._after_coordinator(self.coordinator.take_checkpoint())
            case ShapeStep.CANCEL:
                self.coordinator.withdraw()
                self._cancel_for(self._failover.restart_all(self._buffer.now_ms), "INFO", "the parallelism changes")

    def _look_at_moves(self) -> None:
        if subtasks := self.migration.take(self._now):
            self.coordinator.withdraw()
            self._cancel_for(self._failover.restart_lost(subtasks, self._buffer.now_ms), "INFO", self.migration.why)
        elif self.migration.wants_checkpoint(self._now):
            self._after_coordinator(self.coordinator.take_checkpoint())

    def _after_coordinator(self, failure: ErrorInfo | None) -> None:
        if failure is not None:
            self._fail(failure, None)
        self._settle_stop()
        self._proceed()
        self._report_terminated()

    def _look_at_end_of_data(self) -> None:
        if self.executions.all_at_end_of_data and self.lifecycle.state is _J.RUNNING:
            self._after_coordinator(self.coordinator.on_end_of_data())

    def _settle_stop(self) -> None:
        """Restarts the job after a failed stop, or fails it when the savepoint completed too late."""
        if self.lifecycle.state is _J.RESTARTING and self.coordinator.stop.is_finishing:
            self._fail(ErrorInfo.of(SubtaskLost("a task failed before it was notified of the savepoint")), None)
        cause = self.coordinator.stop.take_restart()
        if cause is not None and self.lifecycle.may(JobEvent.RESTART_DECIDED):
            self.lifecycle.remember(cause, None)
            self._restart_later(self._failover.restart_all(self._buffer.now_ms), cause)

    def _end(self) -> None:
        self.scheduler.close()
        self.rescaling.stop(self.lifecycle.state)
        self.coordinator.close(self.lifecycle.state)
        self._carried_over.close(self.lifecycle.state)
        self._report_terminated()

    def _report_terminated(self) -> None:
        if self.lifecycle.state.is_terminal and self.coordinator.is_idle and not self._is_reported_terminated:
            self._is_reported_terminated = True
            self._buffer.emit(JobTerminated(self.job_id))

    # ---- its parts, taken together -----------------------------------------------------------------------------------

    @property
    def slots(self) -> int:
        """Returns how many slots the job could have: those that it holds, and those that are free."""
        return self.scheduler.held_slots + self._resources.free_slot_count

    @property
    def _now(self) -> JobNow:
        """Returns the state of the job as far as rescaling depends on it."""
        newest = self.coordinator.latest
        return JobNow(
            self.lifecycle.state,
            self.executions.all_running_or_finished,
            bool(self.scheduler.waiting_batches),
            self.slots,
            newest.checkpoint_id if newest else None,
            self.coordinator.stats.failed,
            takes_checkpoints=self.takes_checkpoints,
            is_being_stopped=self.coordinator.stop.is_active,
            restarts_all=self._failover.is_of_all,
        )

    def _reshape(self, graph: JobGraph, first_attempt: int) -> tuple[SubtaskId, ...]:
        """Changes the parallelism of the graph while no subtask is alive; returns all subtasks of the new graph."""
        self.executions.reshape(graph, first_attempt, self._buffer.now_ms)
        self._deployments.reshape()
        self.operators.reshape(self.coordinator.latest.manifest if self.coordinator.latest else None)
        self.scheduler.reshape()
        return tuple(execution.subtask_id for execution in self.executions)

    @property
    def wanted_slots(self) -> int:
        """Returns how many slots the job needs in total, also for a pending rescale."""
        return max(self.scheduler.wanted_slots, self.rescaling.wanted_slots)

    @property
    def missing_slots(self) -> int:
        """Returns how many of the needed slots the job does not hold."""
        return max(self.scheduler.missing_slots, self.rescaling.wanted_slots - self.scheduler.held_slots)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the state of the job contradicts one of its parts. Called between events."""
        own = (self.lifecycle, self.executions, self.operators, self.coordinator, self.scheduler, self._failover)
        for part in (*own, self.rescaling, self.migration, self._carried_over, self._adoption or self.lifecycle):
            part.check_invariants()
        state = self.lifecycle.state
        assert (self._adoption is not None) == (state is _J.RECONCILING), f"{state.value} is a mistake"
        assert (restart := self._failover.is_pending) == (state is _J.RESTARTING), f"{state.value}, restart: {restart}"
        check_tasks(state, self.executions)
        assert self._is_reported_terminated or not (state.is_terminal and self.coordinator.is_idle), "not reported over"
        assert state.is_terminal or not self._is_reported_terminated, f"{state.value}, and reported over"

    def _timer(self, kind: str) -> str:
        return f"job/{self.job_id}/{kind}"


def _in_one_line(failure: ErrorInfo) -> str:
    """Returns a failure for the log: the task, unless the message names it, and the message."""
    names_task = not failure.origin or failure.origin in failure.message
    return failure.message if names_task else f"{failure.origin}: {failure.message}"
