"""Background work of a simulated subtask: done when the schedule says so, in the only thread there is."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from tidegate.model.checkpoint import OperatorSnapshot
from tidegate.taskmanager.runtime.background import Done, Work
from tidegate.taskmanager.runtime.mailbox import Mailbox
from tidegate.taskmanager.runtime.ports import CallMail
from tidegate.taskmanager.state.ports import FrozenState, SegmentStore


class SteppedBackground:
    """``SnapshotWriter`` and ``Background``: ``step`` does one piece of work, ``report`` lets one subtask hear of its end."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._works: deque[tuple[Work, Done]] = deque()
        self._ended: deque[Callable[[], None]] = deque()
        self._is_closed = False

    def submit(self, work: Work, done: Done) -> None:
        self._works.append((work, done))

    def write_states(self, states: Sequence[FrozenState], store: SegmentStore) -> list[OperatorSnapshot]:
        return [state.write(store) for state in states]

    def close(self, timeout_ms: float) -> bool:
        """With a limit everything is done before; without one it is given up, as a thread that is not waited for."""
        while timeout_ms > 0 and self.step():
            pass
        self._works.clear()
        self._is_closed = True
        return True

    def step(self) -> bool:
        if self._is_closed:
            return False
        if self._ended:
            self._mailbox.put(CallMail(self._ended.popleft()))
            return True
        if not self._works:
            return False
        work, done = self._works.popleft()
        error: BaseException | None = None
        try:
            work()
        except BaseException as raised:  # noqa: BLE001  as the thread: the subtask judges it
            error = raised
        self._ended.append(lambda: done(error))
        return True
