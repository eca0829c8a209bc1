"""Observers of a replay: a debugger that stops before a record, and the values of a state before and after each record."""

from __future__ import annotations

import pdb
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from tidegate.functions.state import AggregatingState, ListState, MapState, ReducingState, ValueState
from tidegate.model.errors import InvalidJob
from tidegate.records.batch import RecordsBatch
from tidegate.records.canonical.forms import value_of
from tidegate.taskmanager.operators.rows.keyed import KeyedOperator
from tidegate.taskmanager.replaying.chance import is_of_user
from tidegate.taskmanager.replaying.replay import Step
from tidegate.taskmanager.runtime.conversion import BothShapes
from tidegate.taskmanager.runtime.failures import show_record


class UserPdb(pdb.Pdb):
    """A debugger that stops only in user code; a step elsewhere continues to the next line of user code."""

    def stop_here(self, frame: FrameType) -> bool:
        return bool(super().stop_here(frame)) and is_of_user(frame)


class BreakAt:
    """Observer that starts a debugger when the user's function is called for the record with the given number."""

    def __init__(self, number: int, tell: Callable[[str], None], debugger: Callable[[], UserPdb] = UserPdb) -> None:
        self._number = number
        self._tell = tell
        self._debugger = debugger
        self.was_reached = False

    def wants(self, number: int) -> bool:
        return number == self._number

    def process(self, step: Step, call: Callable[[], None]) -> None:
        self.was_reached = True
        self._tell(f"before record {step.number}: {show_record(step.value)}")
        self._debugger().runcall(call)


@dataclass(frozen=True, slots=True)
class Watched:
    """A record, and the values of the watched state of its key before and after it."""

    number: int
    value: str
    key: str
    before: str
    after: str


class WatchState:
    """Observer that keeps the values of a state of the head operator before and after each of the last ``most`` records."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self.rows: deque[Watched] = deque(maxlen=most)

    def wants(self, number: int) -> bool:
        return True

    def process(self, step: Step, call: Callable[[], None]) -> None:
        """Processes the record and notes the state. Raises ``InvalidJob`` when there is no such state."""
        head, spec = step.chain.chain.head, step.program.operators[0]
        store = head.store if isinstance(head, KeyedOperator) else None
        if not isinstance(head, KeyedOperator) or store is None or self._name not in store.handles:
            known = ", ".join(sorted(store.handles)) if store is not None else ""
            raise InvalidJob(
                f"operator '{spec.name}' has no state {self._name!r} to watch; "
                + (f"it has: {known}" if known else "it has none by key")
            )
        type_info = next(found.type_info for found in step.program.inputs if found.input_index == step.input_index)
        records = BothShapes(step.batch, type_info, spec.name).records()
        key, before = self._look(head, records, step.input_index)
        after = "(it failed)"
        try:
            call()
            after = self._look(head, records, step.input_index)[1]
        finally:
            self.rows.append(Watched(step.number, show_record(step.value), key, before, after))

    def _look(self, head: KeyedOperator, records: RecordsBatch, input_index: int) -> tuple[str, str]:
        key = head.go_to_key_of(records, input_index)
        assert head.store is not None
        return show_record(value_of(key)), show_record(state_value(head.store.handles[self._name][1]))


class Both:
    """Combines several observers of a replay; each runs inside those before it."""

    def __init__(self, observers: Sequence[BreakAt | WatchState]) -> None:
        self._observers = observers

    def wants(self, number: int) -> bool:
        return any(observer.wants(number) for observer in self._observers)

    def process(self, step: Step, call: Callable[[], None]) -> None:
        for observer in reversed([found for found in self._observers if found.wants(step.number)]):
            call = _inside(observer, step, call)
        call()


def _inside(observer: BreakAt | WatchState, step: Step, call: Callable[[], None]) -> Callable[[], None]:
    return lambda: observer.process(step, call)


def state_value(handle: object) -> Any:
    """Returns the value of a state of the current key as a plain Python object."""
    match handle:
        case ValueState():
            return handle.value()
        case ListState():
            return list(handle.get() or ())
        case MapState():
            return dict(handle.items())
        case ReducingState() | AggregatingState():
            return handle.get()
        case _:
            return handle
