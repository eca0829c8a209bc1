"""Each invariant of the JobManager's machines is one that can be found broken."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from tests.unit.jobmanager.machines.cluster_kit import JOB, Cluster, checkpointed, two_stage
from tidegate.jobmanager.machines.checkpoint.coordinator import CheckpointCoordinator
from tidegate.jobmanager.machines.checkpoint.pending_checkpoint import PendingCheckpoint, PendingState
from tidegate.jobmanager.machines.checkpoint.requests import CheckpointRequests
from tidegate.jobmanager.machines.checkpoint.shared_state import SharedFile, SharedStateRegistry
from tidegate.jobmanager.machines.checkpoint.stop_with_savepoint import StopState
from tidegate.jobmanager.machines.checkpoint.trigger import CheckpointRequest
from tidegate.jobmanager.machines.command_buffer import CallKind, OpenCall
from tidegate.jobmanager.machines.job.job_master import JobMaster
from tidegate.jobmanager.machines.resources.slots import Slot, SlotState
from tidegate.jobmanager.machines.scheduling.execution import Execution
from tidegate.jobmanager.machines.scheduling.restart import make_restart_strategy
from tidegate.jobmanager.machines.scheduling.scheduler import Scheduler
from tidegate.jobmanager.machines.settings import job_settings
from tidegate.model.checkpoint import SnapshotType, SubtaskSnapshot
from tidegate.model.errors import ErrorInfo
from tidegate.model.ids import AllocationId, CheckpointId, TaskManagerId
from tidegate.model.states import ExecutionState, JobState

M = TypeVar("M")
TM = TaskManagerId("tm-1")


def broken(machine: M, **fields: Any) -> M:
    """The machine with a wrong value in some of its fields."""
    for name, value in fields.items():
        assert hasattr(machine, name), name
        object.__setattr__(machine, name, value)
    return machine


def job_of(cluster: Cluster) -> JobMaster:
    return cluster.machine._jobs[JOB]


def scheduler_of(cluster: Cluster) -> Scheduler:
    scheduler = job_of(cluster).scheduler
    assert isinstance(scheduler, Scheduler)
    return scheduler


def coordinator_of(cluster: Cluster) -> CheckpointCoordinator:
    return job_of(cluster).coordinator


def pending_of(cluster: Cluster) -> PendingCheckpoint:
    return next(iter(coordinator_of(cluster)._pending))


def execution_of(cluster: Cluster) -> Execution:
    return next(iter(job_of(cluster).executions))


def slot_of(cluster: Cluster) -> Slot:
    found = cluster.machine._resources.find(TM)
    assert found is not None
    return found.slots[0]


def request(number: int, *, is_periodic: bool = True) -> CheckpointRequest:
    return CheckpointRequest(SnapshotType.CHECKPOINT, number, number, is_periodic)


def registry(cluster: Cluster) -> SharedStateRegistry:
    found = coordinator_of(cluster).shared_files
    found.register(CheckpointId(1), ["a"])
    return found


def strategy(cluster: Cluster, **fields: Any) -> None:
    kind = fields.pop("kind")
    made = make_restart_strategy(job_settings({"restart-strategy.type": kind}).restart, cluster.machine._buffer.random)
    broken(job_of(cluster)._failover, _strategy=broken(made, **fields))


FAULT, NOBODY = ErrorInfo("internal", "internal", "broken"), AllocationId("9" * 32)
Break = Callable[[Cluster], object]
CASES: list[tuple[str, Break]] = [
    (
        "calls by TaskManager",
        lambda c: c.machine._buffer._calls.update({1: OpenCall(CallKind.FREE, TM)}),
    ),
    ("commands were left behind", lambda c: c.machine._buffer.log("INFO", "late")),
    ("the cancel 7 of", lambda c: c.machine._buffer._cancels.update({c.attempt("source"): 7})),
    (
        "registered, and cannot be called",
        lambda c: broken(c.machine._buffer, _connected=set(), _calls={}, _calls_of={}, _cancels={}),
    ),
    ("FREE with allocation", lambda c: broken(slot_of(c), state=SlotState.FREE)),
    ("slot 0 is ALLOCATED for no job", lambda c: broken(slot_of(c), job_id=None)),
    ("2 reports contradict slot 0", lambda c: broken(slot_of(c), contradictions=2)),
    ("are not where they are looked up", lambda c: broken(slot_of(c), allocation_id=NOBODY)),
    ("are empty", lambda c: c.machine._watermarks._groups.update({(JOB, "g"): {}})),
    ("states are counted as", lambda c: broken(execution_of(c), state=ExecutionState.DEPLOYING)),
    ("states of the job are counted as", lambda c: job_of(c).executions._counts.clear()),
    ("ends of data are counted as", lambda c: broken(execution_of(c), at_end_of_data=True)),
    ("addresses are counted as", lambda c: broken(execution_of(c), address=None)),
    ("those who leave are counted as", lambda c: broken(execution_of(c), may_finish=True)),
    ("and never entered that state", lambda c: broken(execution_of(c), state=ExecutionState.CANCELING)),
    ("RUNNING on None", lambda c: broken(execution_of(c), task_manager_id=None)),
    ("by place", lambda c: scheduler_of(c)._pool._by_slot.clear()),
    ("by TaskManager .*, by id", lambda c: scheduler_of(c)._pool._by_manager.clear()),
    (
        "are to restart, and nobody cancels",
        lambda c: job_of(c)._failover._affected.update({execution_of(c).subtask_id: None}),
    ),
    ("7 restarts of 1", lambda c: strategy(c, kind="fixed-delay", _attempts=7)),
    ("failures are out of order", lambda c: strategy(c, kind="failure-rate", _failures_ms=deque([2, 1]))),
    ("a backoff of -1", lambda c: strategy(c, kind="exponential-delay", _backoff_ms=-1)),
    ("3 attempts, none was begun", lambda c: strategy(c, kind="exponential-delay", _attempts=3)),
    ("RUNNING is not the newest of", lambda c: job_of(c).lifecycle.timestamps_ms.update({JobState.CREATED: 10**12})),
    ("stays CREATED", lambda c: broken(job_of(c).lifecycle, state=JobState.CREATED)),
    ("RUNNING, restart: True", lambda c: broken(job_of(c)._failover, _affected={over(c).subtask_id: None})),
    ("and some tasks live", lambda c: end(c)),
    ("and reported over", lambda c: broken(job_of(c), _is_reported_terminated=True)),
    (
        "waits for an attempt that acknowledged",
        lambda c: pending_of(c)._acknowledged.update(dict.fromkeys(c.attempts(), SubtaskSnapshot())),
    ),
    ("collects from others", lambda c: pending_of(c)._waiting.clear()),
    ("was triggered already", lambda c: located(c)),
    ("which is WRITING, waits for", lambda c: broken(pending_of(c), state=PendingState.WRITING)),
    ("1, next is 1", lambda c: broken(coordinator_of(c)._pending, _next_id=1)),
    ("is COMPLETED, and pending", lambda c: broken(pending_of(c), state=PendingState.COMPLETED)),
    ("0 wait for 2 directories", lambda c: broken(coordinator_of(c)._pending, _locating=2)),
    ("of 1 pending", lambda c: coordinator_of(c)._pending._pending.clear()),
    ("the scheduler is off", lambda c: broken(queued(c, request(1)), is_active=False)),
    ("requests wait out of order", lambda c: queued(c, request(2), request(1, is_periodic=False))),
    ("2 periodic requests wait", lambda c: queued(c, request(1), request(2))),
    ("1001 requests wait", lambda c: queued(c, *(request(n, is_periodic=False) for n in range(1001)))),
    ("removals were answered", lambda c: broken(coordinator_of(c)._retention._cleaner, _shared_open=-1)),
    (
        "remembers 257",
        lambda c: coordinator_of(c)._retention._cleaner._aborted.update(
            {CheckpointId(n): ("", "") for n in range(257)}
        ),
    ),
    ("2 failures are counted", lambda c: broken(coordinator_of(c)._failures, _count=2, _tolerable=1)),
    (r"\[5\] are 0 failures", lambda c: broken(coordinator_of(c)._failures, _counted_ids={5})),
    (
        r"failures of \[5\] count",
        lambda c: broken(coordinator_of(c)._failures, _tolerable=1, _count=1, _counted_ids={5}, _last_succeeded=6),
    ),
    ("users are counted as", lambda c: registry(c)._files.clear()),
    (
        "is used by 0, before 1",
        lambda c: registry(c)._files.update({"a": SharedFile(CheckpointId(1), CheckpointId(0), 1)}),
    ),
    ("are retired, and use nothing", lambda c: registry(c)._retired.add(CheckpointId(3))),
    ("and nobody asked for it", lambda c: broken(coordinator_of(c).stop, state=StopState.SAVEPOINT)),
    ("its path is not known", lambda c: broken(coordinator_of(c).stop, state=StopState.FINISHING, _request_id="r")),
    (
        "and tasks are to restart",
        lambda c: broken(coordinator_of(c).stop, state=StopState.SAVEPOINT, _request_id="r", _restart=FAULT),
    ),
    ("and the periodic timer runs", lambda c: broken(coordinator_of(c), _ended=JobState.FINISHED)),
    (r"checkpoints \[1\] can still be aborted", lambda c: ended(c)),
]


def located(cluster: Cluster) -> None:
    broken(pending_of(cluster), state=PendingState.LOCATING)
    broken(coordinator_of(cluster)._pending, _locating=1)


def queued(cluster: Cluster, *requests: CheckpointRequest) -> CheckpointRequests:
    found = coordinator_of(cluster)._requests
    broken(found._queue, _queue=list(requests))
    return found


def over(cluster: Cluster) -> Execution:
    execution = execution_of(cluster)
    job_of(cluster).executions.move(execution, ExecutionState.FINISHED, cluster.now_ms)
    return execution


def end(cluster: Cluster) -> None:
    lifecycle = job_of(cluster).lifecycle
    broken(lifecycle, state=JobState.FINISHED)
    lifecycle.timestamps_ms[JobState.FINISHED] = cluster.now_ms


def ended(cluster: Cluster) -> None:
    coordinator = coordinator_of(cluster)
    broken(coordinator._requests, is_active=False)
    broken(coordinator, _ended=JobState.FINISHED)


@pytest.mark.parametrize(("message", "break_it"), CASES, ids=[message for message, _ in CASES])
def test_a_broken_invariant_is_found(message: str, break_it: Break) -> None:
    cluster = checkpointed()
    cluster.machine.check_invariants()
    break_it(cluster)
    with pytest.raises(AssertionError, match=message):
        cluster.machine.check_invariants()


WAITING: list[tuple[str, Break]] = [
    ("some wait in two batches", lambda c: batches(c).update({9: batch(c)})),
    ("SCHEDULED are", lambda c: batches(c).clear()),
    ("has all of its slots, and is not deployed", lambda c: batch(c).unready.clear()),
    ("waits for slots of others", lambda c: batch(c).slots.clear()),
    ("RUNNING, and 1 tasks are over", lambda c: canceled(c)),
]


def batches(cluster: Cluster) -> Any:
    return scheduler_of(cluster)._batches


def batch(cluster: Cluster) -> Any:
    return next(iter(batches(cluster).values()))


def canceled(cluster: Cluster) -> None:
    execution = execution_of(cluster)
    job_of(cluster).scheduler.unschedule(execution.subtask_id)
    job_of(cluster).executions.move(execution, ExecutionState.CANCELED, cluster.now_ms)


@pytest.mark.parametrize(("message", "break_it"), WAITING, ids=[message for message, _ in WAITING])
def test_one_of_a_job_that_waits_for_slots_is_found(message: str, break_it: Break) -> None:
    cluster = Cluster()
    cluster.submit(two_stage())
    cluster.machine.check_invariants()
    break_it(cluster)
    with pytest.raises(AssertionError, match=message):
        cluster.machine.check_invariants()


def test_one_of_the_kept_checkpoints_is_found() -> None:
    cluster = checkpointed()
    for attempt in cluster.attempts():
        cluster.acknowledge(attempt, 1)
    store = coordinator_of(cluster)._retention._store
    (kept,) = store.all
    broken(store, _checkpoints=[kept, kept])
    with pytest.raises(AssertionError, match="1 are retained"):
        cluster.machine.check_invariants()
    broken(store, _num_retained=2)
    with pytest.raises(AssertionError, match="completed checkpoints are out of order"):
        cluster.machine.check_invariants()
