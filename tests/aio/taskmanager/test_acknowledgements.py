"""How acknowledgements and other reports reach the JobManager: which of them travel together, and behind what."""

from __future__ import annotations

from typing import Any

import pytest

from tests.aio.taskmanager.fake_job_manager import FakeJobManager
from tests.aio.taskmanager.processless import Processless
from tests.aio.taskmanager.test_service import ATTEMPT, JOB, VERTEX, in_thread, submit
from tests.aio.taskmanager.test_service import fake as fake
from tests.aio.taskmanager.test_service import manager as manager
from tidegate.model.checkpoint import Acknowledgement, CheckpointMetrics, SubtaskSnapshot
from tidegate.model.ids import CheckpointId, parse_attempt_id
from tidegate.model.states import ExecutionState
from tidegate.pb import common_pb2, jobmanager_pb2
from tidegate.taskmanager.runtime.ports import TaskMetrics
from tidegate.taskmanager.service.jobmanager import ack_batcher as gathering
from tidegate.taskmanager.spark.control_stream import ControlStream


def acknowledge(stream: ControlStream, name: str, checkpoint_id: int) -> None:
    attempt = parse_attempt_id(name)
    stream.acknowledge(Acknowledgement(attempt, CheckpointId(checkpoint_id), SubtaskSnapshot(), CheckpointMetrics()))


async def test_acknowledgements_that_wait_for_the_job_manager_leave_as_one_message(
    fake: FakeJobManager, manager: Processless
) -> None:
    await submit(fake)
    stream, _, _ = manager.dial(ATTEMPT)
    await in_thread(stream.attach)
    fake.takes_acknowledgements.clear()

    def acknowledged() -> list[list[int]]:
        requests = fake.of(jobmanager_pb2.AcknowledgeCheckpointRequest)
        return [[one.checkpoint_id for one in request.acknowledgements] for request in requests]

    acknowledge(stream, ATTEMPT, 1)
    await fake.wait_for(lambda: acknowledged() == [[1]])
    for checkpoint_id in (2, 3):
        acknowledge(stream, ATTEMPT, checkpoint_id)
    stream.metrics(TaskMetrics(records_in=1))  # behind them on the same stream: when it is here, so are they
    await fake.wait_for(lambda: fake.beats[-1].metrics.get(ATTEMPT, common_pb2.TaskMetrics()).records_in == 1)
    acknowledge(stream, ATTEMPT, 4)
    stream.end_of_data()
    acknowledge(stream, ATTEMPT, 5)
    stream.metrics(TaskMetrics(records_in=2))
    await fake.wait_for(lambda: fake.beats[-1].metrics.get(ATTEMPT, common_pb2.TaskMetrics()).records_in == 2)
    fake.takes_acknowledgements.set()
    await fake.wait_for(lambda: len(fake.sent) >= 4)
    assert acknowledged() == [[1], [2, 3, 4], [5]]
    kinds = [type(told).__name__.removesuffix("Request") for told in fake.sent]
    assert kinds == ["AcknowledgeCheckpoint", "AcknowledgeCheckpoint", "EndOfData", "AcknowledgeCheckpoint"]
    stream.state_changed(ExecutionState.CANCELED)
    await in_thread(stream.close)
    manager.subtasks.started[ATTEMPT].end()


async def test_subtasks_of_a_job_acknowledge_in_one_message_and_nothing_overtakes_it(
    fake: FakeJobManager, manager: Processless, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "HOLD_S", 60.0)  # what leaves sooner has another reason
    names = (ATTEMPT, f"{JOB}_{VERTEX}_1_0")
    streams = []
    for name in names:
        await submit(fake, name)
        stream, _, _ = manager.dial(name)
        await in_thread(stream.attach)
        streams.append(stream)

    def told() -> list[Any]:
        return [
            [(one.attempt, one.checkpoint_id) for one in request.acknowledgements]
            if isinstance(request, jobmanager_pb2.AcknowledgeCheckpointRequest)
            else request.attempt
            for request in fake.sent
        ]

    acknowledge(streams[0], names[0], 1)
    acknowledge(streams[1], names[1], 1)
    await fake.wait_for(lambda: [sorted(one) for one in told()] == [[(names[0], 1), (names[1], 1)]])
    acknowledge(streams[0], names[0], 2)
    streams[0].end_of_data()
    await fake.wait_for(lambda: told()[1:] == [[(names[0], 2)], names[0]])
    acknowledge(streams[1], names[1], 2)  # the last of its checkpoint, though the other one is not kept any more
    await fake.wait_for(lambda: told()[3:] == [[(names[1], 2)]])
    for name, stream in zip(names, streams, strict=True):
        stream.state_changed(ExecutionState.CANCELED)
        await in_thread(stream.close)
        manager.subtasks.started[name].end()


async def test_an_attempt_is_in_heartbeats_until_the_jobmanager_knows_how_it_ended(
    fake: FakeJobManager, manager: Processless
) -> None:
    """A report that is slow is overtaken by heartbeats, and an attempt that is missing in two of them counts as lost."""
    await submit(fake)
    stream, _, _ = manager.dial(ATTEMPT)
    await in_thread(stream.attach)
    fake.takes_updates.clear()
    stream.state_changed(ExecutionState.FINISHED)
    await in_thread(stream.close)
    manager.subtasks.started[ATTEMPT].end()
    await fake.wait_for(lambda: "FINISHED" in fake.states(ATTEMPT))
    seen = len(fake.beats)
    await fake.wait_for(lambda: len(fake.beats) > seen + 2)
    assert [list(beat.attempts) for beat in fake.beats[seen:]] == [[ATTEMPT]] * len(fake.beats[seen:])
    fake.takes_updates.set()
    await fake.wait_for(lambda: not fake.beats[-1].attempts)
