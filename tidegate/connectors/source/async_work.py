"""The worker thread of an enumerator: what blocks runs there, its result is handled in the enumerator's own thread.

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
        """In the worker thread. Returns what is to be called in the enumerator's."""
        try:
            result = self.function()
        except BaseException as error:  # noqa: BLE001  the user's function; its handler decides
            failure = error
            return lambda: self.handler(None, failure)
        return lambda: self.handler(result, None)


class AsyncWork:
    """Used from one thread, but for ``run_later``."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._due: list[tuple[float, AsyncCall[UserObject]]] = []
        self._begun: queue.SimpleQueue[AsyncCall[UserObject] | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[tuple[Callable[[], None], AsyncCall[UserObject] | None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def call(self, call: AsyncCall[UserObject], delay_ms: int) -> None:
        """Has the function called in the worker thread, not before the delay is over."""
        self._due.append((self._now_ms() + delay_ms, call))
        self._begin_due()

    def run_later(self, runnable: Callable[[], None]) -> None:
        """From any thread."""
        self._results.put((runnable, None))

    def handle_results(self) -> None:
        """Calls what is ready. Raises what handlers raise."""
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
        """What runs in the worker thread is left alone, and its result is dropped."""
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
