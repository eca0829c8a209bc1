"""The operators of a stream connected with a broadcast one, ``broadcast_process`` and ``keyed_broadcast_process`` (Flink:
``CoBroadcastWithNonKeyedOperator.java``, ``CoBroadcastWithKeyedOperator.java``).

    input 0: records           ─▶ process_element            broadcast state, to read; with keys: keyed state and timers
    input 1: broadcast stream  ─▶ process_broadcast_element  broadcast state, to change; no current key

Broadcast state is operator state of the function: every subtask writes its copy, and restores one of the copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

from tidegate.functions.broadcast_functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedStateFunction,
)
from tidegate.functions.state import BroadcastState, MapStateDescriptor, ReadOnlyBroadcastState, StateDescriptor
from tidegate.functions.time_domain import TimeDomain
from tidegate.functions.timerservice import TimerService
from tidegate.model.errors import InvalidJob
from tidegate.model.program import KeySpec
from tidegate.model.values import MapKey, StateValue, UserObject
from tidegate.records.batch import Batch, RecordsBatch
from tidegate.records.canonical.forms import value_of
from tidegate.taskmanager.keyed_state.backend import KeyedBackend
from tidegate.taskmanager.keyed_state.handles import StateStore
from tidegate.taskmanager.keyed_state.timers import Timer
from tidegate.taskmanager.operators.operator import OperatorContext
from tidegate.taskmanager.operators.rows.keyed import KeyedOperator
from tidegate.taskmanager.operators.rows.no_current_key import NoCurrentKey
from tidegate.taskmanager.operators.rows.timer_service import KeyContext, RecordContext, UnkeyedTimers
from tidegate.taskmanager.operators.user_code.boundary import Collector, method_of, stamped
from tidegate.taskmanager.operators.user_code.user_events import ListeningOperator
from tidegate.taskmanager.operators.user_code.user_function import UserFunction
from tidegate.taskmanager.state.function_state import BroadcastEntries, FunctionStateBackend

BROADCAST_INPUT = 1
"""Index of the broadcast input, after the keyed or plain one, as in Flink's broadcast operators."""
_ELEMENTS_HAVE_NO_KEY = (
    "broadcast elements belong to no key, so process_broadcast_element has no keyed state of its own: use "
    "ctx.apply_to_keyed_state(descriptor, function)"
)


class BroadcastStates:
    """The broadcast states of an operator, registered before the function is opened, so that they are kept even if it never uses them."""

    def __init__(self, operator: str, descriptors: Sequence[MapStateDescriptor], backend: FunctionStateBackend) -> None:
        self._operator = operator
        self._states = {found.name: backend.get_broadcast_state(found) for found in descriptors}
        self._views = {
            name: ReadOnlyEntries(state) for name, state in self._states.items() if isinstance(state, BroadcastEntries)
        }

    def of(self, descriptor: MapStateDescriptor) -> BroadcastState[MapKey, StateValue]:
        return self._states[self._name(descriptor)]

    def view_of(self, descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[MapKey, StateValue]:
        return self._views[self._name(descriptor)]

    def _name(self, descriptor: MapStateDescriptor) -> str:
        if descriptor.name not in self._states:
            raise InvalidJob(
                f"operator '{self._operator}': there is no broadcast state '{descriptor.name}', only "
                f"{', '.join(self._states)}: give its descriptor to broadcast(...)"
            )
        return descriptor.name


class ReadOnlyEntries(ReadOnlyBroadcastState[MapKey, StateValue]):
    """Read-only broadcast state, for the function of the other side."""

    def __init__(self, state: BroadcastEntries) -> None:
        self._state = state

    def get(self, key: MapKey) -> StateValue:
        return self._state.get(key)

    def contains(self, key: MapKey) -> bool:
        return self._state.contains(key)

    def items(self) -> Iterable[tuple[MapKey, StateValue]]:
        return self._state.items()

    def keys(self) -> Iterable[MapKey]:
        return self._state.keys()

    def values(self) -> Iterable[StateValue]:
        return self._state.values()

    def is_empty(self) -> bool:
        return self._state.is_empty()

    def clear(self) -> NoReturn:
        raise InvalidJob("broadcast state is read-only here; change it in process_broadcast_element")


class _Times:
    """Event time and processing time in the contexts of broadcast functions."""

    _timers: TimerService

    def current_processing_time(self) -> int:
        return self._timers.current_processing_time()

    def current_watermark(self) -> int:
        return self._timers.current_watermark()


class _Reading(_Times, RecordContext, BroadcastProcessFunction.ReadOnlyContext):
    def __init__(self, timers: UnkeyedTimers, states: BroadcastStates) -> None:
        super().__init__(timers)
        self._states = states

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[MapKey, StateValue]:
        return self._states.view_of(state_descriptor)


class _KeyedReading(_Times, KeyContext, KeyedBroadcastProcessFunction.OnTimerContext):
    def __init__(self, timers: UnkeyedTimers, backend: KeyedBackend, states: BroadcastStates) -> None:
        super().__init__(timers, backend)
        self._states = states

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[MapKey, StateValue]:
        return self._states.view_of(state_descriptor)


class _Writing(_Times, BroadcastProcessFunction.Context):
    def __init__(self, timers: UnkeyedTimers, states: BroadcastStates) -> None:
        self.stamp: int | None = None
        self._timers = timers
        self._states = states

    def timestamp(self) -> int | None:
        return self.stamp

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[MapKey, StateValue]:
        return self._states.of(state_descriptor)


class _KeyedWriting(_Writing, KeyedBroadcastProcessFunction.Context):
    def __init__(self, timers: UnkeyedTimers, states: BroadcastStates, backend: KeyedBackend) -> None:
        super().__init__(timers, states)
        self._backend = backend

    def apply_to_keyed_state(
        self,
        state_descriptor: StateDescriptor,
        function: KeyedStateFunction | Callable[[StateValue, StateValue], object],
    ) -> None:
        backend = self._backend
        handle = StateStore(backend).of(state_descriptor)
        call = function.process if isinstance(function, KeyedStateFunction) else function
        before = backend.key, backend.group
        try:
            for group, (key, _) in backend.entry_keys(state_descriptor.name):
                backend.set_current(key, group)
                call(value_of(key), handle)
        finally:
            backend.set_current(*before)


class BroadcastProcessOperator(ListeningOperator):
    """Runs a ``BroadcastProcessFunction`` on a stream without keys and a broadcast stream."""

    works_on = "records"

    def __init__(self, name: str, func: UserObject, descriptors: Sequence[MapStateDescriptor]) -> None:
        self._name = name
        self._descriptors = descriptors
        self._user = UserFunction(func, name, keeps_operator_state=True)
        self._calls = [method_of(func, method) for method in ("process_element", "process_broadcast_element")]

    def setup(self, context: OperatorContext) -> None:
        super().setup(context)
        self._timers = UnkeyedTimers(context)
        self._collector = Collector(context)

    def open(self) -> None:
        states = BroadcastStates(self._name, self._descriptors, self._user.restore(self.context))
        self._contexts = (_Reading(self._timers, states), _Writing(self._timers, states))
        self._user.open(self.context, collector=self._collector)

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, RecordsBatch)
        self._collector.add_each(self._calls[input_index], self._contexts[input_index], stamped(batch), self._name)
        self._collector.flush()

    def on_watermark(self, timestamp_ms: int) -> None:
        self._timers.watermark = timestamp_ms
        super().on_watermark(timestamp_ms)

    def close(self) -> None:
        self._user.close()


class KeyedBroadcastProcessOperator(ListeningOperator, KeyedOperator):
    """Runs a ``KeyedBroadcastProcessFunction`` on a keyed and a broadcast stream."""

    def __init__(self, name: str, key: KeySpec, func: UserObject, descriptors: Sequence[MapStateDescriptor]) -> None:
        super().__init__(name, [key])
        self._func = func
        self._descriptors = descriptors
        self._user = UserFunction(func, name, keeps_operator_state=True)

    def open(self) -> None:
        states = BroadcastStates(self._name, self._descriptors, self._user.restore(self.context))
        self._reading = _KeyedReading(self._timers, self._backend, states)
        self._writing = _KeyedWriting(self._timers, states, self._backend)
        self._no_key = NoCurrentKey(self._name, _ELEMENTS_HAVE_NO_KEY)
        self._user.open(self.context, StateStore(self._backend), self._collector)
        super().open()

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, RecordsBatch)
        if input_index == BROADCAST_INPUT:
            self._process_broadcast(batch)
        else:
            self._process_keyed(batch)
        self._collector.flush()
        self._schedule()

    def _process_keyed(self, batch: RecordsBatch) -> None:
        self._collector.add_each(self._func.process_element, self._reading, self._keyed_records(batch, 0), self._name)

    def _process_broadcast(self, batch: RecordsBatch) -> None:
        self._backend.set_current(self._no_key, self._backend.owned.start)
        self._collector.add_each(self._func.process_broadcast_element, self._writing, stamped(batch), self._name)

    def on_timer(self, timer: Timer, domain: TimeDomain) -> None:
        self._call_on_timer(self._func, self._reading, timer, domain)

    def close(self) -> None:
        try:
            self._user.close()
        finally:
            super().close()
