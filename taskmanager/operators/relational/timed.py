"""Base class of operators that emit at a time: event time by watermarks, or processing time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import pyarrow as pa

from tidegate.common.typeinfo import Types
from tidegate.functions.sql.rows import Change, batch_of
from tidegate.functions.time_domain import TimeDomain
from tidegate.model.channel_events import END_OF_TIME, NO_WATERMARK
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.keyed_state.backend import KeyedTable
from tidegate.taskmanager.keyed_state.entry import Entry
from tidegate.taskmanager.keyed_state.timer_queue import KeyedTimerQueue
from tidegate.taskmanager.keyed_state.timers import DueTimers, Timer
from tidegate.taskmanager.operators.operator import Operator
from tidegate.taskmanager.operators.relational.relational_operator import KEEP, RelationalOperator, StateOfKey

_NO_KEY: Final[Entry] = ((), None)
"""The entry of what belongs to a key group, and to no key."""


class TimedOperator(RelationalOperator):
    """Base class of operators with timers by key. ``is_event_time``: ``register`` and ``now`` use event time, otherwise processing time.

    ``retention_ms``: ``expire`` removes a key for which ``keep_alive`` was not called for that time; it comes at most half as much later (Flink:
    ``CleanupState``). 0: keys are not removed. With a retention, ``fire`` is used for event time only.
    """

    fires_together: ClassVar[bool] = False
    """Whether the keys with timers of one time fire together, by ``fire_all``. An operator that sets it has no retention."""
    keeps_watermark: ClassVar[bool] = False
    """Whether event time goes on behind a restore, so that no late row opens a window that had fired (Flink: the state ``watermark`` of
    ``WindowAggOperator``). State ``watermark``: the watermark in ms, by key group.
    """

    def __init__(
        self,
        name: str,
        keys: Sequence[Sequence[int]],
        schema: pa.Schema,
        *,
        is_event_time: bool,
        ttl_ms: int = 0,
        retention_ms: int = 0,
    ) -> None:
        super().__init__(name, keys, schema, ttl_ms)
        self.is_event_time = is_event_time
        self._retention_ms = retention_ms
        self._cleanups: StateOfKey | None = None
        self._fired: list[Change] = []
        self._fired_before: list[pa.RecordBatch] = []
        """Batches to emit before the rows in ``_fired``."""
        self._watermarks: KeyedTable | None = None
        self._kept_watermark = NO_WATERMARK

    @property
    def forgets(self) -> bool:
        """Whether keys without rows are removed after some processing time."""
        return self._ttl_ms > 0 or self._retention_ms > 0

    def open_states(self) -> None:
        self.open_cleanups()
        super().open_states()

    def open_cleanups(self) -> None:
        """Creates the state that stores when each key is removed."""
        if self._retention_ms:
            self._cleanups = self.state_of_key("cleanup-timestamp", 0)

    def open(self) -> None:
        super().open()
        if self.keeps_watermark and self.is_event_time:
            self._watermarks = self._backend.table("watermark", "value", Types.PICKLED_BYTE_ARRAY())
            owned = self._backend.owned
            restored = [self._watermarks.peek(group, _NO_KEY) for group in range(owned.start, owned.end + 1)]
            self._timers.watermark = min((found for found in restored if found is not None), default=NO_WATERMARK)

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        super().prepare_snapshot(checkpoint_id)
        reached = self._timers.watermark
        if self._watermarks is not None and reached not in (self._kept_watermark, END_OF_TIME):
            self._kept_watermark = reached
            owned = self._backend.owned
            for group in range(owned.start, owned.end + 1):
                self._watermarks.write(group, _NO_KEY, reached)

    @abstractmethod
    def fire(self, state: Any, time_ms: int, out: list[Change]) -> Any:
        """Processes a timer of a key that is due. Returns the new state of the key, ``None`` for none, or ``KEEP``."""

    def fire_all(self, due: DueTimers) -> None:
        """Fires the keys with timers of one time, in their order. An operator that computes something for all of them at once overrides this method."""
        for key, group in zip(due.keys, due.groups, strict=True):
            self.on_timer(Timer(due.timestamp, key, group, None), TimeDomain.EVENT_TIME)

    def emit_fired(self, batch: pa.RecordBatch) -> None:
        """Emits rows of keys that fire after those that are to be emitted already."""
        if self._fired:
            self._fired_before.append(batch_of(self._fired, self._schema))
            self._fired = []
        self._fired_before.append(batch)

    def expire(self, state: Any) -> Any:
        """Removes a key that was not kept alive. Returns its new state, as ``fire`` does."""
        return None

    def keep_alive(self) -> None:
        """Extends the life of the current key to ``retention_ms`` from now."""
        if self._cleanups is None:
            return
        now_ms = self.context.clock.now_ms()
        ends_ms = self._cleanups.read(self._backend.group, self._backend.key, now_ms)
        if ends_ms is None or now_ms + self._retention_ms > ends_ms:
            self._move_cleanup(ends_ms, now_ms + self._retention_ms * 3 // 2, now_ms)

    def stop_cleanup(self) -> None:
        """Cancels the cleanup of the current key, since it has no state."""
        if self._cleanups is None:
            return
        now_ms = self.context.clock.now_ms()
        ends_ms = self._cleanups.read(self._backend.group, self._backend.key, now_ms)
        if ends_ms is not None:
            self._move_cleanup(ends_ms, None, now_ms)

    def _move_cleanup(self, before_ms: int | None, ends_ms: int | None, now_ms: int) -> None:
        """Replaces the time at which the current key is removed. ``None``: no time."""
        assert self._cleanups is not None
        if before_ms is not None:
            self._timers.processing.delete(before_ms)
        if ends_ms is not None:
            self._timers.processing.register(ends_ms)
        self._cleanups.write(self._backend.group, self._backend.key, ends_ms, now_ms)

    def now(self) -> int:
        """Returns the time in ms: the watermark, or the processing time."""
        return self._timers.watermark if self.is_event_time else self.context.clock.now_ms()

    def register(self, time_ms: int) -> None:
        """Registers a timer, at which ``fire`` is called for the current key."""
        (self._timers.event if self.is_event_time else self._timers.processing).register(time_ms)

    def register_all(self, time_ms: int, keys: Sequence[Any], groups: Sequence[int]) -> None:
        """Registers a timer of each key. ``groups``: the key group of each."""
        (self._timers.event if self.is_event_time else self._timers.processing).register_all(time_ms, keys, groups)

    def end_batch(self, out: list[Change]) -> None:
        self._schedule()

    def on_timer(self, timer: Timer, domain: TimeDomain) -> None:
        now_ms = self.context.clock.now_ms()
        self._backend.key, self._backend.group = timer.key, timer.group
        state = self.read(timer.group, timer.key, now_ms)
        if self._cleanups is not None and domain is TimeDomain.PROCESSING_TIME:
            self._cleanups.write(timer.group, timer.key, None, now_ms)
            found = KEEP if state is None else self.expire(state)
        else:
            found = KEEP if state is None else self.fire(state, timer.timestamp, self._fired)
        if found is not KEEP:
            self.write(timer.group, timer.key, found, now_ms)

    def on_watermark(self, timestamp_ms: int) -> None:
        reached = max(timestamp_ms, self._timers.watermark)
        self.advance(reached)
        Operator.on_watermark(self, reached)

    def advance(self, timestamp_ms: int) -> None:
        """Advances event time to ``timestamp_ms``, behind the rows that came before it, and emits what is due."""
        self._end_mini_batch()
        self._timers.watermark = timestamp_ms
        self._fire_due(self._timers.event, timestamp_ms, TimeDomain.EVENT_TIME)
        self._emit_fired()
        self._schedule()

    def _on_processing_time(self, time_ms: int) -> None:
        super()._on_processing_time(time_ms)
        self._emit_fired()

    def _fire_due(self, timers: KeyedTimerQueue, time_ms: int, domain: TimeDomain) -> None:
        if not self.fires_together:
            super()._fire_due(timers, time_ms, domain)
            return
        for due in timers.pop_all_due(time_ms):
            self.timers_fired += len(due.keys)
            self.fire_all(due)

    def _emit_fired(self) -> None:
        if self._fired_before:
            if self._fired:
                self._fired_before.append(batch_of(self._fired, self._schema))
            for batch in pa.Table.from_batches(self._fired_before).combine_chunks().to_batches():
                self.context.output.emit(ArrowBatch(batch))
            self._fired, self._fired_before = [], []
            return
        fired, self._fired = self._fired, []
        self.emit(fired)
