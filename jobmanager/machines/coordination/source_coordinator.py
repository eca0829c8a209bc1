"""The coordinator of one source: assigns its splits to the readers that ask, and takes new ones that a reader discovers.

    unassigned ──RequestSplit──▶ AddSplits ──▶ tracker ──▶ the reader's state, by the next completed checkpoint
      ▲     ▲                                      │
      │     └──────── the reader restarts ─────────┘          none left: NoMoreSplits, or the reader waits for new ones
      └── SplitsDiscovered ◀── the reader that looks

Laws: at every moment a split is unassigned, or assigned to one reader. A reader that asks gets something at once, so that one that is fast, or
whose splits are small, reads more of them. Splits that come back are assigned first. A reader that got ``NoMoreSplits`` gets none:
splits that come back belong to a reader that restarts, and it asks. A split that names its reader goes to that one, at the latest before
the next snapshot, and to no other.

The discovering reader knows every split that was in a state of the checkpoint from which it started, and those that it has found itself.
``StartDiscovery`` adds the others: those that were unassigned, or assigned and in no checkpoint, when it was restarted.

Follows Flink's ``SourceCoordinator.java`` with ``SimpleSplitAssigner.java`` and ``ContinuousFileSplitEnumerator.java``, but assigns small splits
several at a time, and a reader does the listing, since no user code runs here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from tidegate.jobmanager.machines.coordination.split_assignment_tracker import SplitAssignmentTracker
from tidegate.model.coordinators.operator_events import (
    ANY_READER,
    DISCOVERING_SUBTASK,
    AddSplits,
    CoordinatorState,
    NoMoreSplits,
    SourceSplit,
    SplitsDiscovered,
    StartDiscovery,
)
from tidegate.model.ids import CheckpointId

TOGETHER_BYTES = 4 << 20
"""Splits are assigned together up to this total size. Chosen, not measured: some tens of ms of reading, against the few that a request takes."""
ROUNDS_LEFT = 2
"""A reader gets at most its share of 1/``ROUNDS_LEFT`` of the unassigned splits at once, so that all readers end at about the same time."""


class SourceCoordinator:
    """Assigns the splits of one source to its readers."""

    def __init__(self, splits: Iterable[SourceSplit], parallelism: int, *, discovers: bool = False) -> None:
        """Creates a coordinator with unassigned splits. ``discovers``: new splits may come, so a reader waits when there are none."""
        self._unassigned = deque(splits)
        self._owned: dict[int, deque[SourceSplit]] = {}
        """Splits that are meant for a certain reader and not sent yet, by reader."""
        self._parallelism = parallelism
        self._discovers = discovers
        self._tracker = SplitAssignmentTracker()
        self._held = {split.split_id: split for split in self._unassigned}
        """All splits that are not assigned to a reader, by id."""
        self._waiting: dict[int, None] = {}
        """Readers whose requests for a split are not answered yet, in the order of the requests."""
        self._unreported = dict(self._held)
        """Splits that were known when the discovering reader was restarted, and that are in no state of the checkpoint from which it starts."""
        self._names_readers = False

    @property
    def unassigned(self) -> int:
        return len(self._held)

    def on_request(self, subtask: int) -> AddSplits | NoMoreSplits | None:
        """Returns the answer to a reader that asks for splits; ``None``: it is answered when there are new ones."""
        if self._unassigned:
            return self._assigned(subtask, take(self._unassigned, self._parallelism))
        if self._discovers:
            self._waiting[subtask] = None
            return None
        return NoMoreSplits()

    def on_discovery_requested(self) -> StartDiscovery:
        """Returns the answer to the reader that is going to look for new splits."""
        known = self._unreported | self._known()
        return StartDiscovery(tuple(known[split_id] for split_id in sorted(known)))

    def on_discovered(self, found: SplitsDiscovered) -> None:
        """Adds new splits; ``given_out`` assigns them."""
        known = self._known()
        new = [split for split in found.splits if split.split_id not in known]
        reader = found.reader
        if reader == ANY_READER or reader >= self._parallelism:
            self._unassigned.extend(new)
        else:
            self._names_readers = True
            self._owned.setdefault(reader, deque()).extend(new)
        self._held.update({split.split_id: split for split in new})

    def given_out(self, is_reachable: Callable[[int], bool]) -> list[tuple[int, AddSplits]]:
        """Assigns splits to the readers that they name and to waiting readers; returns what to send to whom."""
        answers = []
        for reader in [reader for reader, owned in self._owned.items() if owned and is_reachable(reader)]:
            self._waiting.pop(reader, None)
            answers.append((reader, self._assigned(reader, tuple(self._owned.pop(reader)))))
        for reader in [reader for reader in self._waiting if is_reachable(reader)]:
            if self._unassigned:
                del self._waiting[reader]
                answers.append((reader, self._assigned(reader, take(self._unassigned, self._parallelism))))
        return answers

    def snapshot(self, checkpoint_id: CheckpointId) -> CoordinatorState:
        """Returns the unassigned splits for a checkpoint. Called before the readers are triggered; later events reach them after the trigger."""
        self._tracker.snapshot(checkpoint_id)
        owned = (split for splits in self._owned.values() for split in splits)
        return CoordinatorState((*self._unassigned, *owned))

    def on_completed(self, checkpoint_id: CheckpointId) -> None:
        self._tracker.completed(checkpoint_id)

    def on_subtask_reset(self, subtask: int, checkpoint_id: CheckpointId | None) -> None:
        """Takes back the splits of a reader that restarts from this checkpoint (``None``: from the beginning)."""
        self._waiting.pop(subtask, None)
        if subtask == DISCOVERING_SUBTASK:
            self._unreported = self._known()
        back = self._tracker.take_back(subtask, checkpoint_id)
        self._held.update({split.split_id: split for split in back})
        splits = self._owned.setdefault(subtask, deque()) if self._names_readers else self._unassigned
        splits.extendleft(reversed(back))

    def adopt_discovered(self, splits: Iterable[SourceSplit]) -> None:
        """Adds splits that an adopted reader discovered and that are not in the last completed checkpoint."""
        self.on_discovered(SplitsDiscovered(tuple(splits)))

    def adopt(self, subtask: int, splits: Iterable[SourceSplit]) -> None:
        """Records splits that an earlier JobManager assigned to an adopted reader and that are not in the last completed checkpoint."""
        taken = {split.split_id: split for split in splits}
        self._unassigned = deque(split for split in self._unassigned if split.split_id not in taken)
        self._assigned(subtask, tuple(taken.values()))

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when a split is in two places."""
        self._tracker.check_invariants()
        waiting = [split.split_id for splits in (self._unassigned, *self._owned.values()) for split in splits]
        assert len(waiting) == len(set(waiting)), f"some splits wait twice: {sorted(waiting)}"
        assert set(waiting) == self._held.keys(), f"{sorted(waiting)} wait, and {sorted(self._held)} are taken for them"
        both = set(waiting) & set(self._tracker.ids())
        assert not both, f"splits {sorted(both)} are unassigned, and a reader's"

    def _known(self) -> dict[str, SourceSplit]:
        """Returns the splits that are in no state of the newest completed checkpoint."""
        return self._held | {split.split_id: split for split in self._tracker.splits()}

    def _assigned(self, subtask: int, splits: tuple[SourceSplit, ...]) -> AddSplits:
        for split in splits:
            self._held.pop(split.split_id, None)
        self._tracker.assigned(subtask, splits)
        return AddSplits(splits)


def take(unassigned: deque[SourceSplit], parallelism: int) -> tuple[SourceSplit, ...]:
    """Removes and returns the next splits for one reader: several, as long as they are small and enough are left for the others."""
    most = max(1, len(unassigned) // (ROUNDS_LEFT * parallelism))
    taken = [unassigned.popleft()]
    size_bytes = taken[0].size_bytes
    while len(taken) < most and size_bytes + unassigned[0].size_bytes <= TOGETHER_BYTES:
        taken.append(unassigned.popleft())
        size_bytes += taken[-1].size_bytes
    return tuple(taken)
