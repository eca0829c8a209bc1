"""Operators on keyed streams, with state and timers: ``keyed_process``, ``keyed_co_process`` and ``keyed_reduce``.

    batch ─▶ keys of all records, their groups at once ─▶ for each record: current key ─▶ function ─▶ collector ─▶ emit
    watermark, clock ─▶ timers that are due, in order ─▶ current key ─▶ on_timer ─▶ collector ─▶ emit ─▶ forward

Records that an event-time timer emits have the timer's timestamp; those of a processing-time timer have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import ClassVar, Literal

from tidegate.columnar.keys.hashing import Hashes, key_groups
from tidegate.common.typeinfo import TypeInformation
from tidegate.functions.base import UserCode
from tidegate.functions.time_domain import TimeDomain
from tidegate.model.channel_events import END_OF_TIME, NO_WATERMARK
from tidegate.model.errors import InternalError, InvalidJob, NotSerializable
from tidegate.model.keygroups import range_of
from tidegate.model.program import KeySpec
from tidegate.model.values import Key, Record, UserObject
from tidegate.records.batch import Batch, RecordsBatch
from tidegate.records.canonical.forms import canonical_keys
from tidegate.records.keys import hash_keys
from tidegate.records.record_copy import record_copy
from tidegate.taskmanager.keyed_state.backends import BackendPlace, open_keyed_backend
from tidegate.taskmanager.keyed_state.handles import StateStore
from tidegate.taskmanager.keyed_state.queryable import QueryableState
from tidegate.taskmanager.keyed_state.timer_queue import KeyedTimerQueue
from tidegate.taskmanager.keyed_state.timers import Timer
from tidegate.taskmanager.operators.operator import Operator, OperatorContext
from tidegate.taskmanager.operators.rows.no_current_key import NoCurrentKey
from tidegate.taskmanager.operators.rows.selectors import KeyFunction
from tidegate.taskmanager.operators.rows.timer_service import KeyContext, KeyedTimers
from tidegate.taskmanager.operators.user_code.boundary import Collector, method_of, timer_error, user_error
from tidegate.taskmanager.operators.user_code.user_events import ListeningOperator
from tidegate.taskmanager.operators.user_code.user_function import FunctionOperatorBase, UserFunction
from tidegate.taskmanager.state.ports import FrozenState

_LOAD_PAUSE_MS = 10
"""Milliseconds between two rounds of loading restored state, in which records are processed."""
_LOAD_STEPS = 4
"""Steps of a round of loading, some milliseconds each. Loading takes at most about half of a subtask's time, and delays a record no more than a garbage
collection of a JVM would.
"""
_EVENTS_HAVE_NO_KEY = (
    "events belong to no key, so on_event and on_task_event have no keyed state: keep what they say in operator state "
    "(CheckpointedFunction), or in the function"
)


def _publish(context: OperatorContext, state: QueryableState) -> None:
    if context.coordination.publish_state is not None:
        context.coordination.publish_state(context.operator_id, context.operator_name, state)


class KeyedOperator(Operator):
    """Base class of all operators with keys: one ``KeySpec`` for each input."""

    works_on: ClassVar[Literal["records", "arrow", "any"]] = "records"

    def __init__(self, name: str, keys: Sequence[KeySpec]) -> None:
        self._name = name
        self._keys = keys
        self._selected = [KeyFunction(key, f"key selector of {name}") for key in keys]
        self._only_key: tuple[Key, int] | None = None
        self.store: StateStore | None = None
        """The states that a user's function has requested; ``None``: there is no such function."""

    def setup(self, context: OperatorContext) -> None:
        super().setup(context)
        owned = range_of(context.subtask_index, context.max_parallelism, context.parallelism)
        place = BackendPlace(
            context.configuration,
            context.resources.temp_dir,
            context.resources.managed_memory_bytes,
            context.subtask_index,
            context.restore.checkpoint_id if context.restore else None,
            context.clock.now_ms,
        )
        self._backend = open_keyed_backend(place, self._name, owned, self._keys[0].key_type)
        self._backend.publish = partial(_publish, context)
        if (restore := context.restore) and restore.operator:
            self._backend.restore(restore.operator, restore.segments)
        self._timers = KeyedTimers(context, self._backend)
        self._scheduled: tuple[int, object] | None = None
        self._loading: object = None
        self._collector = Collector(context)

    def open(self) -> None:
        for keys in self._selected:
            keys.open(self.context)
        self._schedule()
        if self._backend.loads_later:
            self._load_later()

    def freeze(self, checkpoint_id: int) -> FrozenState | None:
        return self._backend.freeze(checkpoint_id, self.context.checkpoint_options)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._backend.confirmed(checkpoint_id)
        super().notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._backend.aborted(checkpoint_id)
        super().notify_checkpoint_aborted(checkpoint_id)

    def on_watermark(self, timestamp_ms: int) -> None:
        self._timers.watermark = timestamp_ms
        self._fire_due(self._timers.event, timestamp_ms, TimeDomain.EVENT_TIME)
        self._collector.flush()
        self._schedule()
        super().on_watermark(timestamp_ms)

    def close(self) -> None:
        if self._scheduled is not None:
            self.context.timers.cancel(self._scheduled[1])
            self._scheduled = None
        if self._loading is not None:
            self.context.timers.cancel(self._loading)
        for keys in self._selected:
            keys.close()
        self._backend.close()

    def on_timer(self, timer: Timer, domain: TimeDomain) -> None:
        """Processes a timer that fires, whose key is the current one. Emits through ``_collector``."""

    def _call_on_timer(self, func: UserObject, context: KeyContext, timer: Timer, domain: TimeDomain) -> None:
        """Calls a user function's ``on_timer``, and collects what it emits."""
        stamp = timer.timestamp if domain is TimeDomain.EVENT_TIME else None
        context.domain, context.stamp = domain, timer.timestamp
        try:
            self._collector.add_all(func.on_timer(timer.timestamp, context), stamp)
        except Exception as error:
            raise timer_error(self._name, error, timer, domain) from error

    def keys_of(self, batch: RecordsBatch, input_index: int) -> tuple[list[Key], list[int]]:
        """Returns the canonical keys of a batch's records, checked to belong to this subtask, and their key groups."""
        return self._keys_and_groups(batch, input_index)

    def go_to_key_of(self, batch: RecordsBatch, input_index: int) -> Key:
        """Makes the key of the first record the current one, so that state can be looked at between two records, and returns it."""
        keys, groups = self._keys_and_groups(batch, input_index)
        self._backend.set_current(keys[0], groups[0])
        return keys[0]

    def leave_key(self) -> None:
        self._backend.set_current(NoCurrentKey(self._name, _EVENTS_HAVE_NO_KEY), self._backend.owned.start)

    def begin_key(self, key: Key, group: int) -> None:
        """Sets the key of all records until ``end_of_key``, in BATCH execution mode."""
        self._only_key = (key, group)

    def end_of_key(self) -> None:
        """Ends the only key that there is, in BATCH execution mode: fires its timers and removes its state."""
        timers = self._timers
        timers.watermark, timers.is_quiesced = END_OF_TIME, True
        for timer in timers.event.pop_due(END_OF_TIME):
            self._fire(timer, TimeDomain.EVENT_TIME)
        for timer in timers.processing.pop_due(END_OF_TIME):
            self._fire(timer, TimeDomain.PROCESSING_TIME)
        self._collector.flush()
        timers.watermark, timers.is_quiesced = NO_WATERMARK, False
        self._backend.forget_all()
        self._only_key = None

    def _fire(self, timer: Timer, domain: TimeDomain) -> None:
        self.timers_fired += 1
        self.on_timer(timer, domain)
        if self._collector.is_full():
            self._collector.flush()

    def _on_processing_time(self, time_ms: int) -> None:
        self._scheduled = None
        self._fire_due(self._timers.processing, self.context.clock.now_ms(), TimeDomain.PROCESSING_TIME)
        self._collector.flush()
        self._schedule()

    def _fire_due(self, timers: KeyedTimerQueue, time_ms: int, domain: TimeDomain) -> None:
        """Fires the timers up to ``time_ms``."""
        for timer in timers.pop_due(time_ms):
            self._fire(timer, domain)

    def _schedule(self) -> None:
        """Schedules a call of the runtime when the earliest processing-time timer is due."""
        at_ms = self._timers.processing.next_timestamp()
        if self._scheduled is not None and (at_ms is None or at_ms != self._scheduled[0]):
            self.context.timers.cancel(self._scheduled[1])
            self._scheduled = None
        if at_ms is not None and self._scheduled is None:
            self._scheduled = (at_ms, self.context.timers.schedule(at_ms, self._on_processing_time))

    def _load_later(self) -> None:
        """Schedules a call of the runtime to load restored state, whether records come or not."""
        self._loading = self.context.timers.schedule(self.context.clock.now_ms() + _LOAD_PAUSE_MS, self._load)

    def _load(self, time_ms: int) -> None:
        del time_ms
        self._loading = None
        if self._backend.rows_to_load:
            for _ in range(_LOAD_STEPS):
                self._backend.load_some()
            self.context.metrics.gauge("restoredRowsToLoad", self._backend.rows_to_load)
            self._load_later()

    def _keys_and_groups(self, batch: RecordsBatch, input_index: int) -> tuple[list[Key], list[int]]:
        """Returns keys and key groups of all records of a batch, computed at once."""
        if self._only_key is not None:
            key, group = self._only_key
            return [key] * len(batch), [group] * len(batch)
        self._backend.merge_some()
        keys = self._selected[input_index].keys_of(batch.values)
        try:
            forms = canonical_keys(keys)
            groups = key_groups(hash_keys(keys), self.context.max_parallelism)
        except (InvalidJob, NotSerializable) as error:
            raise type(error)(f"operator '{self._name}', key selector: {error.message}") from error
        self._check(keys, groups)
        return forms, groups.tolist()

    def _keyed_records(self, batch: RecordsBatch, input_index: int) -> Iterator[tuple[Record, int | None]]:
        """Yields each record with its timestamp, after making its key the current one."""
        keys, groups = self._keys_and_groups(batch, input_index)
        backend, hooks = self._backend, self._backend.each_record
        stamps = batch.timestamps or repeat(None, len(keys))
        for value, stamp, key, group in zip(batch.values, stamps, keys, groups, strict=True):
            backend.key = key
            backend.group = group
            for call in hooks:
                call()
            yield value, stamp

    def _check(self, keys: list[Key], groups: Hashes) -> None:
        if not keys:
            return
        owned = self._backend.owned
        strange = (groups < owned.start) | (groups > owned.end)
        if strange.any():
            at = int(strange.argmax())
            raise InternalError(
                f"operator '{self._name}': a record with key {keys[at]!r} of key group {int(groups[at])} came to the subtask "
                f"of key groups {owned.start} to {owned.end}: the key selector gives different keys for the same record, "
                "or the record's type changed the field that the key is made of"
            )


class KeyedProcessOperator(ListeningOperator, KeyedOperator):
    """The operator of ``KeyedProcessFunction`` (one input), ``KeyedCoProcessFunction`` and ``CoProcessFunction`` (two)."""

    def __init__(self, name: str, keys: Sequence[KeySpec], func: UserObject, methods: tuple[str, ...]) -> None:
        super().__init__(name, keys)
        self._func = func
        self._user = UserFunction(func, name)
        self._calls = [method_of(func, method) for method in methods]

    def open(self) -> None:
        self._record = KeyContext(self._timers, self._backend)
        self.store = StateStore(self._backend)
        self._user.open(self.context, self.store, self._collector)
        super().open()

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, RecordsBatch)
        call, record, collector = self._calls[input_index], self._record, self._collector
        for value, stamp in self._keyed_records(batch, input_index):
            record.stamp = stamp
            try:
                emitted = call(value, record)
                if emitted is None:
                    continue
                collector.add_all(emitted, stamp)
            except Exception as error:
                raise user_error(self._name, error, value) from error
            if collector.is_full():
                collector.flush()
        collector.flush()
        self._schedule()

    def on_timer(self, timer: Timer, domain: TimeDomain) -> None:
        self._call_on_timer(self._func, self._record, timer, domain)

    def close(self) -> None:
        try:
            self._user.close()
        finally:
            super().close()


class KeyedReduceOperator(FunctionOperatorBase, KeyedOperator):
    """Combines each record with the result so far of its key, and emits every new result. What is emitted is never the object in state, which the next call may
    change in place, and neither is one that the function still has.
    """

    def __init__(self, name: str, keys: Sequence[KeySpec], func: UserCode, value_type: TypeInformation) -> None:
        super().__init__(name, keys)
        self._user = UserFunction(func, name)
        self._reduce = method_of(func, "reduce")
        self._value_type = value_type

    def open(self) -> None:
        self._table = self._backend.table("_reduced", "reducing", self._value_type)
        # Copied with object reuse too, since the value is in state.
        self._copies = record_copy(self._value_type, f"operator '{self._name}'")
        self._kept = self._backend.copies_of("_reduced", self._value_type)
        self._user.open(self.context, StateStore(self._backend))
        super().open()

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, RecordsBatch)
        shared, copy = self._copies.shared, self._copies.copy
        backend, reduce, hooks = self._backend, self._reduce, self._backend.each_record
        read, write, direct = self._table.read, self._table.write, self._table.direct
        keys, groups = self._keys_and_groups(batch, input_index)
        reduced: list[Record] = []
        of_group = {group: direct(group) for group in set(groups)}
        for value, key, group in zip(batch.values, keys, groups, strict=True):
            backend.key, backend.group = key, group  # the function may have state of its own
            for call in hooks:
                call()
            entry, entries = (key, None), of_group[group]
            found = read(group, entry) if entries is None else entries.get(entry)
            try:
                result = value if found is None else reduce(found, value)
            except Exception as error:
                raise user_error(self._name, error, value) from error
            emitted = result
            if result.__class__ not in shared:
                emitted = copy(result)
                if result is not value:
                    result = self._kept.unless_same(result, found)
            if entries is None:
                write(group, entry, result)
            else:
                entries[entry] = result
            reduced.append(emitted)
        self.context.output.emit(RecordsBatch(reduced, batch.timestamps))

    def close(self) -> None:
        try:
            self._user.close()
        finally:
            super().close()
