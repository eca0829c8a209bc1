"""Warns when a sink's commits do not succeed, since they fail or their system does not answer. Data goes on and checkpoints complete meanwhile, and without
this class nothing would say that no output reaches the readers.

    begun ─┬─ succeeded in time ───────────────────────────▶ nothing is said
           └─ failed, or 10 s without an answer ─▶ warning ─▶ again every 30 s ─▶ succeeded: how long it took
"""

from __future__ import annotations

import logging
import threading

from tidegate.taskmanager.operators.operator import OperatorContext

SLOW_MS = 10_000
"""Milliseconds without an answer after which a commit counts as failing."""
WARN_EVERY_MS = 30_000
"""Milliseconds between two warnings. Chosen, not measured."""

_LOG = logging.getLogger(__name__)


class CommitOutage:
    """Watches the commits of one sink's subtask. ``failed`` is called by the thread that commits, everything else by the subtask's."""

    def __init__(self, name: str, context: OperatorContext) -> None:
        self._name = name
        self._clock = context.clock
        self._timers = context.timers
        self._lock = threading.Lock()
        self._tried = ""
        self._began_ms = 0.0
        self._since_ms: float | None = None
        self._warned_ms: float | None = None
        self._slow_timer: object | None = None

    def begun(self, what: str) -> None:
        """Notes that commits begin. ``what``: their name in warnings, such as ``checkpoint 7``."""
        self._tried, self._began_ms = what, self._clock.monotonic_ms()
        self._slow_timer = self._timers.schedule(self._clock.now_ms() + SLOW_MS, self._on_slow)

    def failed(self, error: str) -> None:
        """Notes that an attempt to commit has failed and another one follows."""
        self._warn(f"cannot be committed: {error}")

    def ended(self, *, succeeded: bool) -> None:
        if self._slow_timer is not None:
            self._timers.cancel(self._slow_timer)
            self._slow_timer = None
        if succeeded and self._since_ms is not None:
            _LOG.warning("operator '%s': commits succeed again, after %.0f s", self._name, self.lasting_ms() / 1000)
        self._since_ms = self._warned_ms = None

    def lasting_ms(self) -> float:
        """Returns the milliseconds for which commits have not succeeded; 0 while nothing is wrong."""
        since_ms = self._since_ms
        return 0.0 if since_ms is None else max(1.0, self._clock.monotonic_ms() - since_ms)

    def _on_slow(self, _: int) -> None:
        self._slow_timer = self._timers.schedule(self._clock.now_ms() + SLOW_MS, self._on_slow)
        self._warn("is being committed, and its system does not answer")

    def _warn(self, why: str) -> None:
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            if self._since_ms is None:
                self._since_ms = self._began_ms
            if self._warned_ms is not None and now_ms - self._warned_ms < WARN_EVERY_MS:
                return
            self._warned_ms = now_ms
            lasting_s = (now_ms - self._since_ms) / 1000
        _LOG.warning(
            "operator '%s': what %s holds %s. Readers have seen nothing new for %.0f s; it is tried again",
            *(self._name, self._tried, why, lasting_s),
        )
