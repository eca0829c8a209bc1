"""Sends events of a subtask's operators to their coordinators, numbered in their order."""

from __future__ import annotations

import threading

from tidegate.model.coordinators.operator_events import CoordinatorEvent, OperatorEvent
from tidegate.model.ids import OperatorId
from tidegate.taskmanager.runtime.ports import ControlPort


class CoordinatorEvents:
    """Sends events to coordinators from any thread: a source's thread reports what it found while the subtask's thread is in a user function."""

    def __init__(self, port: ControlPort) -> None:
        self._port = port
        self._lock = threading.Lock()
        self._last_number = 0

    def tell(self, operator_id: OperatorId, event: CoordinatorEvent) -> None:
        with self._lock:  # a number that comes late counts as repeated
            self._last_number += 1
            self._port.operator_event(OperatorEvent(operator_id, self._last_number, event))
