"""Records the calls of one subtask's chain since its last completed checkpoint, up to a limit in bytes.

    call ─▶ segment of the newest checkpoint │ freeze n ─▶ the next segment begins │ n is complete ─▶ segments before n are removed
    more than the bound ─▶ all are removed, and recording begins again with the next checkpoint

Used from the subtask's thread; ``acknowledged`` from any.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from tidegate.model.checkpoint import CheckpointOptions, SubtaskSnapshot
from tidegate.taskmanager.recording.calls import RecordedKind, SegmentStart
from tidegate.taskmanager.recording.segment_files import SegmentWriter

_NO_WATERMARK = -(2**63)
"""The watermark in ms before the first one, as in Flink."""


@dataclass(frozen=True, slots=True)
class Base:
    """The checkpoint that a recording follows, as this subtask wrote it."""

    checkpoint_id: int
    location: str
    snapshot: SubtaskSnapshot


@dataclass(slots=True)
class _Segment:
    writer: SegmentWriter
    checkpoint_id: int


@dataclass(slots=True)
class _Border:
    location: str
    snapshot: SubtaskSnapshot | None = None


@dataclass(slots=True)
class ChainPlace:
    """The progress of a chain in its input: watermark, idleness, number of records, ended inputs."""

    watermark_ms: int = _NO_WATERMARK
    is_idle: bool = False
    records: int = 0
    ended_inputs: list[int] = field(default_factory=list)


class Recorder:
    """Records the calls of a chain in ``directory``, which it creates for itself, up to ``max_bytes``."""

    def __init__(self, directory: Path, max_bytes: int) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self.base: Base | None = None
        """The checkpoint that the recording follows; ``None``: the one from which the attempt was restored, if any."""
        self.place = ChainPlace()
        self.why_not = ""
        """The reason why there is no recording since the last completed checkpoint; empty: there is one."""
        self._segments: list[_Segment] = []
        self._borders: dict[int, _Border] = {}
        self._number = 0
        self._depth = 0
        self._closed_bytes = 0
        self._emitted: Callable[[], int] = lambda: 0
        self._readings: list[int] = []
        self._last_reading: int | None = None

    @property
    def segments(self) -> list[Path]:
        """Flushes the recording and returns its files since the last completed checkpoint, oldest first."""
        for segment in self._segments[-1:]:
            segment.writer.flush()
        return [segment.writer.path for segment in self._segments]

    def begin(self, restored_id: int, now_ms: int, emitted: Callable[[], int]) -> None:
        """Starts the recording of an attempt. ``emitted()``: the number of records that the subtask has emitted. Errors are kept in ``why_not``."""
        self._emitted = emitted
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._open_segment(restored_id, now_ms)
        except OSError as error:
            self._give_up(error)

    def enter(self, kind: RecordedKind, first: int = 0, second: int = 0, body: bytes = b"") -> bool:
        """Notes the begin of a call. Returns whether it is a call from outside of the chain, which is recorded; nested calls are not."""
        self._depth += 1
        if self._depth > 1:
            return False
        if self._segments:
            try:
                self._segments[-1].writer.write(kind, first, second, (), body)
            except OSError as error:
                self._give_up(error)
        return True

    def enter_with(self, kind: RecordedKind, first: int, batch: pa.RecordBatch, tag: str = "") -> None:
        """Notes the begin of a call with a batch."""
        self._depth += 1
        if self._depth > 1:
            return
        self.place.records += batch.num_rows
        if self._segments:
            try:
                self._segments[-1].writer.write_batch(kind, first, batch, tag)
            except OSError as error:
                self._give_up(error)

    def leave(self) -> None:
        """Ends the innermost open call, also after an exception. Writes the end to the recording, with the clock readings of the
        operators, if it was the outermost call: nested calls are not recorded.
        """
        self._depth -= 1
        if self._depth:
            return
        if self._segments:
            self._write_end(self._segments[-1].writer)
        self._readings, self._last_reading = [], None

    def _write_end(self, writer: SegmentWriter) -> None:
        try:
            writer.write(RecordedKind.ENDED, self._emitted(), 0, self._readings)
        except OSError as error:
            self._give_up(error)
            return
        if self._closed_bytes + writer.written_bytes > self._max_bytes:
            self._drop()
            self.why_not = f"more than {self._max_bytes} bytes came in since the last completed checkpoint (tidegate.replay.max-size)"

    @property
    def is_inside(self) -> bool:
        return self._depth > 0

    def read(self, now_ms: int) -> None:
        """Notes a clock reading of an operator."""
        if self._depth == 0:
            return
        if now_ms == self._last_reading:
            self._readings[-1] += 1
        else:
            self._readings += (now_ms, 1)
            self._last_reading = now_ms

    def frozen(self, checkpoint_id: int, options: CheckpointOptions | None, now_ms: int) -> None:
        """Begins the next segment of the recording of the chain's calls, after the chain's state was frozen for a checkpoint."""
        if (
            options is not None and not options.snapshot_type.is_savepoint
        ):  # a savepoint is its user's, who may remove it
            self._borders[checkpoint_id] = _Border(options.location)
        try:
            self._open_segment(checkpoint_id, now_ms)
        except OSError as error:
            self._give_up(error)

    def acknowledged(self, checkpoint_id: int, snapshot: SubtaskSnapshot) -> None:
        """Notes the snapshot that was written for a checkpoint. May be called from any thread."""
        border = self._borders.get(checkpoint_id)
        if border is not None:
            border.snapshot = snapshot

    def completed(self, checkpoint_id: int) -> None:
        """Removes the segments before a completed checkpoint."""
        border = self._borders.get(checkpoint_id)
        if border is None or border.snapshot is None:
            return
        self.base = Base(checkpoint_id, border.location, border.snapshot)
        for known in [known for known in self._borders if known <= checkpoint_id]:
            del self._borders[known]
        while self._segments and self._segments[0].checkpoint_id < checkpoint_id:
            self._remove(self._segments.pop(0))
        begins = self._segments[0].checkpoint_id if self._segments else 0
        if begins == checkpoint_id:
            self.why_not = ""

    def close(self) -> None:
        for segment in self._segments:
            with contextlib.suppress(OSError):
                segment.writer.close()

    def _open_segment(self, checkpoint_id: int, now_ms: int) -> None:
        if self._segments:
            before = self._segments[-1].writer
            before.close()
            self._closed_bytes += before.written_bytes
        self._number += 1
        writer = SegmentWriter(self._directory / f"{self._number:06}.segment")
        place = self.place
        start = SegmentStart(
            checkpoint_id,
            now_ms,
            place.watermark_ms,
            place.is_idle,
            place.records,
            self._emitted(),
            tuple(place.ended_inputs),
        )
        writer.write(RecordedKind.STARTED, checkpoint_id, 0, start.numbers())
        self._segments.append(_Segment(writer, checkpoint_id))

    def _remove(self, segment: _Segment) -> None:
        segment.writer.close()
        self._closed_bytes -= segment.writer.written_bytes
        segment.writer.path.unlink(missing_ok=True)

    def _drop(self) -> None:
        for segment in self._segments:
            segment.writer.close()
            segment.writer.path.unlink(missing_ok=True)
        self._segments, self._closed_bytes = [], 0
        self._borders.clear()

    def _give_up(self, error: OSError) -> None:
        """Drops the recording after a write error, which does not fail the subtask; the next checkpoint begins a new one."""
        with contextlib.suppress(OSError):
            self._drop()
        self._segments, self._closed_bytes = [], 0
        self._borders.clear()
        self.why_not = f"it cannot be written: {error.strerror or error} ({self._directory})"
