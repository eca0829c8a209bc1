"""The queue of asynchronous I/O: which elements are being worked on, and when their results may be emitted, ordered or unordered.

    RecordArrived ─▶ waiting ── room ──▶ Invoke ── RecordCompleted ──▶ done ── its turn ──▶ EmitResults
    MarkArrived (a watermark, a status) ─▶ PassMark, when everything before it was emitted

Laws. Every record is invoked once and its results are emitted once. At most ``capacity`` records are invoked and not yet emitted; they are invoked in the order
of their arrival. No mark overtakes a record, and no record a mark. Ordered: results are emitted in the order of arrival. Unordered: in the order of completion
between two marks. Follows Flink's ``OrderedStreamElementQueue.java`` and ``UnorderedStreamElementQueue.java`` (segments between watermarks), but that records
beyond the capacity wait in the queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never


@dataclass(frozen=True, slots=True)
class RecordArrived:
    """A record arrived. ``number`` counts up over records and marks."""

    number: int


@dataclass(frozen=True, slots=True)
class MarkArrived:
    """A watermark or a status arrived."""

    number: int


@dataclass(frozen=True, slots=True)
class RecordCompleted:
    """The results of a record are available."""

    number: int


AsyncWaitEvent = RecordArrived | MarkArrived | RecordCompleted


@dataclass(frozen=True, slots=True)
class Invoke:
    """Passes a record to the user's function."""

    number: int


@dataclass(frozen=True, slots=True)
class EmitResults:
    """Emits the results of a record."""

    number: int


@dataclass(frozen=True, slots=True)
class PassMark:
    """Passes on a watermark or a status."""

    number: int


AsyncWaitCommand = Invoke | EmitResults | PassMark


@dataclass(slots=True)
class _Segment:
    """Records that may overtake each other; the watermark or status ``mark`` ends the segment. In an ordered queue every record has a segment of its own."""

    left: int = 0
    done: deque[int] = field(default_factory=deque)
    mark: int | None = None


class AsyncWaitQueue:
    """The queue of an asynchronous operator. ``capacity``: the most records that are invoked and not yet emitted. ``ordered``: results are emitted in the order
    of arrival.
    """

    def __init__(self, *, capacity: int, ordered: bool) -> None:
        assert capacity > 0, capacity
        self._capacity = capacity
        self._ordered = ordered
        self._waiting: deque[int] = deque()
        self._invoked = 0
        """Number of records that were invoked and not yet emitted."""
        self._segments: deque[_Segment] = deque([_Segment()])
        self._segment_of: dict[int, _Segment] = {}

    @property
    def has_room(self) -> bool:
        """Whether a record that arrives now would be invoked at once."""
        return self._invoked < self._capacity

    @property
    def is_empty(self) -> bool:
        return not self._segment_of and all(segment.mark is None for segment in self._segments)

    @property
    def in_flight(self) -> list[int]:
        """Numbers of the records that were not emitted yet, in the order of their arrival."""
        return sorted(self._segment_of)

    def on(self, event: AsyncWaitEvent, now_ms: float = 0.0) -> Sequence[AsyncWaitCommand]:
        match event:
            case RecordArrived(number):
                self._add(number)
            case MarkArrived(number):
                if self._segments[-1].mark is not None:
                    self._segments.append(_Segment())
                self._segments[-1].mark = number
            case RecordCompleted(number):
                self._segment_of[number].done.append(number)
            case _:
                assert_never(event)
        commands = self._leave()
        while self._waiting and self._invoked < self._capacity:
            self._invoked += 1
            commands.append(Invoke(self._waiting.popleft()))
        return commands

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when segments, invocations and what waits contradict each other."""
        lefts = [segment.left for segment in self._segments]
        in_flight = len(self._segment_of)
        assert 0 <= self._invoked <= self._capacity, f"{self._invoked} are invoked, {self._capacity} may be"
        assert self._invoked + len(self._waiting) == in_flight, f"{in_flight} records are neither invoked nor waiting"
        assert not (self._waiting and self.has_room), f"{len(self._waiting)} wait, and there is room"
        assert sum(lefts) == in_flight, f"segments hold {sum(lefts)} records, and {in_flight} are in flight"
        assert not self._ordered or max(lefts) <= 1, f"an ordered queue has a segment of {max(lefts)} records"
        first = self._segments[0]
        assert not first.done, f"records {list(first.done)} are done, and were not emitted"
        assert first.left or (first.mark is None and len(self._segments) == 1), "the first segment is empty, and stays"

    def _add(self, number: int) -> None:
        last = self._segments[-1]
        if last.mark is not None or (self._ordered and last.left):
            last = _Segment()
            self._segments.append(last)
        last.left += 1
        self._segment_of[number] = last
        self._waiting.append(number)

    def _leave(self) -> list[AsyncWaitCommand]:
        commands: list[AsyncWaitCommand] = []
        while True:
            first = self._segments[0]
            while first.done:
                number = first.done.popleft()
                first.left -= 1
                self._invoked -= 1
                del self._segment_of[number]
                commands.append(EmitResults(number))
            if first.left:
                return commands
            if first.mark is not None:
                commands.append(PassMark(first.mark))
                first.mark = None
            if len(self._segments) == 1:
                return commands
            self._segments.popleft()
