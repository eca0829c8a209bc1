"""`JobID`: the id of a job (PyFlink: ``pyflink.common.job_id``)."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.model.ids import JobId

__all__ = ["JobID"]


@dataclass(frozen=True)
class JobID:
    """The id of a job: 32 hex digits, which ``str`` returns."""

    value: JobId

    def __str__(self) -> str:
        return self.value
