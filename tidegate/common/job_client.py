"""`JobClient`: a submitted job, for the program that submitted it (PyFlink: ``pyflink.common.job_client``).

The executor that runs the job implements ``JobControl``, whose methods block; the client runs them in threads.
"""

from __future__ import annotations

import socket
import sys
from typing import Protocol

from tidegate.common.completable_future import CompletableFuture
from tidegate.common.job_execution_result import JobExecutionResult
from tidegate.common.job_id import JobID
from tidegate.common.job_status import JobStatus
from tidegate.model.accumulators import UserAccumulator, results
from tidegate.model.ids import JobId, VertexId
from tidegate.model.states import JobState
from tidegate.model.values import Json
from tidegate.notebook.display import kernel_shell

__all__ = ["JobClient", "JobControl"]


class JobControl(Protocol):
    """The control interface of one submitted job. Every method may block, and is called from any thread."""

    @property
    def job_id(self) -> JobId:
        """The id of the job."""

    def state(self) -> JobState:
        """Returns the current state of the job."""

    def cancel(self) -> None:
        """Requests the cancellation of the job; returns when the cluster has accepted it."""

    def result_address(self, vertex_id: VertexId) -> str | None:
        """Returns the address at which the collecting sink of a vertex listens; waits while it is being started. ``None``: the job has FINISHED. Raises
        the job's error when it did not finish."""

    def secure(self, connection: socket.socket) -> socket.socket:
        """Secures a connection to a process of the cluster like all connections to it: with TLS where it is configured. Raises ``ExternalError`` when
        authentication fails."""

    def savepoint(self, directory: str) -> str:
        """Takes a savepoint and returns its path when it is complete; ``directory`` may be empty. Raises the error of a failed one."""

    def stop_with_savepoint(self, directory: str, drain: bool) -> str:
        """Stops the job with a savepoint, after which it is FINISHED, and returns the savepoint's path."""

    def accumulators(self) -> dict[str, UserAccumulator]:
        """Returns the current accumulators, merged over all subtasks."""

    def wait(self) -> JobExecutionResult:
        """Waits for the end of the job and returns its result. Raises the job's error when it did not finish."""

    def show_live(self) -> None:
        """Displays the job below the current cell of a notebook, and updates the display until the job ends."""


class JobClient:
    """A handle of a submitted job (PyFlink: ``JobClient``). Methods that call the cluster return a ``CompletableFuture``."""

    def __init__(self, control: JobControl) -> None:
        self._control = control

    def _ipython_display_(self) -> None:
        """Displays the running job in a notebook; IPython calls this method."""
        if kernel_shell() is None:
            sys.stdout.write(f"{self!r}\n")
        else:
            self._control.show_live()

    def __repr__(self) -> str:
        return f"JobClient({self._control.job_id})"

    def get_job_id(self) -> JobID:
        """Returns the id of the job."""
        return JobID(self._control.job_id)

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Returns a future of the current ``JobStatus``."""
        return CompletableFuture(lambda: JobStatus.of(self._control.state()))

    def cancel(self) -> CompletableFuture[None]:
        """Cancels the job; returns a future that completes when the cluster has accepted it."""
        return CompletableFuture(self._control.cancel)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Stops the job with a savepoint, and returns a future of its path. With ``advance_to_end_of_event_time`` all
        timers fire first. Without a directory, ``execution.checkpointing.savepoint-dir`` is used."""
        directory = savepoint_directory or ""
        return CompletableFuture(lambda: self._control.stop_with_savepoint(directory, advance_to_end_of_event_time))

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Takes a savepoint while the job runs on, and returns a future of its path."""
        return CompletableFuture(lambda: self._control.savepoint(savepoint_directory or ""))

    def get_accumulators(self) -> CompletableFuture[dict[str, Json]]:
        """Returns a future of the accumulators' results by name, merged over all subtasks: the last reported ones while the job runs, the final ones
        afterwards. Raises ``InvalidJob`` when an accumulator has different types in different operators."""
        return CompletableFuture(lambda: results(self._control.accumulators()))

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Returns a future of the ``JobExecutionResult``, which raises the job's error when it did not finish."""
        return CompletableFuture(self._control.wait)
