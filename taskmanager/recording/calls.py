"""What is recorded of a subtask: the calls that its chain of operators got, one after the other, with what each was given.

    call ─▶ readings of the clock that operators asked for meanwhile ─▶ how many records had left the subtask

A chain is deterministic once its calls are: they come from one thread, and what it asks of the clock is in the recording.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa


class RecordedKind(IntEnum):
    """The number of each is part of the format of files: never change one."""

    STARTED = 1
    """First of every segment, and no call: ``first`` is the checkpoint that it follows, ``numbers`` those of ``SegmentStart``."""
    PROCESS = 2
    """``first``: index of the incoming edge; with a batch."""
    WATERMARK = 3
    STATUS = 4
    END_INPUT = 5
    USER_EVENT = 6
    TASK_EVENT = 7
    FINISH = 8
    SUSPEND = 9
    PREPARE = 10
    FREEZE = 11
    """``first``: checkpoint, ``second``: its timestamp."""
    COMPLETED = 12
    ABORTED = 13
    TIMER = 14
    """A processing-time timer fired; ``first``: its time."""
    COORDINATOR = 15
    """An event from the coordinator of an operator, whose content is not kept."""
    ENDED = 16
    """The end of a call, and no call: ``first`` is how many records had left the subtask, ``numbers`` are pairs of a reading of the clock and how
    often it came in a row."""
    EMIT = 17
    """What the source at the head emitted; with a batch. ``body`` before it: the tag of a side output."""
    EMIT_WATERMARK = 18
    EMIT_STATUS = 19
    EMIT_EVENT = 20
    DEFERRED = 21
    """What an operator had put off until the call was over; they come in the order in which they were put off."""


@dataclass(frozen=True, slots=True)
class SegmentStart:
    """Where a segment begins. ``watermark_ms``: of the head, then; ``ended_inputs``: those that had ended."""

    checkpoint_id: int
    now_ms: int
    watermark_ms: int
    is_idle: bool
    records_before: int
    """How many of the attempt's input came before this segment."""
    emitted_before: int
    """Records that had left the subtask by then."""
    ended_inputs: tuple[int, ...] = ()

    def numbers(self) -> tuple[int, ...]:
        """All but the checkpoint, as the file has them."""
        return (
            self.now_ms,
            self.watermark_ms,
            int(self.is_idle),
            self.records_before,
            self.emitted_before,
            *self.ended_inputs,
        )

    @staticmethod
    def of(checkpoint_id: int, numbers: tuple[int, ...]) -> SegmentStart:
        """The inverse of ``numbers``."""
        now_ms, watermark_ms, is_idle, records_before, emitted_before, *ended = numbers
        return SegmentStart(
            checkpoint_id, now_ms, watermark_ms, bool(is_idle), records_before, emitted_before, tuple(ended)
        )


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call as it was made. ``has_ended``: its end was recorded, so ``emitted`` and ``readings`` are whole."""

    kind: RecordedKind
    first: int = 0
    second: int = 0
    body: bytes = b""
    batch: pa.RecordBatch | None = None
    emitted: int = 0
    readings: tuple[tuple[int, int], ...] = ()
    has_ended: bool = False
