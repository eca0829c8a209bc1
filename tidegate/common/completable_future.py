"""`CompletableFuture`: the future result of a call (PyFlink: ``pyflink.common.completable_future``)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Generic, TypeVar

__all__ = ["CompletableFuture"]

T = TypeVar("T")


class CompletableFuture(Generic[T]):
    """A future that runs a blocking call in a daemon thread of its own."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._future: Future[T] = Future()
        Thread(target=self._run, args=(work,), name="tidegate-client-call", daemon=True).start()

    def _run(self, work: Callable[[], T]) -> None:
        if not self._future.set_running_or_notify_cancel():
            return
        try:
            self._future.set_result(work())
        except BaseException as error:  # noqa: BLE001  (handed to whoever asks for the result)
            self._future.set_exception(error)

    def cancel(self) -> bool:
        """Cancels the call unless it has begun, which is usually immediately; returns whether it did."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Tells whether the future was cancelled before its call began."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Tells whether there is a result, an exception or a cancellation."""
        return self._future.done()

    def result(self) -> T:
        """Waits for the result and returns it. Raises what the call raised."""
        return self._future.result()

    def exception(self) -> BaseException | None:
        """Waits for the call to end and returns its exception; ``None`` when it succeeded."""
        return self._future.exception()
