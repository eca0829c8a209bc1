"""`JobExecutionResult`: the result of ``execute`` (PyFlink: ``pyflink.common.job_execution_result``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.common.job_id import JobID
from tidegate.model.accumulators import UserAccumulator, results
from tidegate.model.ids import JobId
from tidegate.model.values import Json

__all__ = ["JobExecutionResult"]


@dataclass(frozen=True)
class JobExecutionResult:
    """The result of a finished job: its id, its run time, and its accumulators (PyFlink: ``JobExecutionResult``)."""

    job_id: JobId
    net_runtime_ms: int
    accumulators: Mapping[str, UserAccumulator] = field(default_factory=dict, hash=False)

    def get_job_id(self) -> JobID:
        """Returns the id of the job."""
        return JobID(self.job_id)

    def get_net_runtime(self) -> int:
        """Returns the milliseconds from the submission to the end of the job."""
        return self.net_runtime_ms

    def get_accumulator_result(self, accumulator_name: str) -> Json:
        """Returns an accumulator's result, merged over all subtasks; ``None`` when no function has one of that name. Raises ``InvalidJob`` when two
        operators have it with different types."""
        found = self.accumulators.get(accumulator_name)
        return None if found is None else found.get_local_value()

    def get_all_accumulator_results(self) -> dict[str, Json]:
        """Returns the results of all accumulators by name. Raises like ``get_accumulator_result``."""
        return results(self.accumulators)

    def __str__(self) -> str:
        return f"Job {self.job_id} has finished. Job runtime: {self.net_runtime_ms} ms"
