"""What a replayed chain finds around it: the recorded clock, timers that fire when they did, and outputs that go nowhere."""

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
from tidegate.taskmanager.exchange.base import Overtaken
from tidegate.taskmanager.operators.base import Operator

_ADDRESS = re.compile(r"0x[0-9a-f]+")


class ReplayClock:
    """Gives the readings of the call that is replayed. What asks for more gets the last one, and is counted."""

    def __init__(self) -> None:
        self.asked = 0
        self.given = 0
        self._now_ms = 0
        self._readings: deque[list[int]] = deque()
        self._is_inside = False

    def set(self, now_ms: int) -> None:
        """The time until a call has readings."""
        self._now_ms = now_ms

    def begin(self, readings: Sequence[tuple[int, int]]) -> None:
        """A call begins, during which the clock was read so."""
        self._readings = deque([value, times] for value, times in readings)
        self.given = sum(times for _, times in readings)
        self.asked, self._is_inside = 0, True

    def end(self) -> None:
        self._is_inside = False

    def now_ms(self) -> int:
        if self._is_inside:
            self.asked += 1
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
    """Implements ``ProcessingTimers``: a timer fires when its call is replayed."""

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
        """Calls the first timer of that time; whether there was one."""
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
    """What the replayed subtask emitted: how much, a digest of everything, and the last few records."""

    def __init__(self, most: int) -> None:
        self.last: deque[tuple[str, Record]] = deque(maxlen=most)
        """Where to, and what."""
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
        """Equal for equal outputs in the same order, in the form in which Python prints them."""
        return self._digest.hexdigest()


class PrintedPartition:
    """A ``KeyedPartition`` that keeps what is dealt to it."""

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
        """Events go nowhere."""

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

    def used_share(self) -> float:
        return 0.0

    def close(self) -> None: ...


class ParkedSink(Operator):
    """Stands where a sink was: what comes is kept, nothing is written and nothing committed."""

    works_on: ClassVar[Literal["records", "arrow", "any"]] = "records"

    def __init__(self, name: str, outputs: Outputs) -> None:
        self._name = name
        self._outputs = outputs

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, RecordsBatch)
        self._outputs.add(self._name, batch.values)


class RecordedSource(Operator):
    """Stands where the source at the head was: emits what that emitted."""

    works_on: ClassVar[Literal["records", "arrow", "any"]] = "any"

    def process(self, batch: Batch, input_index: int) -> None:
        self.context.output.emit(batch)

    def event(self, event: UserEvent) -> None:
        self.context.output.emit_event(event)


def same_text(one: str, other: str) -> bool:
    """Whether two messages are the same but for addresses of objects."""
    return _ADDRESS.sub("", one) == _ADDRESS.sub("", other)
