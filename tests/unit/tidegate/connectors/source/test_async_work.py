"""What an enumerator calls in its worker thread is handled in its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.e2e.waiting import wait_until
from tidegate.connectors.source.async_work import AsyncCall, AsyncWork

LIMIT_S = 30


def until(work: AsyncWork, condition: Callable[[], bool]) -> None:
    def reached() -> bool:
        work.handle_results()
        return condition()

    wait_until(reached, LIMIT_S, "the result was handled")


def test_the_function_runs_in_the_worker_and_its_handler_in_the_callers_thread() -> None:
    work, threads = AsyncWork(lambda: 0.0), []

    def handle(result: str | None, error: BaseException | None) -> None:
        threads.append((result, error, threading.current_thread().name))

    work.call(AsyncCall(lambda: threading.current_thread().name, handle), 0)
    until(work, lambda: bool(threads))
    work.close()
    assert threads == [("tidegate-enumerator-worker", None, threading.current_thread().name)]


def test_an_error_is_the_handlers() -> None:
    work, errors = AsyncWork(lambda: 0.0), []

    def fail() -> None:
        raise ValueError("no directory")

    work.call(AsyncCall(fail, lambda result, error: errors.append(str(error))), 0)
    until(work, lambda: bool(errors))
    work.close()
    assert errors == ["no directory"]


def test_a_call_with_a_delay_and_a_period_comes_again_and_again() -> None:
    now = [0.0]
    work = AsyncWork(lambda: now[0])
    calls: list[int | None] = []
    work.call(AsyncCall(lambda: len(calls), lambda result, error: calls.append(result), period_ms=100), 50)
    work.handle_results()
    assert calls == []
    now[0] = 50
    until(work, lambda: calls == [0])
    work.handle_results()
    now[0] = 150
    until(work, lambda: calls == [0, 1])
    work.close()


def test_what_another_thread_wants_done_is_done_in_the_callers() -> None:
    work, done = AsyncWork(lambda: 0.0), []
    thread = threading.Thread(target=lambda: work.run_later(lambda: done.append(threading.current_thread())))
    thread.start()
    thread.join()
    assert done == []
    work.handle_results()
    assert done == [threading.current_thread()]
