"""The shape of a job: how many subtasks each vertex has, and which attempts are of it.

A job is in one shape at a time. A new one is in the job store before anything of it is deployed, with a number of attempts that no attempt of an earlier
shape has: so the next JobManager goes on in exactly this shape, and takes no subtask of an earlier one over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.model.ids import VertexId
from tidegate.model.leadership.noted_attempts import NotedAttempts


@dataclass(frozen=True, slots=True)
class Shape:
    """``first_attempt``: the number with which everything in it begins; attempts below are of earlier shapes."""

    parallelism: Mapping[VertexId, int]
    first_attempt: int

    def own(self, noted: NotedAttempts) -> NotedAttempts:
        """Those of the noted attempts that are of this shape: regions of an earlier one have other numbers."""
        return noted if noted.of_all >= self.first_attempt else NotedAttempts()

    def next_attempt(self, noted: NotedAttempts) -> int:
        """The number with which the next JobManager begins."""
        return max(self.first_attempt, noted.highest + 1)
