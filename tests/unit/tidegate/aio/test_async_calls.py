"""Coroutines beside a thread: answers, attempts, time limits, and the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from tidegate.aio.async_calls import AsyncCalls, CallOutcome


class Calls:
    def __init__(self) -> None:
        self._ready: SimpleQueue[None] = SimpleQueue()
        self.calls: AsyncCalls[object] = AsyncCalls(lambda: self._ready.put(None))

    def answers(self, count: int) -> list[CallOutcome[object]]:
        found: list[CallOutcome[object]] = []
        while len(found) < count:
            self._ready.get(timeout=10)
            found += self.calls.take()
        return found


@pytest.fixture
def made() -> Iterator[Calls]:
    made = Calls()
    yield made
    made.calls.close()


class Fails:
    """Raises ``errors`` one after the other, then returns."""

    def __init__(self, *errors: Exception, result: Any = "done") -> None:
        self.errors = list(errors)
        self.result = result
        self.attempts = 0

    async def __call__(self) -> Any:
        self.attempts += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.result


async def never() -> Any:
    await asyncio.Event().wait()


def timed_out() -> Any:
    return "late"


def test_calls_run_at_the_same_time(made: Calls) -> None:
    first = asyncio.Event()

    async def waits() -> Any:
        await first.wait()
        return "a"

    async def sets() -> Any:
        first.set()
        return "b"

    made.calls.submit(1, waits, timed_out)
    made.calls.submit(2, sets, timed_out)
    assert {answer.number: answer.result for answer in made.answers(2)} == {1: "a", 2: "b"}


def test_attempts_go_on_while_they_are_worth_it(made: Calls) -> None:
    function = Fails(OSError("1"), OSError("2"))
    made.calls.submit(
        1, function, timed_out, backoff_ms=lambda attempts: 1, retries_error=lambda error: isinstance(error, OSError)
    )
    assert [answer.result for answer in made.answers(1)] == ["done"]
    assert function.attempts == 3


def test_the_last_attempt_counts(made: Calls) -> None:
    function = Fails(result=[])
    made.calls.submit(
        1, function, timed_out, backoff_ms=lambda attempts: 1 if attempts <= 2 else None, retries_result=lambda r: not r
    )
    assert [answer.result for answer in made.answers(1)] == [[]]
    assert function.attempts == 3


def test_an_error_that_is_not_worth_another_attempt_is_the_answer(made: Calls) -> None:
    error = ValueError("wrong")
    made.calls.submit(
        1, Fails(error), timed_out, backoff_ms=lambda attempts: 1, retries_error=lambda e: isinstance(e, OSError)
    )
    assert [answer.error for answer in made.answers(1)] == [error]


def test_a_time_limit_ends_all_attempts(made: Calls) -> None:
    made.calls.submit(1, never, timed_out, timeout_ms=5)
    made.calls.submit(
        2, Fails(OSError()), timed_out, timeout_ms=5, backoff_ms=lambda n: 60_000, retries_error=lambda e: True
    )
    assert {answer.number: answer.result for answer in made.answers(2)} == {1: "late", 2: "late"}


def test_a_timeout_of_the_functions_own_is_its_error(made: Calls) -> None:
    error = TimeoutError("mine")
    made.calls.submit(1, Fails(error), timed_out, timeout_ms=60_000)
    assert made.answers(1)[0].error is error


def test_closing_cancels_what_is_under_way() -> None:
    made = Calls()
    canceled, begun = threading.Event(), threading.Event()

    async def waits() -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            canceled.set()

    made.calls.submit(1, waits, timed_out)
    assert begun.wait(10)
    made.calls.close()
    assert canceled.is_set()
