from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tidegate.aio.driver import Driver
from tidegate.aio.logs import LineFormatter, with_ids
from tidegate.aio.pool import Pool
from tidegate.aio.process import Services, Shutdown, read_pid_file, remove_pid_file, write_pid_file


class Echo:
    """Orders what it is told; remembers when."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []
        self.depth = 0

    def on(self, event: str, now_ms: int) -> Sequence[str]:
        assert self.depth == 0, "re-entered"
        if event == "broken":
            raise RuntimeError("a mistake of ours")
        self.depth += 1
        self.heard.append((event, now_ms))
        self.depth -= 1
        return [f"do {event}"]


def make(
    execute: Callable[[str], None] = lambda _: None, **options: object
) -> tuple[Driver[str, str], Echo, list[BaseException]]:
    machine, fatal = Echo(), list[BaseException]()
    return Driver(machine, execute, fatal.append, **options), machine, fatal  # type: ignore[arg-type]


async def test_an_event_posted_while_one_is_handled_waits_for_it() -> None:
    done: list[str] = []

    def execute(command: str) -> None:
        if command == "do first":
            driver.post("second")
        done.append(command)

    driver, machine, _ = make(execute)
    driver.post("first")
    assert [event for event, _ in machine.heard] == ["first", "second"]
    assert done == ["do first", "do second"]


async def test_lines_of_the_log_carry_the_event_that_they_follow_from(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.handler.setFormatter(LineFormatter())
    tasks: list[asyncio.Task[None]] = []
    ticked = asyncio.Event()

    async def answer() -> None:
        await asyncio.sleep(0)
        driver.post("answer")

    def execute(command: str) -> None:
        logging.getLogger("shell").info("%s", with_ids(command, job="j"))
        if command == "do call":
            tasks.append(asyncio.create_task(answer()))
            driver.start_timer("t", 0, "tick")
        elif command == "do tick":
            ticked.set()

    driver, _, _ = make(execute, journal=logging.getLogger("journal"))
    driver.post("call")
    driver.post("other")
    logging.getLogger("shell").info("of no event")
    await asyncio.wait_for(ticked.wait(), 5)
    await asyncio.gather(*tasks)
    lines = [line.partition(" - ")[::2] for line in caplog.text.splitlines()]
    found = [(head.split()[-1], text) for head, text in lines if head.endswith(("journal", "shell"))]
    assert found[:7] == [
        ("journal", "call [stimulus=1]"),
        ("journal", "do call [stimulus=1]"),
        ("shell", "do call [job=j stimulus=1]"),
        ("journal", "other [stimulus=2]"),
        ("journal", "do other [stimulus=2]"),
        ("shell", "do other [job=j stimulus=2]"),
        ("shell", "of no event"),
    ]
    events = [text for head, text in found[7:] if head == "journal" and "cause" in text]
    assert {text.partition(" ")[0] for text in events} == {"answer", "tick"}
    assert sorted(text.partition(" ")[2] for text in events) == ["[cause=1 stimulus=3]", "[cause=1 stimulus=4]"]


async def test_time_never_goes_back() -> None:
    times = iter([10, 5, 20])
    driver, machine, _ = make(clock_ms=lambda: next(times))
    for event in ("a", "b", "c"):
        driver.post(event)
    assert machine.heard == [("a", 10), ("b", 10), ("c", 20)]


async def test_a_timer_is_replaced_by_its_namesake_and_can_be_cancelled() -> None:
    fired = asyncio.Event()
    driver, machine, _ = make(lambda _: fired.set())
    driver.start_timer("t", 0, "early")
    driver.start_timer("t", 1, "late")
    driver.start_timer("u", 0, "never")
    driver.cancel_timer("u")
    await asyncio.wait_for(fired.wait(), 5)
    assert [event for event, _ in machine.heard] == ["late"]


async def test_threads_post_through_the_loop() -> None:
    handled = asyncio.Event()
    driver, machine, _ = make(lambda _: handled.set())
    thread = threading.Thread(target=driver.post_from_thread, args=("x",))
    thread.start()
    await asyncio.wait_for(handled.wait(), 5)
    thread.join()
    assert [event for event, _ in machine.heard] == ["x"]


async def test_a_mistake_of_ours_is_fatal_and_nothing_is_handled_any_more() -> None:
    driver, machine, fatal = make()
    driver.start_timer("t", 0, "late")
    driver.post("broken")
    driver.post("after")
    assert [str(error) for error in fatal] == ["a mistake of ours"]
    assert machine.heard == []


async def test_a_call_that_hangs_keeps_its_thread_and_nothing_else() -> None:
    pool, release = Pool(2, "test"), threading.Event()
    hanging = pool.submit(release.wait)
    assert await asyncio.wait_for(pool.submit(lambda: 42), 5) == 42
    with pytest.raises(ZeroDivisionError):
        await pool.submit(lambda: 1 // 0)
    assert not hanging.done()
    release.set()
    assert await hanging
    pool.close()


async def test_services_stop_in_reverse_order_whatever_fails() -> None:
    story: list[str] = []

    async def hang() -> None:
        await asyncio.Event().wait()

    def broken() -> None:
        story.append("broken")
        raise OSError("disk")

    services = Services()
    services.started("first", lambda: story.append("first"))
    services.started("broken", broken)
    services.started("hanging", hang, timeout_ms=1)
    await services.stop_all()
    assert story == ["broken", "first"]


async def test_the_first_reason_to_end_wins() -> None:
    shutdown = Shutdown()
    shutdown.ask("fatal error", 1)
    shutdown.ask("SIGTERM")
    await shutdown.wait()
    assert (shutdown.reason, shutdown.exit_code) == ("fatal error", 1)


def test_a_pid_file_speaks_of_one_living_process_only(tmp_path: Path) -> None:
    path = tmp_path / "x.pid"
    assert read_pid_file(path) is None
    write_pid_file(path)
    assert read_pid_file(path) == os.getpid()
    path.write_text(f"{os.getpid()} 1.0\n")  # the same pid, another process
    assert read_pid_file(path) is None
    path.write_text("nonsense")
    assert read_pid_file(path) is None
    remove_pid_file(path)
    assert path.exists()
    write_pid_file(path)
    remove_pid_file(path)
    assert not path.exists()
