"""The life of a process: signals, orderly shutdown, pid files, and the settings of the garbage collector."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

_log = logging.getLogger(__name__)


Tell = Callable[[str], None]
"""Takes the current step of the start of a process."""


class Shutdown:
    """Waits for a reason to end the process: a signal, a request, or a fatal error. The first reason counts."""

    def __init__(self) -> None:
        self._requested = asyncio.Event()
        self.exit_code = 0
        self.reason = ""

    def ask(self, reason: str, exit_code: int = 0) -> None:
        """Requests the end of the process."""
        if not self._requested.is_set():
            self.reason, self.exit_code = reason, exit_code
            self._requested.set()

    def catch_signals(self) -> None:
        """Installs handlers: the first SIGTERM or SIGINT ends the process in order, a second one at once."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)

    @property
    def is_requested(self) -> bool:
        return self._requested.is_set()

    async def wait(self) -> None:
        """Waits for a request to stop."""
        await self._requested.wait()

    def _on_signal(self, number: signal.Signals) -> None:
        if self._requested.is_set():
            os._exit(128 + number)
        self.ask(signal.Signals(number).name)


class Services:
    """The started services of a process, which are stopped in reverse order, each with a timeout."""

    def __init__(self, tell: Tell = lambda step: None) -> None:
        """Creates an empty list of services. ``tell``: called with each step of the start that takes long."""
        self._tell = tell
        self._stops: list[tuple[str, Callable[[], Awaitable[None] | None], float]] = []

    def started(self, name: str, stop: Callable[[], Awaitable[None] | None], timeout_ms: int = 3_000) -> None:
        """Registers a started service with the function that stops it, and logs its name."""
        _log.info("%s", name)
        self._stops.append((name.split(":")[0], stop, timeout_ms / 1000))

    def begins(self, step: str) -> None:
        """Reports the step of the start that begins now."""
        self._tell(step)

    async def stop_all(self) -> None:
        """Stops all services; one that fails or exceeds its timeout is logged, and the next one follows."""
        while self._stops:
            name, stop, timeout_s = self._stops.pop()
            try:
                ending = stop()
                if ending is not None:
                    async with asyncio.timeout(timeout_s):
                        await ending
            except Exception as error:  # noqa: BLE001  (a driver: the others have to be stopped too)
                _log.warning(
                    "%s could not be stopped in order, and the shutdown goes on without it: %s: %s",
                    name,
                    type(error).__name__,
                    error,
                )


def collect_seldom() -> None:
    """Makes Python's garbage collector look for cycles less often: after 50,000 new objects, which is some megabytes. For processes with many
    long-lived values: a JobManager with ten thousand subtasks spends a third of the CPU of a checkpoint on the collector otherwise."""
    gc.set_threshold(50_000, 20, 100)


def write_pid_file(path: Path, pid: int | None = None) -> None:
    """Writes the pid file of this process, or of process ``pid``. Raises ``OSError`` and ``psutil.Error``."""
    # Imported here since a program on a warm cluster does not need it, and waits for its imports.
    import psutil

    path.parent.mkdir(parents=True, exist_ok=True)
    process = psutil.Process(pid)
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(f"{process.pid} {process.create_time()}\n", encoding="ascii")
    temporary.replace(path)


def read_pid_file(path: Path) -> int | None:
    """Reads the pid of a pid file; ``None`` unless that very process is alive."""
    import psutil  # Imported here as in ``write_pid_file``.

    try:
        pid_text, created_text = path.read_text(encoding="ascii").split()
        process = psutil.Process(int(pid_text))
        if abs(process.create_time() - float(created_text)) > 1 or process.status() == psutil.STATUS_ZOMBIE:
            return None
    except (OSError, ValueError, psutil.Error):
        return None
    return process.pid


def remove_pid_file(path: Path) -> None:
    """Removes the pid file of this process, not that of a successor."""
    with contextlib.suppress(OSError, ValueError):
        if int(path.read_text(encoding="ascii").split()[0]) == os.getpid():
            path.unlink()
