"""The services that the parts of one subtask attempt share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidegate.model.ids import AttemptId
from tidegate.taskmanager.operators.operator import Clock
from tidegate.taskmanager.runtime.mailbox import Mailbox
from tidegate.taskmanager.runtime.measuring.subtask_metrics import TaskCounters
from tidegate.taskmanager.runtime.ports import ControlPort
from tidegate.taskmanager.runtime.queryable.kv_states import KvStateRegistry
from tidegate.taskmanager.runtime.timers import TimerQueue


@dataclass(frozen=True, slots=True)
class SubtaskServices:
    """The services of one subtask attempt. ``timers``: those of operators; ``alarms``: those of the runtime, which fire in every state, also while outputs have
    no space. ``check()`` raises errors of the data connections' thread.
    """

    attempt: AttemptId
    mailbox: Mailbox
    port: ControlPort
    clock: Clock
    timers: TimerQueue
    alarms: TimerQueue
    counters: TaskCounters
    probe: Callable[[str, Mapping[str, object]], None]
    check: Callable[[], None]
    kv_states: KvStateRegistry
