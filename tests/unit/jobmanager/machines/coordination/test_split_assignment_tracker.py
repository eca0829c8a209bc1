"""Which splits come back when a reader restarts."""

from __future__ import annotations

import pytest

from tidegate.jobmanager.machines.coordination.split_assignment_tracker import SplitAssignmentTracker
from tidegate.model.coordinators.operator_events import SourceSplit
from tidegate.model.ids import CheckpointId


def split(number: int) -> SourceSplit:
    return SourceSplit(str(number), b"")


def tracker(*steps: tuple[str, int, int]) -> SplitAssignmentTracker:
    """Steps: ("assign", subtask, split), ("snapshot", id, 0), ("complete", id, 0)."""
    made = SplitAssignmentTracker()
    for what, number, named in steps:
        if what == "assign":
            made.assigned(number, [split(named)])
        elif what == "snapshot":
            made.snapshot(CheckpointId(number))
        else:
            made.completed(CheckpointId(number))
        made.check_invariants()
    return made


def taken(made: SplitAssignmentTracker, subtask: int, checkpoint_id: int | None) -> list[str]:
    number = None if checkpoint_id is None else CheckpointId(checkpoint_id)
    return [found.split_id for found in made.take_back(subtask, number)]


def test_what_was_assigned_since_the_completed_checkpoint_comes_back_in_its_order() -> None:
    made = tracker(("assign", 0, 1), ("snapshot", 1, 0), ("assign", 0, 2), ("complete", 1, 0), ("assign", 0, 3))
    assert taken(made, 0, 1) == ["2", "3"]
    assert taken(made, 0, 1) == [], "once"


def test_what_stands_under_an_aborted_checkpoint_comes_back() -> None:
    made = tracker(("assign", 0, 1), ("snapshot", 1, 0), ("complete", 1, 0), ("assign", 0, 2), ("snapshot", 2, 0))
    assert taken(made, 0, 1) == ["2"]


def test_what_stands_under_an_aborted_checkpoint_is_forgotten_with_a_later_one() -> None:
    made = tracker(("assign", 0, 1), ("snapshot", 1, 0), ("snapshot", 2, 0), ("complete", 2, 0))
    assert made.ids() == []
    assert taken(made, 0, 2) == []


def test_without_a_checkpoint_everything_comes_back() -> None:
    made = tracker(("assign", 0, 1), ("snapshot", 1, 0), ("assign", 0, 2))
    assert taken(made, 0, None) == ["1", "2"]


def test_what_others_have_stays_theirs() -> None:
    made = tracker(("assign", 0, 1), ("assign", 1, 2))
    assert taken(made, 0, None) == ["1"]
    assert made.ids() == ["2"]


def test_a_split_that_is_assigned_twice_breaks_an_invariant() -> None:
    made = tracker(("assign", 0, 1))
    made.assigned(1, [split(1)])
    with pytest.raises(AssertionError, match="assigned twice"):
        made.check_invariants()
