"""Bugs on purpose in how coordinators hand out splits."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

from tests.sim.laws import Law
from tests.sim.plant import Plant, patched
from tests.sim.schedule import Mix
from tidegate.jobmanager.machines.coordination import source_coordinator
from tidegate.jobmanager.machines.coordination.operator_coordinators import OperatorCoordinators
from tidegate.jobmanager.machines.coordination.source_coordinator import SourceCoordinator
from tidegate.jobmanager.machines.coordination.split_assignment_tracker import SplitAssignmentTracker
from tidegate.model.coordinators.operator_events import (
    AddSplits,
    DiscoveryNoted,
    OperatorEvent,
    SourceSplit,
    StartDiscovery,
)
from tidegate.model.leadership.attempt_report import AttemptReport
from tidegate.taskmanager.machines.attempt_notes import RunningAttemptNotes

ASSIGNED = Mix(assigned=1.0, parallel=0.5)
DISCOVERED = Mix(assigned=1.0, discovered_for_ms=1_500, parallel=0.4)
"""New splits appear while the job runs."""
DISCOVERED_AND_ADOPTED = Mix(
    assigned=1.0,
    discovered_for_ms=1_500,
    jobmanager_crashes=4,
    aimed_at_jobmanager=0.5,
    high_availability=1.0,
    stops=0,
    cancels=0,
    parallel=0.5,
)
ADOPTED = Mix(
    assigned=1.0, jobmanager_crashes=4, aimed_at_jobmanager=0.5, high_availability=1.0, stops=0, cancels=0, parallel=0.0
)

_take_back = SplitAssignmentTracker.take_back
_take = source_coordinator.take
_snapshot = OperatorCoordinators.snapshot
_on_mail = RunningAttemptNotes.on_mail
_report = RunningAttemptNotes.report


def _nothing_comes_back(tracker: SplitAssignmentTracker, subtask: int, checkpoint_id: Any) -> list[SourceSplit]:
    _take_back(tracker, subtask, checkpoint_id)
    return []


def _stays_unassigned(unassigned: deque[SourceSplit], parallelism: int) -> tuple[SourceSplit, ...]:
    taken = _take(unassigned, parallelism)
    unassigned.append(taken[0])
    return taken


def _without_one_that_waits(coordinators: OperatorCoordinators, checkpoint_id: Any) -> Any:
    """As if it had been snapshotted after one more split was handed out, which comes to its reader behind the trigger."""
    states = _snapshot(coordinators, checkpoint_id)
    return {operator: replace(state, unassigned=state.unassigned[1:]) for operator, state in states.items()}


def _forgets_what_no_checkpoint_holds(tracker: SplitAssignmentTracker, checkpoint_id: Any) -> None:
    tracker._by_checkpoint.clear()
    tracker._since_snapshot.clear()


def _obeys_repeated_events(notes: RunningAttemptNotes, mail: Any) -> bool:
    _on_mail(notes, mail)
    return True


def _notes_no_splits(notes: RunningAttemptNotes, mail: Any) -> bool:
    is_assignment = isinstance(mail, OperatorEvent) and isinstance(mail.event, AddSplits)
    return _on_mail(notes, replace(mail, event=AddSplits(())) if is_assignment else mail)


def _takes_no_note_for_noted(notes: RunningAttemptNotes, mail: Any) -> bool:
    is_note = isinstance(mail, OperatorEvent) and isinstance(mail.event, DiscoveryNoted)
    return _on_mail(notes, replace(mail, event=DiscoveryNoted(-1)) if is_note else mail)


def _notes_nothing_of_what_was_known(notes: RunningAttemptNotes, mail: Any) -> bool:
    is_start = isinstance(mail, OperatorEvent) and isinstance(mail.event, StartDiscovery)
    return _on_mail(notes, replace(mail, event=StartDiscovery(())) if is_start else mail)


def _reports_no_discovery(notes: RunningAttemptNotes, *arguments: Any) -> AttemptReport:
    told = _report(notes, *arguments)
    return replace(told, events=replace(told.events, discovered=()))


def _tells_nothing(source: SourceCoordinator) -> StartDiscovery:
    return StartDiscovery(())


def _asks_nobody_again(notes: RunningAttemptNotes) -> tuple[object, ...]:
    return () if notes._end_of_data is None else (notes._end_of_data,)


OF_DISCOVERED_SPLITS = (
    Plant(
        "a split that was discovered is lost with its reader",
        frozenset({Law.SPLITS, Law.OUTPUT}),
        patched(SplitAssignmentTracker, "take_back", _nothing_comes_back),
        DISCOVERED,
    ),
    Plant(
        "a split that was discovered is assigned twice",
        frozenset({Law.SPLITS, Law.CUT}),
        patched(SourceCoordinator, "on_discovery_requested", _tells_nothing),
        DISCOVERED,
    ),
    Plant(
        "a split that was discovered is in no checkpoint",
        frozenset({Law.SPLITS, Law.OUTPUT}),
        patched(OperatorCoordinators, "snapshot", _without_one_that_waits),
        DISCOVERED,
    ),
    Plant(
        "what was discovered is not reported",
        frozenset({Law.SPLITS, Law.OUTPUT}),
        patched(RunningAttemptNotes, "report", _reports_no_discovery),
        DISCOVERED_AND_ADOPTED,
        first_seed=150,
    ),
    Plant(
        "what an earlier reader had discovered is not reported",
        frozenset({Law.SPLITS, Law.OUTPUT}),
        patched(RunningAttemptNotes, "on_mail", _notes_nothing_of_what_was_known),
        DISCOVERED_AND_ADOPTED,
        first_seed=450,
    ),
    Plant(
        "what was discovered is told again although a checkpoint holds it",
        frozenset({Law.SPLITS, Law.CUT}),
        patched(RunningAttemptNotes, "on_mail", _takes_no_note_for_noted),
        DISCOVERED_AND_ADOPTED,
        first_seed=100,
    ),
)
OF_SPLITS = (
    Plant(
        "a split of a reader that restarts is lost",
        frozenset({Law.SPLITS, Law.OUTPUT}),
        patched(SplitAssignmentTracker, "take_back", _nothing_comes_back),
        ASSIGNED,
    ),
    Plant(
        "a split is assigned twice",
        frozenset({Law.SPLITS, Law.OUTPUT}),
        patched(source_coordinator, "take", _stays_unassigned),
        ASSIGNED,
    ),
    Plant(
        "a split is assigned in no checkpoint",
        frozenset({Law.SPLITS}),
        patched(OperatorCoordinators, "snapshot", _without_one_that_waits),
        ASSIGNED,
    ),
    Plant(
        "what no checkpoint holds is forgotten",
        frozenset({Law.SPLITS, Law.OUTPUT}),
        patched(SplitAssignmentTracker, "completed", _forgets_what_no_checkpoint_holds),
        ASSIGNED,
    ),
    Plant(
        "an event that comes again is obeyed",
        frozenset({Law.FENCED}),
        patched(RunningAttemptNotes, "on_mail", _obeys_repeated_events),
        ASSIGNED,
    ),
    Plant(
        "what was assigned is not reported",
        frozenset({Law.SPLITS, Law.OUTPUT}),
        patched(RunningAttemptNotes, "on_mail", _notes_no_splits),
        ADOPTED,
    ),
    Plant(
        "a request is lost with its JobManager",
        frozenset({Law.OUTPUT}),
        patched(RunningAttemptNotes, "unanswered_messages", _asks_nobody_again),
        ADOPTED,
    ),
)
