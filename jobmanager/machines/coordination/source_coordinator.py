"""The coordinator of one source: hands its splits to the readers that ask.

    unassigned ──RequestSplit──▶ AddSplits ──▶ tracker ──▶ the reader's state, by the next completed checkpoint
         ▲                                        │
         └──────── the reader restarts ───────────┘          none left: NoMoreSplits

Laws: at every moment a split is unassigned, or one reader's. A reader that asks gets something at once, so that one that is fast, or whose
splits are small, reads more of them. Splits that come back are handed out first. A reader that got ``NoMoreSplits`` gets none:
splits that come back belong to a reader that restarts, and it asks.

Follows Flink's ``SourceCoordinator.java`` with ``SimpleSplitAssigner.java``, but that small splits are handed out several at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tidegate.jobmanager.machines.coordination.split_assignment_tracker import SplitAssignmentTracker
from tidegate.model.coordinators.operator_events import (
    AddSplits,
    CoordinatorState,
    NoMoreSplits,
    SourceSplit,
)
from tidegate.model.ids import CheckpointId

TOGETHER_BYTES = 4 << 20
"""Chosen, not measured: some tens of milliseconds of reading, against the few that a question takes."""
ROUNDS_LEFT = 2
"""A reader gets at most its share of half of what is left, so that none holds much when the others come to their ends."""


class SourceCoordinator:
    def __init__(self, splits: Iterable[SourceSplit], parallelism: int) -> None:
        self._unassigned = deque(splits)
        self._parallelism = parallelism
        self._tracker = SplitAssignmentTracker()

    @property
    def unassigned(self) -> int:
        return len(self._unassigned)

    def on_request(self, subtask: int) -> AddSplits | NoMoreSplits:
        """Returns the answer for the reader."""
        if not self._unassigned:
            return NoMoreSplits()
        splits = take(self._unassigned, self._parallelism)
        self._tracker.assigned(subtask, splits)
        return AddSplits(splits)

    def snapshot(self, checkpoint_id: CheckpointId) -> CoordinatorState:
        """Called before its readers are triggered: events that are sent after this come to them behind the trigger."""
        self._tracker.snapshot(checkpoint_id)
        return CoordinatorState(tuple(self._unassigned))

    def on_completed(self, checkpoint_id: CheckpointId) -> None:
        self._tracker.completed(checkpoint_id)

    def on_subtask_reset(self, subtask: int, checkpoint_id: CheckpointId | None) -> None:
        """It restarts from this checkpoint; ``None``: from the beginning."""
        self._unassigned.extendleft(reversed(self._tracker.take_back(subtask, checkpoint_id)))

    def adopt(self, subtask: int, splits: Iterable[SourceSplit]) -> None:
        """An earlier JobManager had handed them to a reader that goes on, and no completed checkpoint holds them there."""
        taken = {split.split_id: split for split in splits}
        self._unassigned = deque(split for split in self._unassigned if split.split_id not in taken)
        self._tracker.assigned(subtask, taken.values())

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when a split is in two places."""
        self._tracker.check_invariants()
        waiting = [split.split_id for split in self._unassigned]
        assert len(waiting) == len(set(waiting)), f"some splits wait twice: {sorted(waiting)}"
        both = set(waiting) & set(self._tracker.ids())
        assert not both, f"splits {sorted(both)} are unassigned, and a reader's"


def take(unassigned: deque[SourceSplit], parallelism: int) -> tuple[SourceSplit, ...]:
    """Takes the splits for one reader off the front: several, as long as they are small and enough are left for the others."""
    most = max(1, len(unassigned) // (ROUNDS_LEFT * parallelism))
    taken = [unassigned.popleft()]
    size_bytes = taken[0].size_bytes
    while len(taken) < most and size_bytes + unassigned[0].size_bytes <= TOGETHER_BYTES:
        taken.append(unassigned.popleft())
        size_bytes += taken[-1].size_bytes
    return tuple(taken)
