"""Moves subtasks whose Spark executor is being decommissioned: takes a checkpoint first, then restarts them from it.

    AttemptsLeaving ─▶ checkpoint ─▶ complete ─▶ their regions are canceled ─▶ deployed anew, from the newest checkpoint

    STAYING ──some have to leave──▶ CHECKPOINTING ──complete──▶ STAYING
       ▲──they ended meanwhile, or the job is stopped────┘

A move is no failure: nothing is counted, and the restart strategy does not decide. If the checkpoint does not complete in time, the executor's end
is handled like any other: its subtasks fail, and their regions restart from the newest checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.job.rescaling import JobNow, RescalePhase, Rescaling
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.model.ids import AttemptId, CheckpointId, SubtaskId
from tidegate.model.states import JobState

MOVES = "takes a checkpoint, to move subtasks"


class SubtaskMigration:
    """Decides when the subtasks of one job that must leave their executors restart elsewhere."""

    why = "Spark is decommissioning the executors that run these subtasks"
    """The reason of a restart for a move, for the log."""

    def __init__(self, graph: ExecutionGraph, rescaling: Rescaling, buffer: CommandBuffer) -> None:
        self._graph = graph
        self._rescaling = rescaling
        self._buffer = buffer
        self._leaving: set[AttemptId] = set()
        self._awaits = False
        self._since: CheckpointId | None = None
        self._failed = 0

    def note(self, attempts: Iterable[AttemptId], failed: int) -> None:
        """Notes attempts that must leave; called repeatedly until they have. ``failed``: how many checkpoints of the job have failed so far."""
        self._leaving.update(attempt for attempt in attempts if self._is_here(attempt))
        if self._awaits and failed > self._failed:
            self._awaits = False  # another checkpoint is requested at the next note

    def wants_checkpoint(self, now: JobNow) -> bool:
        """Tells whether a checkpoint has to be taken now; if so, the move waits for it from then on."""
        if self._awaits or not self._may_move(now):
            return False
        self._awaits, self._since, self._failed = True, now.newest, now.failed
        self._buffer.log("INFO", MOVES, job=self._graph.graph.job_id, subtasks=len(self._leaving))
        return True

    def take(self, now: JobNow) -> tuple[SubtaskId, ...]:
        """Returns the subtasks to restart now, because the checkpoint is complete; empty while it is not."""
        if not self._may_move(now):
            self._awaits = False
            return ()
        if not self._awaits or now.newest == self._since:
            return ()
        taken = tuple(attempt.subtask_id for attempt in sorted(self._leaving, key=str))
        self._leaving, self._awaits = set(), False
        return taken

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when it waits for a checkpoint and no subtask has to leave."""
        assert self._leaving or not self._awaits, "a checkpoint is awaited, and no subtask has to leave"

    def _may_move(self, now: JobNow) -> bool:
        self._leaving = {attempt for attempt in self._leaving if self._is_here(attempt)}
        if not self._leaving:
            self._awaits = False
        runs = now.state is JobState.RUNNING and now.runs and not now.is_being_stopped
        restarts_anyway = self._rescaling.phase is not RescalePhase.STEADY
        return bool(self._leaving) and runs and now.takes_checkpoints and not restarts_anyway

    def _is_here(self, attempt: AttemptId) -> bool:
        execution = self._graph.current(attempt)
        return execution is not None and execution.is_deployed
