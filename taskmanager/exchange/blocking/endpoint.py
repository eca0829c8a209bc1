"""The blocking exchange of one subtask of a BATCH job, in place of ``tidegate.taskmanager.exchange.endpoint``: no port is opened.

    outputs ─▶ StoredSubpartition ─▶ StoredExchange ─▶ Spark's shuffle ─▶ StoredInputGate ─▶ inputs

The partitions that an attempt stores are numbered consecutively: the consumers of its first edge, then those of the next (``partition_of``). There is no
credit: a producer and its consumers never run at the same time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tidegate.model.channel_events import ChannelEvent, UserEvent
from tidegate.model.deployment import InputDeployment, OutputDeployment, ProducerAddress
from tidegate.model.errors import CorruptFrame, OutputLost
from tidegate.model.ids import AttemptId
from tidegate.model.program import OutputSpec
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.exchange.blocking.store import StoredBlock, StoredExchange
from tidegate.taskmanager.exchange.exchange_settings import ExchangeSettings
from tidegate.taskmanager.exchange.input_gate import ChannelInputGate
from tidegate.taskmanager.exchange.ports import RecordingEnded
from tidegate.taskmanager.exchange.result_partition import PipelinedResultPartition
from tidegate.taskmanager.exchange.subpartition import Subpartition
from tidegate.taskmanager.machines.credit import GrantCredit, WindowBounds
from tidegate.wire.frames import FrameDecoder, OutgoingFrame, make_header

_UNBOUNDED = WindowBounds(1 << 60, 1 << 60, math.inf)
"""Bounds that are larger than any channel's data: stored exchanges use no credit."""


def partition_of(outputs: Sequence[tuple[int, Sequence[int]]], edge_id: int, consumer: int) -> int:
    """Returns the number of the stored partition for a consumer of an edge. ``outputs``: (edge, subtask indices of its consumers), in the order of the
    deployment.
    """
    before = 0
    for found, consumers in outputs:
        if found == edge_id:
            return before + list(consumers).index(consumer)
        before += len(consumers)
    raise AssertionError(f"edge {edge_id} is not an output of this subtask, whose outputs are {outputs}")


class BlockingEndpoint:
    """The exchange of one subtask through Spark's shuffle, with the methods of ``DataEndpoint`` that a subtask calls."""

    def __init__(
        self, attempt: AttemptId, exchange: StoredExchange, settings: ExchangeSettings, wakeup: Callable[[], None]
    ) -> None:
        self._attempt = attempt
        self._exchange = exchange
        self._settings = replace(settings, window=_UNBOUNDED, queue=_UNBOUNDED)
        self._wakeup = wakeup
        self._partitions = itertools.count()
        self._gate: StoredInputGate | None = None

    def add_output(self, output: OutputDeployment, spec: OutputSpec) -> PipelinedResultPartition:
        producer = self._attempt.subtask
        made = [
            StoredSubpartition(self._settings, self._exchange, next(self._partitions), (output.edge_id, producer))
            for _ in output.consumers
        ]
        return PipelinedResultPartition(output, spec, producer, made, self._settings)

    def add_inputs(self, inputs: tuple[InputDeployment, ...]) -> StoredInputGate:
        self._gate = StoredInputGate(inputs, self._exchange.blocks, self._settings)
        return self._gate

    def start(self) -> str:
        """Returns an empty address, since no consumer connects."""
        return ""

    def connect(self, producer: ProducerAddress) -> None:
        """Does nothing, since nothing is fetched from a producer."""

    def all_connected(self) -> bool:
        """Returns ``True``: a subtask is deployed only after all its input is stored."""
        return True

    def check(self) -> None:
        """Does nothing, since there is no other thread that could fail."""

    def lose(self, reason: str) -> None:
        """Does nothing, since no consumer waits for data of a failed attempt."""

    def send_task_event(self, event: UserEvent, input_index: int | None) -> None:
        """Drops the event, since the producers have finished."""

    def close(self) -> None:
        if self._gate is not None:
            self._gate.close()


class StoredSubpartition(Subpartition):
    """The output for one consumer: frames are stored as they come, and nothing is queued."""

    def __init__(
        self, settings: ExchangeSettings, exchange: StoredExchange, partition: int, origin: tuple[int, int]
    ) -> None:
        """Creates a subpartition without frames. ``partition``: the consumer's partition in Spark's shuffle. ``origin``: the edge id, and the producer's
        subtask index.
        """
        super().__init__(settings.queue, settings.clock, lambda: None)
        self._exchange = exchange
        self._partition = partition
        self._origin = origin
        self._sequence = 0

    def push(self, frames: Sequence[OutgoingFrame], *, priority: bool = False) -> None:
        parts: list[bytes | memoryview] = []
        for frame in frames:
            parts += (make_header(frame, self._sequence), frame.payload)
            self._sequence += 1
        if parts:
            self._exchange.store(self._partition, StoredBlock.encode(*self._origin, parts))

    @property
    def short_bytes(self) -> int | None:
        return None  # nothing is consumed before all is stored

    def is_available(self) -> bool:
        return True

    def is_drained(self) -> bool:
        return True


class StoredInputGate(ChannelInputGate):
    """All channels of one subtask, fed from stored blocks: when there is nothing to return, the next block is read."""

    def __init__(self, inputs: Sequence[InputDeployment], blocks: Iterator[bytes], settings: ExchangeSettings) -> None:
        names: list[tuple[int, str]] = []
        self._channel_of: dict[tuple[int, int], int] = {}
        for index, deployment in enumerate(inputs):
            for producer in deployment.producers:
                self._channel_of[deployment.edge_id, producer.subtask] = len(names)
                names.append((index, f"channel {len(names)} from producer {producer} (edge {deployment.edge_id})"))
        super().__init__(names, settings, lambda: None, _need_no_credit)
        self._names = [name for _, name in names]
        self._decoders = [FrameDecoder(name, settings.max_payload_bytes) for name in self._names]
        self._unended = set(range(len(names)))
        self._blocks = blocks
        for channel in range(len(names)):
            self.open_channel(channel, is_local=True)

    def poll(self, gather_bytes: int = 0) -> tuple[int, ArrowBatch | ChannelEvent | RecordingEnded] | None:
        """Returns the next frame, as ``InputGate.poll``. Also raises ``OutputLost`` when the blocks end before the channels do."""
        while True:
            polled = super().poll(gather_bytes)
            if polled is not None or not self._read():
                return polled

    def _read(self) -> bool:
        """Reads the next block. Returns whether there was one. Raises ``OutputLost`` when channels have not ended."""
        stored = next(self._blocks, None)
        if stored is None:
            if self._unended:
                missing = self._names[min(self._unended)]
                raise OutputLost(
                    f"{missing}: the stored output of the producer is cut off before the end of the partition"
                )
            return False
        block = StoredBlock.decode(bytes(stored))
        channel = self._channel_of.get((block.edge_id, block.producer))
        if channel is None:
            raise CorruptFrame(
                f"a stored block comes from subtask {block.producer} of edge {block.edge_id}, which is not an input of this subtask"
            )
        if self.on_frames(channel, self._decoders[channel].feed(block.frames)):
            self._unended.discard(channel)
        return True


def _need_no_credit(channel: int, credit: GrantCredit) -> None:
    """Does nothing, since the producer has finished."""
