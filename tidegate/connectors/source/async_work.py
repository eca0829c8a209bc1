"""The worker thread of an enumerator: blocking functions run there, their results are handled in the enumerator's own thread.

    call ─▶ due ─▶ worker thread ─▶ (result, error) ─▶ handled by the next ``handle_results`` ─▶ with a period: due again

Follows Flink's ``ExecutorNotifier.java``.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tidegate.model.values import UserObject

T = TypeVar("T")


@dataclass(frozen=True)
class AsyncCall(Generic[T]):
    """A function for the worker thread, and what handles its result."""

    function: Callable[[], T]
    handler: Callable[[T | None, BaseException | None], None]
    period_ms: int | None = None

    def run(self) -> Callable[[], None]:
        """Runs the function in the worker thread; returns the call of its handler for the enumerator's thread."""
        try:
            result = self.function()
        except BaseException as error:  # noqa: BLE001  the user's function; its handler decides
            failure = error
            return lambda: self.handler(None, failure)
        return lambda: self.handler(result, None)


class AsyncWork:
    """Runs calls in a worker thread. All methods but ``run_later`` are called from one thread."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._due: list[tuple[float, AsyncCall[UserObject]]] = []
        self._begun: queue.SimpleQueue[AsyncCall[UserObject] | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[tuple[Callable[[], None], AsyncCall[UserObject] | None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def call(self, call: AsyncCall[UserObject], delay_ms: int) -> None:
        """Schedules a function for the worker thread after a delay."""
        self._due.append((self._now_ms() + delay_ms, call))
        self._begin_due()

    def run_later(self, runnable: Callable[[], None]) -> None:
        """Schedules a call for the next ``handle_results``; may be called from any thread."""
        self._results.put((runnable, None))

    def handle_results(self) -> None:
        """Handles the results that are ready. Raises what handlers raise."""
        self._begin_due()
        while True:
            try:
                handle, call = self._results.get_nowait()
            except queue.Empty:
                return
            if call is not None and call.period_ms is not None:
                self._due.append((self._now_ms() + call.period_ms, call))
            handle()

    def close(self) -> None:
        """Stops the worker thread after its current call, whose result is dropped."""
        self._due.clear()
        self._begun.put(None)

    def _begin_due(self) -> None:
        now_ms = self._now_ms()
        ready = [call for at_ms, call in self._due if at_ms <= now_ms]
        self._due = [(at_ms, call) for at_ms, call in self._due if at_ms > now_ms]
        for call in ready:
            self._begun.put(call)
        if ready and self._thread is None:
            self._thread = threading.Thread(target=self._work, name="tidegate-enumerator-worker", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while (call := self._begun.get()) is not None:
            self._results.put((call.run(), call))
