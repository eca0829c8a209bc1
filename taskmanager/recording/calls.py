"""The format of a subtask's recording: the calls that its chain of operators got, in order, with their arguments.

    call ─▶ readings of the clock that operators asked for meanwhile ─▶ how many records had left the subtask

A chain is deterministic once its calls are: they come from one thread, and what it asks of the clock is in the recording.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa


class RecordedKind(IntEnum):
    """The kinds of recorded calls. Their numbers are part of the file format and must not change."""

    STARTED = 1
    """The first entry of every segment; not a call. ``first``: the checkpoint that the segment follows. ``numbers``: those of ``SegmentStart``."""
    PROCESS = 2
    """A batch from an input. ``first``: index of the incoming edge."""
    WATERMARK = 3
    STATUS = 4
    END_INPUT = 5
    USER_EVENT = 6
    TASK_EVENT = 7
    FINISH = 8
    SUSPEND = 9
    PREPARE = 10
    FREEZE = 11
    """A freeze. ``first``: checkpoint id, ``second``: its timestamp."""
    COMPLETED = 12
    ABORTED = 13
    TIMER = 14
    """A processing-time timer fired. ``first``: its time."""
    COORDINATOR = 15
    """An event from the coordinator of an operator; its content is not recorded."""
    ENDED = 16
    """The end of a call; not a call. ``first``: the number of records that the subtask had emitted. ``numbers``: pairs of a clock reading and its number of
    consecutive repetitions.
    """
    EMIT = 17
    """A batch that the source at the head emitted. ``body``: the tag of a side output."""
    EMIT_WATERMARK = 18
    EMIT_STATUS = 19
    EMIT_EVENT = 20
    DEFERRED = 21
    """Work that an operator had deferred to the end of a call; in the order in which it was deferred."""


@dataclass(frozen=True, slots=True)
class SegmentStart:
    """The state of the chain's input at the start of a segment. ``watermark_ms``: of the head. ``ended_inputs``: indexes of the inputs that had ended."""

    checkpoint_id: int
    now_ms: int
    watermark_ms: int
    is_idle: bool
    records_before: int
    """Records that the attempt had received before this segment."""
    emitted_before: int
    """Records that the subtask had emitted before this segment."""
    ended_inputs: tuple[int, ...] = ()

    def numbers(self) -> tuple[int, ...]:
        """Returns the fields except the checkpoint id, as the file stores them."""
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
        """Returns the segment start from the result of ``numbers``."""
        now_ms, watermark_ms, is_idle, records_before, emitted_before, *ended = numbers
        return SegmentStart(
            checkpoint_id, now_ms, watermark_ms, bool(is_idle), records_before, emitted_before, tuple(ended)
        )


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A recorded call. ``has_ended``: its end was recorded, so that ``emitted`` and ``readings`` are complete."""

    kind: RecordedKind
    first: int = 0
    second: int = 0
    body: bytes = b""
    batch: pa.RecordBatch | None = None
    emitted: int = 0
    readings: tuple[tuple[int, int], ...] = ()
    has_ended: bool = False
