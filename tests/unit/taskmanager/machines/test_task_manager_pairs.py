"""A TaskManager with one task in one of two slots: whatever it knows of its JobManager, it meets every event."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.pairs import answer, assert_every_pair, cells
from tests.submitted import submitted
from tidegate.model.deployment import TaskDeployment
from tidegate.model.errors import ErrorInfo
from tidegate.model.ids import AllocationId, AttemptId, BlobKey, Generation, JobId, VertexId
from tidegate.model.states import ExecutionState
from tidegate.taskmanager.machines.slots import (
    JobManagerFound,
    JobManagerLost,
    LossGraceOver,
    SlotFreeRequested,
    SlotRequested,
    SlotTimedOut,
)
from tidegate.taskmanager.machines.task_events import (
    AttemptRejected,
    CancelRequested,
    MailRequested,
    SparkJobEnded,
    StreamBroke,
    StreamOpened,
    SubtaskInterrupted,
    SubtaskListening,
    SubtaskReported,
    SubtaskStateChanged,
    TaskFailed,
    TaskLimits,
    TaskSubmitted,
    TimerFired,
    TimerKind,
)
from tidegate.taskmanager.machines.task_manager import TaskManagerEvent, TaskManagerMachine

JOB, FIRST, SECOND = JobId("a" * 32), Generation("g1"), Generation("g2")
SLOT, OTHER_SLOT = AllocationId("1" * 32), AllocationId("2" * 32)
ATTEMPT = AttemptId(JOB, VertexId("b" * 32), 0, 0)
TASK = submitted(TaskDeployment(ATTEMPT, FIRST, SLOT, "job", "map", 1, 128, BlobKey("f" * 64)))
ERROR = ErrorInfo("internal", "internal", "broken")
EVENTS: dict[str, TaskManagerEvent] = {
    "its JobManager is found": JobManagerFound(FIRST, 30_000),
    "another one is found": JobManagerFound(SECOND, 30_000),
    "the JobManager is lost": JobManagerLost(),
    "the grace is over": LossGraceOver(),
    "the other slot is asked for": SlotRequested(FIRST, JOB, OTHER_SLOT, 1),
    "its slot is to be free": SlotFreeRequested(FIRST, SLOT, ""),
    "its slot timed out": SlotTimedOut(SLOT),
    "the task is submitted again": TaskSubmitted(TASK, "token"),
    "a mail": MailRequested(FIRST, ATTEMPT, b"mail"),
    "a cancel": CancelRequested(FIRST, ATTEMPT),
    "a second stream": StreamOpened(ATTEMPT, "token", 77, "here"),
    "it listens": SubtaskListening(ATTEMPT, "here:1"),
    "it runs": SubtaskStateChanged(ATTEMPT, ExecutionState.RUNNING),
    "it has finished": SubtaskStateChanged(ATTEMPT, ExecutionState.FINISHED),
    "it is interrupted": SubtaskInterrupted(ATTEMPT, "where it stands"),
    "it says something": SubtaskReported(ATTEMPT, "message"),
    "its stream breaks": StreamBroke(ATTEMPT),
    "its Spark job ends": SparkJobEnded(ATTEMPT),
    "it is made to fail": TaskFailed(ATTEMPT, ERROR),
    "it is not known": AttemptRejected(ATTEMPT),
    "it was to start": TimerFired(ATTEMPT, TimerKind.START),
}


def machine(*events: TaskManagerEvent) -> TaskManagerMachine:
    found = TaskManagerMachine(2, 10_000, TaskLimits())
    for event in events:
        found.on(event, 0)
        found.check_invariants()
    return found


SERVING = (
    JobManagerFound(FIRST, 30_000),
    SlotRequested(FIRST, JOB, SLOT, 0),
    TaskSubmitted(TASK, "token"),
    StreamOpened(ATTEMPT, "token", 77, "here"),
)
STATES: dict[str, Callable[[], TaskManagerMachine]] = {
    "ALONE": machine,
    "SERVING": lambda: machine(*SERVING),
    "LOST": lambda: machine(*SERVING, JobManagerLost()),
    "GIVEN UP": lambda: machine(*SERVING, JobManagerLost(), LossGraceOver()),
    "ADOPTED": lambda: machine(*SERVING, JobManagerLost(), JobManagerFound(SECOND, 30_000)),
}
TABLE = """
event                       | ALONE                    | SERVING                                          | LOST                                                         | GIVEN UP                                             | ADOPTED
its JobManager is found     | StopLossTimer ▸ SERVING  | StopLossTimer                                    | StopLossTimer ▸ SERVING                                      | StopLossTimer ▸ SERVING                              | StopLossTimer ▸ SERVING
another one is found        | StopLossTimer ▸ ADOPTED  | StopLossTimer ▸ ADOPTED                          | StopLossTimer ▸ ADOPTED                                      | StopLossTimer ▸ ADOPTED                              | StopLossTimer
the JobManager is lost      | ·                        | StartLossTimer ▸ LOST                            | ·                                                            | ·                                                    | StartLossTimer ▸ LOST
the grace is over           | StopLossTimer ▸ GIVEN UP | ·                                                | StopLossTimer, SendCancel, StartTimer, StartTimer ▸ GIVEN UP | StopLossTimer, StartTimer                            | ·
the other slot is asked for | Refuse                   | StartSlotTimer                                   | Refuse                                                       | Refuse                                               | Refuse
its slot is to be free      | Refuse                   | SendCancel, StartTimer                           | Refuse                                                       | Refuse                                               | Refuse
its slot timed out          | ·                        | ·                                                | ·                                                            | ·                                                    | ·
the task is submitted again | Refuse                   | ·                                                | Refuse                                                       | Refuse                                               | Refuse
a mail                      | Refuse                   | SendMail                                         | Refuse                                                       | Refuse                                               | Refuse
a cancel                    | Refuse                   | SendCancel, StartTimer                           | Refuse                                                       | Refuse                                               | Refuse
a second stream             | RefuseStream             | RefuseStream                                     | RefuseStream                                                 | RefuseStream                                         | RefuseStream
it listens                  | ·                        | ·                                                | ·                                                            | ·                                                    | ·
it runs                     | ·                        | ReportState                                      | ReportState                                                  | ·                                                    | ReportState
it has finished             | ·                        | StopTimers, CloseStream, StartTimer              | StopTimers, CloseStream, StartTimer                          | StopTimers, CloseStream, StartTimer                  | StopTimers, CloseStream, StartTimer
it is interrupted           | ·                        | ·                                                | ·                                                            | ·                                                    | ·
it says something           | ·                        | Forward                                          | Forward                                                      | Forward                                              | Forward
its stream breaks           | ·                        | StopTimers, CloseStream, KillSubtask, StartTimer | StopTimers, CloseStream, KillSubtask, StartTimer             | StopTimers, CloseStream, KillSubtask, StartTimer     | StopTimers, CloseStream, KillSubtask, StartTimer
its Spark job ends          | ·                        | StopTimers, CloseStream, ReportState, RemoveTask | StopTimers, CloseStream, ReportState, RemoveTask             | StopTimers, CloseStream, ReportState, RemoveTask, ReportSlotFreed | StopTimers, CloseStream, ReportState, RemoveTask
it is made to fail          | ·                        | SendCancel, StartTimer                           | SendCancel, StartTimer                                       | ·                                                    | SendCancel, StartTimer
it is not known             | ·                        | SendCancel, StartTimer                           | SendCancel, StartTimer                                       | ·                                                    | SendCancel, StartTimer
it was to start             | ·                        | ·                                                | ·                                                            | ·                                                    | ·
"""


def state_of(found: TaskManagerMachine) -> str:
    if found.has_given_up:
        return "GIVEN UP"
    if found.slots.generation is None:
        return "LOST" if found.slots.report()[0].allocation_id else "ALONE"
    return "SERVING" if found.slots.generation == FIRST else "ADOPTED"


@pytest.mark.parametrize(("state", "event", "expected"), cells(TABLE))
def test_every_event_in_every_state(state: str, event: str, expected: str) -> None:
    found = STATES[state]()
    assert state_of(found) == state
    assert answer(lambda: found.on(EVENTS[event], 0), lambda: state_of(found)) == expected
    found.check_invariants()


def test_every_state_meets_every_event() -> None:
    assert_every_pair(TABLE, STATES, EVENTS, TaskManagerEvent)
