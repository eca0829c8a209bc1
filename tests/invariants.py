"""Machines check their invariants after each event: in their own tests, and in the simulators.

    with checked():
        ...                   # every machine that is used here, whoever drives it

A machine says what must hold between two events in ``check_invariants``. Nobody who drives it has to know: the methods by which
events enter are wrapped. The machines of the JobManager are checked as one, from ``Dispatcher``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Concatenate, ParamSpec, Protocol, TypeVar
from unittest import mock

from tidegate.jobmanager.machines.dispatcher import Dispatcher
from tidegate.jobmanager.machines.fenced_writes import FencedWrites
from tidegate.jobmanager.machines.leadership import Leadership
from tidegate.taskmanager.machines.async_wait import AsyncWaitQueue
from tidegate.taskmanager.machines.barrier_handler import ExactlyOnceBarrierHandler
from tidegate.taskmanager.machines.barrier_tracker import TrackingHandler
from tidegate.taskmanager.machines.credit import BufferDebloater, ReceiverCredit, SenderCredit
from tidegate.taskmanager.machines.incremental_snapshot import Increments
from tidegate.taskmanager.machines.snapshot import SnapshotCoordinator
from tidegate.taskmanager.machines.snapshot_write import SnapshotWrite
from tidegate.taskmanager.machines.source_pause import SourcePause
from tidegate.taskmanager.machines.split_watermarks import SplitWatermarks
from tidegate.taskmanager.machines.subtask import SubtaskLifecycle
from tidegate.taskmanager.machines.task_manager import TaskManagerMachine
from tidegate.taskmanager.machines.watermarks import WatermarkValve
from tidegate.taskmanager.operators.columns.async_queue import AsyncBatchesQueue


class Machine(Protocol):
    def check_invariants(self) -> None: ...


EVENTS: Mapping[type[Machine], tuple[str, ...]] = {
    AsyncBatchesQueue: ("on",),
    AsyncWaitQueue: ("on",),
    BufferDebloater: ("on_worked", "window"),
    Dispatcher: ("on",),
    FencedWrites: ("on",),
    ExactlyOnceBarrierHandler: ("on",),
    Increments: ("written", "confirmed", "aborted", "restored"),
    Leadership: ("on",),
    ReceiverCredit: ("open", "on_received", "on_consumed", "on_requested", "decide_grant"),
    SenderCredit: ("should_ask", "on_sent", "on_credit"),
    SnapshotCoordinator: ("on",),
    SnapshotWrite: ("begin", "on"),
    SourcePause: ("on_barrier", "on_waited", "on_settled"),
    SplitWatermarks: ("assigned", "expected", "seen", "advanced", "marked", "retired", "passed", "watermark"),
    SubtaskLifecycle: ("on",),
    TaskManagerMachine: ("on",),
    TrackingHandler: ("on",),
    WatermarkValve: ("on",),
}
"""By which methods events enter."""

M = TypeVar("M", bound=Machine)
P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def checked() -> Iterator[None]:
    """Whatever was planted in a machine before is checked, too."""
    with ExitStack() as stack:
        for machine, methods in EVENTS.items():
            for name in methods:
                stack.enter_context(mock.patch.object(machine, name, _checking(getattr(machine, name))))
        yield


def _checking(method: Callable[Concatenate[M, P], R]) -> Callable[Concatenate[M, P], R]:
    def call(machine: M, /, *args: P.args, **kwargs: P.kwargs) -> R:
        answer = method(machine, *args, **kwargs)
        machine.check_invariants()
        return answer

    return call
