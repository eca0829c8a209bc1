"""How a process ends, and how another one finds it: signals, orderly shutdown, pid files. And how it collects garbage."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil

_log = logging.getLogger(__name__)


Tell = Callable[[str], None]
"""Takes what a process is busy with while it starts."""


class Shutdown:
    """Waits for the end of a process: a signal, a request, or a fatal error. The first reason wins."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self.exit_code = 0
        self.reason = ""

    def ask(self, reason: str, exit_code: int = 0) -> None:
        """End the process soon."""
        if not self._asked.is_set():
            self.reason, self.exit_code = reason, exit_code
            self._asked.set()

    def catch_signals(self) -> None:
        """SIGTERM and SIGINT end the process in order; a second one ends it at once."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)

    @property
    def is_asked(self) -> bool:
        return self._asked.is_set()

    async def wait(self) -> None:
        """Waits for a request to stop."""
        await self._asked.wait()

    def _on_signal(self, number: signal.Signals) -> None:
        if self._asked.is_set():
            os._exit(128 + number)
        self.ask(signal.Signals(number).name)


class Services:
    """What was started, to be stopped in the reverse order, each within a time."""

    def __init__(self, tell: Tell = lambda step: None) -> None:
        """``tell`` hears of each start that takes long."""
        self._tell = tell
        self._stops: list[tuple[str, Callable[[], Awaitable[None] | None], float]] = []

    def started(self, name: str, stop: Callable[[], Awaitable[None] | None], timeout_ms: int = 3_000) -> None:
        """Log that a service is up, and remember how it is stopped."""
        _log.info("%s", name)
        self._stops.append((name.split(":")[0], stop, timeout_ms / 1000))

    def begins(self, step: str) -> None:
        """Tell what is waited for from now on."""
        self._tell(step)

    async def stop_all(self) -> None:
        """Stop everything; what fails or takes too long is logged, and the next one follows."""
        while self._stops:
            name, stop, timeout_s = self._stops.pop()
            try:
                ending = stop()
                if ending is not None:
                    async with asyncio.timeout(timeout_s):
                        await ending
            except Exception as error:  # noqa: BLE001  (a driver: the others have to be stopped too)
                _log.warning("%s did not stop in order: %s: %s", name, type(error).__name__, error)


def collect_seldom() -> None:
    """For a process that holds many long-lived values: a JobManager with ten thousand subtasks spends a third of the CPU of
    a checkpoint on looking through all of them again and again. What is no cycle is freed at once as ever; cycles wait until
    50,000 objects are new, which is some megabytes."""
    gc.set_threshold(50_000, 20, 100)


def write_pid_file(path: Path, pid: int | None = None) -> None:
    """Say that this process is the one, or that of ``pid``. Raises ``OSError`` and ``psutil.Error``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    process = psutil.Process(pid)
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(f"{process.pid} {process.create_time()}\n", encoding="ascii")
    temporary.replace(path)


def read_pid_file(path: Path) -> int | None:
    """Returns the pid in the file, when that very process is alive; else ``None``."""
    try:
        pid_text, created_text = path.read_text(encoding="ascii").split()
        process = psutil.Process(int(pid_text))
        if abs(process.create_time() - float(created_text)) > 1 or process.status() == psutil.STATUS_ZOMBIE:
            return None
    except (OSError, ValueError, psutil.Error):
        return None
    return process.pid


def remove_pid_file(path: Path) -> None:
    """Remove our own pid file, not that of a successor."""
    with contextlib.suppress(OSError, ValueError):
        if int(path.read_text(encoding="ascii").split()[0]) == os.getpid():
            path.unlink()
