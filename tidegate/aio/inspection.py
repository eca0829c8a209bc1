"""Reads the log files and the thread stacks of this process."""

from __future__ import annotations

import logging
import re
import sys
import threading
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tidegate.model.errors import StorageError
from tidegate.model.masking import SECRETS

MAX_LOG_BYTES = 64 * 1024 * 1024
"""The most bytes of a log file that are sent: its end, of a longer one."""


_LOG_NAME = re.compile(r"\.(log|out)(\.[0-9]+)?$")
"""Matches the names of current and rolled log files (``tidegate.aio.rolling``)."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file in the log directory. ``modified_ms``: Unix epoch milliseconds."""

    name: str
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class ThreadInfo:
    """A thread and its stack as text, the innermost frame last."""

    name: str
    stack: str


def log_file() -> Path | None:
    """Returns the file that this process logs into; ``None`` when it has none."""
    handlers = [handler for handler in logging.getLogger().handlers if isinstance(handler, logging.FileHandler)]
    return next((path for path in (Path(handler.baseFilename) for handler in handlers) if path.is_file()), None)


def stdout_file() -> Path | None:
    """Returns the file of a daemon's standard output, which is in the directory of its log; ``None`` when there is none."""
    log = log_file()
    out = log.with_suffix(".out") if log is not None else None
    return out if out is not None and out.is_file() else None


def log_files() -> list[LogFile]:
    """Returns the files in the log directory, as Flink lists them."""
    found = []
    for path in sorted(_next_to_the_log()):
        status = path.stat()
        found.append(LogFile(path.name, status.st_size, int(status.st_mtime * 1000)))
    return found


def read_log(name: str) -> bytes:
    """Reads a file of the log directory by its name; a path to another directory is refused. Raises ``StorageError``."""
    for path in _next_to_the_log():
        if path.name == name:
            return _tail(path)
    raise StorageError(f"There is no log file {name!r} here.")


def read_own_log() -> bytes:
    """Reads the log of this process. Raises ``StorageError`` when there is none."""
    path = log_file()
    if path is None:
        raise StorageError("This process logs to its terminal, not into a file (--log-file).")
    return _tail(path)


def read_stdout() -> bytes:
    """Reads the standard output of this daemon. Raises ``StorageError`` when there is none."""
    path = stdout_file()
    if path is None:
        raise StorageError("The output of this process goes to its terminal, not into a file.")
    return _tail(path)


def thread_dump() -> list[ThreadInfo]:
    """Returns every thread with its current stack; the main thread first."""
    names = {thread.ident: thread for thread in threading.enumerate()}
    threads = []
    for ident, frame in sys._current_frames().items():
        thread = names.get(ident)
        name = thread.name if thread is not None else f"thread-{ident}"
        daemon = " daemon" if thread is not None and thread.daemon else ""
        stack = SECRETS.masked("".join(traceback.format_stack(frame)))
        threads.append(ThreadInfo(name, f'"{name}"{daemon} Id={ident}\n{stack}\n'))
    return sorted(threads, key=lambda thread: thread.name != threading.main_thread().name)


def _next_to_the_log() -> Iterator[Path]:
    own = log_file()
    if own is None:
        return
    for path in own.parent.iterdir():
        if _LOG_NAME.search(path.name) and path.is_file() and not path.is_symlink():
            yield path


def _tail(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MAX_LOG_BYTES))
            return SECRETS.masked_bytes(file.read(MAX_LOG_BYTES))
    except OSError as error:
        raise StorageError(f"Cannot read {path.name}: {error.strerror or error}") from None
