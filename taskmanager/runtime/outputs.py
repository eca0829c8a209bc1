"""The outputs of the operators of a chain: the next operators, and the result partitions of the subtask.

    operator ─▶ ChainOutput ┬─▶ ChainedTarget  (an operator of the same chain, called directly)
                            └─▶ NetworkTarget  (a ResultPartition; keys of records are computed here)

A batch is converted between records and columns only for a target that needs the other form. Each consumer gets mutable records of its own: of several
consumers all but the last get copies, and network targets encode the records before any of them gets them. Watermarks, statuses and user events go to every
target, side outputs included (Flink: ``ChainingOutput.java``, ``RecordWriterOutput.java``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tidegate.common.typeinfo import TypeInformation
from tidegate.model.channel_events import NO_WATERMARK, UserEvent, WatermarkEvent, WatermarkStatus
from tidegate.model.values import Key
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.records.record_copy import RecordCopy, record_copy
from tidegate.taskmanager.exchange.ports import ResultPartition
from tidegate.taskmanager.operators.operator import Operator
from tidegate.taskmanager.operators.rows.selectors import KeyFunction
from tidegate.taskmanager.runtime.conversion import BothShapes
from tidegate.taskmanager.runtime.measuring.operator_times import OperatorTimes
from tidegate.taskmanager.runtime.measuring.subtask_metrics import TaskCounters


class KeyedPartition(ResultPartition, Protocol):
    """A result partition that also accepts rows with keys that were computed from the records, for HASH edges."""

    def emit_with_keys(self, batch: ArrowBatch, keys: list[Key]) -> None: ...


class Target(Protocol):
    """A consumer of an operator's output: another operator of the chain, or a result partition."""

    takes_records: bool
    """Whether the target may change the records of a batch, which one that works on columns cannot."""

    def accept(self, batch: BothShapes) -> None: ...

    def watermark(self, timestamp_ms: int) -> None: ...

    def idle(self, idle: bool) -> None: ...

    def event(self, event: UserEvent) -> None: ...


@dataclass(slots=True)
class OperatorInput:
    """Counts the records and the watermark that arrived at one operator from the operators in front of it."""

    records: int = 0
    watermark_ms: int = NO_WATERMARK


class ChainedTarget:
    """An output into another operator of the chain, which is called directly."""

    __slots__ = ("_counted", "_operator", "_position", "_times", "_works_on", "takes_records")

    def __init__(self, operator: Operator, counted: OperatorInput, position: int, times: OperatorTimes) -> None:
        """Connects an output to the next operator of the chain, which is at ``position``."""
        self._operator = operator
        self._works_on = operator.works_on
        self.takes_records = operator.works_on != "arrow"
        self._counted = counted
        self._position = position
        self._times = times

    def accept(self, batch: BothShapes) -> None:
        self._counted.records += len(batch.given)
        before = self._times.enter(self._position)
        self._operator.process(batch.wanted_by(self._works_on), 0)
        self._times.leave(before)

    def watermark(self, timestamp_ms: int) -> None:
        self._counted.watermark_ms = timestamp_ms
        before = self._times.enter(self._position)
        self._operator.on_watermark(timestamp_ms)
        self._times.leave(before)

    def idle(self, idle: bool) -> None:
        self._operator.on_idle(idle)

    def event(self, event: UserEvent) -> None:
        before = self._times.enter(self._position)
        self._operator.on_user_event(event, 0)
        self._times.leave(before)


class NetworkTarget:
    """An output into a result partition. ``keys``: set when the edge is keyed by a function of one record."""

    __slots__ = ("_counters", "_keys", "_partition", "takes_records")

    def __init__(self, partition: KeyedPartition, counters: TaskCounters, keys: KeyFunction | None) -> None:
        self._partition = partition
        self._counters = counters
        self._keys = keys
        self.takes_records = False

    def accept(self, batch: BothShapes) -> None:
        columns = batch.columns()
        if self._keys is None:
            self._partition.emit(columns)
        else:
            self._partition.emit_with_keys(columns, self._keys.keys_of(batch.as_received().values))
        counters = self._counters
        counters.unflushed = True
        counters.records_out += len(columns)
        counters.bytes_out += columns.data.nbytes

    def watermark(self, timestamp_ms: int) -> None:
        self._partition.broadcast(WatermarkEvent(timestamp_ms))

    def idle(self, idle: bool) -> None:
        self._partition.broadcast(WatermarkStatus(idle))

    def event(self, event: UserEvent) -> None:
        self._partition.broadcast(event)


@dataclass(frozen=True, slots=True)
class PartitionsLimit:
    """Implements ``tidegate.taskmanager.runtime.slicing.OutputLimit`` for all result partitions of a subtask."""

    partitions: Sequence[KeyedPartition]
    counters: TaskCounters

    def slice_bytes(self) -> int | None:
        limits = [limit for partition in self.partitions if (limit := partition.slice_bytes()) is not None]
        return min(limits, default=None)

    def emitted_bytes(self) -> int:
        return self.counters.bytes_out


class ChainOutput:
    """Implements ``tidegate.taskmanager.operators.operator.Output`` for one operator."""

    __slots__ = (
        "_all",
        "_copies",
        "_main",
        "_name",
        "_sides",
        "_type_info",
        "records_emitted",
        "side_copies",
        "watermark_ms",
    )

    def __init__(self, name: str, type_info: Any, *, reuses_objects: bool = False) -> None:
        """Creates an output without targets. ``reuses_objects``: all targets get the same records instead of copies."""
        self._name = name
        self._type_info = type_info
        where = f"operator '{name}'"
        self._copies = record_copy(type_info, where, reuses_objects=reuses_objects)
        self.side_copies = record_copy(None, where, reuses_objects=reuses_objects)
        self._main: list[Target] = []
        self._sides: dict[str, tuple[Any, list[Target]]] = {}
        self._all: list[Target] = []
        self.records_emitted = 0
        """The number of records emitted on the main output."""
        self.watermark_ms = NO_WATERMARK
        """The watermark that was emitted last."""

    def add(self, target: Target, tag: str = "", type_info: TypeInformation | None = None) -> None:
        """Adds a target. ``tag``: the side output that feeds it, of type ``type_info``; empty: the main output."""
        if tag:
            self._sides.setdefault(tag, (type_info, []))[1].append(target)
            self._sides[tag][1].sort(key=_takes_records)
        else:
            self._main.append(target)
            self._main.sort(key=_takes_records)
        self._all.append(target)

    def emit(self, batch: Batch) -> None:
        self.records_emitted += len(batch)
        if self._main and len(batch):
            serve(self._main, BothShapes(batch, self._type_info, self._name), self._copies)

    def emit_side(self, tag: str, batch: Batch) -> None:
        found = self._sides.get(tag)
        if found is not None and len(batch):
            serve(found[1], BothShapes(batch, found[0], self._name), self.side_copies)

    def emit_watermark(self, timestamp_ms: int) -> None:
        self.watermark_ms = timestamp_ms
        for target in self._all:
            target.watermark(timestamp_ms)

    def emit_idle(self, idle: bool) -> None:
        for target in self._all:
            target.idle(idle)

    def emit_event(self, event: UserEvent) -> None:
        for target in self._all:
            target.event(event)


def serve(targets: Sequence[Target], batch: BothShapes, copies: RecordCopy) -> None:
    """Passes a batch to all targets. The last one gets the batch's own records, the others copies."""
    if len(targets) > 1:
        batch.copies = copies
        for target in targets[:-1]:
            target.accept(batch)
        batch.copies = None
    targets[-1].accept(batch)


def _takes_records(target: Target) -> bool:
    return target.takes_records
