"""The loop that notices when its process did not run: whatever it woke up to waits until ``on_gap`` has returned."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

from tidegate.aio import wakeful_loop
from tidegate.aio.wakeful_loop import WakefulLoop

LIMIT_S = 0.2


def run(body: Callable[[WakefulLoop, list[str]], Awaitable[None]]) -> list[str]:
    """What was noted while ``body`` ran on such a loop, gaps too."""
    noted: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, WakefulLoop)
        loop.watch_gaps(LIMIT_S, lambda: noted.append("gap"))
        await body(loop, noted)

    with asyncio.Runner(loop_factory=WakefulLoop) as runner:
        runner.run(main())
    return noted


def hold_up() -> None:
    """As if the process did not run: the loop's thread does nothing."""
    time.sleep(LIMIT_S + wakeful_loop.WAIT_S + 0.1)


def test_a_timer_that_was_due_meanwhile_fires_after_the_gap_was_told() -> None:
    async def body(loop: WakefulLoop, noted: list[str]) -> None:
        fired = asyncio.Event()

        def fire() -> None:
            noted.append("timer")
            fired.set()

        loop.call_later(0.05, fire)
        loop.call_soon(hold_up)
        await fired.wait()

    assert run(body) == ["gap", "timer"]


def test_a_message_that_came_meanwhile_is_read_after_the_gap_was_told() -> None:
    async def body(loop: WakefulLoop, noted: list[str]) -> None:
        ours, theirs = socket.socketpair()
        read = asyncio.Event()

        def on_readable() -> None:
            noted.append(ours.recv(10).decode())
            read.set()

        def come() -> None:
            theirs.send(b"message")
            hold_up()

        loop.add_reader(ours, on_readable)
        loop.call_soon(come)
        await read.wait()
        loop.remove_reader(ours)
        ours.close()
        theirs.close()

    assert run(body) == ["gap", "message"]


def test_a_loop_that_waits_for_long_goes_round_in_between() -> None:
    """Otherwise an idle loop would have a gap whenever something comes."""
    rounds: list[float] = []

    async def body(loop: WakefulLoop, noted: list[str]) -> None:
        del noted
        select = loop._watched.select

        def counted(timeout: float | None = None) -> object:
            rounds.append(0 if timeout is None else timeout)
            return select(timeout)

        loop._watched.select = counted  # type: ignore[method-assign, assignment]
        await asyncio.sleep(3 * wakeful_loop.WAIT_S)

    run(body)
    assert len(rounds) >= 3


STOPPED = """
import asyncio, sys
from tidegate.aio.wakeful_loop import WakefulLoop

async def main():
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    loop.watch_gaps(0.2, lambda: print("gap", flush=True))
    loop.call_later(0.6, lambda: print("timer", flush=True))

    def read():
        print(sys.stdin.readline().strip(), flush=True)
        loop.call_later(0.7, over.set)

    loop.add_reader(sys.stdin, read)
    print("ready", flush=True)
    await over.wait()
    loop.remove_reader(sys.stdin)

with asyncio.Runner(loop_factory=WakefulLoop) as runner:
    runner.run(main())
"""


def test_a_process_that_was_stopped_looks_before_it_does_anything_else() -> None:
    command = [sys.executable, "-c", STOPPED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(1.0)  # the time that the process does not run is what is tried
        process.stdin.write("message\n")
        process.stdin.flush()
        os.kill(process.pid, signal.SIGCONT)
        told = [line.strip() for line in process.stdout]
    assert sorted(told) == ["gap", "message", "timer"]
    assert told[0] == "gap"
