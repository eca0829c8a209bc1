"""The environment of a replayed chain: the recorded clock, timers that fire as recorded, and outputs that are only collected."""

from __future__ import annotations

import heapq
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import xxhash

from tidegate.model.channel_events import Barrier, ChannelEvent, UserEvent
from tidegate.model.program import OutputSpec
from tidegate.model.values import Key, Record
from tidegate.records.batch import ArrowBatch, Batch, RecordsBatch
from tidegate.records.record_codec import decode
from tidegate.taskmanager.exchange.ports import Overtaken
from tidegate.taskmanager.operators.operator import Operator

_ADDRESS = re.compile(r"0x[0-9a-f]+")


class ReplayClock:
    """A clock that returns the recorded readings of the replayed call. Further readings return the last one; all are counted."""

    def __init__(self) -> None:
        self.reads = 0
        self.given = 0
        self._now_ms = 0
        self._readings: deque[list[int]] = deque()
        self._is_inside = False

    def set(self, now_ms: int) -> None:
        """Sets the time that is returned until a call has readings."""
        self._now_ms = now_ms

    def begin(self, readings: Sequence[tuple[int, int]]) -> None:
        """Begins a call with its recorded readings: pairs of a time and the number of its repetitions."""
        self._readings = deque([value, times] for value, times in readings)
        self.given = sum(times for _, times in readings)
        self.reads, self._is_inside = 0, True

    def end(self) -> None:
        self._is_inside = False

    def now_ms(self) -> int:
        if self._is_inside:
            self.reads += 1
            if self._readings:
                first = self._readings[0]
                self._now_ms = first[0]
                first[1] -= 1
                if not first[1]:
                    self._readings.popleft()
        return self._now_ms

    def monotonic_ms(self) -> float:
        return time.perf_counter() * 1000.0


class ReplayTimers:
    """Processing-time timers that fire when their recorded call is replayed (a ``ProcessingTimers``)."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, list[Callable[[int], None]]]] = []
        self._sequence = 0

    def schedule(self, at_ms: int, callback: Callable[[int], None]) -> object:
        token = [callback]
        heapq.heappush(self._waiting, (at_ms, self._sequence, token))
        self._sequence += 1
        return token

    def cancel(self, token: object) -> None:
        assert isinstance(token, list)
        token.clear()

    def fire(self, at_ms: int) -> bool:
        """Calls the first timer that is due at ``at_ms``; returns whether there was one."""
        for place, (due_ms, _, token) in enumerate(sorted(self._waiting, key=lambda waiting: waiting[:2])):
            if due_ms == at_ms and token:
                self._waiting = [waiting for waiting in self._waiting if waiting[2] is not token]
                heapq.heapify(self._waiting)
                token[0](due_ms)
                return True
            if due_ms > at_ms and place:
                break
        return False


class Outputs:
    """Outputs of the replayed subtask: the number of records, a digest of all of them, and the last few records."""

    def __init__(self, most: int) -> None:
        self.last: deque[tuple[str, Record]] = deque(maxlen=most)
        """The last records, each with the name of the operator or sink that emitted it."""
        self.count = 0
        self._digest = xxhash.xxh3_64()

    def add(self, place: str, records: Sequence[Record]) -> None:
        """Counts records that were emitted at ``place``, keeps the last ones, and adds them to the digest."""
        self.count += len(records)
        for record in records:
            self.last.append((place, record))
            self._digest.update(_ADDRESS.sub("", f"{place}\0{record!r}\0").encode("utf-8", "backslashreplace"))

    @property
    def digest(self) -> str:
        """Digest of the printed records, without object addresses: equal for equal outputs in the same order."""
        return self._digest.hexdigest()


class PrintedPartition:
    """A ``KeyedPartition`` that adds the emitted records to the collected outputs."""

    supports_unaligned = False
    sent_frames = 0

    def __init__(self, spec: OutputSpec, outputs: Outputs, place: str) -> None:
        self._spec = spec
        self._outputs = outputs
        self._place = place

    @property
    def edge_id(self) -> int:
        return self._spec.edge_id

    def emit(self, batch: ArrowBatch) -> None:
        self._outputs.add(self._place, decode(self._spec.type_info, batch.data, self._place))

    def emit_with_keys(self, batch: ArrowBatch, keys: list[Key]) -> None:
        self.emit(batch)

    def broadcast(self, event: ChannelEvent) -> None:
        """Drops the event."""

    def flush(self) -> None: ...

    def overtake(self, barrier: Barrier) -> Overtaken:
        return []

    def announce(self, barrier: Barrier) -> None: ...

    def prioritise(self, barrier: Barrier) -> Overtaken:
        return []

    def holds(self, checkpoint_id: int) -> bool:
        return False

    def is_available(self) -> bool:
        return True

    def is_drained(self) -> bool:
        return True

    def queued_bytes(self) -> int:
        return 0

    def queued_frames(self) -> int:
        return 0

    def slice_bytes(self) -> int | None:
        return None

    def used_share(self) -> float:
        return 0.0

    def close(self) -> None: ...


class ParkedSink(Operator):
    """Replaces a sink in a replay: collects its records, and writes and commits nothing."""

    works_on: ClassVar[Literal["records", "arrow", "any"]] = "records"

    def __init__(self, name: str, outputs: Outputs) -> None:
        self._name = name
        self._outputs = outputs

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, RecordsBatch)
        self._outputs.add(self._name, batch.values)


class RecordedSource(Operator):
    """Replaces the source at the head in a replay: emits the recorded batches and events."""

    works_on: ClassVar[Literal["records", "arrow", "any"]] = "any"

    def process(self, batch: Batch, input_index: int) -> None:
        self.context.output.emit(batch)

    def event(self, event: UserEvent) -> None:
        self.context.output.emit_event(event)


def same_text(one: str, other: str) -> bool:
    """Tells whether two messages are equal except for object addresses."""
    return _ADDRESS.sub("", one) == _ADDRESS.sub("", other)
