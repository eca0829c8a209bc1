"""Injected faults of a subtask's process (``tidegate fault``): they wrap the clock and the stores of the runtime.

    slow, full     files of state take longer, or cannot be written; what travels in an acknowledgement is no file
    skew           the wall clock of the runtime is ahead or behind: processing-time timers, and when a barrier was late
    executor       SIGKILL to the executor of Spark in which this process runs

Faults are injected only if the cluster allows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidegate.model.checkpoint import CheckpointOptions, StateHandle
from tidegate.model.errors import StorageError
from tidegate.model.ids import AttemptId
from tidegate.pb.common_pb2 import SubtaskFault
from tidegate.taskmanager.operators.operator import Clock
from tidegate.taskmanager.runtime.checkpointing.async_part import OpenStore
from tidegate.taskmanager.state.ports import SegmentStore

NO_SPACE = "no space left on device (a fault on purpose)"


class SubtaskFaults:
    """The injected faults of a subtask. ``take`` is called by the thread that reads the control stream, the rest by the threads that are affected."""

    def __init__(self, clock: Clock, sleep: Callable[[float], None], kill_executor: Callable[[], None]) -> None:
        self._clock = clock
        self._sleep = sleep
        self._kill_executor = kill_executor
        self._made: dict[str, tuple[SubtaskFault, float]] = {}
        """The last fault of each kind, and the time until which it lasts."""

    def take(self, fault: SubtaskFault) -> None:
        """Starts a fault, which lasts as long as it says."""
        kind = fault.WhichOneof("fault")
        if kind == "kill_executor":
            self._kill_executor()
        elif kind is not None:
            self._made[kind] = (fault, self._clock.monotonic_ms() + fault.for_ms)

    def clock(self) -> Clock:
        """Returns the clock of the subtask, which a fault may skew."""
        return _SkewedClock(self._clock, self._skew_ms)

    def around(self, open_store: OpenStore, inline_bytes: int) -> OpenStore:
        """Returns an opener of stores whose files may be slow or fail to be written. ``inline_bytes``: contents up to this size are not files."""

        def opened(options: CheckpointOptions, attempt: AttemptId, checkpoint_id: int) -> SegmentStore:
            return _FaultyStore(open_store(options, attempt, checkpoint_id), self, inline_bytes)

        return opened

    @property
    def is_full(self) -> bool:
        """Whether a fault makes all writes of state files fail now."""
        return self._now("full_state") is not None

    def wait(self) -> None:
        """Waits as long as a fault delays a file now."""
        slow = self._now("slow_state_ms")
        if slow is not None:
            self._sleep(slow.slow_state_ms / 1000)  # the fault that was asked for

    def _now(self, kind: str) -> SubtaskFault | None:
        fault, until_ms = self._made.get(kind, (None, 0.0))
        return fault if self._clock.monotonic_ms() < until_ms else None

    def _skew_ms(self) -> int:
        fault = self._now("skew_clock_ms")
        return 0 if fault is None else fault.skew_clock_ms


class _SkewedClock:
    def __init__(self, clock: Clock, skew_ms: Callable[[], int]) -> None:
        self._clock = clock
        self._skew_ms = skew_ms

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._skew_ms()

    def monotonic_ms(self) -> float:
        return self._clock.monotonic_ms()


class _FaultyStore:
    """A store whose files may be slow or fail. Implements ``tidegate.taskmanager.state.ports.SegmentStore``."""

    def __init__(self, store: SegmentStore, faults: SubtaskFaults, inline_bytes: int) -> None:
        self._store = store
        self._faults = faults
        self._inline_bytes = inline_bytes

    @property
    def written_bytes(self) -> int:
        return self._store.written_bytes

    @property
    def compresses(self) -> bool:
        return self._store.compresses

    def write(self, name_hint: str, parts: Iterable[bytes | memoryview], *, is_shared: bool = False) -> StateHandle:
        if self._faults.is_full:
            content = b"".join(bytes(part) for part in parts)
            if len(content) > self._inline_bytes:
                # Raised before anything is written, so that no part of the file is left.
                raise StorageError(f"cannot write a file of {name_hint}: {NO_SPACE}")
            parts = [content]
        handle = self._store.write(name_hint, parts, is_shared=is_shared)
        if handle.path:
            self._faults.wait()
        return handle
