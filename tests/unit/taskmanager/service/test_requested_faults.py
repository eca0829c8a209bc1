"""Faults that a TaskManager is asked for while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
from functools import partial
from typing import Any

import pytest

from tidegate.model.errors import Misuse
from tidegate.model.ids import AllocationId, AttemptId, JobId, VertexId
from tidegate.pb import common_pb2
from tidegate.pb import jobmanager_pb2 as jm
from tidegate.pb import taskmanager_pb2 as pb
from tidegate.pb.common_pb2 import ProducerAddress
from tidegate.pb.subtask_pb2 import ToSubtask
from tidegate.taskmanager.service.planned_faults import Delays
from tidegate.taskmanager.service.requested_faults import FaultInjection, FaultServicer, SlowMessages

ATTEMPT = AttemptId(JobId("a" * 32), VertexId("1" * 32), 0, 0)
OTHER = AttemptId(JobId("a" * 32), VertexId("2" * 32), 0, 0)


class Service:
    def __init__(self, *, has_executors: bool = False, allows_faults: bool = True) -> None:
        self.told: asyncio.Queue[Any] = asyncio.Queue()
        self.killed: asyncio.Queue[int] = asyncio.Queue()
        self.here = FaultInjection([], lambda method, request: self.told.put_nowait(request))
        self.sent: list[tuple[AttemptId, common_pb2.SubtaskFault]] = []
        self.attached = {ATTEMPT, OTHER}
        self.service = FaultServicer(
            lambda: {AllocationId("x"): {ATTEMPT: 77}},
            lambda: {one: partial(self._send, one) for one in self.attached},
            self.here,
            lambda: allows_faults,
            has_executors=has_executors,
            kill=self.killed.put_nowait,
        )

    def _send(self, attempt: AttemptId, message: ToSubtask) -> None:
        self.sent.append((attempt, message.fault))

    async def ask(self, **fault: Any) -> str:
        answer = await self.service.InjectFault(pb.InjectFaultRequest(**fault), None)
        return answer.error.message if answer.HasField("error") else ""


def acknowledging(*ids: int) -> jm.AcknowledgeCheckpointRequest:
    return jm.AcknowledgeCheckpointRequest(
        acknowledgements=[common_pb2.Acknowledgement(attempt="a", checkpoint_id=number) for number in ids]
    )


@pytest.mark.parametrize(
    "fault",
    [{"kill_subtask": str(ATTEMPT)}, {"kill_task_manager": True}, {"drop_acknowledgements": 1}, {"cut_channels": True}],
)
async def test_without_leave_of_the_jobmanager_nothing_is_done(fault: dict[str, Any]) -> None:
    service = Service(allows_faults=False)
    assert "--allow-faults" in await service.ask(**fault)
    await asyncio.sleep(0)
    assert service.killed.empty()
    assert service.sent == []


async def test_a_subtask_is_killed_by_its_process_and_one_without_is_refused() -> None:
    service = Service()
    assert await service.ask(kill_subtask=str(ATTEMPT)) == ""
    assert service.killed.get_nowait() == 77
    other = AttemptId(ATTEMPT.job_id, ATTEMPT.vertex_id, 1, 0)
    assert "has no process" in await service.ask(kill_subtask=str(other))
    assert "'x'" in await service.ask(kill_subtask="x")
    assert "does not know this kind of fault" in await service.ask()


async def test_what_subtasks_do_to_themselves_reaches_all_of_them() -> None:
    service, fault = Service(), common_pb2.SubtaskFault(slow_state_ms=500, for_ms=1_000)
    assert await service.ask(of_subtasks=fault) == ""
    assert {(attempt, sent.slow_state_ms, sent.for_ms) for attempt, sent in service.sent} == {
        (ATTEMPT, 500, 1_000),
        (OTHER, 500, 1_000),
    }
    service.attached = set()
    assert "no subtask runs on this TaskManager" in await service.ask(of_subtasks=fault)


async def test_an_executor_is_killed_by_the_subtask_in_it_and_there_is_none_without_a_cluster_of_spark() -> None:
    service = Service(has_executors=True)
    assert await service.ask(kill_executor=str(ATTEMPT)) == ""
    assert [(attempt, sent.kill_executor) for attempt, sent in service.sent] == [(ATTEMPT, True)]
    service.attached = {OTHER}
    assert "has no process now" in await service.ask(kill_executor=str(ATTEMPT))
    assert "kill-taskmanager ends it and them" in await Service().ask(kill_executor=str(ATTEMPT))


async def test_a_taskmanager_answers_before_it_is_killed() -> None:
    service = Service()
    assert await service.ask(kill_task_manager=True) == ""
    assert service.killed.empty()
    assert await service.killed.get() == os.getpid()


async def test_messages_are_late_for_a_while_and_keep_their_order() -> None:
    service = Service()
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await service.ask(delay_messages=pb.InjectFaultRequest.Lag(delay_ms=20, for_ms=60_000))
    for number in range(5):
        service.here.tell("EndOfData", jm.EndOfDataRequest(attempt=str(number)))
    service.here.messages.delay(0, 0)
    service.here.tell("EndOfData", jm.EndOfDataRequest(attempt="5"))
    assert service.told.empty(), "the last one waits for those before it"
    told = [(await service.told.get()).attempt for _ in range(6)]
    assert loop.time() - began_s >= 0.02, "a delay is a lower bound"
    assert told == list("012345")


async def test_acknowledgements_of_the_next_checkpoints_are_lost() -> None:
    told: list[Any] = []
    messages = SlowMessages(lambda method, request: told.append(request))
    messages.drop_acknowledgements(2)
    for ids in ((3,), (4, 3), (4, 5), (5,)):
        messages.tell("AcknowledgeCheckpoint", acknowledging(*ids))
    assert [[one.checkpoint_id for one in request.acknowledgements] for request in told] == [[5], [5]]


async def test_channels_are_slowed_and_cut_where_somebody_stands_by() -> None:
    async def produce(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while byte := await reader.read(1):
            writer.write(byte)
        writer.close()
        ended.set()

    ended = asyncio.Event()
    producer = await asyncio.start_server(produce, "127.0.0.1", 0)
    address = f"127.0.0.1:{producer.sockets[0].getsockname()[1]}"
    service = Service()
    lag = pb.InjectFaultRequest.Lag(delay_ms=30, for_ms=60_000)
    assert "reads from another subtask now" in await service.ask(delay_channels=lag)
    service.here.delays.stand_by()
    request = pb.ConnectTaskRequest(producers=[ProducerAddress(attempt="a", address=address)])
    await service.here.delays.through(request)
    host, _, port = request.producers[0].address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"x")
    assert await reader.read(1) == b"x"
    assert await service.ask(delay_channels=lag) == ""
    asked_s = asyncio.get_running_loop().time()
    writer.write(b"y")
    assert await reader.read(1) == b"y"
    assert asyncio.get_running_loop().time() - asked_s >= 0.03, "a delay is a lower bound"
    assert await service.ask(cut_channels=True) == ""
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read(1) == b""
    await ended.wait()
    writer.close()
    service.here.delays.close()
    producer.close()
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
    with pytest.raises(Misuse, match="reads from another subtask now"):
        service.here.delays.cut()


async def test_nothing_stands_by_unless_a_job_comes_from_a_jobmanager_that_allows_it() -> None:
    request = pb.ConnectTaskRequest(producers=[ProducerAddress(attempt="a", address="unix:/x")])
    await Delays(0).through(request)
    assert request.producers[0].address == "unix:/x"
