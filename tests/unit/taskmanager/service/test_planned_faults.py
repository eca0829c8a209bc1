"""Faults on purpose: what is lost, when a process dies, how late data comes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tidegate.model.errors import ConfigurationError
from tidegate.pb import common_pb2, taskmanager_pb2
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.pb.common_pb2 import ProducerAddress
from tidegate.taskmanager.service.planned_faults import Delays, PlannedFaults


def acknowledging(*ids: int) -> pb.AcknowledgeCheckpointRequest:
    return pb.AcknowledgeCheckpointRequest(
        generation="g",
        acknowledgements=[common_pb2.Acknowledgement(attempt="a", checkpoint_id=number) for number in ids],
    )


def test_acknowledgements_that_are_lost() -> None:
    told: list[Any] = []
    tell = PlannedFaults.of(["drop-acknowledgement@2"]).around(lambda method, request: told.append(request))
    tell("AcknowledgeCheckpoint", acknowledging(1))
    tell("AcknowledgeCheckpoint", acknowledging(2))
    tell("AcknowledgeCheckpoint", acknowledging(2, 3))
    tell("EndOfData", pb.EndOfDataRequest(attempt="a"))
    assert [[one.checkpoint_id for one in request.acknowledgements] for request in told[:-1]] == [[1], [3]]
    assert isinstance(told[-1], pb.EndOfDataRequest)


def test_death_at_a_barrier_comes_before_its_acknowledgement() -> None:
    class Died(BaseException):
        pass

    def die() -> None:
        raise Died

    told: list[Any] = []
    tell = PlannedFaults.of(["kill@3"]).around(lambda method, request: told.append(request), die)
    tell("AcknowledgeCheckpoint", acknowledging(2))
    with pytest.raises(Died):
        tell("AcknowledgeCheckpoint", acknowledging(3))
    assert len(told) == 1


def test_nothing_stands_in_the_way_without_faults() -> None:
    def tell(method: str, request: Any) -> None: ...

    assert PlannedFaults.of([]).around(tell) is tell


@pytest.mark.parametrize("text", ["kill", "kill@x", "explode@1", "delay-edge:soon"])
def test_a_fault_that_is_none(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"tidegate\.testing\.faults"):
        PlannedFaults.of([text])


async def test_a_proxy_passes_everything_on_in_order_and_later() -> None:
    sent = [bytes([number]) * 1000 for number in range(50)]

    async def produce(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(4) == b"pull"
        for chunk in sent:
            writer.write(chunk)
        writer.close()

    producer = await asyncio.start_server(produce, "127.0.0.1", 0)
    address = f"127.0.0.1:{producer.sockets[0].getsockname()[1]}"
    delays = Delays(PlannedFaults.of(["delay-edge:30ms"]).delay_ms)
    request = taskmanager_pb2.ConnectTaskRequest(producers=[ProducerAddress(attempt="a", address=address)])
    await delays.through(request)
    assert request.producers[0].address != address
    host, _, port = request.producers[0].address.rpartition(":")
    asked_at = asyncio.get_running_loop().time()
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"pull")
    assert await reader.read() == b"".join(sent)
    assert asyncio.get_running_loop().time() - asked_at >= 0.03, "a delay is a lower bound"
    writer.close()
    delays.close()
    producer.close()


async def test_without_a_delay_the_producers_stay() -> None:
    request = taskmanager_pb2.ConnectTaskRequest(producers=[ProducerAddress(attempt="a", address="unix:/x")])
    await Delays(0).through(request)
    assert request.producers[0].address == "unix:/x"
