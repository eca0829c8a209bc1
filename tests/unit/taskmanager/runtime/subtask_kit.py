"""A subtask's mailbox loop with one operator over a gate and a partition in memory, driven one step at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tests.unit.taskmanager.runtime.fakes import (
    ATTEMPT,
    FakeClock,
    FakeGate,
    FakeOperator,
    FakePartition,
    FakePort,
    FakeStore,
    context_of,
)
from tidegate.common import Types
from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import CheckpointOptions
from tidegate.model.ids import OperatorId
from tidegate.model.program import InputSpec, OperatorSpec
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.machines import subtask as lifecycle
from tidegate.taskmanager.machines.alignment import BarrierHandler
from tidegate.taskmanager.machines.barrier_handler import ExactlyOnceBarrierHandler
from tidegate.taskmanager.machines.snapshot import SnapshotCoordinator
from tidegate.taskmanager.runtime.chain import OperatorChain
from tidegate.taskmanager.runtime.checkpointing.barriers import BarrierSender
from tidegate.taskmanager.runtime.checkpointing.input_channels import InputChannels
from tidegate.taskmanager.runtime.checkpointing.parallel_writes import SnapshotThreads
from tidegate.taskmanager.runtime.checkpointing.snapshots import SnapshotDriver, SnapshotTarget
from tidegate.taskmanager.runtime.flushing import FlushTimer
from tidegate.taskmanager.runtime.inputs.channel_input import ChannelInput
from tidegate.taskmanager.runtime.mailbox import Mailbox
from tidegate.taskmanager.runtime.measuring.subtask_metrics import TaskCounters
from tidegate.taskmanager.runtime.outputs import ChainOutput, NetworkTarget
from tidegate.taskmanager.runtime.queryable.kv_states import KvStateRegistry
from tidegate.taskmanager.runtime.services import SubtaskServices
from tidegate.taskmanager.runtime.slicing import SliceSizer
from tidegate.taskmanager.runtime.subtask import SubtaskLoop
from tidegate.taskmanager.runtime.timers import TimerQueue

LONG = Types.LONG()
OPTIONS = CheckpointOptions("mem")


def numbers(count: int) -> ArrowBatch:
    return ArrowBatch(pa.RecordBatch.from_pydict({"value": pa.array(range(count), pa.int64())}))


def barrier(n: int) -> Barrier:
    return Barrier(n, 1000, OPTIONS)


class Subtask:
    """A loop with one operator and one output, RUNNING."""

    def __init__(
        self,
        channels: int = 2,
        *,
        checkpointing: bool = True,
        flush_ms: int | None = 5,
        handler: BarrierHandler | None = None,
        inline_bytes: int = 0,
    ) -> None:
        self.clock, self.gate, self.partition, self.port = FakeClock(), FakeGate(channels), FakePartition(), FakePort()
        self.mailbox, self.counters, self.operator = Mailbox(), TaskCounters(), FakeOperator("op")
        self.points: list[str] = []
        self.lifecycle = lifecycle.SubtaskLifecycle(checkpointing=checkpointing, has_inputs=True)
        chain = self._chain()
        self.writer = SnapshotThreads(self.mailbox)
        self.timers = TimerQueue(self.clock)
        self.alarms = TimerQueue(self.clock)
        self.services = SubtaskServices(
            ATTEMPT,
            self.mailbox,
            self.port,
            self.clock,
            self.timers,
            self.alarms,
            self.counters,
            self._probe,
            lambda: None,
            KvStateRegistry(128, None),
        )
        self.snapshots = SnapshotDriver(
            self.services,
            coordinator=SnapshotCoordinator(),
            chain=chain,
            barriers=BarrierSender([self.partition]),
            target=SnapshotTarget(self.writer, lambda *_: FakeStore(), inline_bytes=inline_bytes),
            on_started=lambda n: list(self.lifecycle.on(lifecycle.SnapshotStarted(n), 0)).clear(),
        )
        self.loop = self._loop(chain, handler or ExactlyOnceBarrierHandler(range(channels)), flush_ms)
        for event in (lifecycle.InitializationStarted(), lifecycle.Initialized()):
            self.lifecycle.on(event, 0)

    def _loop(self, chain: OperatorChain, handler: BarrierHandler, flush_ms: int | None) -> SubtaskLoop:
        return SubtaskLoop(
            self.services,
            subtask=self.lifecycle,
            chain=chain,
            work=ChannelInput(
                self.services,
                gate=self.gate,
                channels=InputChannels.unnamed(self.gate.channels),
                chain=chain,
                handler=handler,
                snapshots=self.snapshots,
                sizer=SliceSizer(columnar=False),
            ),
            partitions=[self.partition],
            snapshots=self.snapshots,
            flush=FlushTimer(flush_ms),
        )

    def _chain(self) -> OperatorChain:
        output = ChainOutput("op", LONG)
        output.add(NetworkTarget(self.partition, self.counters, None))
        spec = OperatorSpec("map", OperatorId("c" * 32), "op", (LONG,), LONG)
        chain = OperatorChain([self.operator], [spec], [InputSpec(0, 0, LONG)])
        chain.setup([context_of(output, self.clock)])
        return chain

    @property
    def state(self) -> lifecycle.LifecycleState:
        return self.lifecycle.state

    def assert_at(self, state: lifecycle.LifecycleState) -> None:
        assert self.lifecycle.state is state

    def pass_time(self, ms: float) -> None:
        self.clock.ms += ms

    def send(self, channel: int, *items: Any) -> None:
        self.gate.queues[channel].extend(items)

    def run(self) -> None:
        while self.loop.step():
            pass

    def settle(self) -> None:
        """Everything, the asynchronous writes included."""
        self.run()
        assert self.writer.close(5000.0)
        self.run()

    def _probe(self, point: str, told: Mapping[str, object]) -> None:
        self.points.append(point)
