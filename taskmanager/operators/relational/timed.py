"""Operators that emit when time has come: event time by watermarks, or processing time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidegate.functions.sql.rows import Change
from tidegate.functions.time_domain import TimeDomain
from tidegate.taskmanager.keyed_state.timers import Timer
from tidegate.taskmanager.operators.base import Operator
from tidegate.taskmanager.operators.relational.base import KEEP, RelationalOperator


class TimedOperator(RelationalOperator):
    """``is_event_time``: the time that ``register`` and ``now`` speak of is that of the watermarks."""

    def __init__(self, name: str, keys: Sequence[Sequence[int]], schema: pa.Schema, *, is_event_time: bool) -> None:
        super().__init__(name, keys, schema)
        self.is_event_time = is_event_time
        self._fired: list[Change] = []

    @abstractmethod
    def fire(self, state: Any, time_ms: int, out: list[Change]) -> Any:
        """The timer of a key is due. Returns the new state of the key, ``None`` for none, or ``KEEP``."""

    def now(self) -> int:
        """Returns the time in ms."""
        return self._timers.watermark if self.is_event_time else self.context.clock.now_ms()

    def register(self, time_ms: int) -> None:
        """Calls ``fire`` for the current key when it is that time."""
        (self._timers.event if self.is_event_time else self._timers.processing).register(time_ms)

    def end_batch(self, out: list[Change]) -> None:
        self._schedule()

    def on_timer(self, timer: Timer, domain: TimeDomain) -> None:
        now_ms = self.context.clock.now_ms()
        state = self.read(timer.group, timer.key, now_ms)
        if state is not None:
            found = self.fire(state, timer.timestamp, self._fired)
            if found is not KEEP:
                self.write(timer.group, timer.key, found, now_ms)

    def on_watermark(self, timestamp_ms: int) -> None:
        self.advance(timestamp_ms)
        Operator.on_watermark(self, timestamp_ms)

    def advance(self, timestamp_ms: int) -> None:
        """Event time has reached ``timestamp_ms``: what is due is emitted."""
        self._timers.watermark = timestamp_ms
        for timer in self._timers.event.pop_due(timestamp_ms):
            self._fire(timer, TimeDomain.EVENT_TIME)
        self._emit_fired()
        self._schedule()

    def _on_processing_time(self, time_ms: int) -> None:
        super()._on_processing_time(time_ms)
        self._emit_fired()

    def _emit_fired(self) -> None:
        fired, self._fired = self._fired, []
        self.emit(fired)
