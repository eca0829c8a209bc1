"""JobManager and TaskManager processes as children of a command: starts them, waits until they are ready, stops them and their descendants.

A child writes into a pipe what it is doing, and when it is ready: its ports, or the error that kept it from starting.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.aio.settings import handing_over
from tidegate.model.errors import ErrorInfo, ExternalError
from tidegate.model.values import JsonObject

if TYPE_CHECKING:
    import psutil

NOTICE_S = 5.0
"""How often a notice says what is waited for, in seconds. Chosen, not measured."""
END_TIMEOUT_S = 9.0
"""How long processes may take to end before they are killed, in seconds. Chosen, not measured: a TaskManager takes up to 5 s for its workers."""
PARENT_POLL_S = 0.5
"""How often a child checks whether its parent is gone, in seconds. Chosen, not measured."""


class Child:
    """A child process in a session of its own, so that Ctrl-C on the terminal reaches only the command."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        output: Path | None = None,
        log: Path | None = None,
        inherited: Sequence[int] = (),
        definitions: Sequence[str] = (),
    ) -> None:
        """Starts the process.

        `definitions`: options, which are not put into its command line. `output`: the file of its standard output and error; `None`: ours.
        `log`: named in errors. `inherited`: open files that it keeps, such as the lock on a directory that it owns.
        """
        self.name = name
        self._log = log
        self._heard = b""
        self._step = "loading its modules"
        self._pipe, ready_fd = os.pipe()
        weakref.finalize(self, os.close, self._pipe)
        command = [sys.executable, "-P", "-m", "tidegate.cli.main", *arguments, "--ready-fd", str(ready_fd)]
        try:
            with open(output or os.devnull, "ab") as file:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=file if output else None,
                    stderr=file if output else None,
                    start_new_session=True,
                    pass_fds=(ready_fd, *inherited),
                    env={**os.environ, **handing_over(definitions)},
                )
        finally:
            os.close(ready_fd)

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def end(self) -> str:
        """Returns how it ended, as the end of a sentence."""
        return describe_exit(self._process.wait())

    def wait_ready(self, timeout_s: float, notice: Callable[[str], None] = lambda text: None) -> JsonObject:
        """Waits until it is ready; returns its report. Raises its error, or `ExternalError` when it ends or takes too long.

        `notice` gets what is waited for, every few seconds.
        """
        began = time.monotonic()
        while True:
            message: JsonObject = json.loads(self._next_line(began, timeout_s, notice))
            if "step" in message:
                self._step = message["step"]
            elif "error" in message:
                raise ErrorInfo(**message["error"]).to_exception()
            else:
                return message

    def _next_line(self, began: float, timeout_s: float, notice: Callable[[str], None]) -> bytes:
        poller = select.poll()
        poller.register(self._pipe, select.POLLIN)
        while b"\n" not in self._heard:
            left_s = began + timeout_s - time.monotonic()
            if not poller.poll(min(NOTICE_S, max(0.0, left_s)) * 1000):
                waited_s = time.monotonic() - began
                if waited_s >= timeout_s:
                    raise ExternalError(
                        f"{self._called} did not start within {timeout_s:g} s (tidegate.start-timeout); it was "
                        f"{self._step}{self._see()}"
                    )
                notice(f"{waited_s:.0f} s: {self._called} is {self._step}")
                continue
            part = os.read(self._pipe, 65536)
            if not part:  # every writer has closed its end
                raise ExternalError(f"{self._called} {self.end}, while it was {self._step}{self._see()}")
            self._heard += part
        line, _, self._heard = self._heard.partition(b"\n")
        return line

    @property
    def _called(self) -> str:
        """Returns how a sentence calls it: `the TaskManager`, where there is one of the kind, or by its name, `taskmanager-1`."""
        return self.name if self.name[-1].isdecimal() else f"the {self.name}"

    def _see(self) -> str:
        return f"; see {self._log}" if self._log else ""


def describe_exit(status: int) -> str:
    """Describes how a child ended, as the end of a sentence; `status` is negative for a signal."""
    return f"ended with exit code {status}" if status >= 0 else f"was ended by {signal.Signals(-status).name}"


def end_processes(pids: Iterable[int], timeout_s: float = END_TIMEOUT_S) -> None:
    """Sends SIGTERM to processes, and later SIGKILL to what is left of them and their descendants."""
    # Imported here since a program on a warm cluster does not need it, and waits for its imports.
    import psutil

    processes = []
    for pid in pids:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            processes.append((process, process.children(recursive=True)))
    for process, _ in processes:
        with suppress(psutil.Error):
            process.send_signal(signal.SIGTERM)
    psutil.wait_procs([process for process, _ in processes], timeout_s)
    rest = [process for parent, children in processes for process in (parent, *children) if _is_alive(process)]
    for process in rest:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(rest, 2)


def tell_ready(descriptor: int | None, content: Mapping[str, object]) -> None:
    """Reports once to the process that started this one, which may be gone."""
    if descriptor is not None:
        with suppress(OSError), open(descriptor, "w", encoding="utf-8") as pipe:
            pipe.write(json.dumps(content) + "\n")


def tell_failure(descriptor: int, error: BaseException) -> None:
    tell_ready(descriptor, {"error": asdict(ErrorInfo.of(error))})


class StartReport:
    """Reports to the process that started this one, once: the descriptor is closed after that, and its number may be reused
    when a JobManager leads for the second time.
    """

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def ready(self, content: Mapping[str, object]) -> None:
        descriptor, self._descriptor = self._descriptor, None
        tell_ready(descriptor, content)

    def step(self, text: str) -> None:
        """Reports what it does next, or waits for, such as ``starting Spark``; does nothing after ``ready``."""
        if self._descriptor is not None:
            with suppress(OSError):  # its reader is gone
                os.write(self._descriptor, json.dumps({"step": text}).encode() + b"\n")

    def failure(self, error: BaseException) -> bool:
        """Reports an error; returns whether there was a process to report to."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            tell_failure(descriptor, error)
        return descriptor is not None


def end_with_parent() -> None:
    """Ends this process in order when its parent is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_POLL_S)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def _is_alive(process: psutil.Process) -> bool:
    import psutil  # Imported here as in ``end_processes``.

    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
