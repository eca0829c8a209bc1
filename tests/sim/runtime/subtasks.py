"""One simulated subtask: the real ``SubtaskRun``, resumed when it may go on, with everything that it was given to touch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.sim.runtime.background import SteppedBackground
from tests.sim.runtime.sockets import SteppedLoop
from tidegate.model.checkpoint import Acknowledgement, DeclineReason
from tidegate.model.coordinators.operator_events import OperatorEvent
from tidegate.model.errors import ErrorInfo
from tidegate.model.graph import JobVertex
from tidegate.model.ids import AttemptId
from tidegate.model.states import ExecutionState
from tidegate.taskmanager.runtime.launch import SubtaskRun
from tidegate.taskmanager.runtime.mailbox import AT_ONCE, Mailbox, Steps
from tidegate.taskmanager.runtime.ports import Mail, TaskMetrics


class SimClock:
    """Time passes when the world says so, and while functions of users work."""

    def __init__(self) -> None:
        self.ms = 1_000_000.0

    def now_ms(self) -> int:
        return int(self.ms)

    def monotonic_ms(self) -> float:
        return self.ms


class SimMailbox(Mailbox):
    """Knows from outside whether it would let its subtask sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.is_woken = False

    def put(self, mail: Mail) -> None:
        super().put(mail)
        self.is_woken = True

    def wake(self) -> None:
        super().wake()
        self.is_woken = True


class FreeMeter:
    """All time is the step's."""

    def start(self) -> None: ...

    def spent_ms(self, records: int, elapsed_ms: float) -> float:
        return elapsed_ms


@dataclass
class SimPort:
    """``ControlPort``: what is told waits in ``told`` until the schedule takes it to the coordinator."""

    sent: deque[tuple[str, Any]] = field(default_factory=deque)

    def state_changed(self, state: ExecutionState, error: ErrorInfo | None = None) -> None:
        self.sent.append(("state", (state, error)))

    def listening(self, address: str) -> None:
        self.sent.append(("listening", address))

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        self.sent.append(("ack", acknowledgement))

    def decline(self, checkpoint_id: int, reason: DeclineReason, error: ErrorInfo | None = None) -> None:
        self.sent.append(("decline", (checkpoint_id, reason)))

    def end_of_data(self) -> None:
        self.sent.append(("end-of-data", None))

    def operator_event(self, event: OperatorEvent) -> None:
        raise AssertionError(f"no source of this job has a coordinator: {event}")

    def metrics(self, metrics: TaskMetrics) -> None: ...


@dataclass
class SimSubtask:
    attempt: AttemptId
    vertex: JobVertex
    producers: tuple[AttemptId, ...]
    clock: SimClock
    mailbox: SimMailbox
    port: SimPort
    io: list[SteppedLoop] = field(default_factory=list)
    background: list[SteppedBackground] = field(default_factory=list)
    posted: deque[Mail] = field(default_factory=deque)
    """On their way to it."""
    speed: float = 1.0
    state: ExecutionState = ExecutionState.DEPLOYING
    error: ErrorInfo | None = None
    address: str | None = None
    ended: bool = False
    is_gone: bool = False
    """Killed: it never runs again."""
    has_ended: bool = False
    """Its thread did, with its last word or without one."""
    due_ms: float = 0.0
    run: SubtaskRun | None = None
    _steps: Steps | None = None

    def start(self, run: SubtaskRun) -> None:
        self.run = run
        self._steps = run.steps()

    @property
    def is_over(self) -> bool:
        return self.is_gone or self.has_ended

    def step(self) -> bool:
        """Until it would wait again, or once more; whether it could."""
        if self.is_over or (self.clock.ms < self.due_ms and not self.mailbox.is_woken):
            return False
        if self.due_ms > 0:
            self.mailbox.wait(AT_ONCE)
            self.mailbox.is_woken = False
        patience_ms = None if self._steps is None else next(self._steps, None)
        if patience_ms is None:
            self.has_ended = True
            return True
        self.due_ms = self.clock.ms + patience_ms if patience_ms > AT_ONCE else 0.0
        return True

    def kill(self) -> None:
        """As SIGKILL does: nothing is closed but by the system."""
        self.is_gone = True
        for loop in self.io:
            loop.break_off()
        self.background.clear()
        self.posted.clear()
        self.port.sent.clear()

    def bury(self) -> None:
        """Unwind what stands still, at the end of its world. Python would do it when it collects the steps, at any time: functions close then,
        and meet the external system of the world that runs by that time, whose transactions have the same ids."""
        if self._steps is not None:
            self._steps.close()

    def actors(self) -> list[Callable[[], bool]]:
        return [self.step, self._io, self._work, self._deliver]

    def _io(self) -> bool:
        return sum(loop.step() for loop in self.io) > 0

    def _work(self) -> bool:
        return sum(background.step() for background in self.background) > 0

    def _deliver(self) -> bool:
        if not self.posted or self.is_over:
            return False
        self.mailbox.put(self.posted.popleft())
        return True
