"""Runs coroutines for a thread without an event loop: in a loop of another thread, with a timeout and retries.

    submit ─▶ attempt ─┬─ result ── worth another? ── no ──▶ take() ─▶ CallOutcome(results)
                 ▲     └─ exception ─ worth another? ─ no ─▶ take() ─▶ CallOutcome(error)
                 └────────────── wait ◀── yes ┘
    time limit of all attempts ─▶ on_timeout() ─▶ CallOutcome

``ready()`` is called from the loop's thread when there are answers, once until ``take`` was called.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class CallOutcome(Generic[R]):
    """The result or the error of the call with this number."""

    number: int
    result: R | None = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class _Call(Generic[R]):
    number: int
    invoke: Callable[[], Awaitable[R]]
    on_timeout: Callable[[], R]
    timeout_ms: int
    backoff_ms: Callable[[int], int | None]
    retries_result: Callable[[R], bool] | None
    retries_error: Callable[[Exception], bool] | None


class AsyncCalls(Generic[R]):
    """Runs asynchronous calls on an event loop of its own, started with the first call. ``submit`` and ``take`` belong to one thread."""

    def __init__(self, ready: Callable[[], None]) -> None:
        self._ready = ready
        self._answers: deque[CallOutcome[R]] = deque()
        self._is_notified = False
        self._is_closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(
        self,
        number: int,
        invoke: Callable[[], Awaitable[R]],
        on_timeout: Callable[[], R],
        *,
        timeout_ms: int = 0,
        backoff_ms: Callable[[int], int | None] = lambda attempts: None,
        retries_result: Callable[[R], bool] | None = None,
        retries_error: Callable[[Exception], bool] | None = None,
    ) -> None:
        """Starts an asynchronous call; its ``CallOutcome`` has this number, unless ``close`` cancels it. ``timeout_ms``: of all attempts together; 0:
        none. A call is retried while one of the predicates holds; ``backoff_ms(attempts)``: the delay after that many attempts, ``None``: no further
        one."""
        call = _Call(number, invoke, on_timeout, timeout_ms, backoff_ms, retries_result, retries_error)
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._run, args=(self._loop,), name="async-calls", daemon=True)
            self._thread.start()
        loop = self._loop
        loop.call_soon_threadsafe(lambda: self._begin(loop, call))

    def take(self) -> list[CallOutcome[R]]:
        """Returns the outcomes since the previous call, in the order in which the calls ended."""
        self._is_notified = False
        found = []
        while self._answers:
            found.append(self._answers.popleft())
        return found

    def close(self, timeout_s: float = 5.0) -> None:
        """Cancels the running calls and ends the thread."""
        if self._loop is None or self._thread is None:
            return
        self._is_closing = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout_s)
        self._loop, self._thread = None, None

    def _begin(self, loop: asyncio.AbstractEventLoop, call: _Call[R]) -> None:
        task = loop.create_task(self._answer(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, call: _Call[R]) -> None:
        try:
            result = await _within(call)
            answer: CallOutcome[R] = CallOutcome(call.number, result)
        except BaseException as error:
            if self._is_closing:
                raise  # what close() cuts off
            answer = CallOutcome(call.number, error=error)
        self._answers.append(answer)
        if not self._is_notified:
            self._is_notified = True
            self._ready()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            for task in self._tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()


async def _within(call: _Call[R]) -> R:
    if not call.timeout_ms:
        return await _attempts(call)
    limit = asyncio.timeout(call.timeout_ms / 1000)
    try:
        async with limit:
            return await _attempts(call)
    except TimeoutError:
        if not limit.expired():
            raise  # the function's own
    return call.on_timeout()


async def _attempts(call: _Call[R]) -> R:
    attempts = 1
    while True:
        error: Exception | None = None
        try:
            result = await call.invoke()
            wanted = call.retries_result is not None and call.retries_result(result)
        except Exception as raised:  # noqa: BLE001  user code: the predicate judges it
            error = raised
            wanted = call.retries_error is not None and call.retries_error(raised)
        backoff_ms = call.backoff_ms(attempts) if wanted else None
        if backoff_ms is None:
            if error is not None:
                raise error
            return result
        await asyncio.sleep(backoff_ms / 1000)
        attempts += 1
