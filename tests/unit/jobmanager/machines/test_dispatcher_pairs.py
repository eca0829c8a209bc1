"""A source and its sink on one TaskManager, and checkpoint 1 triggered while they run: every state meets every event of the JobManager
(``Dispatcher``).

Answers of the storage to what it was not asked for are a mistake of ours, and break an invariant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pytest

from tests.pairs import answer, assert_every_pair, cells
from tests.unit.jobmanager.machines.checkpoint.test_jobmanager_recovery import whole
from tests.unit.jobmanager.machines.cluster_kit import (
    CHECKPOINTED,
    FAULT,
    JOB,
    Cluster,
    graph,
    operator_id,
    running_job,
    two_stage,
    until_triggered,
    vertex,
    vertex_id,
)
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.model.checkpoint import CheckpointMetrics, DeclineReason, SnapshotType, SubtaskSnapshot
from tidegate.model.coordinators.operator_events import OperatorEvent, RequestSplit
from tidegate.model.errors import ErrorInfo
from tidegate.model.ids import AllocationId, AttemptId, CheckpointId, Generation, JobId, TaskManagerId, hex_id
from tidegate.model.rescaling.bounds import ParallelismBounds
from tidegate.model.states import ExecutionState as E
from tidegate.model.states import JobState

GRAPH = two_stage(1)
OTHER = JobId(JOB[::-1])
ATTEMPT = AttemptId(JOB, vertex_id("source"), 0, 0)
TM, ONE = TaskManagerId("tm-1"), CheckpointId(1)
ERROR = ErrorInfo("storage", "external", "disk full")
EVENTS: dict[str, e.Event] = {
    "a generation begins": e.GenerationStarted(Generation(hex_id("next")), 8),
    "it is submitted again": e.JobSubmitted(GRAPH, CHECKPOINTED),
    "it is recovered again": e.JobRecovered(e.JobSubmitted(GRAPH, CHECKPOINTED), (whole(1),), first_attempt=1),
    "another one is submitted": e.JobSubmitted(graph([vertex("source", 1, source=True)], job_id=OTHER)),
    "a user cancels it": e.JobCancelRequested(JOB),
    "a user wants a checkpoint": e.SnapshotRequested(JOB, "request", SnapshotType.CHECKPOINT),
    "another parallelism is wanted": e.RescaleRequested(
        JOB, {v.vertex_id: ParallelismBounds(1, 2) for v in GRAPH.vertices}
    ),
    "its shape is written": e.ShapeWritten(JOB),
    "a user stops it": e.SnapshotRequested(JOB, "request", SnapshotType.SUSPEND, "/sp"),
    "its TaskManager registers": e.TaskManagerRegistered(TM, "s1", "tm-1:1", "tm-1", (e.ReportedSlot(0),)),
    "another process registers": e.TaskManagerRegistered(TM, "s2", "tm-1:1", "tm-1", (e.ReportedSlot(0),)),
    "a heartbeat without its task": e.TaskManagerHeartbeat(TM, "s1", (e.ReportedSlot(0),), ()),
    "its TaskManager is lost": e.TaskManagerConnectionLost(TM, "s1", "reset", is_gone=True),
    "its TaskManager stands still": e.TaskManagerStoodStill(TM, "s1"),
    "workers are found": e.WorkersFound(()),
    "a worker ends": e.WorkerEnded(TaskManagerId("worker-1"), "exit code 1"),
    "an answer to no call": e.CallAnswered(10_000),
    "a slot is freed": e.SlotFreed(TM, AllocationId("0" * 32)),
    "its task runs": e.TaskStateChanged(ATTEMPT, E.RUNNING, None, "here:1"),
    "its task finishes": e.TaskStateChanged(ATTEMPT, E.FINISHED),
    "its task fails": e.TaskStateChanged(ATTEMPT, E.FAILED, FAULT),
    "its task is canceled": e.TaskStateChanged(ATTEMPT, E.CANCELED),
    "its data ends": e.EndOfDataReached(ATTEMPT),
    "an acknowledgement": e.SubtaskAcknowledged(ATTEMPT, ONE, SubtaskSnapshot(), CheckpointMetrics()),
    "a decline": e.SubtaskDeclined(ATTEMPT, ONE, DeclineReason.DECLINED),
    "an event for no coordinator": e.OperatorEventReceived(
        ATTEMPT, OperatorEvent(operator_id("none"), 1, RequestSplit())
    ),
    "a watermark": e.WatermarkReported(ATTEMPT, "group", 5, 1_000),
    "a location": e.LocationCreated(JOB, ONE, "/cp/chk-1"),
    "_metadata is written": e.ManifestWritten(JOB, ONE, 100),
    "_metadata is not written": e.ManifestWriteFailed(JOB, ONE, ERROR),
    "files are gone": e.CheckpointDiscarded(JOB, ONE),
    "shared files are gone": e.SharedFilesDiscarded(JOB, ONE),
    "others were looked at": e.CheckpointsInspected(JOB, ()),
    "a timer of nothing": e.TimerFired("nothing"),
}


def serving() -> Cluster:
    cluster = Cluster()
    cluster.register(TM, 1)
    return cluster


def waiting() -> Cluster:
    """There is no slot for the job."""
    cluster = Cluster()
    cluster.submit(GRAPH, CHECKPOINTED)
    return cluster


def deploying() -> Cluster:
    cluster = serving()
    cluster.submit(GRAPH, CHECKPOINTED)
    return cluster


def running(configuration: Mapping[str, str] = CHECKPOINTED) -> Cluster:
    cluster = running_job(GRAPH, configuration, slots=1)
    until_triggered(cluster, 1)
    return cluster


def writing() -> Cluster:
    """``_metadata`` of checkpoint 1 is under way."""
    cluster = running()
    cluster.writes_manifests = False
    cluster.complete_checkpoint(1)
    return cluster


def after(event: str, configuration: Mapping[str, str] = CHECKPOINTED) -> Cluster:
    cluster = running(configuration)
    cluster.tell(EVENTS[event])
    return cluster


def over(cluster: Cluster) -> Cluster:
    """The other task has gone, too."""
    cluster.settle()
    cluster.cancel_tasks()
    return cluster


def finished() -> Cluster:
    cluster = running_job(GRAPH, slots=1)
    for attempt in cluster.attempts():
        cluster.state(attempt, E.FINISHED)
    return cluster


def recovering() -> Cluster:
    cluster = serving()
    cluster.tell(EVENTS["it is recovered again"])
    return cluster


FOR_GOOD = {**CHECKPOINTED, "restart-strategy.type": "none"}
FAILS, CANCELED = "its task fails", "a user cancels it"
STATES: dict[str, Callable[[], Cluster]] = {
    "NO JOB": serving,
    "RECONCILING": recovering,
    "WAITING": waiting,
    "DEPLOYING": deploying,
    "RUNNING": running,
    "WRITING": writing,
    "RESTARTING": lambda: after(FAILS),
    "FAILING": lambda: after(FAILS, FOR_GOOD),
    "CANCELLING": lambda: after(CANCELED),
    "FAILED": lambda: over(after(FAILS, FOR_GOOD)),
    "CANCELED": lambda: over(after(CANCELED)),
    "FINISHED": finished,
}
SILENT = (c.Log, c.JobChanged, c.StartTimer, c.CancelTimer)
"""Not in the table: what is only shown, and timers, which their machines' own tests look at."""
TABLE = """
event                         | NO JOB                 | RECONCILING                                          | WAITING                  | DEPLOYING                     | RUNNING                                                     | WRITING                                                     | RESTARTING        | FAILING                   | CANCELLING                  | FAILED            | CANCELED          | FINISHED
a generation begins           | ·                      | ·                                                    | ·                        | ·                             | ·                                                           | ·                                                           | ·                 | ·                         | ·                           | ·                 | ·                 | ·
it is submitted again         | AllocateSlot ▸ RUNNING | ·                                                    | ·                        | ·                             | ·                                                           | ·                                                           | ·                 | ·                         | ·                           | ·                 | ·                 | ·
it is recovered again         | ▸ RECONCILING          | ·                                                    | ·                        | ·                             | ·                                                           | ·                                                           | ·                 | ·                         | ·                           | ·                 | ·                 | ·
another one is submitted      | AllocateSlot           | AllocateSlot                                         | ·                        | ·                             | ·                                                           | ·                                                           | ·                 | ·                         | ·                           | ·                 | ·                 | ·
a user cancels it             | ·                      | AllocateSlot, FreeSlot, DiscardCheckpoint ▸ CANCELED | JobTerminated ▸ CANCELED | CancelTask ▸ CANCELLING       | AbortCheckpoint, DiscardCheckpoint, CancelTask ▸ CANCELLING | CancelTask ▸ CANCELLING                                     | ▸ CANCELLING      | ▸ CANCELLING              | ·                           | ·                 | ·                 | ·
a user wants a checkpoint     | ·                      | ReportSnapshot                                       | ReportSnapshot           | ReportSnapshot                | ·                                                           | ·                                                           | ReportSnapshot    | ReportSnapshot            | ReportSnapshot              | ReportSnapshot    | ReportSnapshot    | ReportSnapshot
a user stops it               | ·                      | ReportSnapshot                                       | ReportSnapshot           | ReportSnapshot                | AbortCheckpoint, DiscardCheckpoint, CreateLocation          | CreateLocation                                              | ReportSnapshot    | ReportSnapshot            | ReportSnapshot              | ReportSnapshot    | ReportSnapshot    | ReportSnapshot
another parallelism is wanted | ·                      | ·                                                    | ·                        | ·                             | ·                                                           | ·                                                           | ·                 | ·                         | ·                           | ·                 | ·                 | ·
its shape is written          | ·                      | ·                                                    | ·                        | ·                             | ·                                                           | ·                                                           | ·                 | ·                         | ·                           | ·                 | ·                 | ·
its TaskManager registers     | ·                      | ·                                                    | AllocateSlot ▸ RUNNING   | ·                             | ·                                                           | ·                                                           | ·                 | ·                         | ·                           | ·                 | ·                 | ·
another process registers     | CloseTaskManager       | CloseTaskManager                                     | AllocateSlot ▸ RUNNING   | CloseTaskManager ▸ RESTARTING | CloseTaskManager, DiscardCheckpoint ▸ RESTARTING            | CloseTaskManager ▸ RESTARTING                               | CloseTaskManager  | CloseTaskManager ▸ FAILED | CloseTaskManager ▸ CANCELED | CloseTaskManager  | CloseTaskManager  | CloseTaskManager
a heartbeat without its task  | ·                      | ·                                                    | CloseTaskManager         | ·                             | ·                                                           | ·                                                           | ·                 | ·                         | ·                           | ·                 | ·                 | ·
its TaskManager is lost       | CloseTaskManager       | CloseTaskManager                                     | ·                        | CloseTaskManager ▸ RESTARTING | CloseTaskManager, DiscardCheckpoint ▸ RESTARTING            | CloseTaskManager ▸ RESTARTING                               | CloseTaskManager  | CloseTaskManager ▸ FAILED | CloseTaskManager ▸ CANCELED | CloseTaskManager  | CloseTaskManager  | CloseTaskManager
its TaskManager stands still  | ·                      | ·                                                    | ·                        | ·                             | ·                                                           | ·                                                           | ·                 | ·                         | ·                           | ·                 | ·                 | ·
workers are found             | ·                      | ·                                                    | ·                        | ·                             | ·                                                           | ·                                                           | ·                 | ·                         | ·                           | ·                 | ·                 | ·
a worker ends                 | ·                      | ·                                                    | ·                        | ·                             | ·                                                           | ·                                                           | ·                 | ·                         | ·                           | ·                 | ·                 | ·
an answer to no call          | ·                      | ·                                                    | ·                        | ·                             | ·                                                           | ·                                                           | ·                 | ·                         | ·                           | ·                 | ·                 | ·
a slot is freed               | ·                      | ·                                                    | ·                        | ·                             | ·                                                           | ·                                                           | ·                 | ·                         | ·                           | ·                 | ·                 | ·
its task runs                 | ·                      | ·                                                    | ·                        | ConnectTask                   | ·                                                           | ·                                                           | CancelTask        | CancelTask                | ·                           | CancelTask        | CancelTask        | CancelTask
its task finishes             | ·                      | ·                                                    | ·                        | ·                             | AbortCheckpoint, DiscardCheckpoint                          | ·                                                           | ·                 | ·                         | ·                           | ·                 | ·                 | ·
its task fails                | ·                      | ·                                                    | ·                        | CancelTask ▸ RESTARTING       | AbortCheckpoint, DiscardCheckpoint, CancelTask ▸ RESTARTING | CancelTask ▸ RESTARTING                                     | ·                 | ·                         | ·                           | ·                 | ·                 | ·
its task is canceled          | ·                      | ·                                                    | ·                        | CancelTask ▸ RESTARTING       | AbortCheckpoint, DiscardCheckpoint, CancelTask ▸ RESTARTING | CancelTask ▸ RESTARTING                                     | ·                 | ·                         | ·                           | ·                 | ·                 | ·
its data ends                 | ·                      | ·                                                    | ·                        | ·                             | ·                                                           | ·                                                           | ·                 | ·                         | ·                           | ·                 | ·                 | ·
an acknowledgement            | ·                      | ·                                                    | ·                        | ·                             | ·                                                           | ·                                                           | ·                 | ·                         | ·                           | DiscardCheckpoint | DiscardCheckpoint | ·
a decline                     | ·                      | ·                                                    | ·                        | ·                             | AbortCheckpoint, DiscardCheckpoint, CancelTask ▸ RESTARTING | ·                                                           | ·                 | ·                         | ·                           | ·                 | ·                 | ·
an event for no coordinator   | ·                      | ·                                                    | ·                        | ·                             | ·                                                           | ·                                                           | ·                 | ·                         | ·                           | ·                 | ·                 | ·
a watermark                   | AnnounceWatermark      | AnnounceWatermark                                    | AnnounceWatermark        | AnnounceWatermark             | AnnounceWatermark                                           | AnnounceWatermark                                           | AnnounceWatermark | AnnounceWatermark         | AnnounceWatermark           | AnnounceWatermark | AnnounceWatermark | AnnounceWatermark
a location                    | ·                      | AssertionError                                       | AssertionError           | AssertionError                | AssertionError                                              | AssertionError                                              | AssertionError    | AssertionError            | AssertionError              | AssertionError    | AssertionError    | AssertionError
_metadata is written          | ·                      | ·                                                    | ·                        | ·                             | ·                                                           | ConfirmCheckpoint                                           | ·                 | ·                         | ·                           | ·                 | ·                 | ·
_metadata is not written      | ·                      | ·                                                    | ·                        | ·                             | ·                                                           | AbortCheckpoint, DiscardCheckpoint, CancelTask ▸ RESTARTING | ·                 | ·                         | ·                           | ·                 | ·                 | ·
files are gone                | ·                      | ·                                                    | ·                        | ·                             | ·                                                           | ·                                                           | ·                 | ·                         | ·                           | ·                 | ·                 | ·
shared files are gone         | ·                      | AssertionError                                       | AssertionError           | AssertionError                | AssertionError                                              | AssertionError                                              | AssertionError    | AssertionError            | AssertionError              | AssertionError    | AssertionError    | AssertionError
others were looked at         | ·                      | AssertionError                                       | AssertionError           | AssertionError                | AssertionError                                              | AssertionError                                              | AssertionError    | AssertionError            | AssertionError              | AssertionError    | AssertionError    | AssertionError
a timer of nothing            | ·                      | ·                                                    | ·                        | ·                             | ·                                                           | ·                                                           | ·                 | ·                         | ·                           | ·                 | ·                 | ·
"""


def state_of(cluster: Cluster) -> str:
    view = cluster.machine.job(JOB)
    if view is None:
        return "NO JOB"
    if view.state is not JobState.RUNNING:
        return str(view.state.value)
    if cluster.of(c.WriteManifest) and E.RUNNING in cluster.states():
        return "WRITING"
    return "WAITING" if view.waiting_for else "DEPLOYING" if E.DEPLOYING in cluster.states() else "RUNNING"


def orders(cluster: Cluster, event: e.Event) -> Iterable[object]:
    """Each kind of command once."""
    commands = [command for command in cluster.tell(event) if not isinstance(command, SILENT)]
    return {type(command): command for command in commands}.values()


@pytest.mark.parametrize(("state", "event", "expected"), cells(TABLE))
def test_every_event_in_every_state(state: str, event: str, expected: str) -> None:
    cluster = STATES[state]()
    assert state_of(cluster) == state
    assert answer(lambda: orders(cluster, EVENTS[event]), lambda: state_of(cluster)) == expected


def test_every_state_meets_every_event() -> None:
    assert_every_pair(TABLE, STATES, EVENTS, e.Event)
    shown = {STATES[state]().job_state() for state in STATES if state != "NO JOB"}
    assert {*JobState} - shown == {JobState.INITIALIZING, JobState.CREATED, JobState.SUSPENDED}, (
        "passed within one event"
    )
