"""Carries out a verdict on adoption: attempts of an earlier JobManager become executions of this one, and their checkpoints are settled.

Before anything restarts, adopted subtasks are notified that the newest checkpoint is complete, since the earlier JobManager may not have
confirmed it to all of them, and that later checkpoints are aborted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.jobmanager.machines.checkpoint.coordinator import CheckpointCoordinator
from tidegate.jobmanager.machines.checkpoint.handover import hand_over
from tidegate.jobmanager.machines.checkpoint.jobmanager_recovery import Origin
from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.coordination.operator_coordinators import OperatorCoordinators
from tidegate.jobmanager.machines.job.adoption import Reported, Verdict
from tidegate.jobmanager.machines.restore.state_assignment import had_finished
from tidegate.jobmanager.machines.scheduling.execution import Execution
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.jobmanager.machines.scheduling.port import SubtaskScheduler
from tidegate.model.errors import ErrorInfo, SubtaskLost
from tidegate.model.ids import CheckpointId, SubtaskId
from tidegate.model.leadership.attempt_report import AttemptReport
from tidegate.model.states import ExecutionState

_E = ExecutionState
ADOPTED = "the job goes on with subtasks of an earlier JobManager"


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The adoption of the subtasks of one job; used once. ``origin``: what the job starts from."""

    origin: Origin
    graph: ExecutionGraph
    scheduler: SubtaskScheduler
    coordinator: CheckpointCoordinator
    operators: OperatorCoordinators
    buffer: CommandBuffer

    def carry_out(self, verdict: Verdict) -> list[tuple[Execution, ErrorInfo]]:
        """Adopts subtasks and settles their checkpoints; returns the executions that have failed meanwhile, with the reason.

        They are RUNNING here and have to be failed like any other.
        """
        newest_id = max((reported.report.newest_id for reported in verdict.present), default=0)
        inventory = self.origin.inventory
        next_id = CheckpointId(max(inventory.next_id, newest_id + 1))
        executions = [self._adopt(reported) for reported in verdict.present]
        for subtask in verdict.finished:
            self._adopt_finished(subtask)
        adopted = [r.report for r in verdict.present if r.report.attempt.subtask_id not in verdict.lacking]
        submitted = self.origin.submitted
        hand_over(
            self.graph,
            self.buffer,
            self.origin.newest,
            [place.checkpoint_id for place in inventory.incomplete],
            adopted,
        )
        self.coordinator.start_from(submitted.restore, replace(inventory, next_id=next_id))
        newest = self.origin.newest
        self.operators.adopt(adopted, newest.checkpoint_id if newest else 0)
        self.scheduler.close_adoption()
        fields = {"adopted": len(adopted), "restarted": len(verdict.lacking)}
        self.buffer.log("INFO", ADOPTED, job=self.graph.graph.job_id, **fields)
        failed = zip(executions, verdict.present, strict=True)
        return [(e, _why(r.report)) for e, r in failed if r.report.state is _E.FAILED]

    def _adopt(self, reported: Reported) -> Execution:
        execution = Execution.adopted(reported.report, reported.task_manager_id, self.buffer.now_ms)
        earlier = self.origin.attempts.get(execution.subtask_id)
        if earlier is not None and earlier.attempt == execution.attempt:
            execution.recall(earlier.timestamps_ms)
        if self._was_restored_as_finished(execution):
            execution.restore_from(None, finished=True)
        self.graph.adopt(execution)
        self.scheduler.adopt(execution)
        return execution

    def _was_restored_as_finished(self, execution: Execution) -> bool:
        """Tells whether a running attempt belongs to operators that had finished in the newest checkpoint, so that it has no state."""
        newest = self.origin.newest
        if newest is None or execution.state is not _E.RUNNING:
            return False
        states = {state.operator_id: state for state in newest.manifest.operators}
        return had_finished(self.graph.vertices[execution.subtask_id.vertex_id], states)

    def _adopt_finished(self, subtask: SubtaskId) -> None:
        """Adopts a subtask that had finished and that no TaskManager reports, because its slot was given back."""
        earlier = self.origin.attempts.get(subtask)
        attempt = earlier.attempt if earlier is not None else self.graph[subtask].attempt
        execution = Execution.finished_before(attempt, self.buffer.now_ms)
        if earlier is not None:
            execution.recall(earlier.timestamps_ms)
        self.graph.adopt(execution)


def _why(report: AttemptReport) -> ErrorInfo:
    text = f"{report.attempt} became {report.state.value} while no JobManager was running"
    return report.error or ErrorInfo.of(SubtaskLost(text))
