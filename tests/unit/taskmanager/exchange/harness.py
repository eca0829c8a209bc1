"""Endpoints with real sockets in one process, and waiting for conditions instead of sleeping."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidegate.model.channel_events import ChannelEvent
from tidegate.model.deployment import InputDeployment, OutputDeployment, ProducerAddress
from tidegate.model.graph import Partitioner
from tidegate.model.ids import AttemptId, JobId, VertexId
from tidegate.model.program import KeySpec, OutputSpec
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.exchange.data_server import OnTaskEvent, nobody_listens
from tidegate.taskmanager.exchange.endpoint import DataEndpoint
from tidegate.taskmanager.exchange.exchange_settings import ExchangeSettings
from tidegate.taskmanager.exchange.input_gate import ChannelInputGate
from tidegate.taskmanager.exchange.io_loop import IoLoop, OpenLoop
from tidegate.taskmanager.exchange.ports import RecordingEnded
from tidegate.taskmanager.exchange.result_partition import PipelinedResultPartition

JOB = JobId("0" * 31 + "1")
SOURCE, SINK = VertexId("a" * 32), VertexId("b" * 32)
TOKEN = "secret"
EDGE = 3
PATIENCE_S = 20.0


def producer_id(index: int) -> AttemptId:
    return AttemptId(JOB, SOURCE, index, 0)


def consumer_id(index: int) -> AttemptId:
    return AttemptId(JOB, SINK, index, 0)


def rows(*values: int) -> ArrowBatch:
    return ArrowBatch(pa.record_batch({"a": pa.array(values, pa.int64())}))


def output_of(partitioner: Partitioner, consumers: int, edge_id: int = EDGE) -> OutputDeployment:
    unaligned = not partitioner.forces_alignment
    return OutputDeployment(edge_id, partitioner, tuple(range(consumers)), consumers, 128, unaligned)


def spec_of(partitioner: Partitioner, key: KeySpec | None = None, edge_id: int = EDGE) -> OutputSpec:
    return OutputSpec(edge_id, 0, partitioner, None, key)


class Net:
    """Every endpoint of one test. All share one condition, notified at each wakeup."""

    def __init__(self, directory: Path, settings: ExchangeSettings | None = None, listen: str | None = None) -> None:
        self.listen = listen or f"unix:{directory}"
        self.settings = settings or ExchangeSettings()
        self.changed = threading.Condition()
        self.endpoints: list[DataEndpoint] = []
        self.open_loop: OpenLoop = IoLoop

    def wakeup(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def wait_for(self, condition: Callable[[], Any], what: str = "") -> Any:
        """Runs ``condition`` after each wakeup (and now and then), until it gives something true."""
        deadline = threading.Event()
        timer = threading.Timer(PATIENCE_S, deadline.set)
        timer.start()
        try:
            while not deadline.is_set():
                with self.changed:
                    found = condition()
                    if found:
                        return found
                    self.changed.wait(0.02)
            raise AssertionError(f"waited {PATIENCE_S} s in vain for {what or condition}")
        finally:
            timer.cancel()

    def endpoint(
        self,
        attempt: AttemptId,
        token: str = TOKEN,
        settings: ExchangeSettings | None = None,
        on_task_event: OnTaskEvent = nobody_listens,
    ) -> DataEndpoint:
        made = DataEndpoint(
            attempt=attempt,
            token=token,
            listen=self.listen,
            wakeup=self.wakeup,
            settings=settings or self.settings,
            on_task_event=on_task_event,
            open_loop=self.open_loop,
        )
        self.endpoints.append(made)
        return made

    def producer(
        self, index: int, consumers: int, partitioner: Partitioner = Partitioner.REBALANCE, key: KeySpec | None = None
    ) -> tuple[PipelinedResultPartition, ProducerAddress]:
        endpoint = self.endpoint(producer_id(index))
        partition = endpoint.add_output(output_of(partitioner, consumers), spec_of(partitioner, key))
        return partition, ProducerAddress(producer_id(index), endpoint.start())

    def consumer(self, index: int, producers: list[ProducerAddress], token: str = TOKEN) -> ChannelInputGate:
        endpoint = self.endpoint(consumer_id(index), token)
        attempts = tuple(p.attempt for p in producers)
        gate = endpoint.add_inputs((InputDeployment(EDGE, 0, Partitioner.REBALANCE, attempts),))
        assert endpoint.start() == ""
        for producer in producers:
            endpoint.connect(producer)
        return gate

    def pair(self) -> tuple[PipelinedResultPartition, ChannelInputGate]:
        partition, address = self.producer(0, 1)
        gate = self.consumer(0, [address])
        self.wait_for(self.endpoints[-1].all_connected, "the connection")
        return partition, gate

    def next(self, gate: ChannelInputGate) -> tuple[int, ArrowBatch | ChannelEvent | RecordingEnded]:
        found: tuple[int, ArrowBatch | ChannelEvent | RecordingEnded] = self.wait_for(gate.poll, "a frame")
        return found

    def next_event(self, gate: ChannelInputGate) -> ChannelEvent | RecordingEnded:
        item = self.next(gate)[1]
        assert not isinstance(item, ArrowBatch), item
        return item

    def next_values(self, gate: ChannelInputGate, column: str = "a") -> list[Any]:
        item = self.next(gate)[1]
        assert isinstance(item, ArrowBatch), item
        values: list[Any] = item.data.column(column).to_pylist()
        return values

    def close(self) -> None:
        for endpoint in self.endpoints:
            endpoint.close()
