"""Process functions that listen to events of other functions, downstream and upstream.

event ─▶ is the function a listener? ─ yes ─▶ it handles the event, and what it emits goes on
                                      └ no ──▶ passed on: along by the output, against by the next operator up
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidegate.functions.base import EventListener, TaskEventListener
from tidegate.model.channel_events import UserEvent
from tidegate.model.values import Record
from tidegate.taskmanager.operators.user_code.boundary import Collector, user_error
from tidegate.taskmanager.operators.user_code.user_function import FunctionOperatorBase
from tidegate.wire.user_events import value_of


class ListeningOperator(FunctionOperatorBase):
    """Base class of the operators of process functions. ``_collector`` is empty between two calls."""

    _name: str
    _collector: Collector

    def on_user_event(self, event: UserEvent, input_index: int) -> None:
        listener = self._user.given
        if isinstance(listener, EventListener):
            self._hear(listener.on_event, event)
        else:
            super().on_user_event(event, input_index)

    def on_task_event(self, event: UserEvent) -> bool:
        listener = self._user.given
        if not isinstance(listener, TaskEventListener):
            return False
        self._hear(listener.on_task_event, event)
        return True

    def _hear(self, handle: Callable[[object], Iterable[Record] | None], event: UserEvent) -> None:
        self.leave_key()
        value = value_of(event)
        try:
            self._collector.add_all(handle(value), None)
        except Exception as error:
            raise user_error(self._name, error, value) from error
        self._collector.flush()
