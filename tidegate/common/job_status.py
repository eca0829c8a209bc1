"""`JobStatus`: the states of a job (PyFlink: ``pyflink.common.job_status``)."""

from __future__ import annotations

from enum import Enum

from tidegate.model.states import JobState

__all__ = ["JobStatus"]


class JobStatus(Enum):
    """The states of a job, with Flink's values. ``JobStatus.of(state)`` converts a state of the model."""

    CREATED = 0
    RUNNING = 1
    FAILING = 2
    FAILED = 3
    CANCELLING = 4
    CANCELED = 5
    FINISHED = 6
    RESTARTING = 7
    SUSPENDED = 8
    RECONCILING = 9
    INITIALIZING = 10

    @staticmethod
    def of(state: JobState) -> JobStatus:
        """Converts a state of the model."""
        return JobStatus[state.name]

    def is_globally_terminal_state(self) -> bool:
        """Tells whether the job has ended and will never run again."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Tells whether the job has ended for this JobManager."""
        return self.is_globally_terminal_state() or self is JobStatus.SUSPENDED
