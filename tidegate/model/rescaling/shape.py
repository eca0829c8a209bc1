"""The shape of a job: the parallelism of each vertex, and which attempts belong to it.

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
    """A shape. ``first_attempt``: the number of its first attempts; lower ones belong to earlier shapes."""

    parallelism: Mapping[VertexId, int]
    first_attempt: int

    def own(self, noted: NotedAttempts) -> NotedAttempts:
        """Returns the noted attempts that belong to this shape, since regions of an earlier one are numbered differently."""
        return noted if noted.of_all >= self.first_attempt else NotedAttempts()

    def next_attempt(self, noted: NotedAttempts) -> int:
        """Returns the attempt number with which the next JobManager begins."""
        return max(self.first_attempt, noted.highest + 1)
