"""Tracks which splits were assigned to which reader, until a completed checkpoint holds them in the reader's state.

    assigned ──▶ since the last snapshot ──snapshot n──▶ under n ──n or a later one is completed──▶ forgotten: the reader's state has them
                          │                                 │
                          └──── the reader restarts from a checkpoint before n: taken back ◀────┘

An aborted checkpoint needs no call: its assignments are in every later one. Follows Flink's ``SplitAssignmentTracker.java``.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.model.coordinators.operator_events import SourceSplit
from tidegate.model.ids import CheckpointId

_Assigned = dict[int, list[SourceSplit]]
"""Assigned splits by subtask, in the order of assignment."""


class SplitAssignmentTracker:
    """The assignments of splits that no completed checkpoint holds yet."""

    def __init__(self) -> None:
        self._since_snapshot: _Assigned = {}
        self._by_checkpoint: dict[CheckpointId, _Assigned] = {}
        """Assignments before each checkpoint's trigger, in the order of the ids."""

    def assigned(self, subtask: int, splits: Iterable[SourceSplit]) -> None:
        self._since_snapshot.setdefault(subtask, []).extend(splits)

    def snapshot(self, checkpoint_id: CheckpointId) -> None:
        """Notes that all assignments so far reach their readers before this checkpoint's trigger."""
        self._by_checkpoint[checkpoint_id], self._since_snapshot = self._since_snapshot, {}

    def completed(self, checkpoint_id: CheckpointId) -> None:
        """Drops assignments that a completed checkpoint holds: whatever restarts from now on starts from it or a later one."""
        for known in [known for known in self._by_checkpoint if known <= checkpoint_id]:
            del self._by_checkpoint[known]

    def take_back(self, subtask: int, checkpoint_id: CheckpointId | None) -> list[SourceSplit]:
        """Removes and returns the splits that the state of a restarted subtask does not hold. ``checkpoint_id``: where it restarts; ``None``:
        at the beginning.
        """
        taken: list[SourceSplit] = []
        for known, assigned in self._by_checkpoint.items():
            if checkpoint_id is None or known > checkpoint_id:
                taken += assigned.pop(subtask, [])
        return taken + self._since_snapshot.pop(subtask, [])

    def splits(self) -> list[SourceSplit]:
        """Returns all tracked splits."""
        places = (*self._by_checkpoint.values(), self._since_snapshot)
        return [split for place in places for splits in place.values() for split in splits]

    def ids(self) -> list[str]:
        """Returns the ids of all tracked splits."""
        return [split.split_id for split in self.splits()]

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when a split was assigned twice, or checkpoints are out of order."""
        ids, known = self.ids(), list(self._by_checkpoint)
        assert len(ids) == len(set(ids)), f"some splits are assigned twice: {sorted(ids)}"
        assert known == sorted(known), f"snapshots are out of order: {known}"
