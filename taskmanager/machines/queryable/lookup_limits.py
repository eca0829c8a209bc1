"""Limits the lookups of clients (queryable state) that reach the subtasks of a TaskManager, so that they do not disturb the jobs.

    keys per second      a bucket that fills at the rate and holds a quarter of a second of it
    keys under way       a subtask is given so many at most before it has answered

A request counts as at least ``REQUEST_KEYS`` keys, since the message itself has a cost too.
"""

from __future__ import annotations

from tidegate.model.ids import AttemptId

REQUEST_KEYS = 5
"""The least that a request costs, in keys. Chosen, not measured."""
BURST_S = 0.25
"""Seconds of the rate that may come at once. Chosen, not measured."""
PENDING_KEYS = 4_096
"""Most keys that a subtask is given before it has answered, and most keys of a request. Chosen, not measured: some tens of milliseconds of a subtask's work."""


class LookupLimits:
    """Admits or refuses lookups. ``keys_per_s``: for all subtasks of the TaskManager together."""

    def __init__(self, keys_per_s: int) -> None:
        self._keys_per_ms = keys_per_s / 1000
        self._most = max(float(PENDING_KEYS), keys_per_s * BURST_S)
        self._left = self._most
        self._filled_ms = 0
        self._pending: dict[AttemptId, int] = {}

    def refusal(self, attempt: AttemptId, keys: int, now_ms: int) -> str | None:
        """Returns why a request with so many keys is refused. ``None``: it is admitted, and ``answered`` must be called when it is over."""
        if keys > PENDING_KEYS:
            return f"a request holds at most {PENDING_KEYS:,} keys, not {keys:,}"
        self._left = min(self._most, self._left + (now_ms - self._filled_ms) * self._keys_per_ms)
        self._filled_ms = now_ms
        if self._pending.get(attempt, 0) + keys > PENDING_KEYS:
            return f"its subtask has {self._pending[attempt]:,} keys to look up already"
        cost = max(keys, REQUEST_KEYS)
        if cost > self._left:
            return (
                f"this TaskManager answers {self._keys_per_ms * 1000:,.0f} keys a second "
                "(tidegate.queryable-state.max-rate)"
            )
        self._left -= cost
        self._pending[attempt] = self._pending.get(attempt, 0) + keys
        return None

    def answered(self, attempt: AttemptId, keys: int) -> None:
        """Notes that an admitted request is over, however it ended."""
        left = self._pending[attempt] - keys
        if left:
            self._pending[attempt] = left
        else:
            del self._pending[attempt]

    def check_invariants(self) -> None:
        assert 0 <= self._left <= self._most, (self._left, self._most)
        assert all(0 < keys <= PENDING_KEYS for keys in self._pending.values()), self._pending
