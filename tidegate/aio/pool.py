"""Threads for slow work on disks and object stores. A call that hangs blocks only its own thread: the threads are daemons, so the process can always end."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_Work = tuple[Callable[[], T], "asyncio.Future[T]"]


class Pool:
    """A thread pool that runs at most ``threads`` calls at a time, in their order."""

    def __init__(self, threads: int, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._work: queue.SimpleQueue[_Work[Any] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._serve, name=f"{name}-{number}", daemon=True) for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Runs ``call`` in a thread. Cancelling the future does not stop a call that has begun."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._work.put((call, future))
        return future

    def close(self) -> None:
        """Accepts no further work. Running calls go on, and are not awaited."""
        for _ in self._threads:
            self._work.put(None)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            call, future = work
            result: object = None
            failure: BaseException | None = None
            try:
                result = call()
            except Exception as error:  # noqa: BLE001  (a driver: the caller gets it)
                failure = error
            try:
                self._loop.call_soon_threadsafe(_settle, future, result, failure)
            except RuntimeError:
                return  # the loop is closed: nobody waits


def _settle(future: asyncio.Future[T], result: T, failure: BaseException | None) -> None:
    if future.done():
        return
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)
