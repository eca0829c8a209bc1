"""Any order of events: a TaskManager's machine keeps its laws."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.submitted import submitted
from tidegate.model.deployment import TaskDeployment
from tidegate.model.errors import ErrorInfo, SubtaskLost
from tidegate.model.ids import AllocationId, AttemptId, BlobKey, Generation, JobId, VertexId
from tidegate.model.states import ExecutionState
from tidegate.taskmanager.machines import slots
from tidegate.taskmanager.machines import task_events as tv
from tidegate.taskmanager.machines.task_manager import TaskManagerEvent, TaskManagerMachine

JOB = JobId("a" * 32)
ERROR = ErrorInfo.of(SubtaskLost("lost"))
generations = st.sampled_from([Generation("g1"), Generation("g2")])
allocations = st.sampled_from([AllocationId("1" * 32), AllocationId("2" * 32)])
attempts = st.sampled_from([AttemptId(JOB, VertexId("b" * 32), 0, number) for number in range(3)])
states = st.sampled_from(
    [ExecutionState.INITIALIZING, ExecutionState.RUNNING, ExecutionState.FINISHED, ExecutionState.FAILED]
)


def deployment(attempt: AttemptId, generation: Generation, allocation: AllocationId) -> tv.SubmittedTask:
    return submitted(TaskDeployment(attempt, generation, allocation, "job", "map", 1, 128, BlobKey("f" * 64)))


events: st.SearchStrategy[TaskManagerEvent] = st.one_of(
    st.builds(slots.JobManagerFound, generations),
    st.just(slots.JobManagerLost()),
    st.builds(slots.SlotRequested, generations, st.just(JOB), allocations, st.integers(0, 1)),
    st.builds(slots.SlotFreeRequested, generations, allocations, st.just("why")),
    st.builds(slots.SlotTimedOut, allocations),
    st.builds(tv.TaskSubmitted, st.builds(deployment, attempts, generations, allocations), st.just("token")),
    st.builds(tv.MailRequested, generations, attempts, st.just(b"mail")),
    st.builds(tv.CancelRequested, generations, attempts),
    st.builds(tv.StreamOpened, attempts, st.sampled_from(["token", "guess"]), st.just(7), st.just("here")),
    st.builds(tv.SubtaskStateChanged, attempts, states),
    st.builds(tv.SubtaskInterrupted, attempts, st.just("where it stands")),
    st.builds(tv.SubtaskReported, attempts, st.just("ack")),
    st.builds(tv.StreamBroke, attempts),
    st.builds(tv.SparkJobEnded, attempts, st.sampled_from([None, ERROR])),
    st.builds(tv.TaskFailed, attempts, st.just(ERROR), st.booleans()),
    st.builds(tv.AttemptRejected, attempts),
    st.builds(tv.TimerFired, attempts, st.sampled_from(list(tv.TimerKind))),
)


@given(st.lists(events, max_size=60))
def test_the_laws_hold_in_any_order(history: list[TaskManagerEvent]) -> None:
    machine = TaskManagerMachine(2, 10_000, tv.TaskLimits(starts_at_once=1))
    machine.on(slots.JobManagerFound(Generation("g1")), 0)
    running: Counter[AttemptId] = Counter()
    streams: set[AttemptId] = set()
    for event in history:
        if isinstance(event, tv.SparkJobEnded) and not running[event.attempt]:
            continue  # Spark ends only what was started
        if isinstance(event, tv.SparkJobEnded):
            running[event.attempt] -= 1
        for command in machine.on(event, 0):
            match command:
                case tv.StartSubtask(started, _):
                    running[started.attempt] += 1
                    assert running[started.attempt] == 1, "an attempt runs once at a time"
                    streams.discard(started.attempt)
                case tv.AcceptStream(attempt, _):
                    assert attempt not in streams, "one stream for an attempt"
                    streams.add(attempt)
                case tv.ReportState(attempt, state, _, _):
                    if state.is_terminal:
                        assert not running[attempt], "told only after the process is gone, or when there never was one"
                    generation = machine.slots.generation
                    assert generation is not None, "nothing is told without a JobManager"
                case tv.SendMail(attempt, _) | tv.SendCancel(attempt) | tv.Forward(attempt, _):
                    assert attempt in streams
                case slots.ReportSlotFreed(allocation):
                    assert not machine.slots.tasks_in(allocation)


@given(st.lists(events, max_size=40))
def test_everything_stops_after_the_job_manager_is_lost(history: list[TaskManagerEvent]) -> None:
    machine = TaskManagerMachine(2, 10_000, tv.TaskLimits())
    for event in [slots.JobManagerFound(Generation("g1")), *history, slots.JobManagerLost()]:
        machine.on(event, 0)
    for attempt in machine.tasks.attempts():
        machine.on(tv.TimerFired(attempt, tv.TimerKind.KILL), 0)
        task = machine.tasks.task(attempt)
        assert task is not None
        assert task.phase is tv.TaskPhase.KILLED
        machine.on(tv.SparkJobEnded(attempt), 0)
    assert not machine.tasks.attempts()
    assert all(slot.state is slots.SlotState.FREE for slot in machine.slots.report())
