"""Stop-with-savepoint: from the request until the job ends, or goes on because the stop failed.

                asked for          tasks triggered           savepoint complete, confirmed
    IDLE ───────▶ SAVEPOINT ───────▶ TRIGGERED ───────────────▶ FINISHING ─┬─ all tasks FINISHED ─▶ the path is reported
      ▲               │ failed           │ failed: sources have stopped    └─ some task failed ─▶ the job fails, for good,
      └───────────────┘                  └─▶ IDLE, and every task restarts                       and reports the path

A stop that failed before tasks were triggered changes nothing. Later the sources have stopped, so all tasks restart from
the last checkpoint; the restart strategy does not decide, since no task has failed. After the savepoint is complete the job must
not recover from an older checkpoint: what the savepoint holds may be committed.

Follows Flink's ``StopWithSavepointTerminationHandlerImpl.java``; the restart is stricter than there (tasks fail by themselves).
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from tidegate.jobmanager.machines.checkpoint.commands import CheckpointCommands
from tidegate.jobmanager.machines.checkpoint.trigger import CheckpointRequest
from tidegate.model.errors import ErrorInfo
from tidegate.model.ids import CheckpointId, JobId
from tidegate.model.states import JobState

NEEDS_CHECKPOINTS = (
    "Without periodic checkpoints (execution.checkpointing.interval) a job cannot be stopped with a savepoint: its sinks commit "
    "at the end of data. Take a savepoint and cancel the job."
)


class StopState(Enum):
    """The states of a stop with a savepoint."""

    IDLE = "IDLE"
    SAVEPOINT = "SAVEPOINT"
    TRIGGERED = "TRIGGERED"
    FINISHING = "FINISHING"


class StopWithSavepoint:
    """Stops one job with a savepoint, once."""

    def __init__(self, job_id: JobId, commands: CheckpointCommands) -> None:
        self._job_id = job_id
        self._commands = commands
        self.state = StopState.IDLE
        self._request_id = ""
        self._checkpoint_id: CheckpointId | None = None
        self._path = ""
        self._restart: ErrorInfo | None = None
        self._ended: JobState | None = None

    @property
    def is_active(self) -> bool:
        """Tells whether a stop is in progress, so that no other snapshot starts."""
        return self.state is not StopState.IDLE

    @property
    def is_finishing(self) -> bool:
        """Tells whether the savepoint is complete and the tasks are finishing."""
        return self.state is StopState.FINISHING

    def begin(self, request: CheckpointRequest) -> None:
        assert self.state is StopState.IDLE, self.state
        assert request.request_id is not None
        self.state, self._request_id = StopState.SAVEPOINT, request.request_id

    def on_triggered(self) -> None:
        assert self.state is StopState.SAVEPOINT, self.state
        self.state = StopState.TRIGGERED

    def on_savepoint(self, checkpoint_id: CheckpointId | None, failure: str, path: str) -> None:
        """Handles the savepoint's outcome: complete at ``path``, or failed with ``failure``."""
        if not failure:
            assert self.state is StopState.TRIGGERED, self.state
            self.state, self._checkpoint_id, self._path = StopState.FINISHING, checkpoint_id, path
            if self._ended is not None:
                self.on_job_ended(self._ended)
            return
        if self.state is StopState.TRIGGERED:
            self._restart = ErrorInfo("stop-failed", "external", f"Stop with savepoint failed. Cause: {failure}")
        self.state = StopState.IDLE
        self._commands.report(self._request_id, checkpoint_id, failure, "")

    def take_restart(self) -> ErrorInfo | None:
        """Returns why all tasks have to restart, and clears it; ``None`` when they need not."""
        cause, self._restart = self._restart, None
        return cause

    def judge(self, failure: ErrorInfo) -> tuple[ErrorInfo, bool]:
        """Returns a task's failure as it concerns the job, and whether all tasks must restart."""
        if self.is_finishing:
            text = f"{self._unfinished} The failure: {failure.message}"
            return replace(failure, code="stop-failed", domain="external", message=text, retriable=False), True
        return failure, self.take_restart() is not None

    def on_job_ended(self, state: JobState) -> None:
        """Ends the stop with the job. If the savepoint is still being written, the outcome is reported once that is decided."""
        self._ended = state
        if not self.is_finishing:
            return
        failure = "" if state is JobState.FINISHED else self._unfinished
        self._commands.report(self._request_id, self._checkpoint_id, failure, self._path)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the state contradicts the known savepoint."""
        assert not self.is_active or self._request_id, f"{self.state.value}, and nobody asked for it"
        assert not self.is_finishing or self._path, "it is complete, and its path is not known"
        assert self._restart is None or not self.is_active, f"{self.state.value}, and tasks are to restart"

    @property
    def _unfinished(self) -> str:
        return (
            f"A savepoint has been created at: {self._path}, but the corresponding job {self._job_id} failed during "
            "stopping. The savepoint is consistent, but might have uncommitted transactions. If you want to commit the "
            "transaction please restart a job from this savepoint."
        )
