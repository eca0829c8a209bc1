"""Replays the in-flight data of a restored checkpoint, which a subtask processes before anything new from its input gate.

    RestoredOperator.channels ─▶ read, rows of other subtasks' key groups dropped ─▶ Replay.next ... ─▶ (empty: the gate)

Laws: data is replayed in the order of the handles. On an edge partitioned by key, each row is kept by exactly the subtask that owns its key group, by the hash
that the producers use. A watermark keeps its position if the channel exists unchanged (the same edge between as many subtasks). After a rescale, the minimum of
the old producers' watermarks counts for the whole edge, after all of its rows; there is none if one of them had none. A user event keeps its position among the
rows of its old channel, and reaches each subtask that takes over rows of that channel. Data that has not been replayed when a snapshot begins is in flight
again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidegate.model.channel_events import UserEvent, WatermarkEvent
from tidegate.model.checkpoint import ChannelStateHandle
from tidegate.model.deployment import InputDeployment, OutputDeployment, TaskDeployment
from tidegate.model.errors import InvalidJob
from tidegate.model.graph import Partitioner
from tidegate.model.program import InputSpec, OutputSpec
from tidegate.records.batch import ArrowBatch, from_wire
from tidegate.taskmanager.exchange.partitioners import Dealer, make_dealer
from tidegate.taskmanager.operators.operator import OperatorContext
from tidegate.taskmanager.operators.rows.selectors import KeyFunction
from tidegate.taskmanager.runtime.checkpointing.in_flight import ChannelDescription, StoredBatch, read_channel
from tidegate.taskmanager.runtime.conversion import BothShapes
from tidegate.taskmanager.state.ports import SegmentSource

Filter = Callable[[ArrowBatch], ArrowBatch]


@dataclass(frozen=True, slots=True)
class Replayed:
    """An item to be processed again. ``channel``: of the gate; the edge's first channel if the old channel does not exist any longer."""

    channel: int
    item: ArrowBatch | WatermarkEvent | UserEvent


class Replay:
    """The restored in-flight data of a subtask's inputs, used from its thread. All is read by the constructor, which raises ``CorruptData`` or
    ``StorageError``.
    """

    def __init__(
        self,
        deployment: TaskDeployment,
        inputs: Sequence[InputSpec],
        source: SegmentSource,
        channels: Sequence[ChannelStateHandle],
        context: OperatorContext,
    ) -> None:
        """Plans the replay of restored in-flight data. ``inputs``: in the order of ``deployment.inputs``. ``channels``: the handles of the data. ``context``:
        of the head operator, with which key functions are opened.
        """
        self._deployment = deployment
        self._inputs = inputs
        self._context = context
        self._filters: dict[int, Filter] = {}
        self._items: deque[Replayed] = deque()
        self._promises: dict[int, _Promises] = {}
        """Watermarks of old producers by incoming edge, for edges whose channels changed by rescaling."""
        for handle in channels:
            about, batches = read_channel(source, handle)
            self._add(handle, about, batches)
        for edge, promises in self._promises.items():
            if (least := promises.least()) is not None:
                first = first_channel(deployment, edge)
                for channel in range(first, first + len(deployment.inputs[edge].producers)):
                    self._items.append(Replayed(channel, WatermarkEvent(least)))

    def __len__(self) -> int:
        return len(self._items)

    def next(self) -> Replayed | None:
        return self._items.popleft() if self._items else None

    def rest(self) -> list[Replayed]:
        """Returns the items that were not handed out yet, without removing them."""
        return list(self._items)

    def _add(self, handle: ChannelStateHandle, about: ChannelDescription | None, batches: list[StoredBatch]) -> None:
        edge = self._edge_of(handle)
        channel = self._same_channel(handle, about, edge)
        place = channel if channel is not None else first_channel(self._deployment, edge)
        for batch in batches:
            if batch.watermark is not None and channel is not None:
                self._items.append(Replayed(channel, WatermarkEvent(batch.watermark)))
            elif batch.watermark is not None and about is not None and self._is_edge(edge, handle):
                self._promises.setdefault(edge, _Promises(about.producers)).add(handle.producer, batch.watermark)
            if batch.event is not None:
                self._items.append(Replayed(place, batch.event))
            if batch.data.num_rows:
                kept = self._filter_of(edge)(from_wire(batch.data))
                if len(kept):
                    self._items.append(Replayed(place, kept))

    def _edge_of(self, handle: ChannelStateHandle) -> int:
        """Returns the index of the incoming edge of a handle: the edge of the same id, otherwise another edge into the same input. Raises ``InvalidJob`` if
        there is none.
        """
        found = [i for i, edge in enumerate(self._deployment.inputs) if edge.input_index == handle.input_index]
        if not found:
            raise InvalidJob(
                f"{self._deployment.task_name} has no input {handle.input_index}, of which data was in flight "
                f"(edge {handle.edge_id}) in the restored checkpoint; restore a savepoint"
            )
        return next((i for i in found if self._deployment.inputs[i].edge_id == handle.edge_id), found[0])

    def _is_edge(self, edge: int, handle: ChannelStateHandle) -> bool:
        return self._deployment.inputs[edge].edge_id == handle.edge_id

    def _same_channel(self, handle: ChannelStateHandle, about: ChannelDescription | None, edge: int) -> int | None:
        deployment, found = self._deployment, self._deployment.inputs[edge]
        is_same = (
            about is not None
            and self._is_edge(edge, handle)
            and about.producers == found.source_parallelism
            and about.consumers == deployment.parallelism
            and handle.consumer == deployment.attempt.subtask
        )
        if not is_same:
            return None
        index = next((i for i, p in enumerate(found.producers) if p.subtask == handle.producer), None)
        return None if index is None else first_channel(deployment, edge) + index

    def _filter_of(self, edge: int) -> Filter:
        if edge not in self._filters:
            self._filters[edge] = self._make_filter(self._deployment.inputs[edge], self._inputs[edge])
        return self._filters[edge]

    def _make_filter(self, edge: InputDeployment, spec: InputSpec) -> Filter:
        deployment = self._deployment
        if edge.partitioner is not Partitioner.HASH or deployment.parallelism == 1:
            return _keep_all
        everybody = tuple(range(deployment.parallelism))
        output = OutputDeployment(
            edge.edge_id, Partitioner.HASH, everybody, deployment.parallelism, deployment.max_parallelism
        )
        dealer = make_dealer(output, OutputSpec(edge.edge_id, 0, Partitioner.HASH, spec.type_info, spec.key), 0)
        keys: KeyFunction | None = None
        if spec.key is not None and spec.key.selector is not None:
            keys = KeyFunction(spec.key, f"key selector in front of {self._context.operator_name}")
            keys.open(self._context)
        return _OwnRows(dealer, deployment.attempt.subtask, keys, spec, self._context.operator_name)


class _Promises:
    """The watermarks of the old producers of an edge. A producer sends the same watermarks to all its consumers."""

    def __init__(self, producers: int) -> None:
        self._producers = producers
        self._promised: dict[int, int] = {}

    def add(self, producer: int, watermark_ms: int) -> None:
        self._promised[producer] = max(watermark_ms, self._promised.get(producer, watermark_ms))

    def least(self) -> int | None:
        """Returns the lowest watermark of all old producers; ``None`` if one of them has sent none."""
        return min(self._promised.values()) if len(self._promised) == self._producers else None


class _OwnRows:
    """Keeps the rows that a hash exchange would send to this subtask."""

    def __init__(self, dealer: Dealer, subtask: int, keys: KeyFunction | None, spec: InputSpec, operator: str) -> None:
        self._dealer = dealer
        self._subtask = subtask
        self._keys = keys
        self._spec = spec
        self._operator = operator

    def __call__(self, batch: ArrowBatch) -> ArrowBatch:
        keys = None
        if self._keys is not None:
            keys = self._keys.keys_of(BothShapes(batch, self._spec.type_info, self._operator).records().values)
        for target, piece in self._dealer.deal(batch, keys):
            if target == self._subtask:
                return from_wire(piece)
        return batch.slice(0, 0)


def first_channel(deployment: TaskDeployment, edge: int) -> int:
    """Returns the number in the gate of the first channel of an incoming edge."""
    return sum(len(other.producers) for other in deployment.inputs[:edge])


def _keep_all(batch: ArrowBatch) -> ArrowBatch:
    return batch
