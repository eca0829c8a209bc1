"""When a source rests: behind its barrier, while the subtasks behind it are at work for the same checkpoint.

    barrier ──it read all the time since the last one──▶ RESTING ──settled · its share of the time is used up──▶ READING
            └──it had to wait for data────────────────────────────────────────────────────────────────────────▶ READING

Law: a source rests for no more than ``share`` of the time from barrier to barrier, and never longer than ``MOST_MS``.

What is read while a checkpoint is taken only takes processors from it. A source that is behind reads the same a moment later; one that is
not has fresh records, and goes on (docs/adr/0072).
"""

from __future__ import annotations

MOST_MS = 100.0
"""A checkpoint that takes longer waits for a disk, or for much state: reading is not what holds it up."""


class SourcePause:
    def __init__(self, share: float, now_ms: float) -> None:
        """``share``: 0 means that it never rests. ``now_ms``: of a clock that never goes back."""
        self._share = share
        self._barrier_ms = now_ms
        self._has_waited = False
        self._checkpoint_id = 0
        self._rest_ms = 0.0
        """From that barrier on."""

    def on_barrier(self, checkpoint_id: int, now_ms: float) -> None:
        """It has sent one."""
        self._rest_ms = 0.0 if self._has_waited else min(MOST_MS, self._share * (now_ms - self._barrier_ms))
        self._checkpoint_id, self._barrier_ms, self._has_waited = checkpoint_id, now_ms, False

    def on_waited(self) -> None:
        """There was nothing to read."""
        self._has_waited = True

    def on_settled(self, checkpoint_id: int) -> None:
        """It is complete, or aborted."""
        if checkpoint_id >= self._checkpoint_id:
            self._rest_ms = 0.0

    def left_ms(self, now_ms: float) -> float:
        """How long it should not read yet; 0: read."""
        return max(0.0, self._rest_ms - (now_ms - self._barrier_ms))

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when it would rest for longer than it may."""
        assert 0.0 <= self._rest_ms <= MOST_MS, f"rests {self._rest_ms} ms, and {MOST_MS} are the most"
        assert self._share > 0 or not self._rest_ms, f"rests {self._rest_ms} ms, and should never"
