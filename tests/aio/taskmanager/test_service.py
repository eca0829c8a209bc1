"""The TaskManager's service over real gRPC: what the JobManager sees, and what a subtask sees."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.aio.taskmanager.fake_job_manager import VERSION_MISMATCH, FakeJobManager, slot_request
from tests.aio.taskmanager.processless import Processless, processless
from tidegate.aio.rpc import open_channel
from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import (
    Acknowledgement,
    CheckpointMetrics,
    CheckpointOptions,
    DeclineReason,
    SnapshotType,
    SubtaskSnapshot,
)
from tidegate.model.coordinators.operator_events import (
    AddSplits,
    NoMoreSplits,
    OperatorEvent,
    RequestSplit,
    SourceSplit,
)
from tidegate.model.deployment import ProducerAddress, TaskDeployment
from tidegate.model.errors import ErrorInfo, ExternalError, Fenced, InternalError, Unreachable
from tidegate.model.ids import AllocationId, BlobKey, CheckpointId, Generation, OperatorId, parse_attempt_id
from tidegate.model.states import ExecutionState
from tidegate.pb import common_pb2, jobmanager_pb2, taskmanager_pb2
from tidegate.pb.taskmanager_pb2_grpc import TaskManagerInspectionStub
from tidegate.taskmanager.runtime.ports import (
    CancelTask,
    ConfirmCheckpoint,
    ConnectInputs,
    ControlLost,
    OperatorEventArrived,
    TaskMetrics,
)
from tidegate.taskmanager.service.jobmanager.connection import RegistrationTimes
from tidegate.wire.convert import deployment_to_bytes, options_to_pb, producer_to_pb
from tidegate.wire.convert_events import operator_event_from_pb, operator_event_to_pb

JOB, VERTEX = "a" * 32, "b" * 32
ALLOCATION = "1" * 32
ATTEMPT = f"{JOB}_{VERTEX}_0_0"
OPTIONS = CheckpointOptions("file:///tmp/chk-1")


@pytest.fixture
async def fake() -> AsyncIterator[FakeJobManager]:
    job_manager = FakeJobManager()
    await job_manager.start()
    yield job_manager
    await job_manager.stop()


@pytest.fixture
async def manager(fake: FakeJobManager, tmp_path: Path) -> AsyncIterator[Processless]:
    async with processless(fake, tmp_path) as found:
        await fake.wait_for(lambda: fake.beats)
        yield found
        assert not found.fatal


def deployment(generation: str, attempt: str = ATTEMPT) -> TaskDeployment:
    parsed = parse_attempt_id(attempt)
    return TaskDeployment(
        parsed, Generation(generation), AllocationId(ALLOCATION), "job", "map", 2, 128, BlobKey("f" * 64)
    )


async def submit(fake: FakeJobManager, attempt: str = ATTEMPT) -> None:
    """Two subtasks share the slot, if both are submitted."""
    stub = fake.task_manager()
    answer = await stub.AllocateSlot(slot_request(JOB, ALLOCATION, 0, fake.generation))
    assert not answer.HasField("error"), answer.error
    message = deployment_to_bytes(deployment(fake.generation, attempt))
    answer = await stub.SubmitTask(taskmanager_pb2.SubmitTaskRequest(generation=fake.generation, deployment=message))
    assert not answer.HasField("error"), answer.error


async def in_thread(call: Callable[[], Any]) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, call)


async def mails_of(mails: list[Any], arrived: Any, count: int) -> list[Any]:
    def wait() -> None:
        with arrived:
            assert arrived.wait_for(lambda: len(mails) >= count, 10), mails

    await in_thread(wait)
    return mails


async def test_a_task_manager_tells_who_it_is_and_reports_its_slots(fake: FakeJobManager, manager: Processless) -> None:
    (request,) = fake.registrations
    assert request.address == manager.address
    assert [(slot.slot_index, slot.allocation_id) for slot in request.slots] == [(0, ""), (1, "")]
    await fake.task_manager().AllocateSlot(slot_request(JOB, ALLOCATION, 1, "g1"))
    await fake.wait_for(lambda: fake.beats[-1].slots[1].allocation_id == ALLOCATION)
    assert fake.beats[-1].slots[1].job_id == JOB


async def test_mails_reach_the_subtask_in_order(fake: FakeJobManager, manager: Processless) -> None:
    await submit(fake)
    stream, mails, arrived = manager.dial(ATTEMPT)
    assert await in_thread(stream.attach) == deployment("g1")
    stub = fake.task_manager()
    producer = ProducerAddress(parse_attempt_id(f"{JOB}_{VERTEX}_1_0"), "unix:/s/1")
    await stub.ConnectTask(
        taskmanager_pb2.ConnectTaskRequest(generation="g1", attempt=ATTEMPT, producers=[producer_to_pb(producer)])
    )
    await stub.TriggerCheckpoint(
        taskmanager_pb2.TriggerCheckpointRequest(
            generation="g1",
            job_id=JOB,
            attempts=[ATTEMPT],
            checkpoint_id=7,
            timestamp_ms=3,
            options=options_to_pb(OPTIONS),
        )
    )
    await stub.ConfirmCheckpoint(
        taskmanager_pb2.ConfirmCheckpointRequest(
            generation="g1", job_id=JOB, attempts=[ATTEMPT], checkpoint_id=7, may_finish=[ATTEMPT]
        )
    )
    assert await mails_of(mails, arrived, 3) == [
        ConnectInputs((producer,)),
        Barrier(7, 3, OPTIONS),
        ConfirmCheckpoint(7, may_finish=True),
    ]
    stream.state_changed(ExecutionState.CANCELED)
    await in_thread(stream.close)
    manager.subtasks.started[ATTEMPT].end()


async def test_a_task_lives_from_submission_to_its_last_word(fake: FakeJobManager, manager: Processless) -> None:
    await submit(fake)
    stream, _, _ = manager.dial(ATTEMPT)
    await in_thread(stream.attach)
    stream.listening("unix:/s/0")
    stream.state_changed(ExecutionState.INITIALIZING)
    stream.state_changed(ExecutionState.RUNNING)
    acknowledged = Acknowledgement(parse_attempt_id(ATTEMPT), CheckpointId(7), SubtaskSnapshot(), CheckpointMetrics())
    stream.acknowledge(acknowledged)
    stream.decline(8, DeclineReason.TASK_CLOSING, None)
    stream.end_of_data()
    stream.metrics(TaskMetrics(records_in=12))
    await fake.wait_for(lambda: fake.beats[-1].metrics.get(ATTEMPT, common_pb2.TaskMetrics()).records_in == 12)
    stream.print("hello\n")
    stream.print("1> 7\n", is_bare=True)
    stream.state_changed(ExecutionState.FINISHED)
    await in_thread(stream.close)
    assert manager.printed == [("map (1/2)#0", "hello\n", False), ("", "1> 7\n", False)]
    assert "FINISHED" not in fake.states(ATTEMPT), "told before the process was gone"
    manager.subtasks.started[ATTEMPT].end()
    await fake.wait_for(lambda: "FINISHED" in fake.states(ATTEMPT))
    assert [type(told).__name__ for told in fake.sent] == [
        "UpdateTaskStateRequest",
        "UpdateTaskStateRequest",
        "AcknowledgeCheckpointRequest",
        "DeclineCheckpointRequest",
        "EndOfDataRequest",
        "UpdateTaskStateRequest",
    ]
    assert fake.sent[0].data_address == "unix:/s/0"
    assert not fake.sent[1].HasField("metrics")
    assert fake.sent[-1].metrics.records_in == 12, "the last figures come with the last word"
    assert manager.subtasks.removed == [parse_attempt_id(ATTEMPT)]


async def test_a_subtask_tells_its_threads_whatever_it_is_doing(fake: FakeJobManager, manager: Processless) -> None:
    """Its mailbox is not asked: the thread that reads the control stream answers."""
    await submit(fake)
    stream, mails, _ = manager.dial(ATTEMPT)
    await in_thread(stream.attach)
    async with open_channel(manager.address) as channel:
        inspection = TaskManagerInspectionStub(channel)
        dump = await inspection.DumpThreads(taskmanager_pb2.DumpThreadsRequest(wait_ms=5_000))
    names = [thread.name for thread in dump.threads]
    assert "map (1/2)#0 control stream" in names
    assert "MainThread" in names
    assert mails == []
    stream.state_changed(ExecutionState.FINISHED)
    await in_thread(stream.close)


async def test_a_process_that_goes_away_is_failed_when_its_spark_job_returned(
    fake: FakeJobManager, manager: Processless
) -> None:
    await submit(fake)
    stream, _, _ = manager.dial(ATTEMPT)
    await in_thread(stream.attach)
    manager.subtasks.ends_when_killed = False
    stream._is_ending = True  # this thread of ours is to outlive the loss of its stream
    stream._socket.shutdown(socket.SHUT_RDWR)
    await in_thread(stream.close)
    await asyncio.wait_for(manager.subtasks.started[ATTEMPT].killed.wait(), 10)
    assert not fake.states(ATTEMPT)
    manager.subtasks.started[ATTEMPT].end()
    await fake.wait_for(lambda: fake.states(ATTEMPT) == ["FAILED"])
    assert fake.last_update(ATTEMPT).error.code == "subtask-lost"


async def test_cancelling_asks_first_and_then_uses_force(fake: FakeJobManager, manager: Processless) -> None:
    await submit(fake)
    stream, mails, arrived = manager.dial(ATTEMPT)
    await in_thread(stream.attach)
    stream._is_ending = True  # it does not listen
    await fake.task_manager().CancelTask(taskmanager_pb2.CancelTaskRequest(generation="g1", attempt=ATTEMPT))
    assert await mails_of(mails, arrived, 1) == [CancelTask()]
    await asyncio.wait_for(manager.subtasks.started[ATTEMPT].killed.wait(), 10)
    await fake.wait_for(lambda: fake.states(ATTEMPT) == ["CANCELED"])
    await in_thread(stream.close)


async def test_a_freed_slot_fails_its_task_and_is_told_after_it(fake: FakeJobManager, manager: Processless) -> None:
    await submit(fake)
    await fake.task_manager().FreeSlot(
        taskmanager_pb2.FreeSlotRequest(generation="g1", allocation_id=ALLOCATION, reason="no longer needed")
    )
    await fake.wait_for(lambda: fake.of(jobmanager_pb2.SlotFreedRequest))
    assert [type(told).__name__ for told in fake.sent] == ["UpdateTaskStateRequest", "SlotFreedRequest"]
    assert "no longer needed" in fake.last_update(ATTEMPT).error.message
    assert manager.subtasks.released == [ALLOCATION]


async def test_only_the_process_that_was_started_may_attach_and_only_once(
    fake: FakeJobManager, manager: Processless
) -> None:
    await submit(fake)
    wrong, _, _ = manager.dial(ATTEMPT, "a guess")
    with pytest.raises(Fenced, match="wrong token"):
        await in_thread(wrong.attach)
    right, _, _ = manager.dial(ATTEMPT)
    await in_thread(right.attach)
    again, _, _ = manager.dial(ATTEMPT)
    with pytest.raises(Fenced, match="had its control stream"):
        await in_thread(again.attach)
    right.state_changed(ExecutionState.RUNNING)
    await fake.wait_for(lambda: fake.states(ATTEMPT) == ["RUNNING"])
    right.state_changed(ExecutionState.CANCELED)
    for stream in (wrong, right, again):
        await in_thread(stream.close)
    manager.subtasks.started[ATTEMPT].end()


async def test_requests_that_do_not_fit_are_answered_with_errors(fake: FakeJobManager, manager: Processless) -> None:
    stub = fake.task_manager()
    trigger = taskmanager_pb2.TriggerCheckpointRequest(
        generation="g1", job_id=JOB, attempts=[ATTEMPT], checkpoint_id=1, options=options_to_pb(OPTIONS)
    )
    answer = await stub.TriggerCheckpoint(trigger)
    assert answer.attempts[ATTEMPT].code == "unknown-attempt"
    trigger.generation = "old"
    assert (await stub.TriggerCheckpoint(trigger)).error.code == "fenced"
    assert (await stub.AllocateSlot(slot_request(JOB, ALLOCATION, 0, "old"))).error.code == "fenced"
    assert (await stub.AllocateSlot(slot_request(JOB, ALLOCATION, 9, "g1"))).error.code == "no-resource-available"
    trigger.advance_to_end_of_event_time = True
    assert "only a synchronous savepoint" in (await stub.TriggerCheckpoint(trigger)).error.message
    stop = dataclasses.replace(OPTIONS, snapshot_type=SnapshotType.TERMINATE)
    trigger.options.CopyFrom(options_to_pb(stop))
    trigger.generation = "g1"
    assert not (await stub.TriggerCheckpoint(trigger)).HasField("error")
    message = deployment_to_bytes(deployment("g1"))
    answer = await stub.SubmitTask(taskmanager_pb2.SubmitTaskRequest(generation="g1", deployment=message))
    assert "no slot here is allocated" in answer.error.message
    answer = await stub.SubmitTask(taskmanager_pb2.SubmitTaskRequest(generation="g1", deployment=b"\xff"))
    assert "a control message of 1 bytes cannot be read as a TaskDeployment" in answer.error.message


async def test_an_update_that_the_job_manager_refuses_stops_the_task(
    fake: FakeJobManager, manager: Processless
) -> None:
    fake.reject_updates = True
    await submit(fake)
    stream, mails, arrived = manager.dial(ATTEMPT)
    await in_thread(stream.attach)
    stream.state_changed(ExecutionState.RUNNING)
    assert await mails_of(mails, arrived, 1) == [CancelTask()]
    stream.state_changed(ExecutionState.CANCELED)
    await in_thread(stream.close)
    manager.subtasks.started[ATTEMPT].end()
    await fake.wait_for(lambda: not fake.beats[-1].attempts)
    assert fake.states(ATTEMPT) == ["RUNNING"]


async def test_the_loss_of_the_job_manager_stops_everything_and_begins_anew(
    fake: FakeJobManager, manager: Processless
) -> None:
    await submit(fake)
    stream, mails, arrived = manager.dial(ATTEMPT)
    await in_thread(stream.attach)
    stream._is_ending = True
    await fake.stop()
    assert await mails_of(mails, arrived, 1) == [CancelTask()]
    await asyncio.wait_for(manager.subtasks.started[ATTEMPT].killed.wait(), 10)
    successor = FakeJobManager("g2")
    await successor.start(fake.port)
    try:
        await successor.wait_for(lambda: successor.beats)
        assert not successor.sent
        assert [slot.allocation_id for slot in successor.registrations[-1].slots] == ["", ""]
    finally:
        await in_thread(stream.close)
        await successor.stop()


async def test_a_silent_job_manager_is_lost(tmp_path: Path) -> None:
    fake = FakeJobManager(heartbeat_timeout_ms=200)
    fake.is_silent = True
    await fake.start()
    async with processless(fake, tmp_path):
        await fake.wait_for(lambda: len(fake.registrations) >= 2)
    await fake.stop()


async def test_a_refused_registration_is_tried_again(fake: FakeJobManager, tmp_path: Path) -> None:
    fake.refuse = [ErrorInfo.of(InternalError("not a leader yet"))] * 2
    async with processless(fake, tmp_path) as manager:
        await fake.wait_for(lambda: fake.beats)
        assert len(fake.registrations) == 3
        assert not manager.fatal


async def test_another_version_is_fatal(fake: FakeJobManager, tmp_path: Path) -> None:
    fake.refuse = [VERSION_MISMATCH]
    async with processless(fake, tmp_path) as manager:
        await asyncio.wait_for(manager.failed.wait(), 10)
        assert "tidegate 9" in str(manager.fatal[0])


async def test_registration_gives_up_after_its_timeout(tmp_path: Path) -> None:
    nobody = FakeJobManager()
    port = await nobody.start()
    await nobody.stop()
    async with processless(nobody, tmp_path, times=RegistrationTimes(10, 20, 20, 20, 300), port=port) as manager:
        await asyncio.wait_for(manager.failed.wait(), 10)
        assert isinstance(manager.fatal[0], ExternalError)
        assert "did not register this TaskManager within 0.3 s (taskmanager.registration.timeout)" in str(
            manager.fatal[0]
        )


async def test_a_subtask_without_its_task_manager_gets_control_lost(
    fake: FakeJobManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[float] = []
    monkeypatch.setattr("tidegate.taskmanager.spark.control_stream.end_process_after", ended.append)
    async with processless(fake, tmp_path) as manager:
        await fake.wait_for(lambda: fake.beats)
        await submit(fake)
        stream, mails, arrived = manager.dial(ATTEMPT)
        await in_thread(stream.attach)
    while ControlLost() not in mails:  # a cancellation may come before it
        await mails_of(mails, arrived, len(mails) + 1)
    assert ended == [2.0]
    await in_thread(stream.close)
    lonely, _, _ = manager.dial(ATTEMPT)
    with pytest.raises(Unreachable):
        await in_thread(lonely.attach)
    await in_thread(lonely.close)


async def test_events_of_a_coordinator_go_both_ways_and_one_that_comes_again_is_dropped(
    fake: FakeJobManager, manager: Processless
) -> None:
    await submit(fake)
    stream, mails, arrived = manager.dial(ATTEMPT)
    await in_thread(stream.attach)
    operator = OperatorId("c" * 32)
    request = OperatorEvent(operator, 1, RequestSplit())
    stream.operator_event(request)
    (told,) = await fake.wait_for(lambda: fake.of(common_pb2.OperatorEventRequest))
    assert (told.generation, told.attempt) == ("g1", ATTEMPT)
    assert operator_event_from_pb(told.event) == request
    answers = [
        OperatorEvent(operator, 1, AddSplits((SourceSplit("a@0", b"\x01", 9),))),
        OperatorEvent(operator, 2, NoMoreSplits()),
    ]
    for event in (answers[0], *answers):
        sent = await fake.task_manager().SendOperatorEvent(
            common_pb2.OperatorEventRequest(generation="g1", attempt=ATTEMPT, event=operator_event_to_pb(event))
        )
        assert not sent.HasField("error")
    assert await mails_of(mails, arrived, 2) == [OperatorEventArrived(event) for event in answers]
    stream.state_changed(ExecutionState.CANCELED)
    await in_thread(stream.close)
    manager.subtasks.started[ATTEMPT].end()
