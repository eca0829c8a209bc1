"""Each invariant of a machine is one that can be found broken."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from tests.invariants import Machine
from tests.submitted import submitted
from tidegate.model.checkpoint import CheckpointMetrics, SegmentHandle, StateHandle
from tidegate.model.deployment import TaskDeployment
from tidegate.model.ids import AllocationId, AttemptId, BlobKey, Generation, JobId, VertexId
from tidegate.model.keygroups import KeyGroupRange
from tidegate.model.states import ExecutionState
from tidegate.taskmanager.machines import async_wait as aw
from tidegate.taskmanager.machines import credit, slots, subtask
from tidegate.taskmanager.machines import snapshot as snap
from tidegate.taskmanager.machines import snapshot_write as sw
from tidegate.taskmanager.machines import task_events as tv
from tidegate.taskmanager.machines import watermarks as w
from tidegate.taskmanager.machines.incremental_snapshot import Delta, Increments, SegmentChain
from tidegate.taskmanager.machines.source_pause import SourcePause
from tidegate.taskmanager.machines.split_watermarks import SplitWatermarks
from tidegate.taskmanager.machines.task_manager import TaskManagerMachine

M = TypeVar("M")
JOB, GENERATION, ALLOCATION = JobId("a" * 32), Generation("g"), AllocationId("1" * 32)
ATTEMPT = AttemptId(JOB, VertexId("b" * 32), 0, 0)


def broken(machine: M, **fields: Any) -> M:
    """The machine with a wrong value in some of its fields."""
    for name, value in fields.items():
        assert hasattr(machine, name), name
        object.__setattr__(machine, name, value)
    return machine


def queue(*events: aw.AsyncWaitEvent, ordered: bool = False) -> aw.AsyncWaitQueue:
    found = aw.AsyncWaitQueue(capacity=2, ordered=ordered)
    for event in events:
        found.on(event)
    return found


def write() -> sw.SnapshotWrite[str]:
    return sw.SnapshotWrite(ATTEMPT, 5, CheckpointMetrics(), 0.0, awaits={sw.Part.INPUTS})


def sender() -> credit.SenderCredit:
    found = credit.SenderCredit()
    found.on_credit(100, 0)
    found.on_sent(60)
    return found


def receiver() -> credit.ReceiverCredit:
    found = credit.ReceiverCredit()
    found.open(100)
    found.on_received(60)
    return found


def increments(*levels: Delta, epoch: int = 9, segments: tuple[SegmentHandle, ...] = ()) -> Increments:
    found = Increments()
    broken(found, _written={1: SegmentChain(epoch, segments, levels)})
    return found


def splits(idle_timeout_ms: int | None = 10) -> SplitWatermarks:
    found = SplitWatermarks(idle_timeout_ms)
    found.assigned("begun")
    found.expected("later", 5)
    found.watermark()
    return found


def valve(**channel: Any) -> w.WatermarkValve:
    found = w.WatermarkValve(2)
    for number in (0, 1):
        found.on(w.WatermarkArrived(number, 7), 0)
    broken(found._channels[0], **channel)
    return found


def task_manager() -> TaskManagerMachine:
    found = TaskManagerMachine(2, 10_000, tv.TaskLimits())
    found.on(slots.JobManagerFound(GENERATION), 0)
    found.on(slots.SlotRequested(GENERATION, JOB, ALLOCATION, 0), 0)
    found.on(
        tv.TaskSubmitted(
            submitted(TaskDeployment(ATTEMPT, GENERATION, ALLOCATION, "job", "map", 1, 128, BlobKey("f" * 64))), "t"
        ),
        0,
    )
    return found


def slot_table(**fields: Any) -> slots.SlotTable:
    found = task_manager().slots
    broken(found._slots[ALLOCATION], **fields)
    return found


def task_table(**fields: Any) -> TaskManagerMachine:
    found = task_manager()
    task = found.tasks.task(ATTEMPT)
    assert task is not None
    broken(task, **fields)
    return found


def lifecycle(now: subtask.Lifecycle, *, has_inputs: bool = False) -> subtask.SubtaskLifecycle:
    return broken(subtask.SubtaskLifecycle(checkpointing=True, has_inputs=has_inputs), _now=now)


SEGMENT = SegmentHandle("s", KeyGroupRange(5, 5), (0, 1), StateHandle(1, "", data=b"x"), 3)
OTHER = AttemptId(JobId("c" * 32), VertexId("b" * 32), 0, 0)
ARRIVED = aw.RecordArrived(1)
CASES: list[tuple[str, Callable[[], Machine]]] = [
    ("3 are invoked, 2 may be", lambda: broken(queue(ARRIVED), _invoked=3)),
    ("neither invoked nor waiting", lambda: broken(queue(ARRIVED), _invoked=0)),
    ("1 wait, and there is room", lambda: broken(queue(ARRIVED), _invoked=0, _waiting=deque([1]))),
    ("segments hold 0 records", lambda: broken(queue(ARRIVED), _segments=deque([aw._Segment()]))),
    (
        "an ordered queue has a segment of 2",
        lambda: broken(queue(ARRIVED, aw.RecordArrived(2)), _ordered=True),
    ),
    ("are done, and were not emitted", lambda: broken(queue(ARRIVED), _segments=deque([aw._Segment(1, deque([1]))]))),
    ("the first segment is empty, and stays", lambda: broken(queue(), _segments=deque([aw._Segment(mark=1)]))),
    ("a window of 1 bytes", lambda: broken(credit.BufferDebloater(credit.WindowBounds()), _window=1)),
    ("61 bytes are consumed, and 60 were sent", lambda: broken(sender(), consumed=61)),
    ("were sent before the first grant", lambda: broken(sender(), _open=False)),
    ("asked for before the first grant", lambda: broken(credit.SenderCredit(), _requested=True)),
    ("61 bytes are consumed, 60 were received", lambda: broken(receiver(), consumed=61)),
    ("and more is queued", lambda: broken(receiver(), granted=10, consumed=20)),
    ("levels of checkpoint 1 are out of order", lambda: increments(Delta(2, 1), Delta(1, 2))),
    ("deltas of checkpoint 1 begin out of order", lambda: increments(Delta(1, 2), Delta(2, 1))),
    (r"segments of levels \[3\] and no such delta", lambda: increments(Delta(1, 1), segments=(SEGMENT,))),
    ("a delta begins at", lambda: increments(Delta(1, 2), epoch=1)),
    (
        r"checkpoints \[3\] are written",
        lambda: broken(snap.SnapshotCoordinator(), _writes={3: snap.WriteState.RUNNING}),
    ),
    ("was acknowledged without", lambda: broken(write(), _stage=sw.WriteStage.DONE)),
    ("is written before all of it is known", lambda: broken(write(), _awaits={sw.Part.INPUTS, sw.Part.CHANNELS})),
    ("nobody writes the data in flight", lambda: broken(write(), _awaits=set(), _in_flight=["a batch"])),
    (r"remembers the aborts of \[2\]", lambda: broken(snap.SnapshotCoordinator(restored_id=2), _aborted={2})),
    ("remembers 65 aborts", lambda: broken(snap.SnapshotCoordinator(), _aborted=set(range(1, 66)))),
    ("forgot that 4 is restored", lambda: broken(snap.SnapshotCoordinator(restored_id=4), _last_confirmed=1)),
    (
        "has stopped, and writes",
        lambda: broken(snap.SnapshotCoordinator(), _last_id=3, _stopped=True, _writes={3: snap.WriteState.RUNNING}),
    ),
    ("100.0 are the most", lambda: broken(SourcePause(0.1, 0.0), _rest_ms=101.0)),
    ("and should never", lambda: broken(SourcePause(0.0, 0.0), _rest_ms=1.0)),
    (r"splits \['begun'\] are begun, and expected", lambda: broken(splits(), _expected={"begun": 1})),
    ("4 is not the lowest expected: 5", lambda: broken(splits(), _lowest_expected=4)),
    ("and counts as active", lambda: broken(splits(), _idle_timeout_ms=0)),
    ("holds the watermark back, and is idle", lambda: valve(idle=True)),
    ("counts as caught up at 3", lambda: valve(watermark=3)),
    ("the output is idle: True", lambda: broken(valve(), _idle=True)),
    ("is kept under", lambda: slot_table(allocation_id=AllocationId("9" * 32))),
    ("slot 7 of 2", lambda: slot_table(index=7)),
    ("is free, and has an allocation", lambda: slot_table(state=slots.SlotState.FREE)),
    ("has tasks, and is not active", lambda: slot_table(state=slots.SlotState.ALLOCATED)),
    ("is empty, and still releasing", lambda: slot_table(state=slots.SlotState.RELEASING, tasks=set())),
    ("has tasks of another job", lambda: slot_table(tasks={OTHER})),
    ("STARTING with Outcome", lambda: task_table(outcome=tv.Outcome(ExecutionState.FAILED))),
    ("ENDED with None", lambda: task_table(phase=tv.TaskPhase.ENDED)),
    ("ATTACHED, mails wait", lambda: task_table(phase=tv.TaskPhase.ATTACHED, early_mails=[b"mail"])),
    ("is stopped, and starts", lambda: task_table(stopping=tv.Outcome(ExecutionState.FAILED))),
    ("in slots and in the task table differ", lambda: broken(m := task_manager(), tasks=task_table_of_nobody(m))),
    ("a source waits for the ends of its inputs", lambda: lifecycle(subtask.Running(inputs_closed=False))),
    ("and nothing is waited for", lambda: lifecycle(subtask.AtEnd(True, True), has_inputs=True)),
    ("is confirmed, and goes on waiting", lambda: lifecycle(subtask.AtEnd(False, True))),
    ("over, and RUNNING", lambda: lifecycle(subtask.Over(subtask.LifecycleState.RUNNING))),
]


def task_table_of_nobody(machine: TaskManagerMachine) -> Any:
    return type(machine.tasks)(tv.TaskLimits())


@pytest.mark.parametrize(("message", "make"), CASES, ids=[message for message, _ in CASES])
def test_a_broken_invariant_is_found(message: str, make: Callable[[], Machine]) -> None:
    with pytest.raises(AssertionError, match=message):
        make().check_invariants()


@pytest.mark.parametrize(
    "make", [queue, sender, receiver, increments, splits, valve, slot_table, task_table, task_manager, write]
)
def test_none_is_found_where_nothing_is_broken(make: Callable[[], Machine]) -> None:
    make().check_invariants()
