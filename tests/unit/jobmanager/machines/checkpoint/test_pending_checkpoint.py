"""A checkpoint on its way to the point of no return: every state meets everything that may be asked of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from types import FunctionType

import pytest

from tests.pairs import answer, assert_every_pair, cells
from tests.unit.jobmanager.machines.cluster_kit import two_stage
from tidegate.jobmanager.machines.checkpoint.pending_checkpoint import PendingCheckpoint, PendingState
from tidegate.jobmanager.machines.checkpoint.plan import CheckpointPlan
from tidegate.jobmanager.machines.checkpoint.trigger import CheckpointRequest
from tidegate.jobmanager.machines.events import ManifestWritten
from tidegate.model.checkpoint import SnapshotType, SubtaskSnapshot
from tidegate.model.ids import AttemptId, CheckpointId

GRAPH = two_stage(1)
FIRST, SECOND = (AttemptId(GRAPH.job_id, vertex.vertex_id, 0, 0) for vertex in GRAPH.vertices)
STRANGER = AttemptId(GRAPH.job_id, GRAPH.vertices[0].vertex_id, 7, 0)


class Abort(Enum):
    DONE = "done"
    TOO_LATE = "too late"


Step = Callable[[PendingCheckpoint], Iterable[object]]


def acknowledges(attempt: AttemptId) -> Step:
    return lambda pending: [pending.acknowledge(attempt, SubtaskSnapshot())]


def is_located(pending: PendingCheckpoint) -> Iterable[object]:
    pending.on_located("chk-1")
    return ()


def is_triggered(pending: PendingCheckpoint) -> Iterable[object]:
    pending.on_triggered({})
    return ()


def is_sealed(pending: PendingCheckpoint) -> Iterable[object]:
    return [pending.seal(GRAPH, "g1")]


def is_unknown(pending: PendingCheckpoint) -> Iterable[object]:
    pending.on_manifest_unknown()
    return ()


def is_written(pending: PendingCheckpoint) -> Iterable[object]:
    return [pending.on_manifest_written(ManifestWritten(GRAPH.job_id, CheckpointId(1), 100))]


def is_missing(pending: PendingCheckpoint) -> Iterable[object]:
    pending.on_manifest_missing()
    return ()


def is_aborted(pending: PendingCheckpoint) -> Iterable[object]:
    return [Abort.DONE if pending.abort() else Abort.TOO_LATE]


EVENTS: dict[str, Step] = {
    "its location is there": is_located,
    "its subtasks are triggered": is_triggered,
    "the first acknowledges": acknowledges(FIRST),
    "the second acknowledges": acknowledges(SECOND),
    "a stranger acknowledges": acknowledges(STRANGER),
    "it is sealed": is_sealed,
    "the outcome is unknown": is_unknown,
    "_metadata is written": is_written,
    "_metadata is missing": is_missing,
    "it is aborted": is_aborted,
}


def pending(*steps: Step) -> PendingCheckpoint:
    plan = CheckpointPlan((FIRST,), (FIRST, SECOND), frozenset(), frozenset())
    found = PendingCheckpoint(CheckpointId(1), 1000, CheckpointRequest(SnapshotType.CHECKPOINT, 1000, 1), plan)
    for step in steps:
        step(found)
        found.check_invariants()
    return found


ALL = (is_located, is_triggered, acknowledges(FIRST), acknowledges(SECOND))
STATES: dict[str, Callable[[], PendingCheckpoint]] = {
    "LOCATING": pending,
    "COLLECTING": lambda: pending(is_located, is_triggered, acknowledges(FIRST)),
    "ACKNOWLEDGED": lambda: pending(*ALL),
    "WRITING": lambda: pending(*ALL, is_sealed),
    "SETTLING": lambda: pending(*ALL, is_sealed, is_unknown),
    "COMPLETED": lambda: pending(*ALL, is_sealed, is_written),
    "ABORTED": lambda: pending(is_located, is_triggered, acknowledges(FIRST), is_aborted),
}
TABLE = """
event                      | LOCATING       | COLLECTING             | ACKNOWLEDGED                 | WRITING                  | SETTLING                 | COMPLETED      | ABORTED
its location is there      | ▸ COLLECTING   | AssertionError         | AssertionError               | AssertionError           | AssertionError           | AssertionError | AssertionError
its subtasks are triggered | AssertionError | ·                      | ·                            | AssertionError           | AssertionError           | AssertionError | AssertionError
the first acknowledges     | DISCARDED      | DUPLICATE              | DUPLICATE                    | DUPLICATE                | DUPLICATE                | DUPLICATE      | DUPLICATE
the second acknowledges    | DISCARDED      | SUCCESS ▸ ACKNOWLEDGED | DUPLICATE                    | DUPLICATE                | DUPLICATE                | DUPLICATE      | DISCARDED
a stranger acknowledges    | UNKNOWN        | UNKNOWN                | UNKNOWN                      | UNKNOWN                  | UNKNOWN                  | UNKNOWN        | UNKNOWN
it is sealed               | AssertionError | AssertionError         | CheckpointManifest ▸ WRITING | AssertionError           | AssertionError           | AssertionError | AssertionError
the outcome is unknown     | AssertionError | AssertionError         | AssertionError               | ▸ SETTLING               | ·                        | AssertionError | AssertionError
_metadata is written       | AssertionError | AssertionError         | AssertionError               | CommitPermit ▸ COMPLETED | CommitPermit ▸ COMPLETED | AssertionError | AssertionError
_metadata is missing       | AssertionError | AssertionError         | AssertionError               | ▸ ABORTED                | ▸ ABORTED                | AssertionError | AssertionError
it is aborted              | done ▸ ABORTED | done ▸ ABORTED         | done ▸ ABORTED               | too late                 | too late                 | too late       | too late
"""


def state_of(found: PendingCheckpoint) -> str:
    """One that all have acknowledged is COLLECTING until it is sealed, in the same step."""
    is_full = found.state is PendingState.COLLECTING and found.is_fully_acknowledged
    return "ACKNOWLEDGED" if is_full else found.state.value


@pytest.mark.parametrize(("state", "event", "expected"), cells(TABLE))
def test_everything_in_every_state(state: str, event: str, expected: str) -> None:
    found = STATES[state]()
    assert state_of(found) == state
    assert answer(lambda: EVENTS[event](found), lambda: state_of(found)) == expected
    found.check_invariants()


def test_every_state_meets_everything() -> None:
    assert_every_pair(TABLE, STATES, EVENTS, FunctionType)
    assert STATES.keys() == {*(state.value for state in PendingState), "ACKNOWLEDGED"}
