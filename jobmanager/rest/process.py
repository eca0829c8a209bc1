"""What can be seen of this very process: its log files and its threads."""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

from jobmanager.rest.errors import not_found
from jobmanager.rest.figures import Json

MAX_LOG_BYTES = 64 * 1024 * 1024
"""Of a longer file the end is sent."""


def log_file() -> Path | None:
    """The file that this process logs into, if it does."""
    handlers = [handler for handler in logging.getLogger().handlers if isinstance(handler, logging.FileHandler)]
    return next((path for path in (Path(handler.baseFilename) for handler in handlers) if path.is_file()), None)


def log_list() -> Json:
    """The files beside the log, as Flink lists its log directory."""
    return {
        "logs": [
            {"name": path.name, "size": path.stat().st_size, "mtime": int(path.stat().st_mtime * 1000)}
            for path in sorted(_log_files())
        ]
    }


def read_log(name: str) -> bytes:
    """A file of that list: by its whole name, so that no path leads elsewhere. Raises ``RestError`` 404."""
    for path in _log_files():
        if path.name == name:
            return _tail(path)
    raise not_found(f"There is no log file {name!r} here.")


def read_own_log() -> bytes:
    path = log_file()
    if path is None:
        raise not_found("This JobManager logs to its terminal, not into a file (--log-file).")
    return _tail(path)


def read_stdout() -> bytes:
    """What a daemon wrote beside its log."""
    path = log_file()
    out = path.with_suffix(".out") if path is not None else None
    if out is None or not out.is_file():
        raise not_found("The output of this JobManager goes to its terminal, not into a file.")
    return _tail(out)


def thread_dump() -> Json:
    """Every thread with the stack that it has now."""
    names = {thread.ident: thread for thread in threading.enumerate()}
    threads = []
    for ident, frame in sys._current_frames().items():
        thread = names.get(ident)
        name = thread.name if thread is not None else f"thread-{ident}"
        stack = "".join(traceback.format_stack(frame))
        daemon = " daemon" if thread is not None and thread.daemon else ""
        threads.append({"threadName": name, "stringifiedThreadInfo": f'"{name}"{daemon} Id={ident}\n{stack}\n'})
    return {"threadInfos": threads}


def _log_files() -> Iterator[Path]:
    own = log_file()
    if own is None:
        return
    for path in own.parent.iterdir():
        if path.suffix in (".log", ".out") and path.is_file() and not path.is_symlink():
            yield path


def _tail(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MAX_LOG_BYTES))
            return file.read(MAX_LOG_BYTES)
    except OSError as error:
        raise not_found(f"Cannot read {path.name}: {error.strerror or error}") from None
