"""Decides when a source pauses after its barrier, while the subtasks downstream work on the same checkpoint.

    barrier ──it read all the time since the last one──▶ RESTING ──settled · its share of the time is used up──▶ READING
            └──it had to wait for data────────────────────────────────────────────────────────────────────────▶ READING

Law: a source pauses for at most ``share`` of the time between barriers, and never longer than ``MOST_MS``.

Reading while a checkpoint is taken only takes processor time from it. A source with a backlog can read the same records a moment later, so it pauses; one
without a backlog has fresh records, and goes on (docs/internals/performance.md).
"""

from __future__ import annotations

MOST_MS = 100.0
"""The longest pause in milliseconds. A checkpoint that takes longer waits for a disk or for much state, not for processors."""


class SourcePause:
    """Decides whether and for how long a source pauses after a barrier. All times are in ms."""

    def __init__(self, share: float, now_ms: float) -> None:
        """Begins without a pause. ``share``: the part of the time between barriers that may be paused; 0: never. ``now_ms``: read from a monotonic clock."""
        self._share = share
        self._barrier_ms = now_ms
        self._has_waited = False
        self._checkpoint_id = 0
        self._rest_ms = 0.0
        """Length of the pause from the last barrier on, in milliseconds."""

    def on_barrier(self, checkpoint_id: int, now_ms: float) -> None:
        """Begins a pause, since the source has sent the barrier of a checkpoint; none if it waited for data since the barrier before."""
        self._rest_ms = 0.0 if self._has_waited else min(MOST_MS, self._share * (now_ms - self._barrier_ms))
        self._checkpoint_id, self._barrier_ms, self._has_waited = checkpoint_id, now_ms, False

    def on_waited(self) -> None:
        """Notes that the source had no data to read: it does not pause at the next barrier."""
        self._has_waited = True

    def on_settled(self, checkpoint_id: int) -> None:
        """Ends the pause if the checkpoint (or a later one) is complete or aborted."""
        if checkpoint_id >= self._checkpoint_id:
            self._rest_ms = 0.0

    def left_ms(self, now_ms: float) -> float:
        """Returns for how many milliseconds the source must not read yet; 0: it may read."""
        return max(0.0, self._rest_ms - (now_ms - self._barrier_ms))

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the pause is longer than it may be."""
        assert 0.0 <= self._rest_ms <= MOST_MS, f"rests {self._rest_ms} ms, and {MOST_MS} are the most"
        assert self._share > 0 or not self._rest_ms, f"rests {self._rest_ms} ms, and should never"
