"""Decides when outputs send frames that are not full.

    begin ─▶ one step of the mailbox loop ─▶ is_due: flush now, or gather on until ``at_ms``

Outputs are flushed periodically with the buffer timeout as the period, counted from the first record, as Flink's flusher does (``RecordWriter.OutputFlusher``):
a record waits half a timeout on average. If the timeout began with the first record of each frame, single records, and batches of a source, would wait for all
of it, with the same number of frames.

Law: if steps take as long as before, no record waits longer than the buffer timeout for others. Outputs are flushed between two steps only, so they are flushed
early if the next step would end after the flush time: otherwise a function that takes half a second for each record would delay a result until the next record
is processed. Flink flushes from a separate thread, which here would compete with functions for the interpreter's lock.
"""

from __future__ import annotations

_FALL = 0.25
"""Weight of a quicker step in the estimate of a step's duration; a slower step replaces the estimate at once. Chosen, not measured: one slow function among
quick ones is remembered for some sixteen steps, each of which sends a small frame.
"""
COLUMNS_TOLERATED_MS = 20.0
"""Milliseconds by which a step over columns may end after the flush time. A step over 65,536 rows takes 5 to 15 ms, and frames that wait for the next step are
fuller and cheaper for each row.
"""


class FlushTimer:
    """Decides when outputs send frames that are not full."""

    def __init__(self, timeout_ms: int | None, tolerated_ms: float = 0.0) -> None:
        """Creates a timer without a flush to do. ``timeout_ms``: ``execution.buffer-timeout.interval``, the longest time that an emitted record waits;
        ``None``: frames are sent only when they are full, and with events. ``tolerated_ms``: how much later than the flush time the next step may end.
        """
        self._timeout_ms = timeout_ms
        self._tolerated_ms = tolerated_ms
        self._round_ms: float | None = None
        """When the last known round of the buffer timeout began; ``None``: no record was gathered yet."""
        self.at_ms: float | None = None
        """When the gathered records must be sent at the latest; ``None``: none are gathered."""
        self._began_ms = 0.0
        self._step_ms = 0.0

    def begin(self, now_ms: float) -> None:
        """Notes that a step of the mailbox loop begins."""
        self._began_ms = now_ms

    def is_due(self, now_ms: float, *, unflushed: bool, advanced: bool) -> bool:
        """Tells whether outputs have to be flushed now. ``unflushed``: records are gathered. ``advanced``: the step processed records or events, so that its
        duration counts.
        """
        if self._timeout_ms is None:
            return False
        if advanced:
            took_ms = now_ms - self._began_ms
            self._step_ms = took_ms if took_ms >= self._step_ms else self._step_ms + _FALL * (took_ms - self._step_ms)
        if not unflushed:
            self.at_ms = None
            return False
        if self.at_ms is None:
            self.at_ms = self._next_round_ms(now_ms)
        next_ms = now_ms + max(0.0, self._step_ms - self._tolerated_ms) if advanced else now_ms
        if next_ms < self.at_ms:
            return False
        self.at_ms = None
        return True

    def _next_round_ms(self, now_ms: float) -> float:
        if not self._timeout_ms:
            return now_ms
        if self._round_ms is None:
            self._round_ms = now_ms
        self._round_ms += (now_ms - self._round_ms) // self._timeout_ms * self._timeout_ms
        return self._round_ms + self._timeout_ms
